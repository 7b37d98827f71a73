"""Metrics of weighted examples, for resampling: of classes, numbers and ranks.

Weights of 1 give the metrics of an evaluation. This module does not import TensorFlow, so that runs are compared fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfx_gnn.components.graph_evaluator.confidence import NUM_BINS, confidence_bins
from tfx_gnn.components.graph_evaluator.intervals import Array, GroupSums, WeightedMetrics
from tfx_gnn.components.graph_evaluator.score_counts import score_levels, weighted_areas
from tfx_gnn.records.metric_names import CALIBRATION_ERROR, ROC_AUC


def weigh_classes(values: Mapping[str, Array]) -> WeightedMetrics:
    """Computes metrics of a classification from weighted confusion counts.

    Args:
        values: "truth" and "predicted", the classes of each example, and as far as known "probability" of the predicted
            class and "log_odds" of the last of two classes; all of shape [num_examples].

    Returns:
        Function from weights.
    """
    truth, predicted = values["truth"], values["predicted"]
    names, codes = np.unique(np.concatenate([truth, predicted]), return_inverse=True)
    is_right = (truth == predicted).astype(np.float64)
    of_true, of_predicted = (GroupSums(part, len(names)) for part in np.split(codes.reshape(-1), 2))
    probability = values.get("probability")
    of_bin = GroupSums(confidence_bins(probability), NUM_BINS) if probability is not None else None
    area = _weighted_area(truth, values)

    def metrics(weights: Array) -> dict[str, Array]:
        total = _or_nan(weights.sum(axis=0))
        support, guesses, right = of_true(weights), of_predicted(weights), of_true(weights, is_right)
        occurs, is_true = support + guesses > 0.0, support > 0.0
        f1 = np.where(occurs, 2.0 * right / np.where(occurs, support + guesses, 1.0), 0.0)
        recall = np.where(is_true, right / np.where(is_true, support, 1.0), 0.0)
        found = {
            "accuracy": right.sum(axis=0) / total,
            "macro_f1": f1.sum(axis=0) / _or_nan(occurs.sum(axis=0)),
            "balanced_accuracy": recall.sum(axis=0) / _or_nan(is_true.sum(axis=0)),
        }
        if of_bin is not None:
            gaps = of_bin(weights, is_right - probability)
            found[CALIBRATION_ERROR] = np.abs(gaps).sum(axis=0) / total
        if area is not None:
            found[ROC_AUC] = area(weights)
        return found

    return metrics


def weigh_numbers(values: Mapping[str, Array], num_targets: int) -> WeightedMetrics:
    """Computes metrics of a regression from weighted sums over examples.

    Args:
        values: "truth", NaN where it is unknown, and "predicted", both of shape [num_examples * num_targets].
        num_targets: numbers of each example.

    Returns:
        Function from weights.
    """
    truth, predicted = (values[name].reshape([-1, num_targets]) for name in ("truth", "predicted"))
    is_known = np.isfinite(truth)
    known = np.where(is_known, truth, 0.0)
    # Values far from 0 would lose all digits of their spread.
    centered = np.where(is_known, known - known.sum(axis=0) / np.maximum(is_known.sum(axis=0), 1), 0.0)
    errors = np.where(is_known, predicted - known, 0.0)
    terms = np.stack([is_known.astype(np.float64), errors**2, np.abs(errors), centered, centered**2])

    def metrics(weights: Array) -> dict[str, Array]:
        # By term, replica and target.
        counts, squares, absolutes, sums, spreads = np.tensordot(terms, weights, axes=(1, 0)).swapaxes(1, 2)
        occurs = counts > 0.0
        divisors = np.where(occurs, counts, 1.0)
        spreads = np.maximum(spreads - sums**2 / divisors, 0.0)
        varies = spreads > 0.0
        r2 = np.where(varies, 1.0 - squares / np.where(varies, spreads, 1.0), squares == 0.0)
        found = {"rmse": np.sqrt(squares / divisors), "mae": absolutes / divisors, "r2": r2}
        num_known = occurs.sum(axis=1)
        divisors = np.where(num_known > 0, num_known, np.nan)
        return {name: np.where(occurs, value, 0.0).sum(axis=1) / divisors for name, value in found.items()}

    return metrics


def ranking_metrics(hits_at: Sequence[int]) -> tuple[str, ...]:
    """Names the metrics of a link predictor, such as "hits_at_10"."""
    return ("mrr", *(f"hits_at_{k}" for k in hits_at), "roc_auc", "average_precision")


def weigh_ranks(values: Mapping[str, Array], lengths: Array, hits_at: Sequence[int]) -> WeightedMetrics:
    """Computes mean ranks from weighted sums over rows, and areas from weighted counts of scores.

    Args:
        values: "score", "label" and "rank" of each pair, shape [sum of lengths]; the rank of an unranked pair is 0.
        lengths: pairs of each row.
        hits_at: ranks up to which a true pair counts as a hit.

    Returns:
        Function from weights of rows.
    """
    rows = np.repeat(np.arange(len(lengths)), lengths)
    ranks, is_positive = values["rank"], values["label"] == 1
    is_ranked = ranks > 0
    reciprocals = np.where(is_ranked, 1.0 / np.where(is_ranked, ranks, 1.0), 0.0)
    terms = np.zeros([2 + len(hits_at), len(lengths)])
    for row, of_pairs in enumerate((is_ranked, reciprocals, *(is_ranked & (ranks <= k) for k in hits_at))):
        np.add.at(terms[row], rows, of_pairs)
    levels, codes = np.unique(score_levels(values["score"]), return_inverse=True)
    codes = codes.reshape(-1)
    of_positives, of_negatives = (
        GroupSums(codes[chosen], len(levels), rows[chosen]) for chosen in (is_positive, ~is_positive)
    )

    def metrics(weights: Array) -> dict[str, Array]:
        num_ranked, *sums = terms @ weights
        means = [one / np.where(num_ranked > 0.0, num_ranked, np.nan) for one in sums]
        areas = weighted_areas(of_positives(weights), of_negatives(weights))
        return dict(zip(ranking_metrics(hits_at), (*means, *areas), strict=True))

    return metrics


def _weighted_area(truth: Array, values: Mapping[str, Array]) -> Callable[[Array], Array] | None:
    """Returns a function from weights to the area under the ROC curve; None if that is not defined."""
    log_odds, predicted = values.get("log_odds"), values["predicted"]
    names = np.unique(truth)
    if log_odds is None or len(names) != 2 or not np.isin(predicted, names).all():
        return None
    # The odds are those of the class that is predicted where they are large.
    surest = int(np.argmax(np.abs(log_odds)))
    positive = (truth == predicted[surest]) == (log_odds[surest] > 0.0)
    unique, levels = np.unique(score_levels(log_odds), return_inverse=True)
    of_level = GroupSums(levels.reshape(-1), len(unique))

    def area(weights: Array) -> Array:
        positives = of_level(weights, positive.astype(np.float64))
        return weighted_areas(positives, of_level(weights) - positives)[0]

    return area


def _or_nan(counts: Array) -> Array:
    """Replaces 0 by NaN, so that what is divided by it is undefined."""
    return np.where(counts > 0, counts, np.nan)
