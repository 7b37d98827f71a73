"""The relational graph convolution over edges whose relation is a feature."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.convolutions.relation_kernels import RelationKernels
from tfx_gnn.models.message_passing import copy_to_edges


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class RGCNConv(tf_keras.layers.Layer):
    """Averages neighbours for each relation, and transforms each mean by the relation's matrix.

    Equation 2 of R-GCN, arXiv:1703.06103, without the own state, which the next state joins
    (`NextStateFromConvolutions`): for knowledge graphs, whose edge set has the relation as a feature.
    Where relations are edge sets, use `RGCNGraphUpdate`. Takes memory for num_receivers * num_relations
    states.

    Shapes: states [num_senders, any] of a scalar graph; result [num_receivers, units], zeros for a node without
    neighbours.

    Init args:
        units: width of the result.
        num_relations: number of relations.
        relation_feature: integer feature of the edges, shape [num_edges], in [0, num_relations);
            edges with other values tell nothing.
        num_bases: as for `RelationKernels`.
        num_blocks: as for `RelationKernels`.
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        node_feature: the states.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.
    """

    def __init__(
        self,
        units: int,
        num_relations: int,
        relation_feature: const.FieldName,
        *,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        node_feature: const.FieldName = const.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._num_relations = num_relations
        self._relation_feature = relation_feature
        self._receiver_tag = receiver_tag
        self._node_feature = node_feature
        self._kernels = RelationKernels(
            num_relations, units, num_bases=num_bases, num_blocks=num_blocks, dtype=self.dtype_policy, name="relations"
        )

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Convolves along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, units].
        """
        edge_set = graph.edge_sets[edge_set_name]
        sender_tag = reverse_tag(self._receiver_tag)
        states = graph.node_sets[edge_set.adjacency.node_set_name(sender_tag)][self._node_feature]
        messages = copy_to_edges(graph, edge_set_name, sender_tag, tf.cast(states, tf.float32))
        receivers = edge_set.adjacency[self._receiver_tag]
        relations = tf.cast(edge_set[self._relation_feature], receivers.dtype)
        is_known = (relations >= 0) & (relations < self._num_relations)
        # Negative segments are left out of sums.
        segments = tf.where(is_known, receivers * self._num_relations + relations, -1)
        receiver = graph.node_sets[edge_set.adjacency.node_set_name(self._receiver_tag)]
        num_segments = receiver.total_size * self._num_relations
        counts = tf.math.unsorted_segment_sum(tf.ones_like(segments), segments, num_segments)
        sums = tf.math.unsorted_segment_sum(messages, segments, num_segments)
        means = sums / tf.cast(tf.maximum(counts, 1), sums.dtype)[:, tf.newaxis]
        gathered = tf.reshape(means, [-1, self._num_relations, states.shape[-1]])
        return self._kernels(tf.cast(gathered, self.compute_dtype), relations=tuple(range(self._num_relations)))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        kernels = self._kernels.get_config()
        return {
            **super().get_config(),
            **{name: kernels[name] for name in ("units", "num_relations", "num_bases", "num_blocks")},
            "relation_feature": self._relation_feature,
            "receiver_tag": self._receiver_tag,
            "node_feature": self._node_feature,
        }
