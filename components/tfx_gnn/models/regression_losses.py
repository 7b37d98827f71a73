"""Losses of numbers, one for each number and not one for each row, so that single ones can be left out."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

REGRESSION_LOSSES = ("mse", "mae", "huber")


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ElementwiseRegressionLoss(tf_keras.losses.Loss):
    """Squared, absolute or Huber error of every number by itself.

    Keras' own losses average over the last axis before weights come in, so a row with one missing number could only
    be left out as a whole.

    Shapes: labels, predictions and weights float [n, num_outputs]; loss float32 [n, num_outputs] before reduction.

    Args:
        kind: "mse", "mae", or "huber" (quadratic up to an error of 1, linear beyond).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.
    """

    def __init__(self, kind: str = "mse", *, name: str = "regression_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if kind not in REGRESSION_LOSSES:
            raise ValueError(f"`kind` must be one of {list(REGRESSION_LOSSES)}; got {kind!r}. Choose one of these.")
        self._kind = kind

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of each number; see the class for shapes."""
        error = tf.cast(y_pred, tf.float32) - tf.cast(y_true, tf.float32)
        size = tf.abs(error)
        if self._kind == "mae":
            return size
        if self._kind == "mse":
            return tf.square(error)
        return tf.where(size <= 1.0, 0.5 * tf.square(error), size - 0.5)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal loss."""
        return {**super().get_config(), "kind": self._kind}
