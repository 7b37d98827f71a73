"""Graph convolutional network."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.gcn_conv import GCNConv
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round, edge_sets_with, relations_of
from tfx_gnn.models.state_blocks import NextStateFromConvolutions


def gcn(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    edge_weight_feature_name: const.FieldName | None = None,
    degree_normalization: str = "in_out",
    activation: str = "relu",
    normalization: str = "none",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a graph convolutional network, arXiv:1609.02907.

    Edge sets within a node set get self-loops, as in the paper. A node set without such edges has a separate
    matrix for its own state instead. The results of all relations are summed. With one edge set and one of
    `receiver_tags`, this is the paper's network.

    Args:
        graph_spec: spec of the graph; determines its sets, and which edge sets have the weight.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        edge_weight_feature_name: as for `GCNConv`; used on the edge sets that have the feature.
        degree_normalization: as for `GCNConv`.
        activation: as for `NextStateFromConvolutions`.
        normalization: as for `NextStateFromConvolutions`.
        residual: whether old states are added to new ones of the same width: in all layers but the first, and in
            the first if `graph_spec` has states of width `units`.
        jumping_knowledge: as for `layered_network`: "none" returns the last state; "concat", "max" and "sum" combine
            the states before and after every layer.
        receiver_tags: ends of the edges that receive messages: `SOURCE`, `TARGET` or both, each with its own weights.
        readout_node_sets: names of the node sets whose last state matters; None for all. Other node sets are
            updated only as far as these depend on them.
        read_nodes_only: whether only nodes where an edge set "_readout/..." begins get a last state; other nodes of
            their node sets get zeros. If `readout_node_sets` is None, it then means all node sets with such nodes.
            The nodes that are read get the same result; the fewer they are, the faster.

    Returns:
        Layer that maps a scalar graph, whose node sets have "hidden_state", to the graph with new states, float
        [num_nodes, units], or wider for `jumping_knowledge="concat"`. Auxiliary sets, whose names begin with "_", are
        ignored.

    Raises:
        ValueError: if an argument is out of range, or names something that `graph_spec` lacks.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> network = gcn(graph.spec, units=8, num_layers=2, dropout_rate=0.1)
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> inputs = tf_keras.layers.Input(type_spec=graph.spec)
        >>> states = network(inputs).node_sets["nodes"]["hidden_state"]
        >>> model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(states))
        >>> model(graph).shape.as_list()
        [3, 1]
    """
    weighted = edge_sets_with(graph_spec, edge_weight_feature_name, argument="edge_weight_feature_name")
    looped = {
        relation.receiver
        for relation in relations_of(graph_spec, receiver_tags)
        if relation.sender == relation.receiver
    }

    def convolution(relation: Relation) -> GCNConv:
        return GCNConv(
            units,
            receiver_tag=relation.receiver_tag,
            activation=None,
            use_bias=False,
            add_self_loops=relation.sender == relation.receiver,
            edge_weight_feature_name=edge_weight_feature_name if relation.edge_set_name in weighted else None,
            degree_normalization=degree_normalization,
        )

    def layer(plan: Round) -> tf_keras.layers.Layer:
        def next_state(name: const.NodeSetName) -> NextStateFromConvolutions:
            return NextStateFromConvolutions(
                units,
                own_state=name not in looped,
                normalization=normalization,
                activation=activation,
                dropout_rate=dropout_rate,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state)

    return layered_network(
        graph_spec,
        layer,
        name="gcn",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
