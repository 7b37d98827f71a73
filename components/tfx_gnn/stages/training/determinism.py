"""The same seed, the same weights.

This is the one file that uses TensorFlow's private switch back: determinism of operations can be turned on by
its public API, but not off again. It is the same in TensorFlow 2.16 and 2.21.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import tensorflow as tf
import tf_keras
from tensorflow.python.framework import config


@contextlib.contextmanager
def seeded(seed: int, *, deterministic: bool) -> Iterator[None]:
    """Seeds the generators of Python, NumPy and TensorFlow, from which weights and dropout follow.

    Args:
        seed: the seed.
        deterministic: whether operations are made deterministic, too: on GPUs sums are else added up in
            any order, and `tf.data` may mix what is read in parallel.

    Yields:
        Nothing; operations are as before afterwards.
    """
    tf_keras.utils.set_random_seed(seed)
    was_enabled = config.is_op_determinism_enabled()
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        if deterministic and not was_enabled:
            config.disable_op_determinism()


def seconds_now() -> tf.Tensor:
    """Reads a clock inside of a TensorFlow function, where operations are deterministic or not.

    Returns:
        Seconds since some moment, float64 scalar; read when the control dependencies of the caller are there.
    """
    if config.is_op_determinism_enabled():
        # TensorFlow's clock refuses to run.
        now: tf.Tensor = tf.numpy_function(time.time, [], tf.float64)
        now.set_shape([])
        return now
    return tf.timestamp()
