"""Iterates over distributed datasets: steps until the data ends, empty elements after the end, ordered predictions.

A distributed dataset is iterated over with `for`, `next` or `get_next`, which raise at the end, or with
`get_next_as_optional`, which does not. In a tf.function of several steps, an exception in one step aborts the others
midway, and a `for` over the dataset itself cannot be left with `break` or `return`. So `make_steps` loops over step
numbers, and checks at each step whether there is another element.

TensorFlow lets a replica without data take part with made-up elements in two cases: if some shape of the elements is
not static, and under MultiWorkerMirroredStrategy, where workers then ask each other at every step whether any of them
has data. A made-up element has no rows, so static shapes are lost, and a padded graph, which must have its rows, cannot
be made up at all. In all other cases, that is, with static shapes on one machine, the iterator ends as soon as one
replica has no data, and the data of the other replicas is silently dropped.

With `fill_last_step` or `endless`, a replica without data gets an empty element provided by the caller: a batch of the
usual shapes that consists of padding only and does not count in any result. A flag marks each empty element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.distribution.distributed_datasets import dataset_policy, distribute_batches, with_policy
from tfx_gnn.distribution.options import DATA, HINT, OFF
from tfx_gnn.distribution.sharding import num_input_pipelines
from tfx_gnn.distribution.strategy_predicates import is_multi_worker_strategy


def make_steps(
    strategy: tf.distribute.Strategy, step_fn: Callable[[Any], Any], *, steps_per_loop: int
) -> Callable[[Any], tf.Tensor]:
    """Makes a function that runs several steps.

    Args:
        strategy: a synchronous strategy.
        step_fn: called on each replica with its element; keeps its results in variables, such as metrics.
            A replica that has no more data gets elements without rows.
        steps_per_loop: number of steps, at least 1.

    Returns:
        tf.function that takes the iterator of a distributed dataset and returns the number of steps it ran,
        int32 []: fewer than `steps_per_loop` at the end of the data, and 0 after the end.

    Raises:
        ValueError: if `steps_per_loop` is less than 1.
    """
    if steps_per_loop < 1:
        raise ValueError(f"`steps_per_loop` must be at least 1; got {steps_per_loop}. Give a larger number.")

    def body(num_steps: tf.Tensor, more: tf.Tensor, iterator: Any) -> tuple[tf.Tensor, tf.Tensor]:
        element = iterator.get_next_as_optional()
        more = element.has_value()

        def one_step() -> tf.Tensor:
            strategy.run(step_fn, args=(element.get_value(),))
            return num_steps + 1

        return tf.cond(more, one_step, lambda: num_steps), more

    # Loops are written as tf.while_loop: AutoGraph would also convert all of `step_fn`.
    @tf.function(autograph=False)
    def steps(iterator: Any) -> tf.Tensor:
        return tf.while_loop(
            lambda num_steps, more: more & (num_steps < steps_per_loop),
            lambda num_steps, more: body(num_steps, more, iterator),
            (tf.constant(0), tf.constant(True)),  # noqa: FBT003
        )[0]

    return steps


def fill_last_step(dataset: tf.data.Dataset, num_replicas: int, empty_element: Any) -> tf.data.Dataset:
    """Appends empty elements until the number of elements is a multiple of the replicas that one pipeline feeds.

    Use it for the replicas of one machine: each of n replicas gets every n-th element, and all end at the same step.

    Args:
        dataset: batches for one replica, finite.
        num_replicas: number of replicas that are fed by this dataset, at least 1.
        empty_element: tensors of an element without examples, with the dtypes and shapes of the dataset.

    Returns:
        Dataset of (element, has_data), where has_data is int32 []: 1, or 0 for an empty element. The number of
        elements is a multiple of `num_replicas`; 0 for a dataset without elements.

    Raises:
        ValueError: if the empty element has another type than the elements of the dataset.

    Example:
        >>> [int(x) for x, has_data in fill_last_step(tf.data.Dataset.range(3), 2, tf.constant(-1, tf.int64))]
        [0, 1, 2, -1]
    """
    if num_replicas < 1:
        raise ValueError(f"`num_replicas` must be at least 1; got {num_replicas}. Take it from the strategy.")
    as_written = tf.autograph.experimental.do_not_convert

    def fills_a_step(index: tf.Tensor, element: tuple[Any, tf.Tensor]) -> tf.Tensor:
        return tf.greater(element[1], 0) | tf.not_equal(index % num_replicas, 0)

    numbered = endless(dataset, empty_element).enumerate()
    return numbered.take_while(as_written(fills_a_step)).map(as_written(lambda _, element: element))


def endless(dataset: tf.data.Dataset, empty_element: Any) -> tf.data.Dataset:
    """Appends an endless sequence of empty elements, for pipelines of several workers that end at different steps.

    TensorFlow then neither makes up elements nor asks other workers, and all shapes stay static. Call
    `num_replicas_with_data` at each step, and stop at the first step where it returns 0.

    Args:
        dataset: batches for one replica, finite.
        empty_element: as for `fill_last_step`.

    Returns:
        Infinite dataset of (element, has_data), where has_data is int32 []: 1, or 0 for an empty element.

    Raises:
        ValueError: if the empty element has another type than the elements of the dataset.
    """
    empty = tf.data.Dataset.from_tensors(empty_element).repeat()
    wanted, got = dataset.element_spec, empty.element_spec
    tf.nest.assert_same_structure(wanted, got)
    for spec, empty_spec in zip(tf.nest.flatten(wanted), tf.nest.flatten(got), strict=True):
        if not spec.is_compatible_with(empty_spec):
            raise ValueError(
                f"`empty_element` must be of the type of the dataset's elements; got {empty_spec} for {spec}. Pad a "
                "batch without examples in the same way as other batches."
            )
    as_written = tf.autograph.experimental.do_not_convert
    with_data = dataset.map(as_written(lambda *element: (_one(element), tf.constant(1))))
    without = empty.map(as_written(lambda *element: (_one(element), tf.constant(0))))
    return with_data.concatenate(without)


def num_replicas_with_data(strategy: tf.distribute.Strategy, has_data: Any) -> tf.Tensor:
    """Counts the replicas, on all workers, that have data at a step.

    Call it in the training loop, outside of `strategy.run`, on each worker at each step.

    Args:
        strategy: a synchronous strategy.
        has_data: per-replica int32 [], as returned by `fill_last_step` and `endless`.

    Returns:
        int32 []; the same on all workers.
    """
    return strategy.reduce(tf.distribute.ReduceOp.SUM, has_data, axis=None)


def predict_in_order(strategy: tf.distribute.Strategy, fn: Callable[[Any], Any], dataset: tf.data.Dataset) -> Any:
    """Applies a function to all rows of a dataset, on all replicas.

    Neither the order in which replicas return results nor the number of rows per replica is certain, so every row
    carries its position. The data is sharded by record among workers, after positions have been assigned; so even if
    the policy of the dataset's options is FILE, each worker reads all files.

    Args:
        strategy: any but ParameterServerStrategy.
        fn: takes the part of a batch that one replica has, possibly without rows, and returns a nest of
            tensors with the same number of rows: numbers, not strings.
        dataset: finite, with batches for one step of all replicas; the same on each worker.

    Returns:
        The results of `fn` for all rows of the dataset: NumPy arrays [number of rows, ...], the same on all
        workers.

    Raises:
        ValueError: if the elements are not batches, the dataset cannot be distributed or has no rows, its policy says
            that each of several workers has its own rows (OFF, HINT), or `fn` returned another number of rows.

    Example:
        >>> strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        >>> predict_in_order(strategy, lambda x: 2 * x, tf.data.Dataset.range(5).batch(2)).tolist()
        [0, 2, 4, 6, 8]
    """
    as_written = tf.autograph.experimental.do_not_convert
    policy, num_pipelines = dataset_policy(dataset), num_input_pipelines(strategy)
    if num_pipelines > 1 and policy in (OFF, HINT):
        raise ValueError(
            "`dataset` must have all rows on each worker, because they are numbered before they are sharded; got "
            f"`auto_shard_policy` {policy.upper()}, which lets each of {num_pipelines} workers have its own rows. Give "
            "the whole dataset, without this policy."
        )
    with_positions = dataset.scan(tf.zeros([], tf.int64), as_written(_append_positions))
    if num_pipelines > 1:
        with_positions = with_policy(with_positions, DATA)

    def predict(element: Any) -> Any:
        batch, positions = element
        outputs = fn(batch)
        for output in tf.nest.flatten(outputs):
            tf.debugging.assert_equal(tf.shape(output)[0], tf.shape(positions)[0], "`fn` must keep the rows")
        return positions, outputs

    structure: list[Any] = []

    @tf.function(autograph=False)
    def step(element: Any) -> list[list[tf.Tensor]]:
        positions, outputs = strategy.run(predict, (element,))
        structure[:] = [outputs]
        return [_of_all_replicas(strategy, values) for values in (positions, *tf.nest.flatten(outputs))]

    steps = [step(element) for element in distribute_batches(strategy, with_positions)]
    if not steps:
        raise ValueError("`dataset` must have at least one row; got none. Check the files it reads.")
    positions, *outputs = (
        np.concatenate([part.numpy() for parts in of_steps for part in parts]) for of_steps in zip(*steps, strict=True)
    )
    order = np.argsort(positions)
    return tf.nest.pack_sequence_as(structure[0], [rows[order] for rows in outputs])


def _one(element: tuple[Any, ...]) -> Any:
    """Repacks an element that `map` unpacked into arguments."""
    return element[0] if len(element) == 1 else element


def _of_all_replicas(strategy: tf.distribute.Strategy, values: Any) -> list[tf.Tensor]:
    """Returns the rows of each replica, gathered from all workers."""
    if is_multi_worker_strategy(strategy):
        return [strategy.gather(values, axis=0)]
    return list(strategy.experimental_local_results(values))


def _append_positions(start: tf.Tensor, batch: Any) -> tuple[tf.Tensor, tuple[Any, tf.Tensor]]:
    num_rows = _num_rows(tf.nest.flatten(batch)[0])
    return start + num_rows, (batch, start + tf.range(num_rows))


def _num_rows(batch: Any) -> tf.Tensor:
    if isinstance(batch, tf.RaggedTensor):
        return tf.cast(batch.nrows(), tf.int64)
    return tf.shape(batch, tf.int64)[0] if isinstance(batch, tf.Tensor) else tf.cast(batch.shape[0], tf.int64)
