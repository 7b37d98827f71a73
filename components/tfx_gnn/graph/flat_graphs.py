"""Graphs of a batch of tf.Examples as flat values, before they are given their shapes."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.edge_ends import EdgeEnds
from tfx_gnn.graph.example_layout import SetLayout
from tfx_gnn.graph.flat_fields import FlatField
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.size_table import SizeTable


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
    """Adds sizes and node indices to the sets, and completes features.

    Args:
        spec: as for `read_flat`.
        flat: the graphs; in a function, called under control dependencies on the checks.
        merge_indices: whether node indices count from the first node of all examples.
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
    """Fills in default values, and makes values wait for the checks.

    Args:
        flat: the graphs; in a function, called under control dependencies on the checks.
        keep_vectors: whether plain vectors need not wait: nothing that is done to them can fail.
    """
    for flat_set in flat.sets:
        for field in flat_set.features.values():
            field.num_rows = [tf.identity(num_rows) for num_rows in field.num_rows]
            if field.fill is not None:
                field.values = field.fill()
            elif not (keep_vectors and field.is_vector):
                field.values = tf.identity(field.values)
