"""Areas under curves, from mergeable counts of scores.

Scores are rounded to 12 significant bits, so counts stay small for any number of pairs and can be added across
machines. Only the order of scores matters, so logits work as well as probabilities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Array
from tfx_gnn.components.graph_evaluator.paired_bootstrap import replicas_of_counts

_DROPPED_BITS = 12
"""A float32 has 23 fraction bits; 11 of them are kept."""

_Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """Numbers of pairs by rounded score.

    Attributes:
        levels: int64 array, shape [num_levels]: the scores that occur, as integers in the same order, ascending.
        positives: int64 array, shape [num_levels]: true pairs with each score.
        negatives: int64 array, shape [num_levels]: false pairs with each score.
    """

    levels: _Counts
    positives: _Counts
    negatives: _Counts

    @classmethod
    def of(cls, scores: npt.NDArray[Any], is_positive: npt.NDArray[np.bool_]) -> ScoreCounts:
        """Counts pairs by finite score, compared as float32; both arrays have shape [num_pairs]."""
        return _summed(score_levels(scores), is_positive.astype(np.int64), (~is_positive).astype(np.int64))

    @classmethod
    def none(cls) -> ScoreCounts:
        """Counts nothing."""
        return cls.from_json([[], [], []])

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ScoreCounts:
        """Restores what `to_json` wrote."""
        levels, positives, negatives = (np.asarray(values, np.int64) for values in plain)
        return cls(levels=levels, positives=positives, negatives=negatives)

    def to_json(self) -> list[list[int]]:
        """Converts the counts to lists."""
        return [counts.tolist() for counts in (self.levels, self.positives, self.negatives)]

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

    def area_gains(self, num_replicas: int) -> npt.NDArray[np.float64]:
        """Computes the area's advantage over a random order's 1/2 in replicas of the pairs; 0 where it is undefined."""
        kinds = np.concatenate([self.positives, self.negatives])
        gains = np.zeros([num_replicas])
        for replica, counts in enumerate(replicas_of_counts(kinds, num_replicas)):
            positives, negatives = np.split(counts, 2)
            area = dataclasses.replace(self, positives=positives, negatives=negatives).roc_auc()
            gains[replica] = 0.0 if area is None else area - 0.5
        return gains

    @property
    def num_of_rarer_kind(self) -> int:
        """Number of true or of false pairs, whichever is smaller."""
        return int(min(self.positives.sum(), self.negatives.sum()))

    def average_precision(self) -> float | None:
        """Averages the precision over the true pairs, from the highest score down; None without true pairs.

        Pairs with equal scores are counted together.
        """
        num_positives = int(self.positives.sum())
        if not num_positives:
            return None
        positives, negatives = self.positives[::-1], self.negatives[::-1]
        found = np.cumsum(positives)
        return float(np.sum(positives * (found / (found + np.cumsum(negatives)))) / num_positives)


def score_levels(scores: npt.NDArray[Any]) -> _Counts:
    """Rounds scores, and maps them to integers in the same order."""
    bits = np.asarray(scores, np.float32).view(np.int32).astype(np.int64)
    # A negative float has its magnitude in the lower 31 bits.
    ordered = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    levels: _Counts = (ordered + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS
    return levels


def _summed(levels: _Counts, positives: _Counts, negatives: _Counts) -> ScoreCounts:
    unique, position = np.unique(levels, return_inverse=True)
    sums = np.zeros([2, len(unique)], np.int64)
    for row, counts in enumerate((positives, negatives)):
        np.add.at(sums[row], position.reshape(-1), counts)
    return ScoreCounts(levels=unique.astype(np.int64), positives=sums[0], negatives=sums[1])


def weighted_areas(positives: Array, negatives: Array) -> tuple[Array, Array]:
    """Computes ROC AUC and average precision in replicas, NaN where undefined.

    Both arguments are weights by ascending score, shape [num_levels, num_replicas].
    """
    below = np.cumsum(negatives, axis=0)
    num_positives, num_negatives = positives.sum(axis=0), below[-1]
    won = np.sum(positives * (below - negatives / 2.0), axis=0)
    num_pairs = num_positives * num_negatives
    roc_auc = won / np.where(num_pairs > 0.0, num_pairs, np.nan)
    found = np.cumsum(positives[::-1], axis=0)
    answered = found + np.cumsum(negatives[::-1], axis=0)
    precisions = found / np.where(answered > 0.0, answered, 1.0)
    hits = np.sum(positives[::-1] * precisions, axis=0)
    return roc_auc, hits / np.where(num_positives > 0.0, num_positives, np.nan)
