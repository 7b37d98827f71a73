"""One round of message passing over every relation of a heterogeneous graph.

Along each relation, a node receives the mean of its neighbours' states and the number of neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layers.graph_update import GraphUpdate
from tfx_gnn.keras.layers.next_state import NextStateFromConcat
from tfx_gnn.models.message_passing import convolution_update, pool_edges, pool_neighbors
from tfx_gnn.models.relations import Relation, edge_sets_with, rounds_of
from tfx_gnn.models.state_blocks import state_block


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NeighborMean(tf_keras.layers.Layer):
    """Averages the states of neighbours and features of the edges to them, and counts the neighbours.

    This is a convolution without weights, for `NodeSetUpdate`. It is the mean aggregator of GraphSAGE
    (arXiv:1706.02216, section 3.3) for one relation of a heterogeneous graph; with
    the Dense layer of the next state it makes a relational GCN (arXiv:1703.06103)
    with one weight matrix per relation and direction.

    Shapes: a scalar graph in; out float [num_nodes, state width + edge feature width + 1]. The last
    column is log(1 + number of neighbours); a node without neighbours gets zeros.

    Args:
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        edge_features: names of float edge features of shape [num_edges, k] that are averaged, too.
        feature_name: node feature to average.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([2, 2]), node_features=tf.constant([[1.], [2.], [4.]]))
        >>> mean = NeighborMean(tfx_gnn.TARGET)
        >>> gathered = mean(graph, edge_set_name="edges").numpy()
        >>> gathered[:, 0].tolist(), np.expm1(gathered[:, 1]).round().tolist()
        ([0.0, 0.0, 1.5], [0.0, 0.0, 2.0])
    """

    def __init__(
        self,
        receiver_tag: const.IncidentNodeTag,
        *,
        edge_features: Sequence[str] = (),
        feature_name: str = const.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._receiver_tag = receiver_tag
        self._sender_tag = reverse_tag(receiver_tag)
        self._edge_features = tuple(edge_features)
        self._feature_name = feature_name

    def call(self, graph: GraphTensor, *, edge_set_name: str) -> tf.Tensor:
        """Pools along one edge set; see the class for shapes.

        Args:
            graph: scalar graph.
            edge_set_name: edge set to pool along.

        Returns:
            One row per receiving node.
        """
        edge_set = graph.edge_sets[edge_set_name]
        states = graph.node_sets[edge_set.adjacency.node_set_name(self._sender_tag)][self._feature_name]
        states = tf.cast(states, self.compute_dtype)
        ones = tf.ones_like(edge_set.adjacency[self._receiver_tag], tf.float32)[:, tf.newaxis]
        counts = pool_edges(graph, edge_set_name, self._receiver_tag, ones)
        sums = [pool_neighbors(graph, edge_set_name, self._receiver_tag, states, "sum")]
        if self._edge_features:
            values = tf.concat([tf.cast(edge_set[name], self.compute_dtype) for name in self._edge_features], axis=1)
            sums.append(pool_edges(graph, edge_set_name, self._receiver_tag, values))
        means = [total / tf.cast(tf.maximum(counts, 1.0), total.dtype) for total in sums]
        return tf.concat([*means, tf.cast(tf.math.log1p(counts), self.compute_dtype)], axis=1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "receiver_tag": self._receiver_tag,
            "edge_features": self._edge_features,
            "feature_name": self._feature_name,
        }


def relational_graph_update(
    graph_spec: GraphTensorSpec,
    *,
    units: int | None,
    dropout_rate: float = 0.0,
    node_sets: Collection[const.NodeSetName] | None = None,
    edge_feature: const.FieldName | None = None,
) -> GraphUpdate:
    """Makes the layer that computes new node states from the old states of each node and its neighbours.

    A node set is updated from every edge set that has an end in it, and in both
    directions if both ends are in it. The means of neighbour states and edge
    features, and the numbers of neighbours, are concatenated with the old state and
    go through `state_block`. Auxiliary sets, whose names begin with "_", are ignored.

    Args:
        graph_spec: spec of the graph; determines its sets, and which edge sets have `edge_feature`.
        units: width of the new states. None: the concatenation itself is the new state. If only a
            few of many nodes are read out, it is cheaper to read them first and apply
            `state_block` afterwards, with the same result.
        dropout_rate: fraction of the new states' values that training drops, in [0, 1).
        node_sets: names of the node sets to update; others keep their state. None: all. The last
            round only needs to update node sets that are read out.
        edge_feature: float feature of shape [num_edges, k]; used on the edge sets that have it.

    Returns:
        Layer that maps a scalar graph, whose node sets have the feature "hidden_state", to the
        graph with new states of shape [num_nodes, width].

    Raises:
        ValueError: if `node_sets` is empty or names a node set that cannot be updated, or `units` is below 1.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"length": tf.constant([[0.5], [2.0]])})
        >>> update = relational_graph_update(graph.spec, units=8, dropout_rate=0.1, edge_feature="length")
        >>> update(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
        >>> gather = relational_graph_update(graph.spec, units=None)
        >>> gather(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 14]
    """
    (plan,) = rounds_of(graph_spec, num_layers=1, readout_node_sets=node_sets, argument="node_sets")
    with_feature = edge_sets_with(graph_spec, edge_feature, argument="edge_feature")

    def neighbor_mean(relation: Relation) -> NeighborMean:
        edge_features = [edge_feature] if edge_feature and relation.edge_set_name in with_feature else []
        return NeighborMean(relation.receiver_tag, edge_features=edge_features)

    def next_state(_: const.NodeSetName) -> NextStateFromConcat:
        mix = tf_keras.layers.Activation("linear") if units is None else state_block(units, dropout_rate)
        return NextStateFromConcat(mix)

    return convolution_update(plan, neighbor_mean, next_state)
