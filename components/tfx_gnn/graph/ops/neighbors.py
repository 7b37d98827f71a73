"""Pools values of neighbor nodes: broadcasts them to edges, then pools them at the other end."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops import sorted_aggregation
from tfx_gnn.graph.ops.broadcasting import broadcast
from tfx_gnn.graph.ops.gates import are_gates_active
from tfx_gnn.graph.ops.pooling import join, pool
from tfx_gnn.graph.ops.sorted_aggregation import SortedEdges, sums_and_means
from tfx_gnn.graph.ops.tags import check_one_feature, common_node_set_name, reverse_tag
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def pool_neighbors_to_node(
    graph_tensor: GraphTensor,
    edge_set_name: Sequence[const.EdgeSetName] | const.EdgeSetName,
    to_tag: const.IncidentNodeTag,
    *,
    reduce_type: str,
    from_tag: const.IncidentNodeTag | None = None,
    feature_value: const.Field | None = None,
    feature_name: const.FieldName | None = None,
) -> const.Field:
    """Pools values of the nodes at one end of the edges to the nodes at the other.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: the edge set, or a non-empty sequence of edge sets that connect the same
            two node sets, to pool along.
        to_tag: the receiving end, such as `TARGET`.
        reduce_type: as for `pool`.
        from_tag: the end to read from; by default, the opposite end. Required for hyperedges.
        feature_value: shape [num_senders, *feature_shape]. Either this or `feature_name`.
        feature_name: name of a feature of the node set to read from.

    Returns:
        Field of shape [num_receivers, *feature_shape], see `pool`.

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.
        KeyError: if `reduce_type` names an unknown reduction.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2, 0]), target=tf.constant([1, 1]), node_features=tf.constant([1., 2., 3.]))
        >>> tfx_gnn.pool_neighbors_to_node(
        ...     graph, "edges", tfx_gnn.TARGET, reduce_type="sum", feature_name="hidden_state").numpy().tolist()
        [0.0, 4.0, 0.0]
    """
    caller = "pool_neighbors_to_node()"
    check_scalar_graph_tensor(graph_tensor, caller)
    check_one_feature(feature_value, feature_name, caller=caller)
    if from_tag is None:
        from_tag = reverse_tag(to_tag)
    names = [edge_set_name] if isinstance(edge_set_name, str) else list(edge_set_name)
    for tag, argument in ((from_tag, "from_tag"), (to_tag, "to_tag")):
        node_set_names = [graph_tensor.edge_sets[name].adjacency.node_set_name(tag) for name in names]
        if len(set(node_set_names)) != 1:
            raise ValueError(
                f"Expected that {names} edges have the same {argument}={tag} node set, got {node_set_names}. "
                f"Call {caller} for each group of edge sets."
            )
    adjacencies = [graph_tensor.edge_sets[name].adjacency for name in names]
    # Gates need a value for each edge.
    can_skip_edges = from_tag != to_tag and not are_gates_active()
    if can_skip_edges and set(reduce_type.split("|")) <= sorted_aggregation.REDUCE_TYPES:
        value = feature_value
        if feature_name is not None:
            value = graph_tensor.node_sets[adjacencies[0].node_set_name(from_tag)][feature_name]
        if all(sorted_aggregation.applies(adjacency, to_tag, value) for adjacency in adjacencies):
            num_nodes = graph_tensor.node_sets[adjacencies[0].node_set_name(to_tag)].total_size
            return _pool_sorted(adjacencies, to_tag, value, num_nodes, reduce_type)
    values = broadcast(
        graph_tensor, from_tag, edge_set_name=names, feature_value=feature_value, feature_name=feature_name
    )
    return pool(graph_tensor, to_tag, edge_set_name=names, reduce_type=reduce_type, feature_value=values)


def _pool_sorted(
    adjacencies: Sequence[SortedAdjacency],
    to_tag: const.IncidentNodeTag,
    value: tf.Tensor,
    num_nodes: tf.Tensor,
    reduce_type: str,
) -> const.Field:
    """Pools without materializing a value per edge."""
    total = tf.add_n([SortedEdges(adjacency).sum_neighbors(to_tag, value, num_nodes) for adjacency in adjacencies])
    receivers = [adjacency[to_tag] for adjacency in adjacencies]
    results = sums_and_means(reduce_type.split("|"), total, receivers, num_nodes)
    return join(results, reduce_type, "pool()")


@becomes_keras_layer
def pool_neighbors_to_node_feature(
    graph_tensor: GraphTensor,
    edge_set_name: Sequence[const.EdgeSetName] | const.EdgeSetName,
    to_tag: const.IncidentNodeTag,
    *,
    reduce_type: str,
    feature_name: const.FieldName,
    to_feature_name: const.FieldName | None = None,
    from_tag: const.IncidentNodeTag | None = None,
) -> GraphTensor:
    """Pools a feature of neighbor nodes and stores it as a feature of the receiving nodes.

    Args:
        graph_tensor: a scalar graph.
        edge_set_name: as for `pool_neighbors_to_node`.
        to_tag: as for `pool_neighbors_to_node`.
        reduce_type: as for `pool`.
        feature_name: name of the feature to read.
        to_feature_name: name of the feature to write; by default, `feature_name`. An existing
            feature of that name is replaced.
        from_tag: as for `pool_neighbors_to_node`.

    Returns:
        Graph with the new feature of shape [num_receivers, *feature_shape].

    Raises:
        ValueError: if the graph is not scalar or the arguments do not go together.
        KeyError: if `reduce_type` names an unknown reduction.
    """
    pooled = pool_neighbors_to_node(
        graph_tensor,
        edge_set_name,
        to_tag,
        reduce_type=reduce_type,
        from_tag=from_tag,
        feature_name=feature_name,
    )
    names = [edge_set_name] if isinstance(edge_set_name, str) else list(edge_set_name)
    receiver = common_node_set_name(graph_tensor, names, to_tag, caller="pool_neighbors_to_node_feature()")
    features = graph_tensor.node_sets[receiver].get_features_dict()
    features[to_feature_name or feature_name] = pooled
    return graph_tensor.replace_features(node_sets={receiver: features})
