"""Weights that make Keras' mean over replicas one over all real rows."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.training.data.input_pipeline import counted_rows, weights_of_global_mean

LOSSES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 0.0, 0.0, 0.0], np.float32)
WEIGHTS = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0], np.float32)


def _mean_of_keras(losses, weights, num_replicas):
    """What all replicas add up to: each divides by its rows, and by the number of replicas."""
    loss = tf_keras.losses.MeanAbsoluteError(reduction="sum_over_batch_size")
    return sum(
        float(loss(value[:, None], tf.zeros([len(value), 1]), sample_weight=weight)) / num_replicas
        for value, weight in zip(losses, weights, strict=True)
    )


@pytest.mark.parametrize("num_replicas", [1, 2, 4])
def test_loss_is_the_mean_over_all_rows_that_count(num_replicas):
    losses, weights = (np.split(values, num_replicas) for values in (LOSSES, WEIGHTS))
    num_counted = sum(counted_rows(tf.constant(weight)) for weight in weights)

    scaled = [weights_of_global_mean(tf.constant(weight), num_counted, num_replicas) for weight in weights]

    # Five rows count, one of them twice as much; the last replica of four has none.
    assert _mean_of_keras(losses, scaled, num_replicas) == pytest.approx((1 + 2 + 4 + 2 * 8 + 16) / 5)


def test_each_output_has_its_own_number_of_rows():
    weights = {"a": tf.constant([1.0, 0.0]), "b": tf.constant([[1.0, 1.0], [1.0, 0.0]])}

    scaled = weights_of_global_mean(weights, counted_rows(weights), 1)

    assert counted_rows(weights).numpy().tolist() == [1, 3]
    assert scaled["a"].numpy().tolist() == [2.0, 0.0]
    np.testing.assert_allclose(scaled["b"], [[4 / 3, 4 / 3], [4 / 3, 0.0]])


def test_nothing_counts_for_nothing():
    scaled = weights_of_global_mean(tf.zeros([3]), tf.zeros([1], tf.int64), 2)

    assert scaled.numpy().tolist() == [0.0, 0.0, 0.0]
