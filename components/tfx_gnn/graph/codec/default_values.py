"""Default values for features that a tf.Example lacks, such as labels at serving time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.codec.parsing_checks import repeat_values
from tfx_gnn.graph.graph_constants import FieldSpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


@dataclasses.dataclass(frozen=True)
class DefaultFill:
    """Fills a feature where it is absent.

    Attributes:
        value: array of the shape of one item, of the dtype that tf.Examples store.
    """

    value: np.ndarray[Any, Any]

    def splits(self, parsed: tf.RaggedTensor, expected: tf.Tensor) -> tf.Tensor:
        """Returns the running number of values after filling, int64 of shape [num_examples + 1]."""
        return tf.pad(tf.cumsum(_fill_lengths(parsed, expected)[1]), [[1, 0]])

    def values(self, parsed: tf.RaggedTensor, expected: tf.Tensor, num_values: int) -> tf.Tensor:
        """Inserts the value for every item of the examples that have no values at all; gives all in one vector."""
        if num_values == 0:
            return parsed.flat_values
        missing, filled = _fill_lengths(parsed, expected)
        splits = self.splits(parsed, expected)
        # Each value comes from the vector of stored values, or from the default behind it.
        position = tf.range(splits[-1])
        stored = position + repeat_values(parsed.row_splits[:-1] - splits[:-1], filled)
        behind = tf.size(parsed.flat_values, out_type=tf.int64)
        default = behind + (position - repeat_values(splits[:-1], filled)) % num_values
        is_missing = repeat_values(tf.cast(missing, tf.int64), filled) > 0
        source = tf.concat([parsed.flat_values, tf.constant(self.value.reshape([-1]))], axis=0)
        return tf.gather(source, tf.where(is_missing, default, stored))


def _fill_lengths(parsed: tf.RaggedTensor, expected: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which examples lack values they should have, and numbers of values after filling."""
    lengths = parsed.row_lengths()
    expected_lengths = expected[1:] - expected[:-1]
    missing = tf.logical_and(tf.equal(lengths, 0), tf.greater(expected_lengths, 0))
    return missing, tf.where(missing, expected_lengths, lengths)


def default_fills(spec: GraphTensorSpec, default_values: Mapping[str, Any] | None) -> dict[str, DefaultFill]:
    """Checks default values against the spec of the graph; keys have no prefix, as in "nodes/paper.label"."""
    field_specs: dict[str, FieldSpec] = {}
    for layout in example_layout.set_layouts(spec, None):
        piece = example_layout.piece_spec(spec, layout)
        for name, key in layout.features.items():
            field_specs[key] = piece[name]
    fills = {}
    for key, value in (default_values or {}).items():
        if key not in field_specs:
            raise ValueError(
                f"`default_values` must name features of the graph; got '{key}'. Known are {sorted(field_specs)}."
            )
        fills[key] = _fill(key, field_specs[key], value)
    return fills


def _fill(key: str, spec: FieldSpec, value: Any) -> DefaultFill:
    if isinstance(spec, tf.RaggedTensorSpec):
        raise ValueError(
            f"`default_values['{key}']` must be for a feature without ragged dimensions; got one "
            f"of shape {spec.shape}. Store empty rows for it instead."
        )
    dtype = example_layout.stored_dtype(spec.dtype, key)
    item_shape = spec.shape[1:].as_list()
    try:
        with np.errstate(over="ignore"):
            array = np.broadcast_to(_stored_array(value, dtype), item_shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`default_values['{key}']` must be a {spec.dtype.name} value of shape {item_shape} or a scalar; got "
            f"{value!r}."
        ) from error
    if math.prod(item_shape) == 0:
        return DefaultFill(np.zeros(item_shape, dtype.as_numpy_dtype))
    if spec.dtype.is_floating:
        given = np.broadcast_to(np.asarray(value, np.float64), item_shape)
        with np.errstate(over="ignore"):
            held = array.astype(spec.dtype.as_numpy_dtype).astype(np.float64)
        if (np.isfinite(given) & ~np.isfinite(held)).any():
            raise ValueError(
                f"`default_values['{key}']` must be a {spec.dtype.name} that a tf.Example can hold, at most "
                f"{min(spec.dtype.max, dtype.max)}; got {value!r}."
            )
    if example_layout.is_narrow(spec.dtype) and spec.dtype.is_integer:
        smallest, largest = spec.dtype.min, spec.dtype.max
        if not ((smallest <= array) & (array <= largest)).all():
            raise ValueError(
                f"`default_values['{key}']` must be a {spec.dtype.name}, in [{smallest}, {largest}]; got {value!r}."
            )
    return DefaultFill(array)


def _stored_array(value: Any, dtype: tf.DType) -> np.ndarray[Any, Any]:
    """Converts a value to the dtype that tf.Examples store, if nothing is lost."""
    if dtype == tf.string:
        strings = np.asarray(value, object)
        if not all(isinstance(string, (bytes, str)) for string in strings.flat):
            raise TypeError(f"got {value!r} for strings")
        return np.vectorize(_as_bytes, otypes=[object])(strings)
    array = np.asarray(value)
    kinds = "biu" if dtype == tf.int64 else "biuf"
    if array.dtype.kind not in kinds:
        raise TypeError(f"got {array.dtype} for {dtype.name}")
    return array.astype(dtype.as_numpy_dtype)


def _as_bytes(string: bytes | str) -> bytes:
    return string.encode() if isinstance(string, str) else string
