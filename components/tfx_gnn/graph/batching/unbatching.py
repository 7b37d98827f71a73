"""Takes a merged batch apart: which component an item belongs to, and the components as graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.batching.index_shifts import component_sizes, shift_index_features
from tfx_gnn.graph.graph_constants import EdgeSetName, Field, NodeSetName
from tfx_gnn.graph.tensor import run_time_checks
from tfx_gnn.graph.tensor.batch_items import index_offsets, split_graph
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, named_set
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, shifted_index_features
from tfx_gnn.graph.tensor.piece_specs import ADJACENCY_PART, FEATURES_PART, SIZES_PART
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer, refuses_keras_tensors


@becomes_keras_layer
def component_ids(
    graph_tensor: GraphTensor,
    *,
    node_set_name: NodeSetName | None = None,
    edge_set_name: EdgeSetName | None = None,
) -> tf.Tensor:
    """Returns the component that each node or edge belongs to.

    In a batch merged from graphs of one component each, this is the position of the graph in the batch: `batch` of
    PyG. After padding, padding items belong to padding components, which come last.

    Args:
        graph_tensor: scalar graph.
        node_set_name: the nodes. Either this or `edge_set_name`.
        edge_set_name: the edges.

    Returns:
        Integer tensor of shape [num_nodes] or [num_edges] and the graph's indices dtype, non-decreasing. Its shape is
        static and it is XLA-compatible if the size of the set is static, as it is after padding to ints.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one set is named.
        KeyError: if there is no such set.

    Example:
        >>> nodes = tfx_gnn.NodeSet.from_fields(sizes=[3, 2, 4], features={"x": tf.zeros([9])})
        >>> graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"nodes": nodes})
        >>> tfx_gnn.component_ids(graph, node_set_name="nodes").numpy().tolist()
        [0, 0, 0, 1, 1, 2, 2, 2, 2]
    """
    check_scalar_graph_tensor(graph_tensor, "component_ids()")
    piece = named_set(graph_tensor, node_set_name, edge_set_name, "component_ids()")
    return component_indices(piece.sizes, piece.total_size)


@becomes_keras_layer
def component_offsets(
    graph_tensor: GraphTensor,
    *,
    node_set_name: NodeSetName | None = None,
    edge_set_name: EdgeSetName | None = None,
) -> tf.Tensor:
    """Returns where the nodes or edges of each component begin, and where the last one ends.

    Component i has the items from `offsets[i]` to `offsets[i + 1]`. This is `ptr` of PyG.

    Args:
        graph_tensor: scalar graph.
        node_set_name: the nodes. Either this or `edge_set_name`.
        edge_set_name: the edges.

    Returns:
        Integer tensor of shape [num_components + 1] and the graph's indices dtype, non-decreasing, from 0 to the
        number of items.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one set is named.
        KeyError: if there is no such set.

    Example:
        >>> nodes = tfx_gnn.NodeSet.from_fields(sizes=[3, 2, 4])
        >>> graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"nodes": nodes})
        >>> tfx_gnn.component_offsets(graph, node_set_name="nodes").numpy().tolist()
        [0, 3, 5, 9]
    """
    check_scalar_graph_tensor(graph_tensor, "component_offsets()")
    return _offsets(named_set(graph_tensor, node_set_name, edge_set_name, "component_offsets()").sizes)


def _offsets(sizes: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros([1], sizes.dtype), tf.cumsum(sizes)], axis=0)


@refuses_keras_tensors()
def unmerge_components(graph_tensor: GraphTensor, *, index_features: IndexFeatures | None = None) -> GraphTensor:
    """Turns each component of a scalar graph into a graph of a batch.

    This is the inverse of `GraphTensor.merge_batch_to_components` for batches of graphs with one component each, and
    merging the result always gives the graph back. How components were grouped before they were merged is not stored
    in a graph: graphs of several components come back as several graphs. Padding components become graphs, too.

    Args:
        graph_tensor: scalar graph; no edge joins two components. This is checked if
            `enable_graph_tensor_validation_at_runtime` is on.
        index_features: features that hold indices of nodes (see `mark_index_features`), to count from the first node
            of their component again; those of components without nodes, which may be padding, become -1. Other
            features are not changed.

    Returns:
        Graph of shape [num_components], each with one component. Features of nodes and edges, and the ends of edges,
        are ragged; features of the context have shape [num_components, 1, ...].

    Raises:
        ValueError: if the graph is not scalar, or lacks an index feature.
        tf.errors.InvalidArgumentError: at run time, if an index feature refers to a node of another component.

    Example:
        >>> nodes = tfx_gnn.NodeSet.from_fields(sizes=[1, 2], features={"x": [5, 6, 7]})
        >>> batch = tfx_gnn.unmerge_components(tfx_gnn.GraphTensor.from_pieces(node_sets={"nodes": nodes}))
        >>> batch.node_sets["nodes"]["x"].to_list()
        [[5], [6, 7]]
        >>> batch[1].node_sets["nodes"]["x"].numpy().tolist()
        [6, 7]
    """
    check_scalar_graph_tensor(graph_tensor, "unmerge_components()")
    if index_features:
        graph_tensor = shift_index_features(graph_tensor, index_features, backward=True)
    starts = {name: _offsets(node_set.sizes)[:-1] for name, node_set in graph_tensor.node_sets.items()}
    batch = GraphTensor._from_parts(
        _unmerge_piece(graph_tensor.context),
        {name: _unmerge_piece(node_set) for name, node_set in graph_tensor.node_sets.items()},
        {
            name: _unmerge_piece(edge_set, **{ADJACENCY_PART: _unmerge_adjacency(edge_set, starts)})
            for name, edge_set in graph_tensor.edge_sets.items()
        },
        row_splits_dtype=graph_tensor.row_splits_dtype,
    )
    if not run_time_checks.checks_at_runtime():
        return batch
    return run_time_checks.after_checks(run_time_checks.assert_valid(batch), batch)


def _unmerge_piece(piece: Any, **more_parts: Any) -> Any:
    dtype = piece.row_splits_dtype
    sizes = piece.sizes[:, tf.newaxis]
    if isinstance(piece, Context):
        features = {name: _one_per_row(feature, dtype) for name, feature in piece.features.items()}
    else:
        lengths = tf.cast(piece.sizes, dtype)
        features = {name: _rows(feature, lengths) for name, feature in piece.features.items()}
    parts = {SIZES_PART: sizes, FEATURES_PART: features, **more_parts}
    return piece._assemble(parts, shape=sizes.shape[:1], row_splits_dtype=dtype)


def _one_per_row(field: Field, dtype: tf.DType) -> Field:
    if isinstance(field, tf.RaggedTensor):
        return tf.RaggedTensor.from_uniform_row_length(
            field, tf.constant(1, dtype), nrows=field.nrows(dtype), validate=False
        )
    return field[:, tf.newaxis]


def _rows(field: Field, lengths: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(field, lengths, validate=False)


def _unmerge_adjacency(edge_set: EdgeSet, node_offsets: Mapping[NodeSetName, tf.Tensor]) -> Any:
    adjacency = edge_set.adjacency
    offsets = index_offsets(adjacency, node_offsets, _offsets(edge_set.sizes)[:-1])
    edge_components = component_indices(edge_set.sizes, edge_set.total_size)
    lengths = tf.cast(edge_set.sizes, edge_set.row_splits_dtype)
    parts = {
        key: _rows(index - tf.gather(offsets[key], edge_components), lengths) for key, index in adjacency._parts.items()
    }
    return adjacency._assemble(
        parts,
        shape=edge_set.sizes.shape,
        static=adjacency._given_spec._static,
        row_splits_dtype=edge_set.row_splits_dtype,
    )


@refuses_keras_tensors()
def split_components(
    graph_tensor: GraphTensor,
    *,
    component_mask: npt.ArrayLike | tf.Tensor | None = None,
    index_features: IndexFeatures | None = None,
) -> list[GraphTensor]:
    """Returns each component of a scalar graph as a graph of its own.

    It takes one pass over each tensor, so it is faster than indexing the result of `unmerge_components`.

    Args:
        graph_tensor: eager scalar graph.
        component_mask: bools of shape [num_components], True for the components to return, such as the second result
            of `pad_to_total_sizes`. By default all are returned, also those of padding. Padding edges may join
            padding components if there are several.
        index_features: as for `unmerge_components`; only those of components to return are checked.

    Returns:
        Scalar graphs with one component each, in order; none if the graph has no components.

    Raises:
        ValueError: if the graph is not scalar or its values are not known, `component_mask` does not have one bool per
            component, or an edge leads from a component to return to another one.
        tf.errors.InvalidArgumentError: if an index feature of a component to return refers to a node of another one.

    Example:
        >>> nodes = tfx_gnn.NodeSet.from_fields(sizes=[1, 2], features={"x": [5, 6, 7]})
        >>> graphs = tfx_gnn.split_components(tfx_gnn.GraphTensor.from_pieces(node_sets={"nodes": nodes}))
        >>> [graph.node_sets["nodes"]["x"].numpy().tolist() for graph in graphs]
        [[5], [6, 7]]
    """
    check_scalar_graph_tensor(graph_tensor, "split_components()")
    if not hasattr(graph_tensor.context.sizes, "numpy"):
        raise ValueError(
            "`graph_tensor` must have known values; got symbolic tensors. Call unmerge_components() in a tf.function."
        )
    num_components = int(graph_tensor.total_num_components)
    kept = np.ones(num_components, bool) if component_mask is None else np.asarray(component_mask)
    if kept.dtype != bool or kept.shape != (num_components,):
        raise ValueError(
            f"`component_mask` must have one bool per graph component; got {kept.dtype} of shape={kept.shape} for "
            f"{num_components} components. Take the second result of pad_to_total_sizes()."
        )
    if index_features:
        check_index_features(graph_tensor.spec, index_features)
        graph_tensor = shifted_index_features(
            graph_tensor,
            component_sizes(graph_tensor),
            index_features,
            backward=True,
            is_real=None if component_mask is None else tf.constant(kept),
        )
    return split_graph(graph_tensor, np.ones(num_components, np.int64), kept)
