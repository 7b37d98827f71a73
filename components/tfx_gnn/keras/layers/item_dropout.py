"""Dropout of whole nodes, edges or components."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.graph_layer import GraphLayer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ItemDropout(GraphLayer):
    """Sets all values of randomly chosen items to zero while training.

    The values that remain are scaled by 1 / (1 - rate), as `tf_keras.layers.Dropout` does for single values.

    Init args:
        rate: fraction of items to drop, in [0, 1).
        seed: seed of the random choice.

    Call args:
        inputs: float tensor of shape [num_items, *feature_shape], of the same rank in all calls.

    Returns:
        Tensor of the same shape and dtype; outside training, the input itself.

    Example:
        >>> tfx_gnn.keras.layers.ItemDropout(0.5)(tf.ones([2, 2]), training=False).numpy().tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._seed = seed
        self._rank: int | None = None
        self._dropout: tf_keras.layers.Layer | None = None

    def build(self, shape: Any) -> None:
        """Makes the dropout layer for inputs of one rank.

        Args:
            shape: shape of the input.

        Raises:
            ValueError: if the rank is unknown or 0.
        """
        rank = tf.TensorShape(shape).rank
        if not rank:
            raise ValueError(
                f"ItemDropout requires inputs of known fixed non-zero rank; got shape {shape}. "
                "Pass a dense feature of a scalar graph."
            )
        self._rank = rank
        noise_shape = [None] + [1] * (rank - 1)
        self._dropout = tf_keras.layers.Dropout(self._rate, noise_shape=noise_shape, seed=self._seed)
        super().build(shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Drops items.

        Args:
            inputs: float tensor of shape [num_items, *feature_shape].

        Raises:
            ValueError: if the rank of the inputs has changed.
        """
        if inputs.shape.rank != self._rank:
            raise ValueError(
                f"Built for rank {self._rank}, called with input of rank {inputs.shape.rank}. "
                "Use another ItemDropout for this input."
            )
        assert self._dropout is not None
        return self._dropout(inputs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "rate": self._rate, "seed": self._seed}
