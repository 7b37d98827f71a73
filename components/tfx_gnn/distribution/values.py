"""Input that is no dataset: tensors for each replica, and Python generators (004-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.per_replica import per_replica_batch_size
from tfx_gnn.distribution.strategies import is_tpu_strategy


def values_per_replica(strategy: tf.distribute.Strategy, value_fn: Callable[[int], Any]) -> Any:
    """Gives each replica a value of its own, for `strategy.run`.

    Args:
        strategy: any but ParameterServerStrategy.
        value_fn: takes the number of a replica among those of all workers, from 0; returns a tensor or
            a nest of tensors. Each process calls it for its own replicas only.

    Returns:
        `tf.distribute.DistributedValues`.
    """
    return strategy.experimental_distribute_values_from_function(
        lambda context: value_fn(context.replica_id_in_sync_group)
    )


def generated_batches(
    strategy: tf.distribute.Strategy,
    generator: Callable[[], Iterable[Any]],
    *,
    output_signature: Any,
    batch_size: int,
) -> tf.data.Dataset:
    """Makes a dataset of what a Python generator yields, in batches that can be parted among replicas.

    Each worker runs the generator for itself and keeps its share of the batches. What is yielded must be
    the same on all of them.

    Args:
        strategy: any but TPUStrategy and ParameterServerStrategy.
        generator: called for each iteration; yields single examples.
        output_signature: nest of type specs of one example.
        batch_size: examples of one step of all replicas together, a multiple of their number. TensorFlow
            would part the first dimension of whatever is yielded; a batch is made so that this is no other.

    Returns:
        Dataset of batches, for `distribute_batches`.

    Raises:
        ValueError: if a replica's machine runs no Python of the user, or `batch_size` cannot be divided.
    """
    if is_tpu_strategy(strategy) or isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise ValueError(
            "`strategy` must run its input where this Python runs; got "
            f"{type(strategy).__name__}, which does not take generators. Write the examples to TFRecord files."
        )
    per_replica_batch_size(batch_size, strategy.num_replicas_in_sync)
    return tf.data.Dataset.from_generator(generator, output_signature=output_signature).batch(batch_size)
