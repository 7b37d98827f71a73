"""Whether a run's model is better than another run's, by paired tests on the examples that both evaluated.

Right answers are compared by McNemar's test (Psychometrika 12, 1947), other metrics by a paired bootstrap with the
weights of `paired_bootstrap`, so a comparison gives the same figures whenever it is made. Answers to the same seed,
several times evaluated, have the same weight. This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.intervals import LEAST_DEFINED, ResampledRows, draw_weights
from tfx_gnn.components.graph_evaluator.kept_predictions import (
    BY_BYTES,
    REGRESSION,
    KeptPredictions,
    read_predictions,
)
from tfx_gnn.components.graph_evaluator.paired_bootstrap import bootstrap_p_value, interval_of
from tfx_gnn.records.metric_names import CALIBRATION_ERROR, ROC_AUC
from tfx_gnn.reports.paired_metrics import BOOTSTRAP, CONFIDENCE, EXACT_MCNEMAR, MCNEMAR, PairedMetric, PairedTask

_ACCURACY = "accuracy"
_MOST_REPLICAS, _FEWEST_REPLICAS = 2000, 400
_WEIGHTS = 40_000_000
"""Weights that are drawn at most, unless there are so many rows that `_FEWEST_REPLICAS` need more."""
_EXACT_UP_TO = 1000
"""Examples on which answers differ, up to which McNemar's test is exact."""

_NO_LIMIT = 1 << 64
_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)

Array = npt.NDArray[Any]
_LABELS = ("truth", "label")
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    _ACCURACY: ("predicted",),
    "macro_f1": ("predicted",),
    "balanced_accuracy": ("predicted",),
    CALIBRATION_ERROR: ("predicted", "probability"),
    ROC_AUC: ("log_odds", "score"),
    "average_precision": ("score",),
    "mrr": ("rank",),
}
"""Values that a metric is made of, besides labels; all values for others."""


def compare_evaluations(first: tuple[str, str], other: tuple[str, str], tasks: Iterable[str]) -> dict[str, PairedTask]:
    """Compares the evaluations of two runs.

    Args:
        first: title of the run that differences are from, and folder of its evaluation, "" if it has none.
        other: those of the other run.
        tasks: names of the tasks that both runs evaluated.

    Returns:
        What was found, by task. A run without kept predictions, or with damaged ones, is a reason, and no error.
    """
    return {task: _compare_task(first, other, task) for task in tasks}


def _compare_task(first: tuple[str, str], other: tuple[str, str], task: str) -> PairedTask:
    kept: list[KeptPredictions] = []
    without: list[str] = []
    damages: list[str] = []
    for title, folder in (first, other):
        try:
            predictions = read_predictions(folder, task)
        except (OSError, ValueError) as error:
            damages.append(str(error))
            continue
        if predictions is None:
            without.append(title)
        else:
            kept.append(predictions)
    if without:
        damages.append(
            f"{' and '.join(without)} kept no predictions, as evaluations by older versions did. Run again what lacks "
            "them: GraphEvaluator keeps them now"
        )
    return PairedTask(reason="; ".join(damages)) if damages else compare_predictions(*kept)


def compare_predictions(first: KeptPredictions, other: KeptPredictions) -> PairedTask:
    """Compares the answers of two runs to the examples that both kept.

    Args:
        first: answers of the run that differences are from.
        other: those of the other run.

    Returns:
        How many examples are common, and for each metric the difference, its interval and its p value. Without common
        examples, the reason.
    """
    reason = _reason_against(first, other)
    if reason:
        return PairedTask(reason=reason, first=_counts(first), other=_counts(other))
    pair = _pair(first.sample, other.sample)
    num_common = len(pair.first.hashes)
    num_replicas = max(_FEWEST_REPLICAS, min(_MOST_REPLICAS, _WEIGHTS // max(num_common, 1)))
    return PairedTask(
        reason="" if num_common else _without_common(first, pair),
        first=_counts(first),
        other=_counts(other),
        num_common=num_common,
        num_other_labels=pair.num_other_labels,
        num_replicas=num_replicas if num_common else 0,
        metrics=_tested(first, pair, num_replicas) if num_common else (),
    )


def mcnemar_p_value(num_better: int, num_worse: int) -> float:
    """Tests whether two classifiers are right equally often.

    Args:
        num_better: examples that only the one has right.
        num_worse: examples that only the other has right.

    Returns:
        Two-sided p value: exact, from the binomial distribution, for up to 1,000 such examples; else from the
        chi-squared distribution with a correction for continuity.

    Example:
        >>> round(mcnemar_p_value(9, 1), 6)
        0.021484
    """
    total, smaller = num_better + num_worse, min(num_better, num_worse)
    if total <= _EXACT_UP_TO:
        return min(1.0, 2.0 * (sum(math.comb(total, k) for k in range(smaller + 1)) / 2**total))
    statistic = (abs(num_better - num_worse) - 1.0) ** 2 / total if num_better != num_worse else 0.0
    return math.erfc(math.sqrt(statistic / 2.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pair:
    """The rows of two runs about the same examples, in the same order."""

    first: BootstrapSample
    other: BootstrapSample
    num_other_labels: int

    @property
    def num_examples(self) -> int:
        """Examples that are independent of each other: rows about one seed count once."""
        return len(np.unique(self.first.hashes))

    def num_differing(self, metric: str) -> int:
        """Counts the examples whose answers differ in what a metric is made of."""
        first, other = self.first.model, self.other.model
        shared = [name for name in first if name in other and name not in _LABELS]
        names = [name for name in _MADE_OF.get(metric, ()) if name in shared] or shared
        is_other = np.any([first[name] != other[name] for name in names], axis=0)
        return len(np.unique(np.repeat(self.first.hashes, self.first.lengths)[is_other]))


def _reason_against(first: KeptPredictions, other: KeptPredictions) -> str:
    for what, of_first, of_other in (
        ("task", first.kind.replace("_", " "), other.kind.replace("_", " ")),
        ("split", first.split, other.split),
        ("identity of examples", first.identified_by, other.identified_by),
    ):
        if of_first != of_other:
            return f"the {what} is {of_other!r} instead of {of_first!r}"
    if first.kind == REGRESSION and first.setting != other.setting:
        return f"the label has {other.setting[0]} numbers instead of {first.setting[0]}"
    return ""


def _without_common(first: KeptPredictions, pair: _Pair) -> str:
    if pair.num_other_labels:
        return f"no example has the same label in both runs, of {pair.num_other_labels:,} common ones"
    if first.identified_by == BY_BYTES:
        return "no example is the same in both runs: without ids of seeds, all their features must be equal"
    return "no example is common: the runs evaluated other data, or split them differently"


def _counts(kept: KeptPredictions) -> tuple[int, int]:
    return len(kept.sample.hashes), kept.num_examples


def _pair(first: BootstrapSample, other: BootstrapSample) -> _Pair:
    """Pairs rows of equal hashes; several rows about one seed in the order of their labels."""
    # Below both limits no row is missing from either.
    limit = min(first.limit, other.limit)
    first, other = _ordered_below(first, limit), _ordered_below(other, limit)
    _, rows, other_rows = np.intersect1d(
        _keys(first.hashes), _keys(other.hashes), assume_unique=True, return_indices=True
    )
    # In the order of hashes, so that the same rows have the same weights.
    order = np.argsort(rows)
    first, other = first.rows(rows[order]), other.rows(other_rows[order])
    num_common = len(rows)
    for same in (_same_lengths, _same_labels):
        is_same = np.flatnonzero(same(first, other))
        first, other = first.rows(is_same), other.rows(is_same)
    return _Pair(first=first, other=other, num_other_labels=num_common - len(first.hashes))


def _same_lengths(first: BootstrapSample, other: BootstrapSample) -> Array:
    return first.lengths == other.lengths


def _same_labels(first: BootstrapSample, other: BootstrapSample) -> Array:
    """Compares the labels of rows of equal lengths, where NaN equals NaN."""
    if not len(first.hashes):
        return np.zeros(0, bool)
    of_first, of_other = _label_values(first), _label_values(other)
    is_same = of_first == of_other
    if of_first.dtype.kind == of_other.dtype.kind == "f":
        is_same |= np.isnan(of_first) & np.isnan(of_other)
    return np.logical_and.reduceat(is_same, np.cumsum(first.lengths) - first.lengths)


def _label_values(sample: BootstrapSample) -> Array:
    return next(sample.model[name] for name in _LABELS if name in sample.model)


def _ordered_below(sample: BootstrapSample, limit: int) -> BootstrapSample:
    starts = np.cumsum(sample.lengths) - sample.lengths
    _, labels = np.unique(_label_values(sample)[starts], return_inverse=True)
    order = np.lexsort([labels.reshape(-1), sample.hashes])
    if limit < _NO_LIMIT:
        order = order[sample.hashes[order] < np.uint64(limit)]
    return sample.rows(order)


def _keys(hashes: Array) -> Array:
    """Tells apart equal hashes, which follow each other, by how many came before."""
    starts = np.flatnonzero(np.diff(hashes, prepend=hashes[:1] + np.uint64(1)) != 0)
    lengths = np.diff(np.append(starts, len(hashes)))
    before = np.arange(len(hashes)) - np.repeat(starts, lengths)
    return hashes + before.astype(np.uint64) * _GOLDEN_RATIO


def _tested(kept: KeptPredictions, pair: _Pair, num_replicas: int) -> tuple[PairedMetric, ...]:
    rows = np.arange(len(pair.first.hashes))
    resampled = ResampledRows(
        rows=rows,
        num_values=int(pair.first.lengths.sum()),
        functions=[kept.weighted_metrics(pair.other), kept.weighted_metrics(pair.first)],
        replicas=[[], []],
    )
    for weights in draw_weights(pair.first, num_replicas):
        resampled.add(weights)
    names = [name for name in resampled.replicas[0][0] if name in resampled.replicas[1][0]]
    found = [_metric(name, pair, resampled) for name in names]
    return tuple(one for one in found if one is not None)


def _metric(name: str, pair: _Pair, resampled: ResampledRows) -> PairedMetric | None:
    """Tests one metric; None if it is not defined for these examples."""
    (of_other, value), (of_first, first_value) = (resampled.of_metric(model, name) for model in range(2))
    gains = of_other - of_first
    gains = gains[~np.isnan(gains)]
    if math.isnan(value) or math.isnan(first_value) or len(gains) < LEAST_DEFINED * len(of_other):
        return None
    ends = interval_of(gains, pair.num_examples, CONFIDENCE)
    p_value, test = bootstrap_p_value(gains, pair.num_examples), BOOTSTRAP
    if name == _ACCURACY and pair.num_examples == len(pair.first.hashes):
        is_right = [one.model["predicted"] == one.model["truth"] for one in (pair.other, pair.first)]
        num_better, num_worse = (int(np.sum(one & ~two)) for one, two in (is_right, is_right[::-1]))
        p_value = mcnemar_p_value(num_better, num_worse)
        test = EXACT_MCNEMAR if num_better + num_worse <= _EXACT_UP_TO else MCNEMAR
    # Were the runs' answers exchanged at random, n that differ would all be in favour of one run so often.
    p_value = min(1.0, max(p_value, 2.0 ** (1 - min(pair.num_differing(name), 1000))))
    lower, upper = ends if ends is not None else (None, None)
    return PairedMetric(
        metric=name, difference=value - first_value, lower=lower, upper=upper, p_value=p_value, test=test
    )
