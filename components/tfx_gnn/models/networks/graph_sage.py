"""GraphSAGE."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.sage_conv import SAGEConv
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round
from tfx_gnn.models.state_blocks import NextStateFromConvolutions


def graph_sage(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    aggregator: str = "mean",
    hidden_units: int | None = None,
    activation: str = "relu",
    normalization: str = "l2",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a GraphSAGE network, arXiv:1706.02216, algorithm 1, with one aggregator per relation.

    Args:
        graph_spec: spec of the graph; determines its sets.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        aggregator: as for `SAGEConv`.
        hidden_units: as for `SAGEConv`.
        activation: as for `NextStateFromConvolutions`.
        normalization: as for `NextStateFromConvolutions`; the paper uses "l2".
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
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> network = graph_sage(graph.spec, units=8, num_layers=2, aggregator="pool", read_nodes_only=True)
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> tfx_gnn.keras.layers.StructuredReadout("seed")(network(graph)).shape.as_list()
        [1, 8]
    """

    def convolution(relation: Relation) -> SAGEConv:
        return SAGEConv(units, aggregator=aggregator, hidden_units=hidden_units, receiver_tag=relation.receiver_tag)

    def layer(plan: Round) -> tf_keras.layers.Layer:
        def next_state(_: const.NodeSetName) -> NextStateFromConvolutions:
            return NextStateFromConvolutions(
                units,
                normalization=normalization,
                activation=activation,
                dropout_rate=dropout_rate,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state)

    return layered_network(
        graph_spec,
        layer,
        name="graph_sage",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
