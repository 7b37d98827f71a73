"""Workers that train in step come to an agreement: one sum over all replicas."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def sum_over_replicas(strategy: tf.distribute.Strategy) -> Callable[[float], float]:
    """Makes a function that all workers have to call together.

    Args:
        strategy: what they run under.

    Returns:
        Function from a number to the sum of the numbers of all replicas; each worker counts as often as it has
        replicas.
    """

    # Nothing here needs AutoGraph.
    @tf.function(autograph=False)
    def total(value: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, args=(value,)), axis=None)

    return lambda value: float(total(tf.constant(value, tf.float32)))


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Waits until all workers in step have come here; a strategy of one process does not wait.

    Args:
        strategy: what they run under.

    Raises:
        tf.errors.OpError: if another worker is gone.
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        sum_over_replicas(strategy)(0.0)
