"""Graphs of a batch as flat values by field, before shapes are restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.codec.example_layout import SetLayout
from tfx_gnn.graph.codec.parsing_checks import EdgeEnds
from tfx_gnn.graph.codec.size_table import SizeTable
from tfx_gnn.graph.graph_constants import Field, FieldSpec
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


@dataclasses.dataclass
class FlatField:
    """One field of all examples, items of earlier examples first.

    Attributes:
        values: stored values, shape [total_values].
        spec: spec of the field in one graph.
        partitions: for each dimension from 1 up to the last ragged one, the row splits over all
            examples, or the row length if it is uniform.
        num_rows: for each dimension from 0, its total number of rows, where it is needed.
        fill: returns the values with those that examples lack filled in, if any may be; it relies
            on their numbers, so it is called when they are checked.
    """

    values: tf.Tensor
    spec: FieldSpec
    partitions: list[tf.Tensor | int] = dataclasses.field(default_factory=list)
    num_rows: list[tf.Tensor] = dataclasses.field(default_factory=list)
    fill: Callable[[], tf.Tensor] | None = None

    @property
    def is_vector(self) -> bool:
        """Whether the values are the items as they are."""
        return self.spec.shape.rank == 1

    def items(self, row_splits_dtype: tf.DType, total: int | None) -> Field:
        """Returns the field with the items of all examples in dimension 0; `total` is their static number, if known."""
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
                    values,
                    tf.constant(partition, row_splits_dtype),
                    nrows=tf.cast(self.num_rows[level], row_splits_dtype),
                    validate=False,
                )
            else:
                splits = tf.cast(partition, row_splits_dtype)
                values = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return values if total is None else fields.with_item_count(values, total)


@dataclasses.dataclass
class FlatSet:
    """One piece of the graphs of all examples.

    Attributes:
        layout: where the piece is stored.
        spec: spec of the piece in one graph.
        component_splits: running number of components, int64 of shape [num_examples + 1].
        table: sizes of all sets.
        row: which row of the table is about this one; None for a context.
        sizes: sizes of all components of all examples, of the index dtype; None for a context.
        features: feature names to fields.
        indices: SOURCE and TARGET to node indices, of the index dtype.
    """

    layout: SetLayout
    spec: Any
    component_splits: tf.Tensor
    table: SizeTable
    row: int | None = None
    sizes: tf.Tensor | None = None
    features: dict[str, FlatField] = dataclasses.field(default_factory=dict)
    indices: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)

    @property
    def item_splits(self) -> tf.Tensor:
        """Running number of items, int64 of shape [num_examples + 1]."""
        return self.component_splits if self.row is None else self.table.item_splits[self.row]


@dataclasses.dataclass
class FlatGraphs:
    """The graphs of all examples.

    Attributes:
        static_num_examples: number of examples if it is known statically, else None.
        sets: the context, then node sets, then edge sets.
        table: sizes of all sets but the context.
        ends: node indices of all edge sets; None if there are none.
    """

    static_num_examples: int | None
    sets: list[FlatSet]
    table: SizeTable
    ends: EdgeEnds | None


def finish_flat(spec: GraphTensorSpec, flat: FlatGraphs, *, merge_indices: bool) -> None:
    """Adds sizes and node indices to the sets, and completes features; called under dependencies on the checks.

    With `merge_indices`, node indices count from the first node of all examples.
    """
    dtype = spec.indices_dtype
    for flat_set, sizes in zip(flat.sets[1:], flat.table.flat_sizes(dtype), strict=True):
        flat_set.sizes = sizes
    finish_features(flat, keep_vectors=merge_indices)
    if flat.ends is not None:
        separated = iter(flat.ends.separate(dtype, merge=merge_indices))
        for flat_set in flat.sets:
            for tag in flat_set.layout.index_keys:
                flat_set.indices[tag] = next(separated)


def finish_features(flat: FlatGraphs, *, keep_vectors: bool) -> None:
    """Fills in default values, and makes values wait for the checks, under whose control dependencies it is called.

    With `keep_vectors` plain vectors need not wait: nothing that is done to them can fail.
    """
    for flat_set in flat.sets:
        for field in flat_set.features.values():
            field.num_rows = [tf.identity(num_rows) for num_rows in field.num_rows]
            if field.fill is not None:
                field.values = field.fill()
            elif not (keep_vectors and field.is_vector):
                field.values = tf.identity(field.values)
