"""Relational graph convolutional network."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.rgcn_conv import RGCNConv, RGCNGraphUpdate
from tfx_gnn.models.message_passing import convolution_update
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Relation, Round
from tfx_gnn.models.state_blocks import NextStateFromConvolutions


def rgcn(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    num_bases: int | None = None,
    num_blocks: int | None = None,
    relation_feature: const.FieldName | None = None,
    num_relations: int = 0,
    activation: str = "relu",
    normalization: str = "none",
    residual: bool = False,
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a relational graph convolutional network, R-GCN of arXiv:1703.06103.

    A relation is one direction of an edge set. In a knowledge graph whose edges have the relation as a feature, it
    is one value of that feature in one direction.

    Args:
        graph_spec: spec of the graph; determines its sets.
        units: width of the states.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        num_bases: as for `RelationKernels`.
        num_blocks: as for `RelationKernels`.
        relation_feature: integer feature with values in [0, num_relations), which every edge set must have. None: edge
            sets are the relations, and all node sets must have states of the same width.
        num_relations: number of values of `relation_feature`; 0 without it.
        activation: as for `NextStateFromConvolutions`.
        normalization: as for `NextStateFromConvolutions`.
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
        ...     edge_features={"relation": tf.constant([0, 2])})
        >>> network = rgcn(
        ...     graph.spec, units=8, num_layers=2, num_bases=2, relation_feature="relation", num_relations=3)
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> by_edge_set = rgcn(graph.spec, units=8, num_layers=2, num_blocks=4)
        >>> by_edge_set(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
    """
    if (relation_feature is None) != (num_relations == 0):
        raise ValueError(
            f"`relation_feature` and `num_relations` must go together; got {relation_feature!r} and {num_relations}. "
            "Give both or none."
        )

    def by_edge_set(plan: Round) -> tf_keras.layers.Layer:
        return RGCNGraphUpdate(
            units,
            plan.node_sets,
            plan.relations,
            num_bases=num_bases,
            num_blocks=num_blocks,
            activation=activation,
            normalization=normalization,
            dropout_rate=dropout_rate,
            residual=residual and plan.keeps_width,
            read_nodes_only=plan.read_nodes_only,
        )

    def by_feature(plan: Round) -> tf_keras.layers.Layer:
        def convolution(relation: Relation) -> RGCNConv:
            assert relation_feature is not None
            return RGCNConv(
                units,
                num_relations,
                relation_feature,
                num_bases=num_bases,
                num_blocks=num_blocks,
                receiver_tag=relation.receiver_tag,
            )

        def next_state(_: const.NodeSetName) -> NextStateFromConvolutions:
            return NextStateFromConvolutions(
                units,
                normalization=normalization,
                activation=activation,
                dropout_rate=dropout_rate,
                residual=residual and plan.keeps_width,
            )

        return convolution_update(plan, convolution, next_state)

    layer = by_edge_set if relation_feature is None else by_feature
    return layered_network(
        graph_spec,
        layer,
        name="rgcn",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
