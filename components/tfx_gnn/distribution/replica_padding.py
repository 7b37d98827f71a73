"""Pads the ends of datasets, so that all replicas take the same number of steps.

TensorFlow lets a replica without data take part with made-up elements, in two cases: if some shape of the
elements is not static, and under MultiWorkerMirroredStrategy, where workers then ask each other at every step
whether anybody has data. What it makes up has no rows, so static shapes are lost, and a padded graph, which must
have its rows, cannot be made up at all. In the remaining cases, that is with static shapes on one machine, the
iterator ends as soon as one replica has no data, and the data of the others is silently dropped.

Here a replica without data gets an empty element of the caller's: a batch of the usual shapes that is nothing but
padding, and counts nowhere. A flag marks each empty element.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def fill_last_step(dataset: tf.data.Dataset, num_replicas: int, empty_element: Any) -> tf.data.Dataset:
    """Appends empty elements up to a multiple of the replicas that one pipeline feeds.

    For the replicas of one machine: replica i gets every n-th element from i on, and all end at the same step.

    Args:
        dataset: batches for one replica, finite.
        num_replicas: replicas that are fed by this dataset, at least 1.
        empty_element: tensors of an element without examples; dtypes and shapes are those of the dataset.

    Returns:
        Data set of (element, has_data): int32 [], 1 or, for an empty element, 0. Their number is a multiple of
        `num_replicas`; 0 for a dataset without elements.

    Raises:
        ValueError: if the empty element is of another type.

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
    """Appends empty elements without end, for pipelines of several workers that do not end at the same step.

    TensorFlow then neither makes anything up nor asks other workers, and all shapes stay static. Whether a
    step still has data anywhere, `num_replicas_with_data` tells: stop at the first step that has none.

    Args:
        dataset: batches for one replica, finite.
        empty_element: as for `fill_last_step`.

    Returns:
        Data set of (element, has_data) without end: int32 [], 1 or, for an empty element, 0.

    Raises:
        ValueError: if the empty element is of another type.
    """
    empty = tf.data.Dataset.from_tensors(empty_element).repeat()
    wanted, got = dataset.element_spec, empty.element_spec
    tf.nest.assert_same_structure(wanted, got)
    for spec, empty_spec in zip(tf.nest.flatten(wanted), tf.nest.flatten(got), strict=True):
        if not spec.is_compatible_with(empty_spec):
            raise ValueError(
                f"`empty_element` must be of the type of the dataset's elements; got {empty_spec} for {spec}. Pad a "
                "batch without examples as the others are padded."
            )
    as_written = tf.autograph.experimental.do_not_convert
    with_data = dataset.map(as_written(lambda *element: (_one(element), tf.constant(1))))
    without = empty.map(as_written(lambda *element: (_one(element), tf.constant(0))))
    return with_data.concatenate(without)


def num_replicas_with_data(strategy: tf.distribute.Strategy, has_data: Any) -> tf.Tensor:
    """Counts the replicas, on all workers, that have data at a step.

    Call it in the loop, outside of `strategy.run`, on each worker at each step.

    Args:
        strategy: a strategy whose replicas work in step.
        has_data: per-replica int32 [], as `fill_last_step` and `endless` give it.

    Returns:
        int32 []; the same on all workers.
    """
    return strategy.reduce(tf.distribute.ReduceOp.SUM, has_data, axis=None)


def _one(element: tuple[Any, ...]) -> Any:
    """Repacks what `map` unpacked."""
    return element[0] if len(element) == 1 else element
