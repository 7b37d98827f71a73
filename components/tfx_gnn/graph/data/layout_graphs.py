"""Makes graphs of collated examples by a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.data.columns import ArrayColumn, Column, Counts, starts_of
from tfx_gnn.graph.data.graph_layout import EdgeLayout, GraphLayout, Key
from tfx_gnn.graph.data.stores import StoreKey, Stores
from tfx_gnn.graph.graph_constants import SIZE_NAME, SOURCE, TARGET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

Path = tuple[StoreKey, str]
Columns = dict[StoreKey, dict[str, Column]]


def split_key(key: Key) -> Path:
    """Returns where a value is, and its name there."""
    if isinstance(key, str):
        return None, key
    if len(key) == 2:
        return key[0], key[1]
    if len(key) == 4:
        return (key[0], key[1], key[2]), key[3]
    raise ValueError(
        f"`key` must be a name, (node type, name) or (source type, relation, target type, name); got {key!r}."
    )


class GraphMaker:
    """Makes a graph of a batch."""

    def __init__(
        self, stores: Stores, columns: Columns, num_examples: int, *, layout: GraphLayout, indices_dtype: tf.DType
    ) -> None:
        self._stores = stores
        self._columns = columns
        self._num_examples = num_examples
        self._layout = layout
        self._dtype = tf.as_dtype(indices_dtype)

    def make(self) -> GraphTensor:
        """Returns a scalar graph with a component for each example."""
        ones = np.ones(self._num_examples, np.int64)
        sizes = {name: self._num_nodes(name) for name in self._layout.node_sets}
        return GraphTensor.from_pieces(
            context=Context.from_fields(
                features=self._features("the context", self._layout.context, ones), sizes=tf.constant(ones, self._dtype)
            ),
            node_sets={
                name: NodeSet.from_fields(
                    sizes=tf.constant(sizes[name], self._dtype),
                    features=self._features(f"node set {name!r}", features, sizes[name]),
                )
                for name, features in self._layout.node_sets.items()
            },
            edge_sets={name: self._edge_set(name, edges, sizes) for name, edges in self._layout.edge_sets.items()},
        )

    def _lookup(self, key: Key) -> tuple[Any, Column]:
        store_key, name = split_key(key)
        column = self._columns.get(store_key, {}).get(name)
        if column is None or name not in self._stores[store_key]:
            raise KeyError(f"`layout` must name keys of the batch; got {key!r}. Known are {list(self._stores[None])}.")
        return self._stores[store_key][name], column

    def _num_nodes(self, node_set: str) -> Counts:
        key = self._layout.size_key(node_set)
        value, column = self._lookup(key)
        if SIZE_NAME in self._layout.node_sets[node_set] and isinstance(column, ArrayColumn):
            return np.asarray(value, np.int64)
        if column.lengths is None:
            raise ValueError(f"`{key}` must hold arrays, to be a feature of node set {node_set!r}; got {type(value)}.")
        return column.lengths

    def _features(self, place: str, features: Mapping[str, Key], sizes: Counts) -> dict[str, tf.Tensor]:
        converted = {}
        for name, key in features.items():
            if name == SIZE_NAME:
                continue
            value, column = self._lookup(key)
            if not isinstance(column, ArrayColumn) or column.axis != 0 or not np.array_equal(column.lengths, sizes):
                found = column.lengths.tolist() if isinstance(column, ArrayColumn) else type(value).__name__
                raise ValueError(
                    f"`{key}` must hold arrays with one row per item of {place}, {sizes.tolist()}; got {found}. For "
                    "values of graphs, FieldRule(axis=None) makes a row of each."
                )
            converted[name] = tf.convert_to_tensor(value)
        return converted

    def _edge_set(self, name: str, edges: EdgeLayout, sizes: Mapping[str, Counts]) -> EdgeSet:
        index, column = self._lookup(edges.index)
        if not isinstance(column, ArrayColumn) or index.ndim != 2 or len(index) != 2 or column.axis != 1:
            raise ValueError(
                f"`{edges.index}` must have shape [2, num_edges]; got {np.shape(index)} in edge set {name!r}."
            )
        expected = np.stack([starts_of(sizes[end])[:-1] for end in (edges.source, edges.target)])
        shifts = np.zeros_like(expected) if column.shifts is None else column.shifts
        if not (np.broadcast_to(shifts, expected.shape) == expected).all():
            raise ValueError(
                f"`{edges.index}` must have grown by the numbers of nodes of {edges.source!r} and {edges.target!r}; "
                "got other increments. Make the batch with the same layout."
            )
        ends = (
            tf.convert_to_tensor(index, self._dtype)
            if index.dtype == self._dtype.as_numpy_dtype
            else tf.constant(index.astype(self._dtype.as_numpy_dtype))
        )
        return EdgeSet.from_fields(
            sizes=tf.constant(column.lengths, self._dtype),
            features=self._features(f"edge set {name!r}", edges.features, column.lengths),
            adjacency=Adjacency.from_indices((edges.source, ends[SOURCE]), (edges.target, ends[TARGET])),
        )
