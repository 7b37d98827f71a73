"""Metrics of classification, regression and link prediction that are summed over batches and replicas.

Labels of pairs, int64 [n, 2], are described in `candidate_groups`. The candidates of an example must be in one
batch of one replica, as they are if an example is one graph. A true pair has the weight of its row.
Rank metrics ignore the weights of false pairs, because a loss may set them to 0. A true pair without a false pair in
its example has no rank: `UnrankedPairs` counts it, and rank metrics leave it out, as in GraphEvaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.models.candidate_groups import Candidates, have_false_ones, ranks_of_candidates, static_rows


class _ArrayMetric(tf_keras.metrics.Metric):
    """A metric whose state is arrays of sums."""

    def _add_sums(self, name: str, length: int) -> tf.Variable:
        variable: tf.Variable = self.add_weight(name, shape=(length,), initializer="zeros", dtype=tf.float32)
        return variable

    def reset_state(self) -> None:
        """Resets all sums to zero."""
        # The method of Keras is for scalar variables.
        tf_keras.backend.batch_set_value([(variable, np.zeros(variable.shape)) for variable in self.variables])


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MacroF1(_ArrayMetric):
    """Mean F1 score over classes; every class that occurs as label or as prediction counts once.

    It equals scikit-learn's `f1_score(average="macro")` over the rows of weight above 0. The state is a sum over rows,
    so the result is that of all batches and replicas together, not a mean of means.

    Shapes: classes, integers [n] or [n, 1]; logits or probabilities, float [n, num_classes]; weights [n] or [n, 1].

    Args:
        num_classes: number of classes, at least 1.
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.

    Example:
        >>> metric = MacroF1(3)
        >>> logits = tf.one_hot([0, 0, 1], 3)
        >>> metric.update_state(tf.constant([0, 1, 1]), logits)
        >>> round(float(metric.result()), 4)
        0.6667
        >>> metric.reset_state()
        >>> metric.update_state(tf.constant([0, 1, 1]), logits, sample_weight=tf.constant([1.0, 0.0, 1.0]))
        >>> float(metric.result())
        1.0
    """

    def __init__(self, num_classes: int, *, name: str = "macro_f1", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if num_classes < 1:
            raise ValueError(f"`num_classes` must be at least 1; got {num_classes}. Count the classes.")
        self._num_classes = num_classes
        self._hits = self._add_sums("hits", num_classes)
        self._truths = self._add_sums("truths", num_classes)
        self._guesses = self._add_sums("guesses", num_classes)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch; see the class for shapes."""
        truths = tf.reshape(tf.cast(y_true, tf.int32), [-1])
        guesses = tf.argmax(y_pred, axis=-1, output_type=tf.int32)
        weights = _weights_or_ones(sample_weight, guesses)
        hits = tf.where(truths == guesses, weights, 0.0)
        self._hits.assign_add(tf.math.unsorted_segment_sum(hits, truths, self._num_classes))
        self._truths.assign_add(tf.math.unsorted_segment_sum(weights, truths, self._num_classes))
        self._guesses.assign_add(tf.math.unsorted_segment_sum(weights, guesses, self._num_classes))

    def result(self) -> tf.Tensor:
        """The mean so far; 0 before any row has weight."""
        both = self._truths + self._guesses
        f1 = tf.math.divide_no_nan(2.0 * self._hits, both)
        return tf.math.divide_no_nan(tf.reduce_sum(f1), tf.reduce_sum(tf.cast(both > 0.0, tf.float32)))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "num_classes": self._num_classes}


class _ErrorMetric(_ArrayMetric):
    """Scales errors to the label's own unit, and weights each number separately."""

    def __init__(self, scale: Sequence[float], *, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not scale:
            raise ValueError("`scale` must hold one number for each output; got none. Write (1.0,) for one output.")
        self._scale = tuple(float(value) for value in scale)

    def _sum(self, name: str) -> tf.Variable:
        return self._add_sums(name, len(self._scale))

    def _rows(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns labels, errors and weights, float32 [n, num_outputs]."""
        shape = [-1, len(self._scale)]
        labels = tf.reshape(tf.cast(y_true, tf.float32), shape)
        errors = (tf.reshape(tf.cast(y_pred, tf.float32), shape) - labels) * tf.constant(self._scale)
        return labels, errors, _weights_or_ones(sample_weight, labels, row_shape=shape[1:])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "scale": self._scale}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedMae(_ErrorMetric):
    """Weighted mean absolute error of each output, averaged over outputs that have weight.

    Shapes: labels, predictions and weights float [n, num_outputs].

    Args:
        scale: factors that convert errors to the label's own unit, one per output.
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
        """The mean so far; 0 before any row has weight."""
        return mean_of_known(tf.math.divide_no_nan(self._total, self._weight), self._weight)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedRmse(_ErrorMetric):
    """Weighted root mean squared error of each output, averaged over outputs that have weight.

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
        """The error so far; 0 before any row has weight."""
        return mean_of_known(tf.sqrt(tf.math.divide_no_nan(self._total, self._weight)), self._weight)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class WeightedR2(_ErrorMetric):
    """R2, the fraction of the labels' variance that predictions explain, of each output, averaged over outputs.

    1 is perfect, 0 is as good as predicting the mean label, negative is worse. Labels are summed relative to
    `center`, because float32 sums of large labels would lose their variance.

    Shapes: labels, predictions and weights float [n, num_outputs].

    Args:
        center: approximate mean of the labels, one number per output.
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
        """The R2 so far; 0 for an output whose labels are all equal."""
        variance = self._squares - tf.math.divide_no_nan(tf.square(self._labels), self._weight)
        varies = variance > 0.0
        share = tf.where(varies, 1.0 - tf.math.divide_no_nan(self._errors, variance), 0.0)
        return mean_of_known(share, self._weight)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = {**super().get_config(), "center": self._center}
        del config["scale"]
        return config


def mean_of_known(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Averages the values of outputs with weight above 0, both [num_outputs]; 0 if there are none."""
    known = tf.cast(weights > 0.0, tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(values * known), tf.reduce_sum(known))


_NUM_BINS = 1 << 16


class _RankMetric(tf_keras.metrics.Metric):
    """Weighted mean of a function of the rank, over true pairs that have one."""

    def __init__(self, *, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._total = self.add_weight("total", initializer="zeros", dtype=tf.float32)
        self._weight = self.add_weight("weight", initializer="zeros", dtype=tf.float32)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: int64 [n, 2]; see the module.
            y_pred: scores, float [n].
            sample_weight: float [n]; None for equal weights.
        """
        candidates = Candidates.of(y_true)
        scores = tf.reshape(tf.cast(y_pred, tf.float32), [-1])
        weights = tf.where(have_false_ones(candidates), _true_weights(candidates, sample_weight), 0.0)
        order, ranks = ranks_of_candidates(candidates, scores)
        weights = tf.gather(weights, order)
        self._total.assign_add(tf.reduce_sum(weights * self._value(ranks)))
        self._weight.assign_add(tf.reduce_sum(weights))

    def result(self) -> tf.Tensor:
        """The mean so far; 0 before any true pair has a rank."""
        return tf.math.divide_no_nan(self._total, self._weight)

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MeanReciprocalRank(_RankMetric):
    """Mean of 1 / rank of the true pairs, each ranked among the negatives of its example.

    Tied candidates get their mean rank; see `ranks_of_candidates`.

    Args:
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.

    Example:
        >>> labels = tf.constant([[1, 0], [0, 0], [0, 0], [1, 3], [0, 3]])
        >>> scores = tf.constant([2.0, 3.0, 1.0, 5.0, 4.0])
        >>> metric = MeanReciprocalRank()
        >>> metric.update_state(labels, scores)
        >>> float(metric.result())
        0.75
    """

    def __init__(self, *, name: str = "mrr", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        return 1.0 / ranks


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class HitsAt(_RankMetric):
    """Fraction of true pairs whose rank among the negatives of their example is at most k.

    Tied candidates get their mean rank; see `ranks_of_candidates`.

    Args:
        k: the worst rank that counts as a hit, at least 1.
        name: name of the metric; "hits_at_<k>" by default.
        **kwargs: arguments of `tf_keras.metrics.Metric`.

    Example:
        >>> labels = tf.constant([[1, 0], [0, 0], [0, 0], [1, 3], [0, 3]])
        >>> scores = tf.constant([2.0, 3.0, 1.0, 5.0, 4.0])
        >>> first, second = HitsAt(1), HitsAt(2)
        >>> for metric in (first, second):
        ...     metric.update_state(labels, scores)
        >>> first.name, float(first.result()), float(second.result())
        ('hits_at_1', 0.5, 1.0)
    """

    def __init__(self, k: int, *, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name or f"hits_at_{k}", **kwargs)
        if k < 1:
            raise ValueError(f"`k` must be at least 1; got {k}. Usual are 1, 3 and 10.")
        self._k = k

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        return tf.cast(ranks <= float(self._k), tf.float32)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "k": self._k}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class UnrankedPairs(tf_keras.metrics.Metric):
    """Number of true pairs without a negative in their example, which rank metrics leave out.

    Args:
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, *, name: str = "unranked_pairs", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._count = self.add_weight("count", initializer="zeros", dtype=tf.float32)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: int64 [n, 2]; see the module.
            y_pred: scores, float [n]; not used.
            sample_weight: float [n]; a true pair counts if its weight is above 0. None for equal weights.
        """
        candidates = Candidates.of(y_true)
        is_counted = _true_weights(candidates, sample_weight) > 0.0
        is_unranked = is_counted & ~have_false_ones(candidates)
        self._count.assign_add(tf.reduce_sum(tf.cast(is_unranked, tf.float32)))

    def result(self) -> tf.Tensor:
        """The count so far."""
        return tf.identity(self._count)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class CandidateAuc(_ArrayMetric):
    """Area under the ROC curve, or average precision, over the candidates of all examples together.

    Scores are binned by their first 16 bits: two scores that differ by less than one part in 128 may count as tied.
    Thresholds between 0 and 1, as in `tf_keras.metrics.AUC`, would not distinguish large scores. Ties count
    half in "ROC". All candidates of an example get the largest weight among them.

    Args:
        curve: "ROC", or "PR" for the average precision.
        name: name of the metric; "auc" or "average_precision" by default.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, curve: str = "ROC", *, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name or ("auc" if curve == "ROC" else "average_precision"), **kwargs)
        if curve not in ("ROC", "PR"):
            raise ValueError(f"`curve` must be 'ROC' or 'PR'; got {curve!r}. Choose one of them.")
        self._curve = curve
        self._true = self._add_sums("true", _NUM_BINS)
        self._false = self._add_sums("false", _NUM_BINS)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: int64 [n, 2]; see the module.
            y_pred: scores, float [n].
            sample_weight: float [n]; None for equal weights.
        """
        candidates = Candidates.of(y_true)
        scores = tf.reshape(tf.cast(y_pred, tf.float32), [-1])
        weights = _weights_or_ones(sample_weight, scores)
        if sample_weight is not None:
            heaviest = tf.math.unsorted_segment_max(weights, candidates.group, static_rows(scores))
            weights = tf.gather(heaviest, candidates.group)
        bins = _ordered_bins(scores)
        for counts, chosen in ((self._true, candidates.is_true), (self._false, candidates.is_false)):
            counts.assign_add(tf.math.unsorted_segment_sum(tf.where(chosen, weights, 0.0), bins, _NUM_BINS))

    def result(self) -> tf.Tensor:
        """The area so far; 0 until there are both true and false pairs ("PR": until there are true pairs)."""
        num_true = tf.reduce_sum(self._true)
        if self._curve == "ROC":
            below = tf.cumsum(self._false, exclusive=True) + 0.5 * self._false
            return tf.math.divide_no_nan(tf.reduce_sum(self._true * below), num_true * tf.reduce_sum(self._false))
        true_above, false_above = tf.cumsum(self._true, reverse=True), tf.cumsum(self._false, reverse=True)
        precision = tf.math.divide_no_nan(true_above, true_above + false_above)
        return tf.math.divide_no_nan(tf.reduce_sum(self._true * precision), num_true)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "curve": self._curve}


def _ordered_bins(scores: tf.Tensor) -> tf.Tensor:
    """Returns the first 16 bits of floats as integers from 0 in the same order."""
    # Minus zero becomes zero. The bit patterns of negative floats are in reverse order.
    bits = tf.bitcast(tf.where(scores == 0.0, 0.0, scores), tf.int32)
    ordered = tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, 0x7FFFFFFF), bits)
    return tf.bitwise.right_shift(ordered, 16) + _NUM_BINS // 2


def _true_weights(candidates: Candidates, sample_weight: tf.Tensor | None) -> tf.Tensor:
    is_true = tf.cast(candidates.is_true, tf.float32)
    return is_true * _weights_or_ones(sample_weight, is_true)


def _weights_or_ones(sample_weight: tf.Tensor | None, like: tf.Tensor, *, row_shape: Sequence[int] = ()) -> tf.Tensor:
    """Converts weights, which Keras gives as [n] or [n, 1], to float32 of the shape of the weighted values."""
    if sample_weight is None:
        return tf.ones_like(like, tf.float32)
    return tf.reshape(tf.cast(sample_weight, tf.float32), [-1, *row_shape])
