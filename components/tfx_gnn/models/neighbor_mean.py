"""What a node learns from its neighbours along one relation: their mean, and how many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NeighborMean(tf_keras.layers.Layer):
    """Averages the states of neighbours and of the edges to them, and counts them.

    A convolution for `NodeSetUpdate`. It is the mean aggregator of GraphSAGE
    (arXiv:1706.02216, section 3.3) for one relation of a heterogeneous graph; with
    the Dense layer of the next state it makes a relational GCN (arXiv:1703.06103)
    with one weight matrix a relation and direction. Where an edge set has both ends in
    the receiving node set, both directions are pooled, apart.

    Shapes: a scalar graph in; out float [num_nodes, sum over directions of
    (state width + edge feature width + 1)]. The last column of each direction is
    log(1 + number of neighbours); a node without neighbours gets zeros.

    Args:
        receiver_tags: ends of the edges at which the receiving nodes are, one or both of
            `SOURCE` and `TARGET`.
        edge_features: names of float edge features of shape [num_edges, k] to average, too.
        feature_name: node feature to average.
        **kwargs: arguments of `tf_keras.layers.Layer`.
    """

    def __init__(
        self,
        receiver_tags: Sequence[int],
        *,
        edge_features: Sequence[str] = (),
        feature_name: str = const.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not receiver_tags or not set(receiver_tags) <= {const.SOURCE, const.TARGET}:
            raise ValueError(
                f"`receiver_tags` must hold SOURCE or TARGET or both; got {receiver_tags!r}. "
                "Name the ends at which the receiving nodes are."
            )
        self._receiver_tags = tuple(receiver_tags)
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
        ends = edge_set.adjacency.get_indices_dict()
        pooled: list[tf.Tensor] = []
        for receiver_tag in self._receiver_tags:
            sender_set, senders = ends[const.TARGET if receiver_tag == const.SOURCE else const.SOURCE]
            receiver_set, receivers = ends[receiver_tag]
            states = graph.node_sets[sender_set][self._feature_name]
            messages = [tf.gather(states, senders), *(edge_set[name] for name in self._edge_features)]
            num_nodes = _num_rows(graph.node_sets[receiver_set][self._feature_name])
            counts = tf.math.unsorted_segment_sum(tf.ones_like(receivers, states.dtype), receivers, num_nodes)[:, None]
            sums = tf.math.unsorted_segment_sum(tf.concat(messages, axis=1), receivers, num_nodes)
            pooled += [sums / tf.maximum(counts, 1.0), tf.math.log1p(counts)]
        return tf.concat(pooled, axis=1)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "receiver_tags": self._receiver_tags,
            "edge_features": self._edge_features,
            "feature_name": self._feature_name,
        }


def _num_rows(value: tf.Tensor) -> int | tf.Tensor:
    """Static where it can be: XLA wants to know the number of segments."""
    return tf.shape(value)[0] if value.shape[0] is None else int(value.shape[0])
