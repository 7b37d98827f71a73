"""What a node learns from its neighbours along one relation: their mean, and how many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.tags import reverse_tag
from tfx_gnn.models.neighbor_pooling import pool_edges, pool_neighbors


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NeighborMean(tf_keras.layers.Layer):
    """Averages the states of neighbours and of the edges to them, and counts them.

    A convolution for `NodeSetUpdate` without weights. It is the mean aggregator of GraphSAGE
    (arXiv:1706.02216, section 3.3) for one relation of a heterogeneous graph; with
    the Dense layer of the next state it makes a relational GCN (arXiv:1703.06103)
    with one weight matrix a relation and direction.

    Shapes: a scalar graph in; out float [num_nodes, state width + edge feature width + 1]. The last
    column is log(1 + number of neighbours); a node without neighbours gets zeros.

    Args:
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        edge_features: names of float edge features of shape [num_edges, k] to average, too.
        feature_name: node feature to average.
        **kwargs: arguments of `tf_keras.layers.Layer`.
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
            One row a receiving node.
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
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "receiver_tag": self._receiver_tag,
            "edge_features": self._edge_features,
            "feature_name": self._feature_name,
        }
