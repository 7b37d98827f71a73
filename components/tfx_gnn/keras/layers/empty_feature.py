"""A feature without values, for sets that have no input features."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.pieces import FeaturePiece


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MakeEmptyFeature(tf_keras.layers.Layer):
    """Makes a feature of size 0 for each item, such as the first state of a latent node set.

    Init args:
        dtype: dtype of the feature, or policy of mixed precision; by default the policy of Keras.

    Call args:
        graph_piece: a node set, an edge set or the context of a graph of any shape.

    Returns:
        Field of shape [*graph_shape, (num_items), 0], ragged for a batch of graphs. For a scalar
        graph its shape is static if `graph_piece.spec.total_size` is, that is, if the set has a
        feature of static size: for accelerators, call this layer in the input pipeline, before
        padding.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.MakeEmptyFeature()(graph.node_sets["nodes"]).shape.as_list()
        [3, 0]
    """

    def call(self, graph_piece: FeaturePiece) -> const.Field:
        """Makes the feature.

        Args:
            graph_piece: a node set, an edge set or the context.
        """
        dtype = tf.as_dtype(self.compute_dtype)
        if graph_piece.rank == 0:
            static_size = graph_piece.spec.total_size
            return tf.zeros([graph_piece.total_size if static_size is None else static_size, 0], dtype)
        return _ragged_zeros(graph_piece, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config()


def _ragged_zeros(graph_piece: FeaturePiece, dtype: tf.DType) -> tf.RaggedTensor:
    num_items = tf.reduce_sum(graph_piece.sizes, axis=-1)
    row_lengths = tf.reshape(num_items, [-1])
    result = tf.RaggedTensor.from_row_lengths(
        tf.zeros([tf.reduce_sum(row_lengths), 0], dtype), row_lengths, validate=False
    )
    # All batch dimensions but the outermost are uniform.
    for axis in range(graph_piece.rank - 1, 0, -1):
        result = tf.RaggedTensor.from_uniform_row_length(result, tf.shape(num_items, graph_piece.indices_dtype)[axis])
    return result
