"""Combines several values of the same items into one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def combine_values(inputs: Sequence[const.Field], combine_type: str) -> const.Field:
    """Adds values up, or concatenates them along the last axis.

    Args:
        inputs: at least one tensor, or ragged tensors only, of the same dtype and shape; for
            "concat", the sizes of the last axis may differ.
        combine_type: "sum" or "concat".

    Returns:
        Field of the same dtype and shape, except for the last axis under "concat".

    Raises:
        ValueError: if `combine_type` is unknown, or there are no inputs.
        tf.errors.InvalidArgumentError: if the inputs' static shapes or dtypes do not match.

    Example:
        >>> combine_values([tf.constant([[1, 2]]), tf.constant([[3]])], "concat").numpy().tolist()
        [[1, 2, 3]]
    """
    if combine_type not in _COMBINE:
        raise ValueError(f"Unknown combine type {combine_type}. Known combine types are: {list(_COMBINE)}.")
    inputs = list(inputs)
    if not inputs:
        raise ValueError(
            f"combine_values() requires at least one of the inputs to combine by '{combine_type}'; got none."
        )
    _check_match(inputs, combine_type)
    return _COMBINE[combine_type](inputs)


def _concat(inputs: list[Any]) -> Any:
    return tf.concat(inputs, axis=-1)


def _sum(inputs: list[Any]) -> Any:
    return functools.reduce(tf.add, inputs)


_COMBINE: dict[str, Callable[[list[Any]], Any]] = {"sum": _sum, "concat": _concat}


def _check_match(inputs: list[Any], combine_type: str) -> None:
    first = inputs[0]
    for other in inputs[1:]:
        shapes = [first.shape, other.shape]
        if combine_type == "concat":
            shapes = [shape[:-1] if shape.rank is not None else shape for shape in shapes]
        # A sum would be broadcast silently, and hide a mistake.
        if first.dtype != other.dtype or not shapes[0].is_compatible_with(shapes[1]):
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f'combine_values() failed for combine_type="{combine_type}". Please check that all inputs match in '
                'dtype and shape, except the last axis for "concat"; got '
                + ", ".join(f"{value.dtype.name}{value.shape}" for value in inputs)
                + ".",
            )
