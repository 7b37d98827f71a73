"""Tells strategies of tf.distribute apart, by what differs in how a training runs."""

from __future__ import annotations

from typing import TypeGuard

import tensorflow as tf

# Looked up once: a test may put another strategy in the place of the first.
_TPU_STRATEGIES = (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy)
_MULTI_WORKER_STRATEGY = tf.distribute.MultiWorkerMirroredStrategy
_PARAMETER_SERVER_STRATEGY = tf.distribute.ParameterServerStrategy


def is_multi_worker_strategy(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether steps run on workers in step, each a process of its own with copies of all variables.

    True also for a process alone under MultiWorkerMirroredStrategy, and False under TPUStrategy.
    """
    return isinstance(strategy, _MULTI_WORKER_STRATEGY)


def is_parameter_server_strategy(
    strategy: tf.distribute.Strategy,
) -> TypeGuard[tf.distribute.ParameterServerStrategy]:
    """Tells whether this process hands out steps to workers that are not in step, with variables on servers."""
    return isinstance(strategy, _PARAMETER_SERVER_STRATEGY)


def is_tpu_strategy(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether steps run on TPUs, and input on hosts that run no Python of the user."""
    return isinstance(strategy, _TPU_STRATEGIES)
