"""Reads a batch of graph tf.Examples into flat values, without nested ragged tensors.

`tf.io.parse_example` delivers, for each feature, the values of all examples in one vector and
the splits between examples. All else follows from `#size`: the splits between the items of a
set are the running sums of its sizes, so nothing is partitioned twice. Two assertions compare
what was read with what the sizes promise; everything downstream runs after them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import example_layout, fields
from tfx_gnn.graph.default_values import DefaultFill, default_fills
from tfx_gnn.graph.example_layout import SetLayout
from tfx_gnn.graph.graph_constants import EDGES, NODES, FieldSpec
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.parsing_checks import CountChecks, check_indices, repeat_values


@dataclasses.dataclass
class FlatField:
    """One field of all examples, items of earlier examples first.

    Attributes:
        values: stored values, shape [total_values].
        spec: spec of the field in one graph.
        partitions: for ragged fields, the row splits of each dimension from 1 up to the last
            ragged one, over all examples; an int is a uniform row length.
        num_rows: for each dimension from 0, its total number of rows over all examples.
    """

    values: tf.Tensor
    spec: FieldSpec
    partitions: list[tf.Tensor | int] = dataclasses.field(default_factory=list)
    num_rows: list[tf.Tensor] = dataclasses.field(default_factory=list)

    def items(self, row_splits_dtype: tf.DType, total: int | None) -> tf.Tensor | tf.RaggedTensor:
        """Returns the field with the items of all examples in dimension 0.

        Args:
            row_splits_dtype: for the ragged dimensions.
            total: static number of items, if known.
        """
        ragged_rank = len(self.partitions)
        inner = self.spec.shape[ragged_rank + 1 :].as_list()
        values: Any = example_layout.from_stored(self.values, self.spec.dtype)
        if inner:
            outer = self.num_rows[-1] if 0 in inner else -1
            values = tf.reshape(values, [outer, *inner])
        for level in reversed(range(ragged_rank)):
            partition = self.partitions[level]
            if isinstance(partition, int):
                values = tf.RaggedTensor.from_uniform_row_length(
                    values, partition, nrows=self.num_rows[level], validate=False
                )
            else:
                splits = tf.cast(partition, row_splits_dtype)
                values = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        if ragged_rank:
            values = values.with_row_splits_dtype(row_splits_dtype)
        return values if total is None else fields.with_item_count(values, total)


@dataclasses.dataclass
class FlatSet:
    """One piece of the graphs of all examples.

    Attributes:
        layout: where the piece is stored.
        spec: spec of the piece in one graph.
        sizes: sizes of all components of all examples, of the index dtype; None for a context.
        component_splits: running number of components, int64 of shape [num_examples + 1].
        item_splits: running number of items, int64 of shape [num_examples + 1].
        features: feature names to fields.
        indices: SOURCE and TARGET to node indices, of the index dtype.
    """

    layout: SetLayout
    spec: Any
    sizes: tf.Tensor | None
    component_splits: tf.Tensor
    item_splits: tf.Tensor
    features: dict[str, FlatField] = dataclasses.field(default_factory=dict)
    indices: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class FlatGraphs:
    """The graphs of all examples.

    Attributes:
        num_examples: scalar int64.
        static_num_examples: the same if it is known statically, else None.
        sets: the context, then node sets, then edge sets.
    """

    num_examples: tf.Tensor
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
        The graphs; their tensors exist only if the checks pass.
    """
    fills = default_fills(spec, default_values)
    reader = _Reader(spec, serialized, prefix, fills, validate)
    return reader.read(merge_indices)


class _Reader:
    """Carries what the steps of reading share."""

    def __init__(
        self,
        spec: GraphTensorSpec,
        serialized: tf.Tensor,
        prefix: str | None,
        fills: Mapping[str, DefaultFill],
        validate: bool,
    ) -> None:
        self._spec = spec
        self._prefix = prefix or ""
        self._fills = {f"{self._prefix}{key}": fill for key, fill in fills.items()}
        self._validate = validate
        self._layouts = list(example_layout.set_layouts(spec, prefix))
        self._static_num_examples = serialized.shape[0]
        self._num_examples = (
            tf.size(serialized, out_type=tf.int64)
            if serialized.shape[0] is None
            else tf.constant(serialized.shape[0], tf.int64)
        )
        self._parsed = self._parse(serialized)
        self._checks = CountChecks()

    def _parse(self, serialized: tf.Tensor) -> dict[str, Any]:
        features: dict[str, Any] = {}
        for layout in self._layouts:
            piece = example_layout.piece_spec(self._spec, layout)
            if layout.size_key:
                features[layout.size_key] = self._io_feature(layout.size_key, piece.sizes_spec, 0)
            for tag, key in layout.index_keys.items():
                features[key] = self._io_feature(key, piece.adjacency_spec[tag])
            for name, key in layout.features.items():
                field_spec = piece[name]
                example_layout.check_inner_dimensions(key, field_spec)
                fill = self._fills.get(key)
                default = None if fill is None else fill.value
                features[key] = self._io_feature(key, field_spec, default)
                for dimension in _ragged_dimensions(field_spec):
                    lengths_key = example_layout.row_lengths_key(key, dimension)
                    features[lengths_key] = _flat_feature(lengths_key, tf.int64)
        return tf.io.parse_example(serialized, features) if features else {}

    def _io_feature(self, key: str, spec: FieldSpec, default: Any = None) -> Any:
        dtype = example_layout.stored_dtype(spec.dtype, key)
        if isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined():
            if default is not None:
                default = np.broadcast_to(np.asarray(default, dtype.as_numpy_dtype), spec.shape.as_list())
            return tf.io.FixedLenFeature(spec.shape, dtype, default)
        return _flat_feature(key, dtype)

    def read(self, merge_indices: bool) -> FlatGraphs:
        sets = [self._read_sizes(layout) for layout in self._layouts[1:]]
        context = self._context_frame(sets)
        sets = [context, *sets]
        for flat_set in sets:
            for name, key in flat_set.layout.features.items():
                flat_set.features[name] = self._read_field(key, flat_set.spec[name], flat_set)
            for tag, key in flat_set.layout.index_keys.items():
                index = self._read_field(key, flat_set.spec.adjacency_spec[tag], flat_set)
                flat_set.indices[tag] = index.values
        dependencies = self._checks.assertions() if self._validate else []
        with tf.control_dependencies(dependencies):
            self._finish_fields(sets)
            self._finish_indices(sets, merge_indices)
        return FlatGraphs(self._num_examples, self._static_num_examples, sets)

    def _read_sizes(self, layout: SetLayout) -> FlatSet:
        spec = example_layout.piece_spec(self._spec, layout)
        parsed = self._parsed[layout.size_key]
        if isinstance(parsed, tf.RaggedTensor):
            sizes, component_splits = parsed.flat_values, parsed.row_splits
            item_splits = tf.gather(_running_sum(sizes), component_splits)
        else:
            sizes = tf.reshape(parsed, [-1])
            num_components = spec.sizes_spec.shape[0]
            component_splits = self._uniform_splits(num_components)
            per_example = sizes if num_components == 1 else tf.reduce_sum(parsed, axis=1)
            item_splits = _running_sum(per_example)
        self._checks.add_counts(sizes, layout.size_key, self._spec.indices_dtype)
        self._checks.add_counts(item_splits[-1:], layout.size_key, self._spec.indices_dtype)
        return FlatSet(
            layout=layout,
            spec=spec,
            sizes=sizes,
            component_splits=component_splits,
            item_splits=item_splits,
        )

    def _context_frame(self, sets: list[FlatSet]) -> FlatSet:
        """Finds out the number of components of each example, and checks that sets agree."""
        layout, spec = self._layouts[0], self._spec.context_spec
        static = spec.sizes_spec.shape[0]
        if static is not None:
            splits = self._uniform_splits(static)
        elif sets:
            splits = sets[0].component_splits
        else:
            splits = self._component_splits_of_features(layout)
        for flat_set in sets:
            if not (static is not None and flat_set.spec.sizes_spec.shape[0] == static):
                self._checks.add_splits(flat_set.component_splits, splits, flat_set.layout.size_key)
        return FlatSet(layout=layout, spec=spec, sizes=None, component_splits=splits, item_splits=splits)

    def _component_splits_of_features(self, layout: SetLayout) -> tf.Tensor:
        """Derives the number of components from a context feature, where there are no sets."""
        for name, key in layout.features.items():
            field_spec = self._spec.context_spec[name]
            per_row = math.prod(size for size in field_spec.shape[1:] if size is not None)
            ragged = _ragged_dimensions(field_spec)
            if not ragged and per_row:
                return self._parsed[key].row_splits // per_row
            if ragged == [1]:
                lengths_key = example_layout.row_lengths_key(key, 1)
                return self._parsed[lengths_key].row_splits
        return self._uniform_splits(0)

    def _read_field(self, key: str, spec: FieldSpec, flat_set: FlatSet) -> FlatField:
        parsed = self._parsed[key]
        if not isinstance(parsed, tf.RaggedTensor):
            expected = self._uniform_splits(spec.shape[0])
            if expected is not flat_set.item_splits:
                self._checks.add_splits(expected, flat_set.item_splits, key)
            total = expected[-1]
            return FlatField(values=tf.reshape(parsed, [-1]), spec=spec, num_rows=[total])
        splits = flat_set.item_splits
        if spec.shape[0] is not None:
            self._checks.add_splits(splits, self._uniform_splits(spec.shape[0]), key)
        field = FlatField(values=parsed.flat_values, spec=spec, num_rows=[splits[-1]])
        ragged_rank = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
        for dimension in range(1, ragged_rank + 1):
            size = spec.shape[dimension]
            if size is not None:
                field.partitions.append(size)
                splits = splits * size
            else:
                lengths_key = example_layout.row_lengths_key(key, dimension)
                lengths = self._parsed[lengths_key]
                self._checks.add_splits(lengths.row_splits, splits, lengths_key)
                self._checks.add_counts(lengths.flat_values, lengths_key, tf.int64)
                row_splits = _running_sum(lengths.flat_values)
                field.partitions.append(row_splits)
                splits = tf.gather(row_splits, lengths.row_splits)
            field.num_rows.append(splits[-1])
        num_values = math.prod(spec.shape[ragged_rank + 1 :].as_list())
        expected = splits if num_values == 1 else splits * num_values
        actual = parsed.row_splits
        fill = self._fills.get(key)
        if fill is not None:
            actual, field.values = fill.apply(parsed, expected, num_values)
        self._checks.add_splits(actual, expected, key)
        return field

    def _finish_fields(self, sets: list[FlatSet]) -> None:
        """Casts sizes, and ties everything to the checks."""
        for flat_set in sets:
            if flat_set.sizes is not None:
                flat_set.sizes = tf.cast(tf.identity(flat_set.sizes), self._spec.indices_dtype)
            for field in flat_set.features.values():
                field.values = tf.identity(field.values)

    def _finish_indices(self, sets: list[FlatSet], merge_indices: bool) -> None:
        """Checks node indices and, if wanted, shifts them; all edge sets in one go."""
        node_splits = {
            flat_set.layout.set_name: flat_set.item_splits for flat_set in sets if flat_set.layout.set_type == NODES
        }
        ends = [
            (flat_set, tag, node_splits[flat_set.spec.adjacency_spec.node_set_name(tag)])
            for flat_set in sets
            if flat_set.layout.set_type == EDGES
            for tag in flat_set.indices
        ]
        if not ends:
            return
        indices = tf.concat([flat_set.indices[tag] for flat_set, tag, _ in ends], axis=0)
        lengths = tf.concat([_lengths(flat_set.item_splits) for flat_set, _, _ in ends], axis=0)
        dependencies = []
        if self._validate:
            num_nodes = tf.concat([_lengths(splits) for _, _, splits in ends], axis=0)
            keys = [flat_set.layout.index_keys[tag] for flat_set, tag, _ in ends]
            dependencies = [check_indices(indices, num_nodes, lengths, keys, self._num_examples)]
        with tf.control_dependencies(dependencies):
            result = tf.identity(indices)
            if merge_indices:
                offsets = tf.concat([splits[:-1] for _, _, splits in ends], axis=0)
                result = result + repeat_values(offsets, lengths)
            result = tf.cast(result, self._spec.indices_dtype)
        counts = [tf.size(flat_set.indices[tag], out_type=tf.int64) for flat_set, tag, _ in ends]
        for (flat_set, tag, _), index in zip(ends, tf.split(result, counts), strict=True):
            flat_set.indices[tag] = index

    def _uniform_splits(self, count: int) -> tf.Tensor:
        """Returns the splits of examples with `count` items each."""
        if self._static_num_examples is not None:
            return tf.constant(np.arange(self._static_num_examples + 1) * count, tf.int64)
        return tf.range(self._num_examples + 1) * count


def _ragged_dimensions(spec: FieldSpec) -> list[int]:
    if not isinstance(spec, tf.RaggedTensorSpec):
        return []
    return [i for i in range(1, spec.ragged_rank + 1) if spec.shape[i] is None]


def _flat_feature(key: str, dtype: tf.DType) -> tf.io.RaggedFeature:
    return tf.io.RaggedFeature(dtype, value_key=key, row_splits_dtype=tf.int64, validate=False)


def _running_sum(lengths: tf.Tensor) -> tf.Tensor:
    """Returns row splits of rows with the given lengths."""
    return tf.concat([tf.zeros([1], tf.int64), tf.cumsum(lengths)], axis=0)


def _lengths(splits: tf.Tensor) -> tf.Tensor:
    return splits[1:] - splits[:-1]
