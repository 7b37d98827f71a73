"""Link prediction metrics from mergeable sums of ranks and counts of scores.

The rank of a true pair is its position among the false pairs of its own example, by descending score; pairs of
equal score share their mean rank, so a model that gives all pairs one score gains nothing by their order. Other true
pairs of the example are left out, as filtered ranks do.

For the area under a curve, scores are rounded to 12 significant bits, so counts of any number of pairs stay small and
those of many machines add up. Only the order of scores matters, so logits serve as well as probabilities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.example_sums import ExampleSums

_DROPPED_BITS = 12
"""Of the 23 bits of a float32 after its leading one, 11 are kept."""


_Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """Pairs by their rounded score.

    Attributes:
        levels: int64 array, shape [num_levels]: the scores that occur, as integers of the same order, ascending.
        positives: int64 array, shape [num_levels]: true pairs of each score.
        negatives: int64 array, shape [num_levels]: false pairs of each score.
    """

    levels: _Counts
    positives: _Counts
    negatives: _Counts

    @classmethod
    def of(cls, scores: npt.NDArray[Any], is_positive: npt.NDArray[np.bool_]) -> ScoreCounts:
        """Counts pairs by finite score, compared as float32; both arrays have shape [num_pairs]."""
        bits = np.asarray(scores, np.float32).view(np.int32).astype(np.int64)
        # Floats as integers of the same order: those below 0 have their magnitude in the lower 31 bits.
        ordered = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
        rounded = (ordered + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS
        return _summed(rounded, is_positive.astype(np.int64), (~is_positive).astype(np.int64))

    def merged_with(self, other: ScoreCounts) -> ScoreCounts:
        """Adds the counts of other pairs."""
        return _summed(
            np.concatenate([self.levels, other.levels]),
            np.concatenate([self.positives, other.positives]),
            np.concatenate([self.negatives, other.negatives]),
        )

    def roc_auc(self) -> float | None:
        """Computes the area under the ROC curve; None without true or without false pairs.

        It is the probability that a true pair has a higher score than a false one; equal scores count half.
        """
        num_positives, num_negatives = int(self.positives.sum()), int(self.negatives.sum())
        if not num_positives or not num_negatives:
            return None
        below = np.cumsum(self.negatives) - self.negatives
        won = np.sum(self.positives.astype(np.float64) * (below + self.negatives / 2.0))
        return float(won / num_positives / num_negatives)

    def average_precision(self) -> float | None:
        """Averages the precision over the true pairs, from the highest score down; None without true pairs.

        Pairs of equal score are counted at once.
        """
        num_positives = int(self.positives.sum())
        if not num_positives:
            return None
        positives, negatives = self.positives[::-1], self.negatives[::-1]
        found = np.cumsum(positives)
        return float(np.sum(positives * (found / (found + np.cumsum(negatives)))) / num_positives)


def _summed(levels: _Counts, positives: _Counts, negatives: _Counts) -> ScoreCounts:
    unique, position = np.unique(levels, return_inverse=True)
    sums = np.zeros([2, len(unique)], np.int64)
    for row, counts in enumerate((positives, negatives)):
        np.add.at(sums[row], position.reshape(-1), counts)
    return ScoreCounts(levels=unique.astype(np.int64), positives=sums[0], negatives=sums[1])


HITS_AT = (1, 3, 10)
"""Ranks up to which a true pair usually counts as a hit."""


def ranking_metrics(hits_at: Sequence[int]) -> tuple[str, ...]:
    """Names the metrics of a link predictor, such as "hits_at_10"."""
    return ("mrr", *(f"hits_at_{k}" for k in hits_at), "roc_auc", "average_precision")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingSums(ExampleSums):
    """Sums over examples, each with true and false pairs.

    Attributes:
        hits_at: ranks up to which a true pair counts as a hit.
        num_left_out: pairs that are neither true nor false, and so count for nothing.
        num_ranked: true pairs whose example has false pairs, too; only they have a rank worth the name.
        ranked: float64 array, shape [1 + number of ranks]: sums over them of 1 / rank, and of hits by `hits_at`.
        by_chance: float64 array of the same shape: what random orders would give on average.
        scores: all pairs by their score.
    """

    hits_at: tuple[int, ...]
    num_left_out: int
    num_ranked: int
    ranked: npt.NDArray[np.float64]
    by_chance: npt.NDArray[np.float64]
    scores: ScoreCounts

    @classmethod
    def of(cls, scores: npt.NDArray[Any], labels: npt.NDArray[Any], hits_at: tuple[int, ...] = HITS_AT) -> RankingSums:
        """Ranks the pairs of examples.

        `scores` are floats [num_examples, max_pairs], finite where a pair is labelled. `labels` have the same
        shape: 1 for a true pair, 0 for a false one, NaN for padding, any other number for a pair that does not
        count.
        """
        is_positive, is_negative = labels == 1, labels == 0
        rows, columns = np.nonzero(is_positive & is_negative.any(axis=1, keepdims=True))
        of_positive = scores[rows, columns][:, np.newaxis]
        others = is_negative[rows]
        num_higher = np.sum((scores[rows] > of_positive) & others, axis=1)
        num_equal = np.sum((scores[rows] == of_positive) & others, axis=1)
        ranks = 1.0 + num_higher + num_equal / 2.0
        num_candidates = 1 + others.sum(axis=1)
        counted = is_positive | is_negative
        num_examples = int(counted.any(axis=1).sum())
        return cls(
            hits_at=tuple(hits_at),
            num_examples=num_examples,
            num_without_label=len(labels) - num_examples,
            num_left_out=int(np.sum(~counted & ~np.isnan(labels))),
            num_ranked=len(rows),
            ranked=np.array([np.sum(1.0 / ranks), *(np.sum(ranks <= k) for k in hits_at)], np.float64),
            by_chance=np.array(
                [
                    np.sum(_mean_reciprocals(num_candidates)),
                    *(np.sum(np.minimum(k / num_candidates, 1.0)) for k in hits_at),
                ],
                np.float64,
            ),
            scores=ScoreCounts.of(scores[counted], is_positive[counted]),
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> RankingSums:
        """Reads what `to_json` wrote."""
        hits_at, num_examples, num_without_label, num_left_out, num_ranked, ranked, by_chance, *counts = plain
        levels, positives, negatives = (np.asarray(values, np.int64) for values in counts)
        return cls(
            hits_at=tuple(hits_at),
            num_examples=num_examples,
            num_without_label=num_without_label,
            num_left_out=num_left_out,
            num_ranked=num_ranked,
            ranked=np.asarray(ranked, np.float64),
            by_chance=np.asarray(by_chance, np.float64),
            scores=ScoreCounts(levels=levels, positives=positives, negatives=negatives),
        )

    def to_json(self) -> list[Any]:
        """Writes the sums as lists of numbers."""
        counts = (self.scores.levels, self.scores.positives, self.scores.negatives)
        arrays = (self.ranked, self.by_chance, *counts)
        counted = (self.num_examples, self.num_without_label, self.num_left_out, self.num_ranked)
        numbers = (list(self.hits_at), *counted)
        return [*numbers, *(array.tolist() for array in arrays)]

    def merged_with(self, other: RankingSums) -> RankingSums:
        """Adds the sums over other examples."""
        return RankingSums(
            hits_at=self.hits_at,
            num_examples=self.num_examples + other.num_examples,
            num_without_label=self.num_without_label + other.num_without_label,
            num_left_out=self.num_left_out + other.num_left_out,
            num_ranked=self.num_ranked + other.num_ranked,
            ranked=self.ranked + other.ranked,
            by_chance=self.by_chance + other.by_chance,
            scores=self.scores.merged_with(other.scores),
        )

    def metrics(self) -> dict[str, float]:
        """Computes those of `ranking_metrics` that are defined, each in [0, 1].

        Means of ranks need ranked pairs, and areas need both true and false ones.
        """
        return self._named(self.ranked, self.scores.roc_auc(), self.scores.average_precision())

    def metrics_by_chance(self) -> dict[str, float]:
        """Computes what random orders of the same pairs give on average; of the average precision, its limit."""
        num_positives, num_negatives = int(self.scores.positives.sum()), int(self.scores.negatives.sum())
        share = num_positives / max(num_positives + num_negatives, 1)
        return self._named(
            self.by_chance, 0.5 if num_positives and num_negatives else None, share if num_positives else None
        )

    def _named(
        self, sums: npt.NDArray[np.float64], roc_auc: float | None, average_precision: float | None
    ) -> dict[str, float]:
        means = (sums / self.num_ranked).tolist() if self.num_ranked else [None] * len(sums)
        values = zip(ranking_metrics(self.hits_at), (*means, roc_auc, average_precision), strict=True)
        return {name: value for name, value in values if value is not None}


def _mean_reciprocals(num_candidates: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Mean of 1 / rank over all ranks of so many candidates."""
    harmonic = np.cumsum(1.0 / np.arange(1, int(num_candidates.max(initial=0)) + 1))
    means: npt.NDArray[np.float64] = harmonic[num_candidates - 1] / num_candidates
    return means
