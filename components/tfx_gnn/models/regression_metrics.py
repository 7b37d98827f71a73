"""Errors of numbers as metrics that are summed up over batches and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras


class _ErrorMetric(tf_keras.metrics.Metric):
    """Scales errors to the label's own unit, and weighs each number by itself."""

    def __init__(self, scale: Sequence[float], *, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not scale:
            raise ValueError("`scale` must hold one number for each output; got none. Write (1.0,) for one output.")
        self._scale = tuple(float(value) for value in scale)

    def _sum(self, name: str) -> tf.Variable:
        shape = (len(self._scale),)
        variable: tf.Variable = self.add_weight(name, shape=shape, initializer="zeros", dtype=tf.float32)
        return variable

    def _rows(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Labels, errors and weights, float32 [n, num_outputs]."""
        shape = [-1, len(self._scale)]
        labels = tf.reshape(tf.cast(y_true, tf.float32), shape)
        errors = (tf.reshape(tf.cast(y_pred, tf.float32), shape) - labels) * tf.constant(self._scale)
        weights = tf.ones_like(labels)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, tf.float32), shape)
        return labels, errors, weights

    def reset_state(self) -> None:
        """Forgets all batches."""
        # What Keras does by itself is for scalars.
        tf_keras.backend.batch_set_value([(variable, np.zeros(variable.shape)) for variable in self.variables])

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal metric."""
        return {**super().get_config(), "scale": self._scale}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedMae(_ErrorMetric):
    """Mean absolute error: of each output over its numbers of weight above 0, then the mean over outputs.

    Shapes: labels, predictions and weights float [n, num_outputs].

    Args:
        scale: what errors are multiplied by, one number an output, to be in the label's own unit.
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, scale: Sequence[float] = (1.0,), *, name: str = "mae", **kwargs: Any) -> None:
        super().__init__(scale, name=name, **kwargs)
        self._total = self._sum("total")
        self._weight = self._sum("weight")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch; see the class for shapes."""
        _, errors, weights = self._rows(y_true, y_pred, sample_weight)
        self._total.assign_add(tf.reduce_sum(tf.abs(errors) * weights, axis=0))
        self._weight.assign_add(tf.reduce_sum(weights, axis=0))

    def result(self) -> tf.Tensor:
        """The mean so far; 0 before anything counted."""
        return mean_of_known(tf.math.divide_no_nan(self._total, self._weight), self._weight)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedRmse(_ErrorMetric):
    """Root of the mean squared error: of each output over its numbers of weight above 0, then the mean over outputs.

    Shapes: labels, predictions and weights float [n, num_outputs].

    Args:
        scale: as for `WeightedMae`.
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, scale: Sequence[float] = (1.0,), *, name: str = "rmse", **kwargs: Any) -> None:
        super().__init__(scale, name=name, **kwargs)
        self._total = self._sum("total")
        self._weight = self._sum("weight")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch; see the class for shapes."""
        _, errors, weights = self._rows(y_true, y_pred, sample_weight)
        self._total.assign_add(tf.reduce_sum(tf.square(errors) * weights, axis=0))
        self._weight.assign_add(tf.reduce_sum(weights, axis=0))

    def result(self) -> tf.Tensor:
        """The root so far; 0 before anything counted."""
        return mean_of_known(tf.sqrt(tf.math.divide_no_nan(self._total, self._weight)), self._weight)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedR2(_ErrorMetric):
    """Share of the labels' variance that predictions explain: of each output, then the mean over outputs.

    1 is perfect, 0 as good as the labels' mean, negative worse. Labels are summed up around
    `center`, since float32 sums of large labels would lose their variance.

    Shapes: labels, predictions and weights float [n, num_outputs].

    Args:
        center: about the mean of the labels, one number an output.
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, center: Sequence[float] = (0.0,), *, name: str = "r2", **kwargs: Any) -> None:
        super().__init__((1.0,) * len(center), name=name, **kwargs)
        self._center = tuple(float(value) for value in center)
        self._errors = self._sum("squared_errors")
        self._labels = self._sum("labels")
        self._squares = self._sum("squared_labels")
        self._weight = self._sum("weight")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch; see the class for shapes."""
        labels, errors, weights = self._rows(y_true, y_pred, sample_weight)
        labels -= tf.constant(self._center)
        self._errors.assign_add(tf.reduce_sum(tf.square(errors) * weights, axis=0))
        self._labels.assign_add(tf.reduce_sum(labels * weights, axis=0))
        self._squares.assign_add(tf.reduce_sum(tf.square(labels) * weights, axis=0))
        self._weight.assign_add(tf.reduce_sum(weights, axis=0))

    def result(self) -> tf.Tensor:
        """The share so far; 0 for an output whose labels are all equal."""
        variance = self._squares - tf.math.divide_no_nan(tf.square(self._labels), self._weight)
        varies = variance > 0.0
        share = tf.where(varies, 1.0 - tf.math.divide_no_nan(self._errors, variance), 0.0)
        return mean_of_known(share, self._weight)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal metric."""
        config = {**super().get_config(), "center": self._center}
        del config["scale"]
        return config


def mean_of_known(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Averages figures of outputs that have any label.

    Args:
        values: float [num_outputs], a figure for each.
        weights: float [num_outputs], sum of weights for each.

    Returns:
        Scalar; 0 if no output has weight.
    """
    known = tf.cast(weights > 0.0, tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(values * known), tf.reduce_sum(known))
