"""A learned initial state for sets without features."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.pieces import FeaturePiece


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class LearnedState(tf_keras.layers.Layer):
    """Gives all items of a set without features the same learned vector as initial state.

    It is what a linear layer makes of a feature that is 1 for every item: nothing tells items apart yet, but each
    layer that follows gets a state with a width. On states of width 0, as `MakeEmptyFeature` makes them, matrix
    products abort the process in some versions of TensorFlow.

    Init args:
        units: width of the vector, at least 1.
        initializer: name of a Keras initializer, or one; for a matrix of shape [1, units].
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph_piece: node set, edge set or context of a scalar graph.

    Returns:
        Float tensor of shape [num_items, units]. Its shape is static if `graph_piece.spec.total_size` is: on a TPU,
        the set needs a feature for that, of any width.

    Raises:
        ValueError: if `units` is below 1, or the graph is no scalar one.

    Example:
        >>> graph = tfx_gnn.homogeneous(source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features={
        ...     "#id": tf.constant(["a", "b", "c"])})
        >>> LearnedState(2, initializer="ones")(graph.node_sets["nodes"]).numpy().tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, units: int, *, initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
        self._units = units
        self._initializer = tf_keras.initializers.get(initializer)

    def build(self, input_shape: Any) -> None:
        """Makes the vector.

        Args:
            input_shape: of the set; of no effect.
        """
        self._state = self.add_weight("state", (1, self._units), initializer=self._initializer)
        super().build(input_shape)

    def call(self, graph_piece: FeaturePiece) -> tf.Tensor:
        """Gives the vector to each item; see the class.

        Args:
            graph_piece: node set, edge set or context of a scalar graph.

        Returns:
            Float tensor of shape [num_items, units].

        Raises:
            ValueError: if the graph is no scalar one.
        """
        if graph_piece.rank != 0:
            raise ValueError(
                f"`graph_piece` must be of a scalar graph; got one of shape {graph_piece.shape}. Merge the graphs of "
                "the batch first, by `merge_batch_to_components()`."
            )
        static_size = graph_piece.spec.total_size
        num_items = graph_piece.total_size if static_size is None else static_size
        return tf.broadcast_to(tf.cast(self._state, self.compute_dtype), [num_items, self._units])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "units": self._units,
            "initializer": tf_keras.initializers.serialize(self._initializer),
        }
