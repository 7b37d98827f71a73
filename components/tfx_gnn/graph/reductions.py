"""Reductions of values by the index of their receiver, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import Field

#: Takes values, the receiver of each, and how many receivers there are.
Reduction = Callable[[Any, tf.Tensor, Any], Any]


def _zero_if_empty(reduce: Reduction) -> Reduction:
    def reduce_and_clear(data: Any, segment_ids: tf.Tensor, num_segments: Any) -> Any:
        reduced = reduce(data, segment_ids, num_segments)
        if isinstance(reduced, tf.RaggedTensor):
            return reduced  # A receiver without values has an empty row: nothing to clear.
        counts = tf.math.unsorted_segment_sum(tf.ones_like(segment_ids), segment_ids, num_segments)
        is_empty = tf.reshape(counts == 0, [-1] + [1] * (reduced.shape.rank - 1))
        return tf.where(is_empty, tf.zeros_like(reduced), reduced)

    return reduce_and_clear


OPERATIONS: dict[str, Reduction] = {
    "max": tf.math.unsorted_segment_max,
    "max_no_inf": _zero_if_empty(tf.math.unsorted_segment_max),
    "mean": tf.math.unsorted_segment_mean,
    "min": tf.math.unsorted_segment_min,
    "min_no_inf": _zero_if_empty(tf.math.unsorted_segment_min),
    "prod": tf.math.unsorted_segment_prod,
    "sum": tf.math.unsorted_segment_sum,
}


def operations(reduce_type: str, caller: str) -> list[Reduction]:
    """Looks up reductions.

    Args:
        reduce_type: name of a reduction, or several joined by "|".
        caller: the function to blame in errors, such as "pool()".

    Raises:
        ValueError: if no name is given.
        KeyError: if a name is unknown.
    """
    if not reduce_type:
        raise ValueError(f"{caller} requires one or more reduce types, separated by '|', but got '{reduce_type}'.")
    names = reduce_type.split("|")
    for name in names:
        if name not in OPERATIONS:
            raise KeyError(
                f"{caller} requires known names in `reduce_type`; got '{name}' in '{reduce_type}'. "
                f"Known are {sorted(OPERATIONS)}."
            )
    return [OPERATIONS[name] for name in names]


def join(results: Sequence[Field], reduce_type: str, caller: str) -> Field:
    """Concatenates the results of several reductions.

    Args:
        results: fields of shape [num_receivers, *feature_shape], one for each reduction.
        reduce_type: names of the reductions, for the error.
        caller: the function to blame in errors, such as "pool()".

    Returns:
        Field of shape [num_receivers, *feature_shape], the last dimensions added up.

    Raises:
        ValueError: if there are several, and of scalars or different ranks.
    """
    if len(results) == 1:
        return results[0]
    ranks = [result.shape.rank for result in results]
    if len(set(ranks)) > 1 or ranks[0] is None or ranks[0] < 2:
        raise ValueError(
            f"{caller} with multiple reduce_types {reduce_type} requires all their results to have the same known "
            f"rank >= 2, to allow concatenation along the last feature axis, but got ranks {ranks}."
        )
    return tf.concat(results, axis=-1)
