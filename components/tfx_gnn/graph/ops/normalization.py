"""Softmax across the edges of a node, or across the nodes or edges of a graph component."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import broadcast
from tfx_gnn.graph.ops.gates import gated
from tfx_gnn.graph.ops.pooling import feature_values, reduce_to_receivers
from tfx_gnn.graph.ops.tags import ItemSets, NameOrNames, resolve_item_sets
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.run_time_checks import wrong_dtype
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def softmax(
    graph_tensor: GraphTensor,
    per_tag: const.IncidentNodeOrContextTag,
    *,
    edge_set_name: NameOrNames = None,
    node_set_name: NameOrNames = None,
    feature_value: Sequence[const.Field] | const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> list[const.Field] | const.Field:
    """Normalizes values by softmax over all items that share a node, or a graph component.

    Args:
        graph_tensor: a scalar graph.
        per_tag: which items to normalize together: `CONTEXT` for all items of a component, or an
            end of the edges, such as `TARGET`, for all edges with the same node at that end.
        edge_set_name: the edge set, or a non-empty sequence of edge sets, to normalize over.
            Unless `per_tag` is `CONTEXT`, they must have the same node set at that end.
        node_set_name: the node set, or a non-empty sequence of node sets, to normalize over; only
            with `CONTEXT`, and then either this or `edge_set_name`.
        feature_value: float, dense or ragged, shape [num_items, *feature_shape]; a sequence of
            such fields if and only if the sets are given as a sequence. Either this or
            `feature_name`. Softmax is taken separately for each element of `feature_shape`.
        feature_name: name of a feature that each of the sets has.

    Returns:
        Field of the same shape and dtype, or a list of such fields for a sequence of sets.

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.
        tf.errors.InvalidArgumentError: if the values are not floating-point; TypeError in a
            tf.function.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2, 0, 1]), target=tf.constant([1, 1, 0]), node_features=tf.zeros([3, 1]),
        ...     edge_features={"score": tf.constant([7., 7., 7.])})
        >>> tfx_gnn.softmax(graph, tfx_gnn.TARGET, edge_set_name="edges", feature_name="score").numpy().tolist()
        [0.5, 0.5, 1.0]
    """
    caller = "softmax()"
    check_scalar_graph_tensor(graph_tensor, caller)
    item_sets = resolve_item_sets(per_tag, edge_set_name=edge_set_name, node_set_name=node_set_name, caller=caller)
    values = feature_values(graph_tensor, item_sets, feature_value, feature_name, caller=caller)
    if not values[0].dtype.is_floating:
        raise wrong_dtype(
            f"{caller} requires floating-point values; got {values[0].dtype.name} "
            f"from {list(item_sets.names)}. Cast them first."
        )
    # The maximum only keeps exp() in range; its gradient cancels out.
    with gated(None):
        maxima = reduce_to_receivers(graph_tensor, item_sets, values, "max", caller=caller)
    highest = _broadcast_back(graph_tensor, item_sets, _stop_gradient(maxima))
    exponentials = [tf.exp(value - top) for value, top in zip(values, highest, strict=True)]
    with gated(None):
        sums = reduce_to_receivers(graph_tensor, item_sets, exponentials, "sum", caller=caller)
    normalized = [
        value / total for value, total in zip(exponentials, _broadcast_back(graph_tensor, item_sets, sums), strict=True)
    ]
    return normalized if item_sets.came_as_sequence else normalized[0]


@becomes_keras_layer
def softmax_edges_per_node(
    graph_tensor: GraphTensor,
    edge_set_name: const.EdgeSetName,
    node_tag: const.IncidentNodeTag,
    *,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Normalizes values of edges by softmax over the edges that share a node.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set.
        node_tag: the end at which the node is shared, such as `TARGET`.
        feature_value: float, shape [num_edges, *feature_shape]. Either this or `feature_name`.
        feature_name: name of a feature of the edge set.

    Returns:
        Field of the same shape and dtype, see `softmax`.

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.
        tf.errors.InvalidArgumentError: if the values are not floating-point; TypeError in a
            tf.function.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.softmax_edges_per_node(
        ...     graph, "edges", tfx_gnn.TARGET, feature_value=tf.constant([1.0, 2.0])).numpy().tolist()
        [1.0, 1.0]
    """
    return softmax(
        graph_tensor,
        node_tag,
        edge_set_name=edge_set_name,
        feature_value=feature_value,
        feature_name=feature_name,
    )


def _broadcast_back(graph: GraphTensor, item_sets: ItemSets, value: const.Field) -> list[const.Field]:
    names = list(item_sets.names)
    fields = broadcast(
        graph,
        item_sets.tag,
        edge_set_name=names if item_sets.are_edge_sets else None,
        node_set_name=None if item_sets.are_edge_sets else names,
        feature_value=value,
    )
    assert isinstance(fields, list)
    return fields


def _stop_gradient(value: const.Field) -> const.Field:
    if isinstance(value, tf.RaggedTensor):
        return tf.ragged.map_flat_values(tf.stop_gradient, value)
    return tf.stop_gradient(value)
