"""Networks made of one convolution per relation and one next state per node set.

Sums, means and maxima along edges stay right in half precision: a sum of ones in bfloat16 stops at 256, so what is
added up is float32. Where edges are sorted (`sort_edges`), sums over neighbours never hold a row for each edge.
AutoGraph, which Keras sets on whatever a layer calls, takes seconds to read the graph core and finds nothing to do
there: it stops here.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import broadcast_node_to_edges
from tfx_gnn.graph.ops.neighbors import pool_neighbors_to_node
from tfx_gnn.graph.ops.pooling import pool_edges_to_node
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.layers.graph_update import GraphUpdate
from tfx_gnn.keras.layers.set_updates import NodeSetUpdate
from tfx_gnn.keras.nested_layers import as_layer
from tfx_gnn.models.relations import ReadNodeSetUpdate, Relation, Round

_HALF = (tf.bfloat16, tf.float16)


@tf.autograph.experimental.do_not_convert
def copy_to_edges(
    graph: GraphTensor, edge_set_name: const.EdgeSetName, sender_tag: const.IncidentNodeTag, states: tf.Tensor
) -> tf.Tensor:
    """Gives each edge the state of the node at one end.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        sender_tag: the end that is read.
        states: shape [num_nodes, ...].

    Returns:
        Tensor of shape [num_edges, ...].
    """
    return broadcast_node_to_edges(graph, edge_set_name, sender_tag, feature_value=states)


@tf.autograph.experimental.do_not_convert
def pool_edges(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    receiver_tag: const.IncidentNodeTag,
    values: tf.Tensor,
    reduce_type: str = "sum",
) -> tf.Tensor:
    """Pools a value of each edge at the nodes at one end.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        receiver_tag: the end that receives.
        values: float, shape [num_edges, ...].
        reduce_type: as for `pool`.

    Returns:
        Tensor of shape [num_nodes, ...] and the dtype of `values`.
    """
    pooled = pool_edges_to_node(graph, edge_set_name, receiver_tag, reduce_type, feature_value=_summable(values))
    return tf.cast(pooled, values.dtype)


@tf.autograph.experimental.do_not_convert
def pool_neighbors(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    receiver_tag: const.IncidentNodeTag,
    states: tf.Tensor,
    reduce_type: str,
) -> tf.Tensor:
    """Pools states of the nodes at one end of the edges at the nodes at the other.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        receiver_tag: the end that receives.
        states: float, shape [num_senders, ...].
        reduce_type: as for `pool`; a receiver without neighbours gets zeros from "sum", "mean" and
            "max_no_inf".

    Returns:
        Tensor of shape [num_receivers, ...] and the dtype of `states`.
    """
    pooled = pool_neighbors_to_node(
        graph, edge_set_name, receiver_tag, reduce_type=reduce_type, feature_value=_summable(states)
    )
    return tf.cast(pooled, states.dtype)


def _summable(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.float32) if values.dtype in _HALF else values


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class BothDirections(tf_keras.layers.Layer):
    """Two convolutions over one edge set that lies within a node set: to its sources and to its targets.

    A production graph stores an edge once. What a package depends on and what depends on it are
    distinct facts, so each direction has weights of its own (as in arXiv:2305.10498).

    Init args:
        to_source: convolution whose receivers are the sources of the edges.
        to_target: convolution whose receivers are their targets.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Returns:
        List of two tensors of shape [num_nodes, ...]: what sources got, and what targets got.
    """

    def __init__(self, to_source: tf_keras.layers.Layer, to_target: tf_keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._to_source = to_source
        self._to_target = to_target

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> list[tf.Tensor]:
        """Convolves in both directions.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.
        """
        return [layer(graph, edge_set_name=edge_set_name) for layer in (self._to_source, self._to_target)]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "to_source": self._to_source, "to_target": self._to_target}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BothDirections:
        """Makes the layer from what `get_config` returned.

        Args:
            config: the config.
        """
        layers = {name: as_layer(config[name]) for name in ("to_source", "to_target")}
        return cls(**{**config, **layers})


def convolution_update(
    plan: Round,
    convolution: Callable[[Relation], tf_keras.layers.Layer],
    next_state: Callable[[const.NodeSetName], tf_keras.layers.Layer],
    *,
    edge_update: Callable[[const.EdgeSetName], tf_keras.layers.Layer] | None = None,
) -> GraphUpdate:
    """Makes one layer of a network.

    Args:
        plan: the node sets to update, and the relations that lead to them.
        convolution: makes the layer of a relation, called as `layer(graph, edge_set_name=...)`.
        next_state: makes the layer that gives a node set its next state, each row from the same rows of its inputs
            alone.
        edge_update: makes the layer that gives an edge set its next state first; None: edges keep theirs.

    Returns:
        Layer from a scalar graph to the graph with new states.
    """
    by_edge_set: dict[str, dict[str, list[Relation]]] = {name: collections.defaultdict(list) for name in plan.node_sets}
    for relation in plan.relations:
        by_edge_set[relation.receiver][relation.edge_set_name].append(relation)
    edge_sets = sorted({relation.edge_set_name for relation in plan.relations})
    update = ReadNodeSetUpdate if plan.read_nodes_only else NodeSetUpdate
    return GraphUpdate(
        edge_sets=None if edge_update is None else {name: edge_update(name) for name in edge_sets},
        node_sets={
            name: update(
                {edge_set: _joined([convolution(way) for way in ways]) for edge_set, ways in sorted(inputs.items())},
                next_state(name),
            )
            for name, inputs in by_edge_set.items()
        },
    )


def _joined(layers: list[tf_keras.layers.Layer]) -> tf_keras.layers.Layer:
    return layers[0] if len(layers) == 1 else BothDirections(*layers)
