"""Normalizes states within each graph of a batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import broadcast_context_to_nodes
from tfx_gnn.graph.ops.pooling import pool_nodes_to_context
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphNormalization(tf_keras.layers.Layer):
    """Shifts node states by a learned fraction of their mean, and scales them to variance 1, within each graph.

    This is GraphNorm, arXiv:2009.03294, equation 5. Statistics are per graph component, so neither
    padding nor other graphs in the batch change them, and training and serving compute the same result. Unlike
    normalization of each node by itself, it preserves how many neighbours were summed. The only node of a component
    is its own mean, so just 1 - fraction of its state remains before scaling.

    Shapes: values [num_nodes, units] of a node set of a scalar graph in and out.

    Init args:
        epsilon: added to the variance, so that equal states do not become infinite.

    Call args:
        values: the states; they need not be a feature of the graph.
        graph: a scalar graph.
        node_set_name: the node set of the states.

    Example:
        >>> states = tf.constant([[1.0], [3.0], [7.0], [7.0]])
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0]), target=tf.constant([1]), node_features=states,
        ...     node_set_sizes=tf.constant([2, 2]), edge_set_sizes=tf.constant([1, 0]))
        >>> normalize = GraphNormalization(epsilon=1e-6)
        >>> normalize(states, graph=graph, node_set_name="nodes").numpy().round(3).tolist()
        [[-1.0], [1.0], [0.0], [0.0]]
    """

    def __init__(self, *, epsilon: float = 1e-3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._epsilon = epsilon

    def build(self, input_shape: Any) -> None:
        """Makes the weights, each of the width of a state."""
        width = (input_shape[-1],)
        self._share = self.add_weight("mean_share", width, initializer="ones")
        self._scale = self.add_weight("scale", width, initializer="ones")
        self._offset = self.add_weight("offset", width, initializer="zeros")
        super().build(input_shape)

    def call(self, values: tf.Tensor, *, graph: GraphTensor, node_set_name: const.NodeSetName) -> tf.Tensor:
        """Normalizes; see the class.

        Args:
            values: the states.
            graph: a scalar graph.
            node_set_name: the node set of the states.

        Returns:
            Tensor of the shape and dtype of `values`.
        """
        # In half precision, sums over a graph would stop growing.
        exact = tf.cast(values, tf.float32)
        shifted = exact - tf.cast(self._share, tf.float32) * _mean(graph, node_set_name, exact)
        variance = _mean(graph, node_set_name, tf.square(shifted))
        normalized = tf.cast(shifted * tf.math.rsqrt(variance + self._epsilon), values.dtype)
        return normalized * tf.cast(self._scale, values.dtype) + tf.cast(self._offset, values.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "epsilon": self._epsilon}


@tf.autograph.experimental.do_not_convert
def _mean(graph: GraphTensor, node_set_name: const.NodeSetName, values: tf.Tensor) -> tf.Tensor:
    """Gives each node the mean over all nodes of its component."""
    means = pool_nodes_to_context(graph, node_set_name, "mean", feature_value=values)
    return broadcast_context_to_nodes(graph, node_set_name, feature_value=means)
