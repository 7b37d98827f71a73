from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.cli.errors import error_line
from tfx_gnn.components.graph_trainer.device_memory import memory_errors_explained

TOO_MANY = 2**45
"""Numbers that take as many bytes as a process can address."""
OF_TENSORFLOW = r"OOM when allocating tensor with shape\[35184372088832\] and type float on \S*CPU:0"
OF_XLA = r"Out of memory while trying to allocate [\d.]+ ?\w+"


def _random_sum(offset: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.random.uniform([TOO_MANY]) + offset)


class _Huge(tf_keras.layers.Layer):
    def call(self, inputs):
        return _random_sum(inputs)


STEPS = {
    "eager": _random_sum,
    "traced": tf.function(_random_sum),
    "compiled": tf.function(_random_sum, jit_compile=True),
    "layer": _Huge(),
}


@pytest.fixture(scope="module")
def errors():
    """What each step raises. Side by side: TensorFlow waits ten seconds for memory before it gives up."""

    def run(step):
        with pytest.raises(tf.errors.ResourceExhaustedError) as raised, memory_errors_explained():
            step(tf.constant(1.0))
        return raised

    with ThreadPoolExecutor(len(STEPS)) as threads:
        return dict(zip(STEPS, threads.map(run, STEPS.values()), strict=True))


@pytest.mark.parametrize(
    ("step", "reason"),
    [("eager", OF_TENSORFLOW), ("traced", OF_TENSORFLOW), ("compiled", OF_XLA), ("layer", OF_TENSORFLOW)],
    ids=list(STEPS),
)
def test_step_that_needs_too_much_memory_names_the_options_that_need_less(errors, step, reason):
    raised = errors[step]

    assert raised.match(rf"^`batch_size` must be .*; got: {reason}\. Choose a smaller `batch_size`")
    assert error_line(raised.value) == raised.value.message


def test_full_disk_is_not_taken_for_full_memory():
    full = tf.errors.ResourceExhaustedError(None, None, "/runs/logs; No space left on device")

    with pytest.raises(tf.errors.ResourceExhaustedError) as raised, memory_errors_explained():
        raise full

    assert raised.value is full
