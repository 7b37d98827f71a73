"""Filters a data set and reports to TensorBoard how much of it was removed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def dataset_filter_with_summary(
    dataset: tf.data.Dataset,
    predicate: Callable[..., tf.Tensor],
    *,
    summary_name: str = "dataset_removed_fraction",
    summary_steps: int = 1000,
    summary_decay: float | None = None,
) -> tf.data.Dataset:
    """Filters like `tf.data.Dataset.filter`, and writes the removed fraction as a summary.

    The fraction is an exponential moving average over input elements. Element t (from 1) counts
    with weight max(1 / t, 1 - summary_decay), so the average starts as the plain mean. It goes to
    the default summary writer at the time the data set is made.

    Args:
        dataset: any data set.
        predicate: maps an element to a scalar bool; False removes it. Elements that are tuples
            are passed as several arguments.
        summary_name: name of the scalar summary.
        summary_steps: how many input elements lie between two reports, at least 1. The step of a
            report is the index of the last element that was kept.
        summary_decay: weight of the past, between 0 and 1, both excluded; by default exp(-1 / summary_steps).

    Returns:
        Data set of the elements for which the predicate is True.

    Raises:
        ValueError: if `summary_steps` or `summary_decay` is out of range.

    Example:
        >>> dataset = tfx_gnn.dataset_filter_with_summary(tf.data.Dataset.range(6), lambda x: x % 3 == 0)
        >>> [int(x) for x in dataset]
        [0, 3]
    """
    if summary_steps < 1:
        raise ValueError(f"Expected summary_steps > 0, actual summary_steps={summary_steps}.")
    decay = math.exp(-1.0 / summary_steps) if summary_decay is None else summary_decay
    if not 0 < decay < 1:
        raise ValueError(f"Expected 0 < summary_decay < 1, actual summary_decay={summary_decay}.")

    def count(state: tuple[tf.Tensor, ...], *element: Any) -> tuple[Any, Any]:
        num_seen, num_kept, removed = state
        keep = tf.cast(predicate(*element), tf.bool)
        num_seen += 1
        num_kept += tf.cast(keep, tf.int64)
        weight = tf.maximum(1.0 / tf.cast(num_seen, tf.float32), 1.0 - decay)
        removed += weight * (1.0 - tf.cast(keep, tf.float32) - removed)
        with tf.summary.record_if(num_seen % summary_steps == 0):
            tf.summary.scalar(summary_name, removed, step=tf.maximum(num_kept - 1, 0))
        return (num_seen, num_kept, removed), (element, keep)

    start = (tf.zeros([], tf.int64), tf.zeros([], tf.int64), tf.zeros([], tf.float32))
    is_tuple = isinstance(dataset.element_spec, tuple)
    counted = dataset.scan(start, lambda state, element: count(state, *element) if is_tuple else count(state, element))
    kept = counted.filter(lambda _, keep: keep)
    return kept.map(lambda element, _: element if is_tuple else element[0])
