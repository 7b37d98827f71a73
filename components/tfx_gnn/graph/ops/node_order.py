"""Reorders nodes; shuffles features, and indices within their segments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_checks import num_items_of
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency, make_adjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, renumbered_index_features
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.run_time_checks import after_checks, wrong_dtype, wrong_shape
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def segment_random_index_shuffle(*, segment_ids: tf.Tensor, seed: int | None = None) -> tf.Tensor:
    """Draws a random permutation of indices that keeps each index within its segment.

    Args:
        segment_ids: int32 or int64 tensor, shape [n], non-decreasing: the segment of each index.
        seed: seed of the random operation, as for `tf.random.shuffle`.

    Returns:
        Tensor `result` of the same shape and dtype: a permutation of 0, ..., n-1, uniformly drawn
        from those with `segment_ids[result[i]] == segment_ids[i]` for all i. XLA-compatible.

    Raises:
        ValueError: if `segment_ids` has another rank or dtype.
        tf.errors.InvalidArgumentError: at run time, if `segment_ids` are not sorted.

    Example:
        >>> shuffled = tfx_gnn.experimental.segment_random_index_shuffle(segment_ids=tf.constant([0, 0, 1, 2, 2]))
        >>> sorted(shuffled.numpy()[:2].tolist()), int(shuffled[2])
        ([0, 1], 2)
    """
    segment_ids = tf.convert_to_tensor(segment_ids)
    if segment_ids.shape.rank != 1:
        raise ValueError(f"`segment_ids` must have rank=1, got {segment_ids.shape.rank}. Flatten it.")
    if segment_ids.dtype not in (tf.int32, tf.int64):
        raise ValueError(f"`segment_ids` must have dtype tf.int32 or tf.int64, got {segment_ids.dtype.name}. Cast it.")
    check = tf.debugging.assert_greater_equal(
        segment_ids[1:], segment_ids[:-1], message="`segment_ids` must be sorted in ascending order."
    )
    segment_ids = after_checks([check], segment_ids)
    # A stable sort of the shuffled ids undoes the shuffle between segments, but not within them.
    shuffled = tf.random.shuffle(tf.range(tf.size(segment_ids, segment_ids.dtype)), seed=seed)
    order = tf.argsort(tf.gather(segment_ids, shuffled), stable=True)
    return tf.ensure_shape(tf.gather(shuffled, order), segment_ids.shape)


@becomes_keras_layer
def reorder_nodes(
    graph_tensor: GraphTensor,
    node_indices: Mapping[const.NodeSetName, tf.Tensor],
    *,
    validate: bool = True,
    index_features: IndexFeatures | None = None,
) -> GraphTensor:
    """Reorders the nodes of some node sets and renumbers edges accordingly.

    Args:
        graph_tensor: a scalar graph.
        node_indices: by node set, a permutation of 0, ..., num_nodes-1: element i is the current
            index of the node that moves to position i. int32 or int64, shape [num_nodes].
        validate: whether to check at run time that the indices are permutations.
        index_features: features that hold indices of nodes (see `mark_index_features`), of the whole graph as edges
            do; they are renumbered, too.

    Returns:
        Scalar graph, with features in the new order and edges between the same nodes as before.

    Raises:
        ValueError: if the graph is not scalar, lacks an index feature, or a node set is unknown.
        tf.errors.InvalidArgumentError: if indices are not integers of rank 1 (TypeError or ValueError
            in a tf.function); at run time, if they are not a permutation, or an index feature refers to
            a node that the graph lacks.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0]), target=tf.constant([1]), node_features=tf.constant([5., 6., 7.]))
        >>> reordered = tfx_gnn.reorder_nodes(graph, {"nodes": tf.constant([2, 0, 1])})
        >>> reordered.node_sets["nodes"]["hidden_state"].numpy().tolist()
        [7.0, 5.0, 6.0]
        >>> reordered.edge_sets["edges"].adjacency.source.numpy().tolist()
        [1]
    """
    check_scalar_graph_tensor(graph_tensor, "reorder_nodes()")
    _check_known(graph_tensor, node_indices, "node_indices")
    check_index_features(graph_tensor.spec, index_features or {})
    order = {name: _checked_order(graph_tensor, name, index, validate=validate) for name, index in node_indices.items()}
    features = {
        name: {key: tf.gather(value, order[name]) for key, value in graph_tensor.node_sets[name].features.items()}
        for name in order
    }
    new_positions = {
        name: tf.scatter_nd(index[:, tf.newaxis], tf.range(tf.size(index, index.dtype)), tf.shape(index, index.dtype))
        for name, index in order.items()
    }
    reordered = graph_tensor.replace_features(node_sets=features)
    if index_features:
        reordered = renumbered_index_features(reordered, new_positions, index_features)
    edge_sets = {
        name: EdgeSet.from_fields(
            sizes=edge_set.sizes,
            features=edge_set.features,
            adjacency=_renumbered(edge_set.adjacency, new_positions),
        )
        for name, edge_set in reordered.edge_sets.items()
    }
    return GraphTensor.from_pieces(context=reordered.context, node_sets=reordered.node_sets, edge_sets=edge_sets)


@becomes_keras_layer
def shuffle_nodes(
    graph_tensor: GraphTensor,
    *,
    node_sets: Collection[const.NodeSetName] | None = None,
    seed: int | None = None,
    index_features: IndexFeatures | None = None,
) -> GraphTensor:
    """Shuffles nodes within their graph components and renumbers edges accordingly.

    Args:
        graph_tensor: a scalar graph.
        node_sets: node sets to shuffle; by default all except auxiliary ones, because
            `structured_readout` depends on their order.
        seed: seed of the random operation.
        index_features: as for `reorder_nodes`.

    Returns:
        Scalar graph, with edges between the same nodes as before.

    Raises:
        ValueError: if the graph is not scalar, or a node set is unknown.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> sorted(tfx_gnn.shuffle_nodes(graph).node_sets["nodes"]["hidden_state"].numpy().tolist())
        [5.0, 6.0, 7.0]
    """
    check_scalar_graph_tensor(graph_tensor, "shuffle_nodes()")
    if node_sets is None:
        node_sets = [name for name in graph_tensor.node_sets if get_aux_type_prefix(name) is None]
    _check_known(graph_tensor, node_sets, "node_sets")
    order = {}
    for name in node_sets:
        node_set = graph_tensor.node_sets[name]
        segment_ids = component_indices(node_set.sizes, num_items_of(node_set))
        order[name] = segment_random_index_shuffle(segment_ids=segment_ids, seed=seed)
    return reorder_nodes(graph_tensor, order, validate=False, index_features=index_features)


@becomes_keras_layer
def shuffle_features_globally(graph_tensor: GraphTensor, *, seed: int | None = None) -> GraphTensor:
    """Shuffles each feature independently over all items of its set.

    Edges and sizes do not change. The results serve as corrupted graphs for contrastive learning.
    The rows of a ragged feature keep their lengths; its values are shuffled across all rows.
    No gradients flow through the shuffle.

    Args:
        graph_tensor: a scalar graph.
        seed: seed of the random operations.

    Returns:
        Scalar graph, with shuffled features of the context and all sets, auxiliary ones included.

    Raises:
        ValueError: if the graph is not scalar.
    """
    check_scalar_graph_tensor(graph_tensor, "shuffle_features_globally()")

    def shuffled(piece: Any) -> dict[const.FieldName, const.Field]:
        return {name: _shuffle_items(value, seed) for name, value in piece.features.items()}

    return graph_tensor.replace_features(
        context=shuffled(graph_tensor.context),
        node_sets={name: shuffled(piece) for name, piece in graph_tensor.node_sets.items()},
        edge_sets={name: shuffled(piece) for name, piece in graph_tensor.edge_sets.items()},
    )


def _shuffle_items(value: const.Field, seed: int | None) -> const.Field:
    if not isinstance(value, tf.RaggedTensor):
        return tf.random.shuffle(value, seed=seed)
    rows = tf.random.shuffle(value.value_rowids(), seed=seed)
    return value.with_values(tf.gather(value.values, tf.argsort(rows)))


def _renumbered(adjacency: HyperAdjacency, new_positions: Mapping[str, tf.Tensor]) -> HyperAdjacency:
    indices = {
        tag: (name, tf.cast(tf.gather(new_positions[name], index), index.dtype) if name in new_positions else index)
        for tag, (name, index) in adjacency.get_indices_dict().items()
    }
    return make_adjacency(indices, like=adjacency)


def _checked_order(graph: GraphTensor, name: const.NodeSetName, index: Any, *, validate: bool) -> tf.Tensor:
    index = tf.convert_to_tensor(index)
    rule = f"`node_indices` must be tf.int32 or tf.int64 tensors of rank=1; got {index.dtype.name}{index.shape}"
    if index.dtype not in (tf.int32, tf.int64):
        raise wrong_dtype(f"{rule} for '{name}'. Cast it.")
    if index.shape.rank != 1:
        raise wrong_shape(f"{rule} for '{name}'. Flatten it.")
    if not validate:
        return index
    num_nodes = tf.cast(graph.node_sets[name].total_size, index.dtype)
    same_size = tf.debugging.assert_equal(
        tf.size(index, index.dtype), num_nodes, message=f"Indices for {name} must have shape `[num_nodes]`."
    )
    index = after_checks([same_size], index)
    is_permutation = tf.debugging.assert_equal(
        tf.sort(index),
        tf.range(num_nodes),
        message=f"Indices for {name} are not valid `tf.range(num_nodes)` permutation.",
    )
    return after_checks([is_permutation], index)


def _check_known(graph: GraphTensor, names: Collection[const.NodeSetName], argument: str) -> None:
    unknown = sorted(set(names) - set(graph.node_sets))
    if unknown:
        raise ValueError(
            f"`{argument}` contains non existing node sets: {unknown}. Known are {sorted(graph.node_sets)}."
        )
