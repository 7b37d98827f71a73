"""Metrics of scored candidate pairs, summed up over batches and replicas.

Labels, int64 [n, 2], are those of `candidate_groups`. The candidates of an example must be in one
batch of one replica, as they are where an example is one graph. A true pair weighs what its row
weighs; weights of false pairs are not asked for, since a loss may give them none.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.models.candidate_groups import Candidates, ranks_of_candidates, static_rows


class _RankMetric(tf_keras.metrics.Metric):
    """Weighted mean over true pairs of a value of their rank."""

    def __init__(self, *, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._total = self.add_weight("total", initializer="zeros", dtype=tf.float32)
        self._weight = self.add_weight("weight", initializer="zeros", dtype=tf.float32)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: int64 [n, 2], as the module says.
            y_pred: scores, float [n].
            sample_weight: float [n]; None for equal weights.
        """
        candidates = Candidates.of(y_true)
        scores = tf.reshape(tf.cast(y_pred, tf.float32), [-1])
        weights = _true_weights(candidates, sample_weight)
        order, ranks = ranks_of_candidates(candidates, scores)
        weights = tf.gather(weights, order)
        self._total.assign_add(tf.reduce_sum(weights * self._value(ranks)))
        self._weight.assign_add(tf.reduce_sum(weights))

    def result(self) -> tf.Tensor:
        """The mean so far; 0 before any true pair."""
        return tf.math.divide_no_nan(self._total, self._weight)

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MeanReciprocalRank(_RankMetric):
    """Mean of 1 / rank of the true pairs, each among the false candidates of its example.

    A tie counts by its mean rank; see `ranks_of_candidates`.

    Args:
        name: name of the metric.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, *, name: str = "mrr", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        return 1.0 / ranks


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class HitsAt(_RankMetric):
    """Share of true pairs whose rank among the false candidates of their example is at most k.

    A tie counts by its mean rank; see `ranks_of_candidates`.

    Args:
        k: the rank that counts as a hit, at least 1.
        name: name of the metric; "hits_at_<k>" by default.
        **kwargs: arguments of `tf_keras.metrics.Metric`.
    """

    def __init__(self, k: int, *, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name or f"hits_at_{k}", **kwargs)
        if k < 1:
            raise ValueError(f"`k` must be at least 1; got {k}. Usual are 1, 3 and 10.")
        self._k = k

    def _value(self, ranks: tf.Tensor) -> tf.Tensor:
        return tf.cast(ranks <= float(self._k), tf.float32)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal metric."""
        return {**super().get_config(), "k": self._k}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class CandidateAuc(tf_keras.metrics.AUC):
    """Area under the ROC curve, or under that of precision and recall, of all candidates of all examples.

    The curve is computed at `num_thresholds` points between 0 and 1 of the scores' sigmoid. All candidates
    of an example weigh what the heaviest of them does.

    Args:
        curve: "ROC", or "PR" for the average precision.
        name: name of the metric; "auc" or "average_precision" by default.
        **kwargs: arguments of `tf_keras.metrics.AUC`.
    """

    def __init__(self, curve: str = "ROC", *, name: str | None = None, **kwargs: Any) -> None:
        kwargs["from_logits"] = True
        super().__init__(curve=curve, name=name or ("auc" if curve == "ROC" else "average_precision"), **kwargs)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: int64 [n, 2], as the module says.
            y_pred: scores, float [n].
            sample_weight: float [n]; None for equal weights.
        """
        candidates = Candidates.of(y_true)
        scores = tf.reshape(tf.cast(y_pred, tf.float32), [-1])
        weights = tf.ones_like(scores)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, tf.float32), [-1])
            heaviest = tf.math.unsorted_segment_max(weights, candidates.group, static_rows(scores))
            weights = tf.gather(heaviest, candidates.group)
        weights = tf.where(candidates.is_true | candidates.is_false, weights, 0.0)
        super().update_state(candidates.is_true, scores, sample_weight=weights)


def _true_weights(candidates: Candidates, sample_weight: tf.Tensor | None) -> tf.Tensor:
    weights = tf.cast(candidates.is_true, tf.float32)
    return weights if sample_weight is None else weights * tf.reshape(tf.cast(sample_weight, tf.float32), [-1])
