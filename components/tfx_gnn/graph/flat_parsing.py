"""Reads a batch of graph tf.Examples into flat values, without nested ragged tensors.

`tf.io.parse_example` delivers, for each feature, the values of all examples in one vector and
the splits between examples. All else follows from `#size`: the splits between the items of a
set are the running sums of its sizes, so nothing is partitioned twice. Three assertions compare
what was read with what the sizes promise, and everything downstream runs after them.

Small ops dominate the cost at usual batch sizes, so what can be done for all sets or features
at once is done on a matrix with a row for each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import example_layout, parsing_checks
from tfx_gnn.graph.default_values import DefaultFill, default_fills
from tfx_gnn.graph.edge_ends import EdgeEnds
from tfx_gnn.graph.example_layout import SetLayout
from tfx_gnn.graph.flat_fields import FlatField
from tfx_gnn.graph.graph_constants import NODES, FieldSpec
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.size_table import SizeTable


@dataclasses.dataclass
class FlatSet:
    """One piece of the graphs of all examples.

    Attributes:
        layout: where the piece is stored.
        spec: spec of the piece in one graph.
        component_splits: running number of components, int64 of shape [num_examples + 1].
        item_splits: running number of items, int64 of shape [num_examples + 1].
        sizes: sizes of all components of all examples, of the index dtype; None for a context.
        features: feature names to fields.
        indices: SOURCE and TARGET to node indices, of the index dtype.
    """

    layout: SetLayout
    spec: Any
    component_splits: tf.Tensor
    item_splits: tf.Tensor
    sizes: tf.Tensor | None = None
    features: dict[str, FlatField] = dataclasses.field(default_factory=dict)
    indices: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class FlatGraphs:
    """The graphs of all examples.

    Attributes:
        static_num_examples: number of examples if it is known statically, else None.
        sets: the context, then node sets, then edge sets.
    """

    static_num_examples: int | None
    sets: list[FlatSet]


def parse_flat(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None,
    default_values: Mapping[str, Any] | None,
    *,
    validate: bool,
    merge_indices: bool,
) -> FlatGraphs:
    """Reads graphs from tf.Examples.

    Args:
        spec: spec of the scalar graph in one tf.Example.
        serialized: string tensor of shape [num_examples].
        prefix: put before every key.
        default_values: keys without prefix to values for features that an example lacks.
        validate: whether to check sizes, counts and indices.
        merge_indices: whether node indices count from the first node of all examples.

    Returns:
        The graphs; in a function, their tensors exist only if the checks pass.
    """
    fills = default_fills(spec, default_values)
    reader = _Reader(spec, serialized, prefix or "", fills, validate=validate)
    return reader.read(merge_indices=merge_indices)


class _Reader:
    """Carries what the steps of reading share."""

    def __init__(
        self,
        spec: GraphTensorSpec,
        serialized: tf.Tensor,
        prefix: str,
        fills: Mapping[str, DefaultFill],
        *,
        validate: bool,
    ) -> None:
        self._spec = spec
        self._fills = {f"{prefix}{key}": fill for key, fill in fills.items()}
        self._validate = validate
        self._layouts = list(example_layout.set_layouts(spec, prefix))
        self._static_num_examples = serialized.shape[0]
        self._serialized = serialized
        self._parsed = self._parse(serialized)
        # Running numbers of values as they are, and as rows of the size table times a factor
        # or as vectors they must be; with keys.
        self._by_row: list[tuple[tf.Tensor, int, int, str]] = []
        self._by_vector: list[tuple[tf.Tensor, tf.Tensor, str]] = []
        # Row lengths with their running sums.
        self._row_lengths: list[tuple[tf.Tensor, tf.Tensor, str]] = []

    def _parse(self, serialized: tf.Tensor) -> dict[str, Any]:
        features: dict[str, Any] = {}
        for layout in self._layouts:
            piece = example_layout.piece_spec(self._spec, layout)
            if layout.size_key:
                features[layout.size_key] = self._io_feature(layout.size_key, piece.sizes_spec, 0)
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
            # TensorFlow quotes the bytes in its message, which then may be no text for Python.
            raise tf.errors.InvalidArgumentError(
                None, None, "`serialized` must hold tf.Example protos; got bytes that are none."
            ) from error

    def _io_feature(self, key: str, spec: FieldSpec, default: Any = None) -> Any:
        dtype = example_layout.stored_dtype(spec.dtype, key)
        if isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined():
            if default is not None:
                default = np.broadcast_to(np.asarray(default, dtype.as_numpy_dtype), spec.shape.as_list())
            return tf.io.FixedLenFeature(spec.shape, dtype, default)
        return _flat_feature(key, dtype)

    def read(self, *, merge_indices: bool) -> FlatGraphs:
        """Reads sizes, then fields, checks both, and finishes what depends on the checks."""
        set_layouts = self._layouts[1:]
        set_specs = [example_layout.piece_spec(self._spec, layout) for layout in set_layouts]
        size_keys = [layout.size_key for layout in set_layouts]
        table = SizeTable(
            [self._parsed[key] for key in size_keys],
            [spec.sizes_spec.shape[0] for spec in set_specs],
            self._uniform_splits,
        )
        sets = [
            FlatSet(layout=layout, spec=spec, component_splits=components, item_splits=items)
            for layout, spec, components, items in zip(
                set_layouts, set_specs, table.component_splits, table.item_splits, strict=True
            )
        ]
        context = self._context_set(sets)
        for row, flat_set in ((None, context), *enumerate(sets)):
            for name, key in flat_set.layout.features.items():
                flat_set.features[name] = self._read_field(key, flat_set.spec[name], flat_set, row)
        ends = self._read_ends(sets, table)
        dependencies = self._assert_valid(table, size_keys, ends) if self._validate else []
        with tf.control_dependencies(dependencies):
            self._finish(context, sets, table, ends, merge_indices=merge_indices)
        return FlatGraphs(self._static_num_examples, [context, *sets])

    def _finish(
        self,
        context: FlatSet,
        sets: list[FlatSet],
        table: SizeTable,
        ends: EdgeEnds | None,
        *,
        merge_indices: bool,
    ) -> None:
        """Makes the tensors that exist only if the checks pass."""
        dtype = self._spec.indices_dtype
        for flat_set, sizes in zip(sets, table.flat_sizes(dtype), strict=True):
            flat_set.sizes = sizes
        for flat_set in [context, *sets]:
            for field in flat_set.features.values():
                field.values = tf.identity(field.values)
                # A partition of as many rows as a wrong count says might not fit into memory.
                field.num_rows = [tf.identity(count) for count in field.num_rows]
        if ends is not None:
            separated = iter(ends.separate(dtype, merge=merge_indices))
            for flat_set in sets:
                for tag in flat_set.layout.index_keys:
                    flat_set.indices[tag] = next(separated)

    def _read_ends(self, sets: list[FlatSet], table: SizeTable) -> EdgeEnds | None:
        """Joins the node indices of all edge sets, and lets their numbers be checked."""
        node_rows = {
            flat_set.layout.set_name: row for row, flat_set in enumerate(sets) if flat_set.layout.set_type == NODES
        }
        indices, splits, keys, rows = [], [], [], []
        for row, flat_set in enumerate(sets):
            adjacency: Any = getattr(flat_set.spec, "adjacency_spec", None)
            for tag, key in flat_set.layout.index_keys.items():
                indices.append(self._read_field(key, adjacency[tag], flat_set, row).values)
                splits.append(self._splits_of(key))
                keys.append(key)
                rows.append(node_rows[adjacency.node_set_name(tag)])
        return EdgeEnds(indices, splits, keys, rows, table) if keys else None

    def _context_set(self, sets: list[FlatSet]) -> FlatSet:
        """Finds out the number of components of each example, and lets the sets be compared."""
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
        return FlatSet(layout=layout, spec=spec, component_splits=splits, item_splits=splits)

    def _component_splits_of_features(self, layout: SetLayout) -> tf.Tensor:
        """Derives the number of components from a context feature, where there are no sets."""
        for name, key in layout.features.items():
            field_spec = self._spec.context_spec[name]
            per_row = math.prod(size for size in field_spec.shape[1:] if size is not None)
            ragged = example_layout.ragged_dimensions(field_spec)
            if not ragged and per_row:
                return self._parsed[key].row_splits // per_row
            if ragged == [1]:
                return self._parsed[example_layout.row_lengths_key(key, 1)].row_splits
        return self._uniform_splits(0)

    def _splits_of(self, key: str) -> tf.Tensor:
        """Returns the running number of values of a feature without inner dimensions."""
        parsed = self._parsed[key]
        if isinstance(parsed, tf.RaggedTensor):
            return parsed.row_splits
        return self._uniform_splits(parsed.shape[1])

    def _read_field(self, key: str, spec: FieldSpec, flat_set: FlatSet, row: int | None) -> FlatField:
        """Reads a feature and lets its number of values be checked.

        Args:
            key: key of the feature.
            spec: spec of the field.
            flat_set: the piece that has the field.
            row: row of the piece in the size table; None for the context.
        """
        parsed = self._parsed[key]
        if not isinstance(parsed, tf.RaggedTensor):
            expected = self._uniform_splits(spec.shape[0])
            if row is not None:
                self._by_row.append((expected, row, 1, key))
            elif flat_set.item_splits is not expected:
                self._by_vector.append((expected, flat_set.item_splits, key))
            return FlatField(values=tf.reshape(parsed, [-1]), spec=spec, num_rows=[expected[-1]])
        splits = flat_set.item_splits
        if spec.shape[0] is not None:
            self._by_vector.append((splits, self._uniform_splits(spec.shape[0]), key))
        field = FlatField(values=parsed.flat_values, spec=spec, num_rows=[])
        ragged_rank = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
        num_values = math.prod(spec.shape[ragged_rank + 1 :].as_list())
        if ragged_rank or num_values == 0:
            field.num_rows.append(splits[-1])
        for dimension in range(1, ragged_rank + 1):
            splits = self._read_partition(key, spec, dimension, splits, field)
        fill = self._fills.get(key)
        if fill is None and ragged_rank == 0 and row is not None:
            self._by_row.append((parsed.row_splits, row, num_values, key))
            return field
        expected = splits if num_values == 1 else splits * num_values
        actual = parsed.row_splits
        if fill is not None:
            actual, field.values = fill.apply(parsed, expected, num_values)
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

    def _assert_valid(self, table: SizeTable, size_keys: list[str], ends: EdgeEnds | None) -> list[tf.Operation]:
        """Returns what must run before anything that was read is used."""
        assertions = table.assert_valid(size_keys, self._spec.indices_dtype) if size_keys else []
        for lengths, row_splits, key in self._row_lengths:
            assertions += parsing_checks.assert_counts(
                lengths[tf.newaxis], row_splits[tf.newaxis], [key], self._spec.row_splits_dtype
            )
        keys = [key for *_, key in self._by_row] + [key for *_, key in self._by_vector]
        if keys:
            actual = tf.stack([entry[0] for entry in (*self._by_row, *self._by_vector)])
            expected = []
            if self._by_row:
                factors = np.asarray([[factor] for _, _, factor, _ in self._by_row])
                rows = tf.gather(table.splits, [row for _, row, _, _ in self._by_row])
                expected.append(rows if (factors == 1).all() else rows * factors)
            if self._by_vector:
                expected.append(tf.stack([vector for _, vector, _ in self._by_vector]))
            wanted = expected[0] if len(expected) == 1 else tf.concat(expected, axis=0)
            assertions += parsing_checks.assert_splits(actual, wanted, keys)
        if ends is not None:
            assertions += ends.assert_valid()
        return assertions

    def _uniform_splits(self, count: int) -> tf.Tensor:
        """Returns the splits of examples with `count` items each."""
        if self._static_num_examples is not None:
            return tf.constant(np.arange(self._static_num_examples + 1) * count, tf.int64)
        return tf.range(tf.size(self._serialized, out_type=tf.int64) + 1) * count


def _flat_feature(key: str, dtype: tf.DType) -> tf.io.RaggedFeature:
    return tf.io.RaggedFeature(dtype, value_key=key, row_splits_dtype=tf.int64, validate=False)
