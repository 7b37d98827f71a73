"""Graph isomorphism network."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.gin_conv import GINConv
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round, edge_sets_with
from tfx_gnn.models.state_blocks import NextStateFromConvolutions


def gin(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    hidden_units: int | None = None,
    epsilon: float = 0.0,
    learn_epsilon: bool = False,
    edge_feature: const.FieldName | None = None,
    activation: str = "relu",
    normalization: str = "graph",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a graph isomorphism network, GIN of arXiv:1810.00826, or with edge features GINE of arXiv:1905.12265.

    Each relation has its own `GINConv`, which includes the own state; the results are summed. With one edge set and
    one of `receiver_tags`, this is the papers' network. A node set that receives no messages has a matrix for its
    own state.

    Args:
        graph_spec: spec of the graph; determines its sets, and which edge sets have `edge_feature`. The first states
            of connected node sets must have the same width.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        hidden_units: as for `GINConv`.
        epsilon: as for `GINConv`.
        learn_epsilon: as for `GINConv`.
        edge_feature: float feature of shape [num_edges, k]; used on the edge sets that have it.
        activation: Keras activation inside convolutions and of the states.
        normalization: as for `GINConv`.
        residual: as for `gcn`.
        jumping_knowledge: as for `gcn`; the GIN paper uses "concat", and sums the result over each graph.
        receiver_tags: as for `gcn`.
        readout_node_sets: as for `gcn`.
        read_nodes_only: as for `gcn`.

    Returns:
        Layer from a scalar graph to a graph, as for `gcn`.

    Raises:
        ValueError: if an argument is out of range, or names something that `graph_spec` lacks.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> network = gin(graph.spec, units=8, num_layers=3, learn_epsilon=True, jumping_knowledge="concat")
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 28]
        >>> pool = tfx_gnn.keras.layers.Pool(tfx_gnn.CONTEXT, "sum", node_set_name="nodes")
        >>> pool(network(graph)).shape.as_list()
        [1, 28]
    """
    with_feature = edge_sets_with(graph_spec, edge_feature, argument="edge_feature")

    def convolution(relation: Relation) -> GINConv:
        return GINConv(
            units,
            hidden_units=hidden_units,
            receiver_tag=relation.receiver_tag,
            edge_feature=edge_feature if relation.edge_set_name in with_feature else None,
            epsilon=epsilon,
            learn_epsilon=learn_epsilon,
            activation=activation,
            normalization=normalization,
        )

    def layer(plan: Round) -> tf_keras.layers.Layer:
        received = {relation.receiver for relation in plan.relations}

        def next_state(name: const.NodeSetName) -> NextStateFromConvolutions:
            return NextStateFromConvolutions(
                units,
                own_state=name not in received,
                use_bias=name not in received,
                activation=activation,
                dropout_rate=dropout_rate,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state)

    return layered_network(
        graph_spec,
        layer,
        name="gin",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
