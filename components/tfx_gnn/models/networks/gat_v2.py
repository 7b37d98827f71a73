"""Graph attention network, second version."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.attention import channels_per_head
from tfx_gnn.models.convolutions.gat_v2_conv import GATv2Conv
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round, edge_sets_with
from tfx_gnn.models.state_blocks import next_state_from_block


def gat_v2(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    num_heads: int = 4,
    heads_merge_type: str = "concat",
    edge_dropout: float = 0.0,
    edge_feature: const.FieldName | None = None,
    activation: str = "relu",
    normalization: str = "layer",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a graph attention network, GATv2 of arXiv:2105.14491, with separate attention for each relation.

    The attention results of all relations are concatenated with the node's own state and mixed by `state_block`, so
    self-loops are not needed.

    Args:
        graph_spec: spec of the graph; determines its sets, and which edge sets have `edge_feature`.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        num_heads: number of attention heads; must divide `units` if heads are concatenated.
        heads_merge_type: "concat" or "mean".
        edge_dropout: as for `GATv2Conv`.
        edge_feature: float feature of shape [num_edges, k]; used on the edge sets that have it.
        activation: Keras activation of attention results and states.
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
        >>> network = gat_v2(graph.spec, units=8, num_layers=2, num_heads=2, edge_feature="length")
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> inputs = tf_keras.layers.Input(type_spec=graph.spec)
        >>> states = network(inputs).node_sets["nodes"]["hidden_state"]
        >>> tf_keras.Model(inputs, tf_keras.layers.Dense(1)(states))(graph).shape.as_list()
        [3, 1]
    """
    channels = channels_per_head(units, num_heads, heads_merge_type)
    with_feature = edge_sets_with(graph_spec, edge_feature, argument="edge_feature")

    def convolution(relation: Relation) -> GATv2Conv:
        return GATv2Conv(
            num_heads=num_heads,
            per_head_channels=channels,
            receiver_tag=relation.receiver_tag,
            sender_edge_feature=edge_feature if relation.edge_set_name in with_feature else None,
            edge_dropout=edge_dropout,
            heads_merge_type=heads_merge_type,
            activation=activation,
        )

    def layer(plan: Round) -> tf_keras.layers.Layer:
        def next_state(_: const.NodeSetName) -> tf_keras.layers.Layer:
            return next_state_from_block(
                units,
                dropout_rate,
                activation=activation,
                normalization=normalization,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state)

    return layered_network(
        graph_spec,
        layer,
        name="gat_v2",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
