"""Macro-F1 as a metric that is summed up over batches and replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MacroF1(tf_keras.metrics.Metric):
    """Mean of the classes' F1 scores; every class that occurs as truth or as prediction counts once.

    It equals scikit-learn's `f1_score(average="macro")` over the rows of weight above 0. State is a sum over rows, so
    the figure is that of all batches and replicas together, not a mean of means.

    Shapes: classes, integers [n] or [n, 1]; logits or probabilities, float [n, num_classes]; weights [n] or [n, 1].

    Args:
        num_classes: number of classes, at least 1.
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, num_classes: int, *, name: str = "macro_f1", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if num_classes < 1:
            raise ValueError(f"`num_classes` must be at least 1; got {num_classes}. Count the classes.")
        self._num_classes = num_classes
        self._hits = self.add_weight("hits", shape=(num_classes,), initializer="zeros", dtype=tf.float32)
        self._truths = self.add_weight("truths", shape=(num_classes,), initializer="zeros", dtype=tf.float32)
        self._guesses = self.add_weight("guesses", shape=(num_classes,), initializer="zeros", dtype=tf.float32)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch; see the class for shapes."""
        truths = tf.reshape(tf.cast(y_true, tf.int32), [-1])
        guesses = tf.argmax(y_pred, axis=-1, output_type=tf.int32)
        weights = tf.ones_like(guesses, tf.float32)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, tf.float32), [-1])
        hits = tf.where(truths == guesses, weights, 0.0)
        self._hits.assign_add(tf.math.unsorted_segment_sum(hits, truths, self._num_classes))
        self._truths.assign_add(tf.math.unsorted_segment_sum(weights, truths, self._num_classes))
        self._guesses.assign_add(tf.math.unsorted_segment_sum(weights, guesses, self._num_classes))

    def result(self) -> tf.Tensor:
        """The mean so far; 0 before anything counted."""
        both = self._truths + self._guesses
        f1 = tf.math.divide_no_nan(2.0 * self._hits, both)
        return tf.math.divide_no_nan(tf.reduce_sum(f1), tf.reduce_sum(tf.cast(both > 0.0, tf.float32)))

    def reset_state(self) -> None:
        """Forgets all batches."""
        # What Keras does by itself is for scalars.
        tf_keras.backend.batch_set_value([(variable, np.zeros(variable.shape)) for variable in self.variables])

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal metric."""
        return {**super().get_config(), "num_classes": self._num_classes}
