"""Broadcasts values from nodes to edges and from the context to nodes and edges."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops import sorted_aggregation
from tfx_gnn.graph.ops.tags import (
    NameOrNames,
    check_one_feature,
    common_node_set_name,
    resolve_item_sets,
)
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


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


@becomes_keras_layer
def broadcast_node_to_edges(
    graph_tensor: GraphTensor,
    edge_set_name: const.EdgeSetName,
    node_tag: const.IncidentNodeTag,
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Gives each edge the value of the node at one of its ends.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set that receives the values.
        node_tag: the end to read from, such as `SOURCE` or `TARGET`.
        feature_value: dense or ragged, shape [num_nodes, *feature_shape], over the node set at
            that end. Either this or `feature_name`.
        feature_name: name of a feature of that node set.

    Returns:
        Field of shape [num_edges, *feature_shape] and the dtype of the feature.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2, 0]), target=tf.constant([1, 1]), node_features=tf.constant([1., 2., 3.]))
        >>> tfx_gnn.broadcast_node_to_edges(
        ...     graph, "edges", tfx_gnn.SOURCE, feature_name="hidden_state").numpy().tolist()
        [3.0, 1.0]
    """
    caller = "broadcast_node_to_edges()"
    check_scalar_graph_tensor(graph_tensor, caller)
    check_one_feature(feature_value, feature_name, caller=caller)
    adjacency = graph_tensor.edge_sets[edge_set_name].adjacency
    if feature_name is not None:
        feature_value = graph_tensor.node_sets[adjacency.node_set_name(node_tag)][feature_name]
    if sorted_aggregation.applies(adjacency, node_tag, feature_value):
        return sorted_aggregation.SortedEdges(adjacency).copy(node_tag, feature_value)
    return tf.gather(feature_value, adjacency[node_tag])


@becomes_keras_layer
def broadcast_context_to_nodes(
    graph_tensor: GraphTensor,
    node_set_name: const.NodeSetName,
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Gives each node the value of its graph component.

    Args:
        graph_tensor: a scalar graph.
        node_set_name: the node set that receives the values.
        feature_value: dense or ragged, shape [num_components, *feature_shape]. Either this or
            `feature_name`.
        feature_name: name of a feature of the context.

    Returns:
        Field of shape [num_nodes, *feature_shape] and the dtype of the feature.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.zeros([3, 1]),
        ...     context_features={"year": tf.constant([2024])})
        >>> tfx_gnn.broadcast_context_to_nodes(graph, "nodes", feature_name="year").numpy().tolist()
        [2024, 2024, 2024]
    """
    return _broadcast_context(
        graph_tensor,
        graph_tensor.node_sets[node_set_name],
        feature_value,
        feature_name,
        "broadcast_context_to_nodes()",
    )


@becomes_keras_layer
def broadcast_context_to_edges(
    graph_tensor: GraphTensor,
    edge_set_name: const.EdgeSetName,
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Gives each edge the value of its graph component.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set that receives the values.
        feature_value: dense or ragged, shape [num_components, *feature_shape]. Either this or
            `feature_name`.
        feature_name: name of a feature of the context.

    Returns:
        Field of shape [num_edges, *feature_shape] and the dtype of the feature.

    Raises:
        ValueError: if the graph is not scalar, or not exactly one feature is given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.zeros([3, 1]),
        ...     context_features={"year": tf.constant([2024])})
        >>> tfx_gnn.broadcast_context_to_edges(graph, "edges", feature_name="year").numpy().tolist()
        [2024, 2024]
    """
    return _broadcast_context(
        graph_tensor,
        graph_tensor.edge_sets[edge_set_name],
        feature_value,
        feature_name,
        "broadcast_context_to_edges()",
    )


@becomes_keras_layer
def broadcast(
    graph_tensor: GraphTensor,
    from_tag: const.IncidentNodeOrContextTag,
    *,
    edge_set_name: NameOrNames = None,
    node_set_name: NameOrNames = None,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> list[const.Field] | const.Field:
    """Broadcasts from nodes to edges, or from the context to nodes or edges: the mirror image of `pool`.

    Args:
        graph_tensor: a scalar graph.
        from_tag: where values come from: `CONTEXT`, or the end of the edges, such as `SOURCE`.
        edge_set_name: the receiving edge set, or a non-empty sequence of edge sets. Unless
            `from_tag` is `CONTEXT`, they must have the same node set at that end.
        node_set_name: the receiving node set, or a non-empty sequence of node sets; only with
            `CONTEXT`, and then either this or `edge_set_name`.
        feature_value: dense or ragged, shape [num_items, *feature_shape], over the nodes or
            components where values come from. Either this or `feature_name`.
        feature_name: name of a feature of that node set, or of the context.

    Returns:
        Field of shape [num_receivers, *feature_shape] for one name; a list of such fields, in the
        same order, for a sequence of names.

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.broadcast(
        ...     graph, tfx_gnn.SOURCE, edge_set_name="edges", feature_name="hidden_state").numpy().tolist()
        [5.0, 6.0]
    """
    caller = "broadcast()"
    check_scalar_graph_tensor(graph_tensor, caller)
    check_one_feature(feature_value, feature_name, caller=caller)
    receivers = resolve_item_sets(from_tag, edge_set_name=edge_set_name, node_set_name=node_set_name, caller=caller)
    if isinstance(from_tag, int):
        common_node_set_name(graph_tensor, receivers.names, from_tag, caller=caller)
        results = [
            broadcast_node_to_edges(
                graph_tensor, name, from_tag, feature_value=feature_value, feature_name=feature_name
            )
            for name in receivers.names
        ]
    else:
        results = [
            _broadcast_context(graph_tensor, piece, feature_value, feature_name, caller)
            for piece in receivers.pieces(graph_tensor)
        ]
    return results if receivers.came_as_sequence else results[0]


def _broadcast_context(
    graph: GraphTensor,
    receiver: NodeSet | EdgeSet,
    feature_value: const.Field | None,
    feature_name: const.FieldName | None,
    caller: str,
) -> const.Field:
    check_scalar_graph_tensor(graph, caller)
    check_one_feature(feature_value, feature_name, caller=caller)
    if feature_name is not None:
        feature_value = graph.context[feature_name]
    return tf.gather(feature_value, component_indices(receiver.sizes, receiver.total_size))
