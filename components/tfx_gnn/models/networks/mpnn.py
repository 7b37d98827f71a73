"""Message passing neural network."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.mpnn_conv import EdgeMLP, MPNNConv
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round, edge_sets_with
from tfx_gnn.models.state_blocks import next_state_from_block


def mpnn(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    message_units: Sequence[int] = (),
    reduce_type: str = "sum",
    edge_feature: const.FieldName | None = None,
    update_edges: bool = False,
    activation: str = "relu",
    normalization: str = "layer",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a message passing neural network, arXiv:1704.01212, with separate messages for each relation.

    Args:
        graph_spec: spec of the graph; determines its sets, and which edge sets have `edge_feature`.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the values of messages and states that training drops, in [0, 1).
        message_units: widths of the layers that compute messages; empty for one layer of width `units`.
        reduce_type: as for `MPNNConv`.
        edge_feature: float feature of shape [num_edges, k]; used on the edge sets that have it.
        update_edges: whether each layer first gives edges a new "hidden_state" of width `units`, and computes
            messages from it.
        activation: Keras activation of messages and states.
        normalization: as for `state_block`.
        residual: as for `gcn`.
        jumping_knowledge: as for `gcn`.
        receiver_tags: as for `gcn`.
        readout_node_sets: as for `gcn`.
        read_nodes_only: as for `gcn`.

    Returns:
        Layer from a scalar graph to a graph, as for `gcn`.

    Raises:
        ValueError: if an argument is out of range, or names something that `graph_spec` lacks.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"length": tf.constant([[0.5], [2.0]])})
        >>> network = mpnn(graph.spec, units=8, num_layers=2, edge_feature="length", update_edges=True)
        >>> updated = network(graph)
        >>> updated.node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> updated.edge_sets["edges"]["hidden_state"].shape.as_list()
        [2, 8]
    """
    with_feature = edge_sets_with(graph_spec, edge_feature, argument="edge_feature")

    def raw_feature(edge_set_name: const.EdgeSetName) -> const.FieldName | None:
        return edge_feature if edge_set_name in with_feature else None

    def convolution(relation: Relation) -> MPNNConv:
        return MPNNConv(
            tuple(message_units) or (units,),
            reduce_type,
            receiver_tag=relation.receiver_tag,
            edge_feature=const.HIDDEN_STATE if update_edges else raw_feature(relation.edge_set_name),
            activation=activation,
            dropout_rate=dropout_rate,
        )

    def layer(plan: Round) -> tf_keras.layers.Layer:
        def edge_update(edge_set_name: const.EdgeSetName) -> EdgeMLP:
            # Only the first layer reads the raw feature; each later one reads what the layer before it wrote.
            feature = const.HIDDEN_STATE if plan.position else raw_feature(edge_set_name)
            return EdgeMLP([units], edge_feature=feature, activation=activation, dropout_rate=dropout_rate)

        def next_state(_: const.NodeSetName) -> tf_keras.layers.Layer:
            return next_state_from_block(
                units,
                dropout_rate,
                activation=activation,
                normalization=normalization,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state, edge_update=edge_update if update_edges else None)

    return layered_network(
        graph_spec,
        layer,
        name="mpnn",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
