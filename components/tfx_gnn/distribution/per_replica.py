"""One dataset per worker, built by a function that gets the worker's input context.

TensorFlow changes nothing about such a dataset: the function gives batches for one replica, of its own part
of the data, and prefetches them itself. It is called once for each worker, on that worker's CPU. Tensors for each
replica, and Python generators, are supported as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.dataset_checks import check_dataset
from tfx_gnn.distribution.strategies import is_tpu_strategy
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


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


DatasetFunction = Callable[[tf.distribute.InputContext], tf.data.Dataset]


def per_replica_batch_size(global_batch_size: int, num_replicas: int) -> int:
    """Divides a global batch among replicas.

    Args:
        global_batch_size: examples of one step, on all replicas of all workers together; at least 1.
        num_replicas: `strategy.num_replicas_in_sync`.

    Returns:
        Examples of one replica.

    Raises:
        ValueError: if it cannot be divided evenly.

    Example:
        >>> per_replica_batch_size(6, 2)
        3
    """
    if global_batch_size < 1 or global_batch_size % num_replicas:
        lower = global_batch_size - global_batch_size % num_replicas
        nearest = " or ".join(str(size) for size in (lower, lower + num_replicas) if size > 0)
        raise ValueError(
            f"`batch_size` must be a multiple of the number of replicas; got {global_batch_size}, which is not "
            f"divisible by {num_replicas}. Take {nearest}."
        )
    return global_batch_size // num_replicas


def distribute(strategy: tf.distribute.Strategy, dataset_fn: DatasetFunction) -> Any:
    """Makes the input of a training from a function of the worker's place.

    What cannot work, or not as it seems to, is refused where the dataset is made, not at some step.

    Args:
        strategy: any strategy.
        dataset_fn: takes a `tf.distribute.InputContext`, returns batches for one replica, sharded by
            `input_pipeline_id` and prefetched. Under ParameterServerStrategy it is traced and sent to the
            workers, who all have the same context and no common end, and elements must be plain tensors:
            see `flat_elements`.

    Returns:
        DistributedDataset to iterate over; under ParameterServerStrategy a per-worker dataset, whose
        iterator goes into what `ClusterCoordinator.schedule` takes.

    Raises:
        ValueError: if the dataset depends on the state of random generators; is made by Python code
            under TPUStrategy, or outside of the function under ParameterServerStrategy; or consists of
            padded graphs and has an end, which several workers do not reach at the same step.
    """

    def checked_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        dataset = dataset_fn(context)
        check_dataset(dataset, strategy)
        if context.num_input_pipelines > 1 and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            _check_can_be_empty(dataset)
        return dataset

    if not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return strategy.distribute_datasets_from_function(checked_fn)

    @tf.function(autograph=False)
    def per_worker_dataset_fn() -> Any:
        return strategy.distribute_datasets_from_function(dataset_fn)

    # A dataset cannot be inspected inside of a traced function, so check a second copy of it here.
    check_dataset(dataset_fn(tf.distribute.InputContext()), strategy)
    traced = per_worker_dataset_fn.get_concrete_function()
    if any(captured.dtype == tf.variant for captured in traced.captured_inputs):
        raise ValueError(
            "`dataset_fn` must make its dataset from the start under ParameterServerStrategy; got one that was made "
            "before, and cannot be sent to a worker. Call `tf.data` inside of the function."
        )
    return tf.distribute.coordinator.ClusterCoordinator(strategy).create_per_worker_dataset(traced)


def _check_can_be_empty(dataset: tf.data.Dataset) -> None:
    """A worker without data makes up an empty element, which fails for graphs of static shape."""
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        return
    for spec in tf.nest.flatten(dataset.element_spec):
        tensors = tf.nest.flatten(spec, expand_composites=True)
        if isinstance(spec, GraphTensorSpec) and all(tensor.shape.is_fully_defined() for tensor in tensors):
            raise ValueError(
                "`dataset` must have no end where several workers read padded graphs; got one that ends, or may end. "
                "Some workers would have no graph to take part with: go on with padding by `replica_padding.endless`."
            )
