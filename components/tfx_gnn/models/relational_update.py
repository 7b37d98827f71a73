"""One round of message passing over every relation of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Collection

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.graph_update import GraphUpdate
from tfx_gnn.keras.layers.next_state import NextStateFromConcat
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.neighbor_mean import NeighborMean
from tfx_gnn.models.relations import Relation, edge_sets_with, rounds_of
from tfx_gnn.models.state_block import state_block


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
    (plan,) = rounds_of(graph_spec, num_layers=1, readout_node_sets=node_sets)
    with_feature = edge_sets_with(graph_spec, edge_feature)

    def neighbor_mean(relation: Relation) -> NeighborMean:
        edge_features = [edge_feature] if edge_feature and relation.edge_set_name in with_feature else []
        return NeighborMean(relation.receiver_tag, edge_features=edge_features)

    def next_state(_: const.NodeSetName) -> NextStateFromConcat:
        mix = tf_keras.layers.Activation("linear") if units is None else state_block(units, dropout_rate)
        return NextStateFromConcat(mix)

    return convolution_update(plan, neighbor_mean, next_state)
