"""One round of message passing over every relation of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Collection

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.graph_update import GraphUpdate
from tfx_gnn.keras.layers.next_state import NextStateFromConcat
from tfx_gnn.keras.layers.set_updates import NodeSetUpdate
from tfx_gnn.models.neighbor_mean import NeighborMean


def relational_graph_update(
    graph_spec: GraphTensorSpec,
    *,
    units: int | None,
    dropout_rate: float = 0.0,
    node_sets: Collection[const.NodeSetName] | None = None,
    edge_feature: const.FieldName | None = None,
) -> GraphUpdate:
    """Makes the layer that gives each node a new state from its own and from its neighbours'.

    A node set is updated from every edge set at either end of which it stands,
    in both directions where both ends are in it: means of neighbour states and
    edge features, and the numbers of neighbours, are concatenated with the old
    state and go through `state_block`. Auxiliary sets, whose names begin with "_", take
    no part.

    Args:
        graph_spec: spec of the graph: its sets, and which edge sets have `edge_feature`.
        units: width of the new states. None: the concatenation itself is the new state. Where
            few of many nodes are read out, reading first and mixing by `state_block` then
            gives the same result for less.
        dropout_rate: share of the new states' values that training leaves out, in [0, 1).
        node_sets: names of the node sets to update; others keep their state. None: all. The last
            round needs no more than those that are read out.
        edge_feature: float feature of shape [num_edges, k] to take along, of the edge sets
            that have it.

    Returns:
        Layer from a scalar graph, whose node sets have the feature "hidden_state", to the
        graph with new ones of shape [num_nodes, width].

    Raises:
        ValueError: if `node_sets` names none that could be updated, or `units` is below 1.
    """
    known = sorted(name for name in graph_spec.node_sets_spec if not name.startswith("_"))
    chosen = known if node_sets is None else list(node_sets)
    unknown = sorted(set(chosen) - set(known))
    if unknown or not chosen:
        raise ValueError(
            f"`node_sets` must name node sets among {known}; got {list(chosen)}. Auxiliary sets have no state."
        )
    updates = {}
    for name in chosen:
        mix = tf_keras.layers.Activation("linear") if units is None else state_block(units, dropout_rate)
        updates[name] = NodeSetUpdate(_neighbor_means(graph_spec, name, edge_feature), NextStateFromConcat(mix))
    return GraphUpdate(node_sets=updates)


def state_block(units: int, dropout_rate: float = 0.0) -> tf_keras.Sequential:
    """Makes the block that mixes what a node has gathered: Dense, LayerNormalization, ReLU, Dropout.

    Args:
        units: width of the result, at least 1.
        dropout_rate: share of values that training leaves out, in [0, 1).

    Returns:
        Layer from [num_nodes, any] to [num_nodes, units].

    Raises:
        ValueError: if `units` is below 1.
    """
    if units < 1:
        raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
    return tf_keras.Sequential(
        [
            tf_keras.layers.Dense(units),
            tf_keras.layers.LayerNormalization(),
            tf_keras.layers.Activation("relu"),
            tf_keras.layers.Dropout(dropout_rate),
        ]
    )


def _neighbor_means(
    graph_spec: GraphTensorSpec, node_set_name: const.NodeSetName, edge_feature: const.FieldName | None
) -> dict[const.EdgeSetName, NeighborMean]:
    means = {}
    for name, edge_set_spec in graph_spec.edge_sets_spec.items():
        if name.startswith("_"):
            continue
        adjacency = edge_set_spec.adjacency_spec
        tags = [tag for tag in (const.SOURCE, const.TARGET) if adjacency.node_set_name(tag) == node_set_name]
        if tags:
            edge_features = [feature for feature in edge_set_spec.features_spec if feature == edge_feature]
            means[name] = NeighborMean(tags, edge_features=edge_features)
    return means
