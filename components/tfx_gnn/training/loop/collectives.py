"""Collective operations of workers in step: sums, "any" and barriers over all replicas."""

from __future__ import annotations

import contextlib
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


def is_true_on_any_worker(strategy: tf.distribute.Strategy, *, is_true_here: bool) -> bool:
    """Tells all workers in step what one of them knows; all have to call it together.

    Args:
        strategy: what they run under.
        is_true_here: what this process says.

    Returns:
        Whether any of them says True; under a strategy of one process, what it says.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return is_true_here
    return sum_over_replicas(strategy)(float(is_true_here)) > 0.0


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until all workers in step have come here; a strategy of one process does not wait.

    Args:
        strategy: what they run under.

    Raises:
        tf.errors.OpError: if another worker is gone.
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        sum_over_replicas(strategy)(0.0)


def barrier_before_exit(strategy: tf.distribute.Strategy) -> None:
    """Waits until every worker of a synchronous strategy has received the last collective result.

    Call it before a process ends successfully. Workers fetch sums from each other: a worker that exits too early can
    make a peer fail although all work is done; after its restart the peer waits for a cluster that is gone.

    Args:
        strategy: what they run under.
    """
    # Peers may already have exited; nothing more is exchanged.
    with contextlib.suppress(tf.errors.OpError):
        barrier(strategy)
