"""How many true and false pairs have which score: enough for the area under a curve, and mergeable.

Scores are rounded to 12 significant bits, so counts of any number of pairs stay small and those of many
machines add up. Only the order of scores matters, so logits serve as well as probabilities.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

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
        """Counts pairs.

        Args:
            scores: finite floats, shape [num_pairs]; compared as float32.
            is_positive: bool, shape [num_pairs].

        Returns:
            The counts.
        """
        bits = np.asarray(scores, np.float32).view(np.int32).astype(np.int64)
        # Floats as integers of the same order: those below 0 have their magnitude in the lower 31 bits.
        ordered = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
        rounded = (ordered + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS
        return _summed(rounded, is_positive.astype(np.int64), (~is_positive).astype(np.int64))

    def merged_with(self, other: ScoreCounts) -> ScoreCounts:
        """Adds the counts of other pairs.

        Args:
            other: counts of other pairs.

        Returns:
            Counts of both.
        """
        return _summed(
            np.concatenate([self.levels, other.levels]),
            np.concatenate([self.positives, other.positives]),
            np.concatenate([self.negatives, other.negatives]),
        )

    def roc_auc(self) -> float | None:
        """Tells how probable it is that a true pair has a higher score than a false one; equal scores count half.

        Returns:
            The area under the ROC curve, in [0, 1]; None without true or without false pairs.
        """
        num_positives, num_negatives = int(self.positives.sum()), int(self.negatives.sum())
        if not num_positives or not num_negatives:
            return None
        below = np.cumsum(self.negatives) - self.negatives
        won = np.sum(self.positives.astype(np.float64) * (below + self.negatives / 2.0))
        return float(won / num_positives / num_negatives)

    def average_precision(self) -> float | None:
        """Averages the precision over the true pairs, from the highest score down; equal scores come together.

        Returns:
            The average precision, in [0, 1]; None without true pairs.
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
