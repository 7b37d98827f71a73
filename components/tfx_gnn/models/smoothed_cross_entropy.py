"""Cross entropy that does not ask for certainty."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SmoothedCrossEntropy(tf_keras.losses.Loss):
    """Cross entropy of logits against class indices, of which a share is spread over all classes.

    `tf_keras.losses.SparseCategoricalCrossentropy` knows no label smoothing
    (arXiv:1512.00567, section 7). With it, a small data set that is learned by heart
    does not drive the validation loss up, and that loss can tell the best epoch.

    Shapes: classes int64 [n] or [n, 1], logits float [n, num_classes]; loss float32 [n] before reduction,
    also of logits of half precision.

    Args:
        label_smoothing: share of the target that all classes have in equal parts, in [0, 1).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.
    """

    def __init__(self, label_smoothing: float, *, name: str = "smoothed_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"`label_smoothing` must lie in [0, 1); got {label_smoothing}. Usual is 0.1.")
        self._label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of each example; see the class for shapes."""
        classes = tf.reshape(tf.cast(y_true, tf.int64), tf.shape(y_pred)[:-1])
        num_classes = y_pred.shape[-1]
        on = 1.0 - self._label_smoothing + self._label_smoothing / num_classes
        target = tf.one_hot(classes, num_classes, on, self._label_smoothing / num_classes, dtype=tf.float32)
        return tf.nn.softmax_cross_entropy_with_logits(target, tf.cast(y_pred, tf.float32))

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal loss."""
        return {**super().get_config(), "label_smoothing": self._label_smoothing}
