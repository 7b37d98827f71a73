"""Heterogeneous graph transformer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.convolutions.hgt_update import HGTGraphUpdate
from tfx_gnn.models.networks.layered_network import layered_network
from tfx_gnn.models.relations import BOTH_DIRECTIONS, Round


def hgt(
    graph_spec: GraphTensorSpec,
    *,
    units: int,
    num_layers: int,
    dropout_rate: float = 0.0,
    num_heads: int = 4,
    activation: str = "gelu",
    normalization: str = "layer",
    skip: str = "weighted",
    jumping_knowledge: str = "none",
    receiver_tags: Sequence[const.IncidentNodeTag] = BOTH_DIRECTIONS,
    readout_node_sets: Collection[const.NodeSetName] | None = None,
    read_nodes_only: bool = False,
) -> tf_keras.Sequential:
    """Makes a heterogeneous graph transformer, HGT of arXiv:2003.01332.

    Args:
        graph_spec: spec of the graph; determines its sets, and the widths of states if it has states.
        units: width of the states, a multiple of `num_heads`.
        num_layers: number of layers, and thus of hops that a node sees.
        dropout_rate: fraction of the state values that training drops, in [0, 1).
        num_heads: number of attention heads.
        activation: as for `HGTGraphUpdate`.
        normalization: as for `HGTGraphUpdate`.
        skip: as for `HGTGraphUpdate`; used in all layers but the first, and in the first if `graph_spec` has states of
            width `units`.
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
        >>> network = hgt(graph.spec, units=8, num_layers=2, num_heads=2)
        >>> network(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> inputs = tf_keras.layers.Input(type_spec=graph.spec)
        >>> states = network(inputs).node_sets["nodes"]["hidden_state"]
        >>> tf_keras.Model(inputs, tf_keras.layers.Dense(1)(states))(graph).shape.as_list()
        [3, 1]
    """
    if num_heads < 1 or units % num_heads:
        raise ValueError(f"`num_heads` must divide `units`; got {num_heads} and {units}. Choose a divisor.")

    def layer(plan: Round) -> HGTGraphUpdate:
        return HGTGraphUpdate(
            num_heads=num_heads,
            per_head_channels=units // num_heads,
            node_sets=plan.node_sets,
            relations=plan.relations,
            skip=skip if plan.keeps_width else "none",
            normalization=normalization,
            dropout_rate=dropout_rate,
            activation=activation,
            read_nodes_only=plan.read_nodes_only,
        )

    return layered_network(
        graph_spec,
        layer,
        name="hgt",
        units=units,
        num_layers=num_layers,
        jumping_knowledge=jumping_knowledge,
        receiver_tags=receiver_tags,
        readout_node_sets=readout_node_sets,
        read_nodes_only=read_nodes_only,
    )
