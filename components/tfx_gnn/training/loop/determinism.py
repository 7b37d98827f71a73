"""Seeds and deterministic operations: the same seed gives the same weights, even after a restart.

TensorFlow's public API can turn determinism of operations on, but not off again; only this file uses the private
switch that does. The switch is the same in TensorFlow 2.16 and 2.21.

Keras layers draw random numbers with operations whose counters are lost with the process, unless the layers are
built while `tf.random.Generator` is enabled. A generator counts its draws in a variable, which a checkpoint
stores, so dropout can resume.
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
    """Makes layers that are created inside draw from generators; put it around the user's `model_fn`.

    Other random operations in a model, such as `tf.random.uniform` in a user's layer, are not covered: they
    start over after a restart.
    """
    was_enabled = tf_keras.backend.experimental.is_tf_random_generator_enabled()
    tf_keras.backend.experimental.enable_tf_random_generator()
    try:
        yield
    finally:
        if not was_enabled:
            tf_keras.backend.experimental.disable_tf_random_generator()


def find_generators(model: tf_keras.Model) -> tuple[tf.random.Generator, ...]:
    """Finds the generators that the layers of a built model draw from, in the order of the layers.

    The model must have been created inside `generators_in_layers`.
    """
    found: dict[int, tf.random.Generator] = {}
    for module in (model, *model.submodules):
        # Keras keeps them out of its own checkpoints, for compatibility with those of earlier releases.
        generator: Any = getattr(getattr(module, "_random_generator", None), "_generator", None)
        if generator is not None:
            found.setdefault(id(generator), generator)
    return tuple(found.values())


@contextlib.contextmanager
def seeded(seed: int, *, deterministic: bool) -> Iterator[None]:
    """Seeds the generators of Python, NumPy and TensorFlow, which determine weights and dropout.

    `deterministic` also makes operations deterministic within the context: otherwise GPUs add up sums in any order,
    and `tf.data` may interleave parallel reads in any order.
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
    """Reads a clock inside a TensorFlow function, even if operations are deterministic; float64 scalar.

    It is read once the caller's control dependencies have run.
    """
    if config.is_op_determinism_enabled():
        # Under determinism, TensorFlow's own clock refuses to run.
        now: tf.Tensor = tf.numpy_function(time.time, [], tf.float64)
        now.set_shape([])
        return now
    return tf.timestamp()
