"""How far a classifier's confidence can be trusted: counts by confidence, and its most confident mistakes.

Both merge across machines, in any order, and have a bounded size whatever they summarize.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Array
from tfx_gnn.components.graph_evaluator.worst_examples import keep_worst

NUM_BINS = 10
"""Bins of equal width that confidences from 0 to 1 are counted in."""

# Sums of whole numbers do not depend on their order.
_UNITS = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong prediction.

    Attributes:
        id: original id of the seed node or of the graph.
        true: the true class.
        predicted: the predicted class.
        score: probability that the model gave to the predicted class.
    """

    id: str
    true: str
    predicted: str
    score: float

    @property
    def sort_key(self) -> tuple[float, str, str, str]:
        """The most confident mistake comes first, ties in alphabetical order."""
        return (-self.score, self.id, self.true, self.predicted)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfidenceCounts:
    """Predictions by the probability that the model gave to its predicted class.

    Attributes:
        num_examples: labelled examples in each bin; all 0 if the model returns no probability.
        num_correct: correct predictions among these.
        confidence: sum of the probabilities in each bin, in billionths.
        mistakes: the most confident mistakes, in the order of their sort key.
    """

    num_examples: tuple[int, ...] = (0,) * NUM_BINS
    num_correct: tuple[int, ...] = (0,) * NUM_BINS
    confidence: tuple[int, ...] = (0,) * NUM_BINS
    mistakes: tuple[Mistake, ...] = ()

    @classmethod
    def of(
        cls, ids: Sequence[str], truth: Sequence[str], predicted: Sequence[str], scores: Array, *, unlabelled: str
    ) -> ConfidenceCounts:
        """Counts predictions, except those whose true class is `unlabelled`.

        `scores` has shape [n]; NaN counts as 0.
        """
        is_labelled = np.array([true != unlabelled for true in truth], bool)
        is_correct = np.array([true == guess for true, guess in zip(truth, predicted, strict=True)], bool)
        scores = as_probabilities(scores)
        bins = confidence_bins(scores)
        units = np.rint(scores * _UNITS).astype(np.int64)

        def total(values: Array) -> tuple[int, ...]:
            sums = np.zeros(NUM_BINS, np.int64)
            np.add.at(sums, bins[is_labelled], values[is_labelled])
            return tuple(sums.tolist())

        mistakes = [
            Mistake(id=ids[int(i)], true=truth[int(i)], predicted=predicted[int(i)], score=round(float(scores[i]), 6))
            for i in np.flatnonzero(is_labelled & ~is_correct)
        ]
        return cls(
            num_examples=total(np.ones_like(units)),
            num_correct=total(is_correct.astype(np.int64)),
            confidence=total(units),
            mistakes=keep_worst(mistakes),
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ConfidenceCounts:
        """Restores what `to_json` wrote."""
        num_examples, num_correct, confidence, mistakes = plain
        return cls(
            num_examples=tuple(num_examples),
            num_correct=tuple(num_correct),
            confidence=tuple(confidence),
            mistakes=tuple(Mistake(**mistake) for mistake in mistakes),
        )

    def to_json(self) -> list[Any]:
        """Converts the counts to lists."""
        return [
            list(self.num_examples),
            list(self.num_correct),
            list(self.confidence),
            [dataclasses.asdict(mistake) for mistake in self.mistakes],
        ]

    def merged_with(self, other: ConfidenceCounts) -> ConfidenceCounts:
        """Adds the counts of other examples."""
        return ConfidenceCounts(
            num_examples=_added(self.num_examples, other.num_examples),
            num_correct=_added(self.num_correct, other.num_correct),
            confidence=_added(self.confidence, other.confidence),
            mistakes=keep_worst([*self.mistakes, *other.mistakes]),
        )

    def calibration_error(self) -> float | None:
        """Computes the expected calibration error; None if nothing was counted.

        It is the mean difference between a bin's accuracy and its mean confidence, weighted by its examples
        (arXiv:1706.04599, section 2).
        """
        total = sum(self.num_examples)
        gaps = (abs(correct - units / _UNITS) for correct, units in zip(self.num_correct, self.confidence, strict=True))
        return sum(gaps) / total if total else None

    def report(self) -> dict[str, Any]:
        """Assembles the part of `metrics.json` about confidence; empty if nothing was counted."""
        error = self.calibration_error()
        if error is None:
            return {}
        bins = []
        for i, (count, correct, units) in enumerate(
            zip(self.num_examples, self.num_correct, self.confidence, strict=True)
        ):
            if count:
                mean, accuracy = units / _UNITS / count, correct / count
                bins.append(
                    {
                        "low": i / NUM_BINS,
                        "high": (i + 1) / NUM_BINS,
                        "num_examples": count,
                        "mean_confidence": mean,
                        "accuracy": accuracy,
                    }
                )
        return {
            "calibration": {"expected_calibration_error": error, "bins": bins},
            "confident_mistakes": [dataclasses.asdict(mistake) for mistake in self.mistakes],
        }


def as_probabilities(scores: Array) -> Array:
    """Clips scores to [0, 1]; NaN counts as 0."""
    return np.clip(np.nan_to_num(np.asarray(scores, np.float64), nan=0.0), 0.0, 1.0)


def confidence_bins(probabilities: Array) -> Array:
    """Returns the bin of each probability, in [0, NUM_BINS)."""
    return np.minimum((probabilities * NUM_BINS).astype(np.int64), NUM_BINS - 1)


def _added(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(first, second, strict=True))
