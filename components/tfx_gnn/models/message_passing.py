"""Networks made of one convolution per relation and one next state per node set.

Values in half precision are pooled along edges in float32: a sum of ones in bfloat16 stops at 256. On sorted edges
(`sort_edges`), sums over neighbours never hold a row for each edge.

A sampled subgraph is read out only at its seeds, a tenth of the nodes or less. The last layer's states of all other
nodes are never used, so its matrix products leave them out. Shapes stay static, as TPUs require.

Keras runs AutoGraph on everything that a layer calls. On the graph core that takes seconds and changes nothing, so
functions here that call the core are not converted.
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
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.layer_arguments import as_layer
from tfx_gnn.keras.layers.graph_update import GraphUpdate, NodeSetUpdate
from tfx_gnn.models.relations import Relation, Round, read_node_sets

_HALF = (tf.bfloat16, tf.float16)


@tf.autograph.experimental.do_not_convert
def copy_to_edges(
    graph: GraphTensor, edge_set_name: const.EdgeSetName, sender_tag: const.IncidentNodeTag, states: tf.Tensor
) -> tf.Tensor:
    """Copies to each edge the state of the node at one end, [num_edges, ...]."""
    return broadcast_node_to_edges(graph, edge_set_name, sender_tag, feature_value=states)


@tf.autograph.experimental.do_not_convert
def pool_edges(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    receiver_tag: const.IncidentNodeTag,
    values: tf.Tensor,
    reduce_type: str = "sum",
) -> tf.Tensor:
    """Pools float values of edges at the nodes at one end, [num_nodes, ...]; keeps the dtype."""
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
    """Pools the float states of each receiver's neighbours along an edge set; keeps the dtype.

    A receiver without neighbours gets zeros for "sum", "mean" and "max_no_inf".
    """
    pooled = pool_neighbors_to_node(
        graph, edge_set_name, receiver_tag, reduce_type=reduce_type, feature_value=_summable(states)
    )
    return tf.cast(pooled, states.dtype)


def _summable(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.float32) if values.dtype in _HALF else values


@tf.autograph.experimental.do_not_convert
def next_state_where_read(
    graph: GraphTensor, node_set_name: const.NodeSetName, next_state: Callable[[Any], tf.Tensor], inputs: Any
) -> tf.Tensor:
    """Computes the next state, [num_nodes, units], of the nodes that are read out; other nodes get zeros.

    `next_state` must be row-wise: output row i depends only on input row i. If static shapes show at least as many
    reads as nodes, the states of all nodes are computed.
    """
    readouts = read_node_sets(graph.spec)
    if node_set_name not in readouts:
        raise ValueError(
            f'`graph` must have edge sets "{READOUT_NODE_SET}/..." from each node set whose nodes are read; got none '
            f"from {node_set_name!r}, only {readouts}. Compute the next state of all its nodes."
        )
    read = tf.concat([graph.edge_sets[name].adjacency[const.SOURCE] for name in readouts[node_set_name]], axis=0)
    node_set = graph.node_sets[node_set_name]
    num_nodes = graph.spec.node_sets_spec[node_set_name].total_size
    if num_nodes is not None and read.shape[0] is not None and read.shape[0] >= num_nodes:
        return next_state(inputs)
    num_nodes = node_set.total_size if num_nodes is None else num_nodes
    states = next_state(tf.nest.map_structure(lambda values: tf.gather(values, read), inputs))
    # A node may be read several times. The sum must count its state once, so all but the last read add zeros.
    times = tf.range(tf.size(read, out_type=read.dtype), dtype=read.dtype)
    is_last = tf.gather(tf.math.unsorted_segment_max(times, read, num_nodes), read) == times
    return tf.math.unsorted_segment_sum(tf.where(is_last[:, tf.newaxis], states, 0), read, num_nodes)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ReadNodeSetUpdate(NodeSetUpdate):
    """Computes the next state of the nodes of a node set that are read out; other nodes get zeros.

    The arguments are those of `NodeSetUpdate`. Inputs from edge sets are computed for all nodes, the next state only
    for nodes where an edge set "_readout/..." begins. `next_state` must be row-wise: output row i depends only on
    input row i.

    Call args:
        graph: a scalar graph.
        node_set_name: the node set.

    Returns:
        Tensor of shape [num_nodes, units].
    """

    def call(self, graph: GraphTensor, node_set_name: const.NodeSetName) -> tf.Tensor:
        """Computes the next state.

        Args:
            graph: a scalar graph.
            node_set_name: the node set.
        """
        inputs = self._inputs(graph, node_set_name)
        return next_state_where_read(graph, node_set_name, self._next_state, inputs)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class BothDirections(tf_keras.layers.Layer):
    """Two convolutions over one edge set within a node set: one to the sources, one to the targets.

    A production graph stores each edge once. What a package depends on and what depends on it are
    distinct facts, so each direction has its own weights (as in arXiv:2305.10498).

    Init args:
        to_source: convolution whose receivers are the sources of the edges.
        to_target: convolution whose receivers are the targets of the edges.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Returns:
        List of two tensors of shape [num_nodes, ...]: the result of `to_source`, then that of `to_target`.
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
        """Rebuilds the layer from the result of `get_config`.

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
    """Makes one layer of a network, which maps a scalar graph to the graph with new states.

    `convolution` makes the layer for a relation, called as `layer(graph, edge_set_name=...)`. `next_state` makes the
    layer for a node set, which must be row-wise: output row i depends only on input row i. With `edge_update`, edge
    sets get a next state first.
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
