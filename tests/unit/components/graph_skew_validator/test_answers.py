from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.answers import operations_as_written


def test_half_precision_rounds_alike_whatever_shapes_are_known():
    """A fused product and sum would round once, and only where the shapes are known."""
    rng = np.random.default_rng(0)
    states = tf.constant(rng.normal(size=(9, 16)), tf.bfloat16)
    kernel, bias = tf.constant(rng.normal(size=(16, 8)), tf.bfloat16), tf.constant(rng.normal(size=8), tf.bfloat16)

    def dense(values: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(values, kernel), bias))

    with operations_as_written():
        answers = [
            tf.function(dense, input_signature=[tf.TensorSpec([size, 16], tf.bfloat16)])(states) for size in (9, None)
        ]

    np.testing.assert_array_equal(answers[0].numpy(), answers[1].numpy())
    assert tf.config.optimizer.get_experimental_options()["remapping"] is True


@pytest.mark.parametrize("rounds", [True, False])
def test_gpus_compute_in_full_precision_while_answers_are_compared(rounds):
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(rounds)
    try:
        with operations_as_written():
            rounds_inside = tf.config.experimental.tensor_float_32_execution_enabled()
        rounds_afterwards = tf.config.experimental.tensor_float_32_execution_enabled()
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)

    assert (rounds_inside, rounds_afterwards) == (False, rounds)
