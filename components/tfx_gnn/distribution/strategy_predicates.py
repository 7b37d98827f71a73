"""Predicates on tf.distribute strategies; code that depends on the strategy branches on these alone."""

from __future__ import annotations

from typing import TypeGuard

import tensorflow as tf

# Looked up at import time, because a test may replace TPUStrategy.
_TPU_STRATEGIES = (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy)
_MULTI_WORKER_STRATEGY = tf.distribute.MultiWorkerMirroredStrategy
_PARAMETER_SERVER_STRATEGY = tf.distribute.ParameterServerStrategy


def is_multi_worker_strategy(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether training is synchronous on several processes, each with copies of all variables.

    True also for a single process under MultiWorkerMirroredStrategy; False under TPUStrategy.
    """
    return isinstance(strategy, _MULTI_WORKER_STRATEGY)


def is_parameter_server_strategy(
    strategy: tf.distribute.Strategy,
) -> TypeGuard[tf.distribute.ParameterServerStrategy]:
    """Returns whether this process schedules steps on asynchronous workers, with variables on parameter servers."""
    return isinstance(strategy, _PARAMETER_SERVER_STRATEGY)


def is_tpu_strategy(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether steps run on TPUs; input then runs on hosts that do not run the user's Python code."""
    return isinstance(strategy, _TPU_STRATEGIES)
