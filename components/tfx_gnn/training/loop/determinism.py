"""Seeds and deterministic operations: the same seed gives the same weights, also after a restart.

This is the one file that uses TensorFlow's private switch back: determinism of operations can be turned on by
its public API, but not off again. It is the same in TensorFlow 2.16 and 2.21.

Keras' layers draw by operations whose counters live in the process and are lost with it, unless they are
built while `tf.random.Generator` is switched on. A generator counts what it has drawn in a variable, which a
checkpoint holds: so dropout can be taken up again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras
from tensorflow.python.framework import config


@contextlib.contextmanager
def generators_in_layers() -> Iterator[None]:
    """Makes layers that are created inside draw by generators; put it around the user's `model_fn`.

    What a model draws by other means, such as `tf.random.uniform` in a layer of the user's own, is outside of
    this: after a restart it begins anew.
    """
    was_enabled = tf_keras.backend.experimental.is_tf_random_generator_enabled()
    tf_keras.backend.experimental.enable_tf_random_generator()
    try:
        yield
    finally:
        if not was_enabled:
            tf_keras.backend.experimental.disable_tf_random_generator()


def find_generators(model: tf_keras.Model) -> tuple[tf.random.Generator, ...]:
    """Finds the generators by which the layers of a built model draw, in the order of the layers.

    The model has to be created inside `generators_in_layers`.
    """
    found: dict[int, tf.random.Generator] = {}
    for module in (model, *model.submodules):
        # Keras keeps them out of its own checkpoints, which must fit those of earlier releases.
        generator: Any = getattr(getattr(module, "_random_generator", None), "_generator", None)
        if generator is not None:
            found.setdefault(id(generator), generator)
    return tuple(found.values())


@contextlib.contextmanager
def seeded(seed: int, *, deterministic: bool) -> Iterator[None]:
    """Seeds the generators of Python, NumPy and TensorFlow, from which weights and dropout follow.

    `deterministic` makes operations deterministic, too, until the end: on GPUs sums are else added up in any order, and
    `tf.data` may mix what is read in parallel.
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
    """Reads a clock inside of a TensorFlow function, where operations are deterministic or not; float64 scalar.

    It is read when the control dependencies of the caller are there.
    """
    if config.is_op_determinism_enabled():
        # TensorFlow's clock refuses to run.
        now: tf.Tensor = tf.numpy_function(time.time, [], tf.float64)
        now.set_shape([])
        return now
    return tf.timestamp()
