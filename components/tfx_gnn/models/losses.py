"""Losses for classification with label smoothing, for regression and for link prediction.

Regression losses are elementwise rather than per row, so that single numbers can be left out. For the labels of
candidate pairs see `candidate_groups`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.models.candidate_groups import Candidates, static_rows
from tfx_gnn.models.tasks.label_tasks import REGRESSION_LOSSES


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ElementwiseRegressionLoss(tf_keras.losses.Loss):
    """Elementwise squared, absolute or Huber error.

    Keras' own losses average over the last axis before weights are applied, so a row with one missing number could
    only be left out as a whole.

    Shapes: labels, predictions and weights float [n, num_outputs]; loss float32 [n, num_outputs] before reduction.

    Args:
        kind: "mse", "mae", or "huber" (quadratic up to an error of 1, linear beyond).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.
    """

    def __init__(self, kind: str = "mse", *, name: str = "regression_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if kind not in REGRESSION_LOSSES:
            raise ValueError(
                f"`kind` must be one of {list(REGRESSION_LOSSES)}; got {kind!r}. "
                f"{did_you_mean(kind, REGRESSION_LOSSES, otherwise='Choose one of these.')}"
            )
        self._kind = kind

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the elementwise loss; see the class for shapes."""
        error = tf.cast(y_pred, tf.float32) - tf.cast(y_true, tf.float32)
        size = tf.abs(error)
        if self._kind == "mae":
            return size
        if self._kind == "mse":
            return tf.square(error)
        return tf.where(size <= 1.0, 0.5 * tf.square(error), size - 0.5)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "kind": self._kind}


class _SmoothedLoss(tf_keras.losses.Loss):
    """Base of the losses with label smoothing."""

    def __init__(self, label_smoothing: float, *, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"`label_smoothing` must lie in [0, 1); got {label_smoothing}. Usual is 0.1.")
        self._label_smoothing = label_smoothing

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "label_smoothing": self._label_smoothing}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SmoothedCrossEntropy(_SmoothedLoss):
    """Cross entropy of logits against class indices, with label smoothing.

    `tf_keras.losses.SparseCategoricalCrossentropy` does not support label smoothing
    (arXiv:1512.00567, section 7). With label smoothing, memorizing a small data set
    does not drive the validation loss up, so the loss can identify the best epoch.

    Shapes: classes int64 [n] or [n, 1], logits float [n, num_classes]; loss float32 [n] before reduction,
    even for logits in half precision.

    Args:
        label_smoothing: fraction of the target that is spread evenly over all classes, in [0, 1).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.

    Example:
        >>> loss = SmoothedCrossEntropy(0.5)
        >>> round(float(loss(tf.constant([0]), tf.constant([[0.0, 0.0]]))), 4)
        0.6931
        >>> for smoothing in (0.0, 0.5):
        ...     round(float(SmoothedCrossEntropy(smoothing)(tf.constant([0]), tf.constant([[20.0, 0.0]]))), 2)
        0.0
        5.0
    """

    def __init__(self, label_smoothing: float, *, name: str = "smoothed_cross_entropy", **kwargs: Any) -> None:
        super().__init__(label_smoothing, name=name, **kwargs)

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of each example; see the class for shapes."""
        classes = tf.reshape(tf.cast(y_true, tf.int64), tf.shape(y_pred)[:-1])
        num_classes = y_pred.shape[-1]
        on = 1.0 - self._label_smoothing + self._label_smoothing / num_classes
        target = tf.one_hot(classes, num_classes, on, self._label_smoothing / num_classes, dtype=tf.float32)
        return tf.nn.softmax_cross_entropy_with_logits(target, tf.cast(y_pred, tf.float32))


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class CandidateSigmoid(_SmoothedLoss):
    """Cross entropy of each candidate by itself.

    Shapes: labels int64 [n, 2], scores float [n]; loss float32 [n] before reduction, 0 for candidates that are
    neither true nor false.

    Args:
        label_smoothing: fraction of the target that is spread evenly over true and false, in [0, 1).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.
    """

    def __init__(self, label_smoothing: float = 0.0, *, name: str = "sigmoid", **kwargs: Any) -> None:
        super().__init__(label_smoothing, name=name, **kwargs)

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of each candidate; see the class for shapes."""
        candidates = Candidates.of(y_true)
        target = tf.cast(candidates.is_true, tf.float32)
        target = target * (1.0 - self._label_smoothing) + 0.5 * self._label_smoothing
        loss = tf.nn.sigmoid_cross_entropy_with_logits(target, tf.cast(y_pred, tf.float32))
        return tf.where(candidates.is_true | candidates.is_false, loss, 0.0)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class CandidateSoftmax(_SmoothedLoss):
    """Cross entropy of each true pair among all candidates of its example.

    Shapes: labels int64 [n, 2], scores float [n]; loss float32 [n] before reduction, 0 for candidates that are not
    true pairs. Give these candidates weight 0, so that the mean is over true pairs.

    Args:
        label_smoothing: fraction of the target that is spread evenly over the example's candidates, in [0, 1).
        name: name of the loss.
        **kwargs: arguments of `tf_keras.losses.Loss`.
    """

    def __init__(self, label_smoothing: float = 0.0, *, name: str = "softmax", **kwargs: Any) -> None:
        super().__init__(label_smoothing, name=name, **kwargs)

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of each true pair; see the class for shapes."""
        candidates = Candidates.of(y_true)
        group, num_rows = candidates.group, static_rows(y_pred)
        takes_part = candidates.is_true | candidates.is_false
        part = tf.cast(takes_part, tf.float32)
        scores = tf.cast(y_pred, tf.float32)
        # The maximum over no candidates is the lowest float; the next line replaces it.
        highest = tf.math.unsorted_segment_max(tf.where(takes_part, scores, scores.dtype.min), group, num_rows)
        shifted = tf.where(takes_part, scores - tf.stop_gradient(tf.gather(highest, group)), 0.0)
        total = tf.gather(tf.math.unsorted_segment_sum(part * tf.exp(shifted), group, num_rows), group)
        log_total = tf.math.log(tf.where(takes_part, total, 1.0))
        if self._label_smoothing:
            sums = tf.math.unsorted_segment_sum(part * shifted, group, num_rows)
            counts = tf.math.unsorted_segment_sum(part, group, num_rows)
            mean = tf.gather(tf.math.divide_no_nan(sums, counts), group)
            shifted = (1.0 - self._label_smoothing) * shifted + self._label_smoothing * mean
        return tf.where(candidates.is_true, log_total - shifted, 0.0)
