"""Parses a batch of graph tf.Examples into flat values, without nested ragged tensors.

`tf.io.parse_example` returns, for each feature, the values of all examples in one vector and
the splits between examples. Everything else follows from `#size`: the splits between the items of
a set are the running sums of its sizes, so nothing is partitioned twice. One assertion compares
the numbers of values that were read with the numbers that follow from the sizes.

Small ops dominate the cost at usual batch sizes, so work that is the same for all sets or features
is done once, on a matrix with one row per set or feature.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.codec import example_layout, parsing_checks
from tfx_gnn.graph.codec.canonical_bytes import canonical_examples
from tfx_gnn.graph.codec.example_layout import PieceKeys
from tfx_gnn.graph.codec.flat_graphs import EdgeEnds, FlatField, FlatGraphs, FlatSet, SizeTable, repeat_values
from tfx_gnn.graph.graph_constants import NODES, FieldSpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean

#: Maximum number of items in a batch, low enough that sums do not overflow int64.
_MAX_ITEMS = {tf.int32: 2**31 - 1, tf.int64: 2**40}

#: Makes assertions on the sizes; returns the operations that must run before the sizes are used.
Check = Callable[["SizeTable"], "list[tf.Operation]"]


def read_flat(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None,
    default_values: Mapping[str, Any] | None,
    *,
    validate: bool,
    check: Check | None = None,
) -> tuple[FlatGraphs, list[tf.Operation]]:
    """Reads graphs from tf.Examples; the returned checks must run before `finish_flat`.

    `check` makes further assertions on the sizes, after the standard checks.
    """
    fills = _default_fills(spec, default_values)
    return _Reader(spec, canonical_examples(serialized), prefix or "", fills).read(check, validate=validate)


class _Reader:
    """Reads one batch; holds the state shared by the steps of reading."""

    def __init__(
        self,
        spec: GraphTensorSpec,
        serialized: tf.Tensor,
        prefix: str,
        fills: Mapping[str, _DefaultFill],
    ) -> None:
        self._spec = spec
        self._fills = {f"{prefix}{key}": fill for key, fill in fills.items()}
        self._layouts = list(example_layout.piece_keys(spec, prefix))
        self._set_specs = [example_layout.piece_spec(spec, layout) for layout in self._layouts[1:]]
        self._num_components = [piece.sizes_spec.shape[0] for piece in self._set_specs]
        self._static_num_examples = serialized.shape[0]
        self._serialized = serialized
        self._parsed = self._parse(serialized)
        # Entries to compare: the actual running numbers of values; the expected ones, given either as a row of
        # the size table and a factor or as a vector; and the feature key.
        self._by_row: list[tuple[tf.Tensor, int, int, str]] = []
        self._by_vector: list[tuple[tf.Tensor, tf.Tensor, str]] = []
        # Row lengths with their running sums.
        self._row_lengths: list[tuple[tf.Tensor, tf.Tensor, str]] = []
        # Features whose dtypes cannot represent all values that tf.Examples can store, with keys.
        self._narrow: list[tuple[tf.Tensor, tf.DType, str]] = []

    def _parse(self, serialized: tf.Tensor) -> dict[str, Any]:
        features: dict[str, Any] = {}
        for layout in self._layouts:
            piece = example_layout.piece_spec(self._spec, layout)
            if layout.size_key:
                features[layout.size_key] = self._io_feature(layout.size_key, piece.sizes_spec, 0)
                if set(self._num_components) == {1}:
                    features[layout.size_key] = tf.io.FixedLenFeature([], tf.int64, 0)
            for tag, key in layout.index_keys.items():
                features[key] = self._io_feature(key, piece.adjacency_spec[tag])
            for name, key in layout.features.items():
                example_layout.check_inner_dimensions(key, piece[name])
                fill = self._fills.get(key)
                default = None if fill is None else fill.value
                features[key] = self._io_feature(key, piece[name], default)
                for dimension in example_layout.ragged_dimensions(piece[name]):
                    lengths_key = example_layout.row_lengths_key(key, dimension)
                    features[lengths_key] = _flat_feature(lengths_key, tf.int64)
        if not features:
            return {}
        try:
            return tf.io.parse_example(serialized, features)
        except UnicodeDecodeError as error:
            # TensorFlow's message quotes the bytes, which Python may be unable to decode as text.
            raise tf.errors.InvalidArgumentError(
                None, None, "`serialized` must hold tf.Example protos; got other bytes."
            ) from error

    def _io_feature(self, key: str, spec: FieldSpec, default: Any = None) -> Any:
        dtype = example_layout.stored_dtype(spec.dtype, key)
        if isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined():
            if default is not None:
                default = np.broadcast_to(np.asarray(default, dtype.as_numpy_dtype), spec.shape.as_list())
            if spec.shape == [1]:
                return tf.io.FixedLenFeature([], dtype, None if default is None else default[0])
            return tf.io.FixedLenFeature(spec.shape, dtype, default)
        return _flat_feature(key, dtype)

    def read(self, check: Check | None, *, validate: bool) -> tuple[FlatGraphs, list[tf.Operation]]:
        """Reads sizes, then fields, and checks both."""
        set_layouts = self._layouts[1:]
        size_keys = [layout.size_key for layout in set_layouts]
        table = SizeTable([self._parsed[key] for key in size_keys], self._num_components, self._uniform_splits)
        sets = [
            FlatSet(layout=layout, spec=spec, component_splits=table.component_splits[row], table=table, row=row)
            for row, (layout, spec) in enumerate(zip(set_layouts, self._set_specs, strict=True))
        ]
        # Runs first, so that the ends are the first entries to be compared with the sizes.
        end_indices = self._read_end_indices(sets)
        context = self._context_set(sets, table)
        for flat_set in (context, *sets):
            for name, key in flat_set.layout.features.items():
                field = flat_set.features[name] = self._read_field(key, flat_set.spec[name], flat_set)
                if example_layout.is_narrow(field.spec.dtype):
                    self._narrow.append((field.values, field.spec.dtype, key))
        compared = [entry[0] for entry in (*self._by_row, *self._by_vector)]
        actual = tf.stack(compared) if compared else None
        ends = self._join_ends(sets, end_indices, actual, table) if end_indices else None
        operations = self._assert_valid(table, size_keys, actual, ends) if validate else []
        if check is not None:
            with tf.control_dependencies(operations):
                operations = operations + check(table)
        return FlatGraphs(self._static_num_examples, [context, *sets], table, ends), operations

    def _read_end_indices(self, sets: list[FlatSet]) -> list[tf.Tensor]:
        """Returns the node indices of all ends of edge sets; registers their counts for checking."""
        return [
            self._read_field(key, flat_set.spec.adjacency_spec[tag], flat_set).values
            for flat_set in sets
            for tag, key in flat_set.layout.index_keys.items()
        ]

    def _join_ends(
        self, sets: list[FlatSet], indices: list[tf.Tensor], actual: tf.Tensor | None, table: SizeTable
    ) -> EdgeEnds:
        rows = {flat_set.layout.set_name: row for row, flat_set in enumerate(sets) if flat_set.layout.set_type == NODES}
        ends = [
            (key, rows[flat_set.spec.adjacency_spec.node_set_name(tag)])
            for flat_set in sets
            for tag, key in flat_set.layout.index_keys.items()
        ]
        return EdgeEnds(indices, actual, [key for key, _ in ends], [row for _, row in ends], table)

    def _context_set(self, sets: list[FlatSet], table: SizeTable) -> FlatSet:
        """Determines the number of components of each example; registers those of the sets for checking."""
        layout, spec = self._layouts[0], self._spec.context_spec
        static = spec.sizes_spec.shape[0]
        if static is not None:
            splits = self._uniform_splits(static)
        elif sets:
            splits = sets[0].component_splits
        else:
            splits = self._component_splits_of_features(layout)
        for flat_set in sets:
            if flat_set.component_splits is not splits and (
                static is None or flat_set.spec.sizes_spec.shape[0] != static
            ):
                self._by_vector.append((flat_set.component_splits, splits, flat_set.layout.size_key))
        return FlatSet(layout=layout, spec=spec, component_splits=splits, table=table)

    def _component_splits_of_features(self, layout: PieceKeys) -> tf.Tensor:
        """Derives the number of components from a context feature, for graphs without sets."""
        for name, key in layout.features.items():
            field_spec = self._spec.context_spec[name]
            per_row = math.prod(size for size in field_spec.shape[1:] if size is not None)
            ragged = example_layout.ragged_dimensions(field_spec)
            if not ragged and per_row:
                return self._parsed[key].row_splits // per_row
            if ragged == [1]:
                return self._parsed[example_layout.row_lengths_key(key, 1)].row_splits
        return self._uniform_splits(0)

    def _read_field(self, key: str, spec: FieldSpec, flat_set: FlatSet) -> FlatField:
        """Reads a feature; registers its number of values for checking."""
        parsed = self._parsed[key]
        row = flat_set.row
        if not isinstance(parsed, tf.RaggedTensor):
            given = self._uniform_splits(spec.shape[0])
            if row is not None:
                self._by_row.append((given, row, 1, key))
            elif spec.shape[0] != flat_set.spec.sizes_spec.shape[0]:
                self._by_vector.append((given, flat_set.item_splits, key))
            values = tf.reshape(parsed, [-1]) if parsed.shape.rank == 2 and spec.shape.rank == 1 else parsed
            return FlatField(values=values, spec=spec, num_rows=[given[-1]] if 0 in spec.shape else [])
        if spec.shape[0] is not None:
            self._by_vector.append((flat_set.item_splits, self._uniform_splits(spec.shape[0]), key))
        field = FlatField(values=parsed.flat_values, spec=spec)
        ragged_rank = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
        num_values = math.prod(spec.shape[ragged_rank + 1 :].as_list())
        fill = self._fills.get(key)
        if fill is None and ragged_rank == 0 and row is not None:
            if num_values == 0:
                field.num_rows.append(flat_set.item_splits[-1])
            self._by_row.append((parsed.row_splits, row, num_values, key))
            return field
        splits = flat_set.item_splits
        if ragged_rank or num_values == 0:
            field.num_rows.append(splits[-1])
        for dimension in range(1, ragged_rank + 1):
            splits = self._read_partition(key, spec, dimension, splits, field)
        expected = splits if num_values == 1 else splits * num_values
        actual = parsed.row_splits
        if fill is not None:
            actual = fill.splits(parsed, expected)
            field.fill = functools.partial(fill.values, parsed, expected, num_values)
        self._by_vector.append((actual, expected, key))
        return field

    def _read_partition(
        self, key: str, spec: FieldSpec, dimension: int, splits: tf.Tensor, field: FlatField
    ) -> tf.Tensor:
        """Adds the partition of a dimension to the field; returns the splits one level down."""
        size = spec.shape[dimension]
        if size is not None:
            field.partitions.append(size)
            splits = splits * size
        else:
            lengths_key = example_layout.row_lengths_key(key, dimension)
            lengths = self._parsed[lengths_key]
            self._by_vector.append((lengths.row_splits, splits, lengths_key))
            row_splits = tf.pad(tf.cumsum(lengths.flat_values), [[1, 0]])
            self._row_lengths.append((lengths.flat_values, row_splits, lengths_key))
            field.partitions.append(row_splits)
            splits = tf.gather(row_splits, lengths.row_splits)
        field.num_rows.append(splits[-1])
        return splits

    def _assert_valid(
        self, table: SizeTable, size_keys: list[str], actual: tf.Tensor | None, ends: EdgeEnds | None
    ) -> list[tf.Operation]:
        """Returns the checks that must run before any of the parsed values are used."""
        assertions = self._assert_counts(table, size_keys, ends)
        if actual is not None:
            keys = [key for *_, key in self._by_row] + [key for *_, key in self._by_vector]
            told_keys = [size_keys[row] for _, row, *_ in self._by_row] + [""] * len(self._by_vector)
            with tf.control_dependencies(assertions):
                assertions = parsing_checks.assert_splits(actual, self._expected_splits(table), keys, told_keys)
        if ends is not None:
            with tf.control_dependencies(assertions):
                assertions = ends.assert_valid()
        return assertions + parsing_checks.assert_in_range(self._narrow)

    def _assert_counts(self, table: SizeTable, size_keys: list[str], ends: EdgeEnds | None) -> list[tf.Operation]:
        """Asserts that sizes and row lengths are valid counts.

        In a function, where every operation counts, sizes that are compared with the actual number
        of values of a feature are not checked again: that number is neither negative nor too large.
        """
        largest = np.full([len(size_keys)], _MAX_ITEMS[self._spec.indices_dtype])
        if ends is not None:
            # `EdgeEnds` stores numbers of nodes in 32 bits, regardless of the dtype of indices.
            largest[ends.node_rows] = _MAX_ITEMS[tf.int32]
        rows = list(range(len(size_keys)))
        assertions = []
        if not table.is_simple:
            for row in rows:
                part = slice(row, row + 1)
                assertions += parsing_checks.assert_counts(
                    table.counts(row), table.splits[part], largest[part], size_keys[part]
                )
        else:
            if not tf.executing_eagerly():
                confirmed = {row for _, row, factor, _ in self._by_row if factor == 1}
                rows = [row for row in rows if row not in confirmed]
            if rows:
                counts, totals = tf.gather(table.items, rows), tf.gather(table.splits, rows)
                assertions += parsing_checks.assert_counts(
                    counts, totals, largest[rows], [size_keys[row] for row in rows]
                )
        limits = np.array([_MAX_ITEMS[self._spec.row_splits_dtype]])
        for lengths, row_splits, key in self._row_lengths:
            assertions += parsing_checks.assert_counts(lengths[tf.newaxis], row_splits[tf.newaxis], limits, [key])
        return assertions

    def _expected_splits(self, table: SizeTable) -> tf.Tensor:
        parts = []
        if self._by_row:
            factors = np.asarray([[factor] for _, _, factor, _ in self._by_row])
            rows = tf.gather(table.splits, [row for _, row, _, _ in self._by_row])
            parts.append(rows if (factors == 1).all() else rows * factors)
        if self._by_vector:
            parts.append(tf.stack([vector for _, vector, _ in self._by_vector]))
        return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)

    def _uniform_splits(self, count: int) -> tf.Tensor:
        """Returns the splits of examples with `count` items each."""
        if self._static_num_examples is not None:
            return tf.constant(np.arange(self._static_num_examples + 1) * count, tf.int64)
        return tf.range(tf.size(self._serialized, out_type=tf.int64) + 1) * count


def _flat_feature(key: str, dtype: tf.DType) -> tf.io.RaggedFeature:
    return tf.io.RaggedFeature(dtype, value_key=key, row_splits_dtype=tf.int64, validate=False)


@dataclasses.dataclass(frozen=True)
class _DefaultFill:
    """Inserts a default value for a feature in examples that lack it.

    Attributes:
        value: array of the shape of one item, of the dtype that tf.Examples store.
    """

    value: np.ndarray[Any, Any]

    def splits(self, parsed: tf.RaggedTensor, expected: tf.Tensor) -> tf.Tensor:
        """Returns the running number of values after filling, int64 of shape [num_examples + 1]."""
        return tf.pad(tf.cumsum(_fill_lengths(parsed, expected)[1]), [[1, 0]])

    def values(self, parsed: tf.RaggedTensor, expected: tf.Tensor, num_values: int) -> tf.Tensor:
        """Returns all values in one vector, with the default for every item of examples without any values."""
        if num_values == 0:
            return parsed.flat_values
        missing, filled = _fill_lengths(parsed, expected)
        splits = self.splits(parsed, expected)
        # Each value comes from the vector of stored values, or from the default appended to it.
        position = tf.range(splits[-1])
        stored = position + repeat_values(parsed.row_splits[:-1] - splits[:-1], filled)
        behind = tf.size(parsed.flat_values, out_type=tf.int64)
        default = behind + (position - repeat_values(splits[:-1], filled)) % num_values
        is_missing = repeat_values(tf.cast(missing, tf.int64), filled) > 0
        source = tf.concat([parsed.flat_values, tf.constant(self.value.reshape([-1]))], axis=0)
        return tf.gather(source, tf.where(is_missing, default, stored))


def _fill_lengths(parsed: tf.RaggedTensor, expected: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which examples lack values that they should have, and numbers of values after filling."""
    lengths = parsed.row_lengths()
    expected_lengths = expected[1:] - expected[:-1]
    missing = tf.logical_and(tf.equal(lengths, 0), tf.greater(expected_lengths, 0))
    return missing, tf.where(missing, expected_lengths, lengths)


def _default_fills(spec: GraphTensorSpec, default_values: Mapping[str, Any] | None) -> dict[str, _DefaultFill]:
    """Checks default values against the spec of the graph; keys have no prefix, as in "nodes/paper.label"."""
    field_specs: dict[str, FieldSpec] = {}
    for layout in example_layout.piece_keys(spec, None):
        piece = example_layout.piece_spec(spec, layout)
        for name, key in layout.features.items():
            field_specs[key] = piece[name]
    fills = {}
    for key, value in (default_values or {}).items():
        if key not in field_specs:
            raise ValueError(
                f"`default_values` must name features of the graph; got '{key}'. Known are {sorted(field_specs)}. "
                f"{did_you_mean(key, field_specs)}"
            )
        fills[key] = _fill(key, field_specs[key], value)
    return fills


def _fill(key: str, spec: FieldSpec, value: Any) -> _DefaultFill:
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
        return _DefaultFill(np.zeros(item_shape, dtype.as_numpy_dtype))
    if spec.dtype.is_floating:
        given = np.broadcast_to(np.asarray(value, np.float64), item_shape)
        # A float64 may become infinite as the stored float32, and a float32 as the float16 of the feature.
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
    return _DefaultFill(array)


def _stored_array(value: Any, dtype: tf.DType) -> np.ndarray[Any, Any]:
    """Converts a value to the dtype that tf.Examples store, if this is lossless."""
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
