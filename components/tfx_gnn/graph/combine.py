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
        ValueError: if `combine_type` is unknown.
        tf.errors.InvalidArgumentError: if the inputs do not match, or there are none.
        TypeError: if their dtypes do not match, in a tf.function.
        ValueError: if their static shapes do not match, or there are none, in a tf.function.

    Example:
        >>> combine_values([tf.constant([[1, 2]]), tf.constant([[3]])], "concat").numpy().tolist()
        [[1, 2, 3]]
    """
    if combine_type not in _COMBINE:
        raise ValueError(f"Unknown combine type {combine_type}. Known combine types are: {list(_COMBINE)}.")
    inputs = list(inputs)
    try:
        return _COMBINE[combine_type](inputs)
    except tf.errors.InvalidArgumentError as error:  # Outside of tf.function.
        message = _mismatch(inputs, combine_type)
        raise tf.errors.InvalidArgumentError(error.node_def, error.op, message) from error
    except (TypeError, ValueError) as error:
        raise type(error)(_mismatch(inputs, combine_type)) from error


_COMBINE: dict[str, Callable[[list[Any]], Any]] = {
    "sum": tf.math.add_n,
    "concat": functools.partial(tf.concat, axis=-1),
}


def _mismatch(inputs: list[Any], combine_type: str) -> str:
    return (
        f'combine_values() failed for combine_type="{combine_type}". Please check that all inputs have matching '
        'structures, dtype and shape, except for the size of the last axis, which may differ for "concat"; got '
        + (", ".join(f"{value.dtype.name}{value.shape}" for value in map(_as_field, inputs)) or "no inputs")
        + "."
    )


def _as_field(value: Any) -> Any:
    return value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)
