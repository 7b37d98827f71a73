"""The ranks of true pairs: how often each occurs, and the pairs that rank lowest.

Counts and lists merge across machines, in any order, and have a bounded size whatever they summarize.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.measures import Array, as_text
from tfx_gnn.components.graph_evaluator.worst_examples import keep_worst, positions_of_worst

# Sums of whole numbers do not depend on their order.
_UNITS = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankedPairs:
    """The true pairs that have false ones in their row, each an element of the arrays, shape [num_ranked].

    Attributes:
        rows: their rows.
        columns: their columns.
        ranks: float64: positions among the false pairs of the row by descending score, from 1; ties get their mean.
        num_candidates: the pair itself and the false pairs of the row.
        scores: their scores.
        best_scores: the highest scores among the candidates.
    """

    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    ranks: npt.NDArray[np.float64]
    num_candidates: npt.NDArray[np.intp]
    scores: Array
    best_scores: Array

    @classmethod
    def of(cls, scores: Array, labels: Array) -> RankedPairs:
        """Ranks the pairs with the label 1 among those with the label 0; both have shape [num_rows, max_pairs]."""
        is_positive, is_negative = labels == 1, labels == 0
        rows, columns = np.nonzero(is_positive & is_negative.any(axis=1, keepdims=True))
        of_rows, others = scores[rows], is_negative[rows]
        of_positive = scores[rows, columns]
        num_higher = np.sum((of_rows > of_positive[:, np.newaxis]) & others, axis=1)
        num_equal = np.sum((of_rows == of_positive[:, np.newaxis]) & others, axis=1)
        return cls(
            rows=rows,
            columns=columns,
            ranks=1.0 + num_higher + num_equal / 2.0,
            num_candidates=1 + others.sum(axis=1),
            scores=of_positive,
            best_scores=np.maximum(of_positive, np.max(np.where(others, of_rows, -np.inf), axis=1, initial=-np.inf)),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LowRank:
    """A true pair that the model ranks low.

    Attributes:
        source: original id of the source.
        target: original id of the true target.
        rank: position among the candidates by descending score, from 1; ties get their mean.
        num_candidates: the true target and the false ones that it is compared with.
        score: the true target's.
        best_score: the highest among the candidates.
    """

    source: str
    target: str
    rank: float
    num_candidates: int
    score: float
    best_score: float

    @property
    def sort_key(self) -> tuple[float, str, str, int, float, float]:
        """The largest rank comes first, ties by the ids."""
        return (-self.rank, self.source, self.target, self.num_candidates, self.score, self.best_score)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankCounts:
    """Numbers of true pairs by rank.

    The first bin is rank 1; bin i > 0 has the ranks above 2**(i - 1), up to 2**i.

    Attributes:
        counts: true pairs in each bin.
        by_chance: what random orders give on average, in billionths; of the same length.
        worst: the pairs of the largest ranks, in the order of their sort key; empty if the model returns no ids.
    """

    counts: tuple[int, ...] = ()
    by_chance: tuple[int, ...] = ()
    worst: tuple[LowRank, ...] = ()

    @classmethod
    def of(cls, ranked: RankedPairs, ids: Sequence[Array]) -> RankCounts:
        """Counts ranks; `ids` are those of sources and targets, by row and column, or none."""
        if not len(ranked.ranks):
            return cls()
        num_bins = 1 + int(np.ceil(np.log2(ranked.num_candidates.max())))
        bins = np.ceil(np.log2(ranked.ranks)).astype(np.int64)
        edges = np.array([0, *(2**i for i in range(num_bins))])
        num_candidates = ranked.num_candidates[:, np.newaxis]
        chances = np.diff(np.minimum(edges, num_candidates), axis=1) / num_candidates
        return cls(
            counts=tuple(np.bincount(bins, minlength=num_bins).tolist()),
            by_chance=tuple(np.rint(chances * _UNITS).astype(np.int64).sum(axis=0).tolist()),
            worst=keep_worst(_low_ranks(ranked, *ids)) if ids else (),
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> RankCounts:
        """Restores what `to_json` wrote."""
        counts, by_chance, worst = plain
        return cls(counts=tuple(counts), by_chance=tuple(by_chance), worst=tuple(LowRank(**one) for one in worst))

    def to_json(self) -> list[Any]:
        """Converts the counts to lists."""
        return [list(self.counts), list(self.by_chance), [dataclasses.asdict(one) for one in self.worst]]

    def merged_with(self, other: RankCounts) -> RankCounts:
        """Adds the ranks of other pairs."""
        return RankCounts(
            counts=_added(self.counts, other.counts),
            by_chance=_added(self.by_chance, other.by_chance),
            worst=keep_worst([*self.worst, *other.worst]),
        )

    def report(self) -> dict[str, Any]:
        """Assembles the part of `metrics.json` about ranks, without what is not known."""
        report: dict[str, Any] = {}
        if self.counts:
            report["ranks"] = [
                {
                    "low": 2 ** (i - 1) + 1 if i else 1,
                    "high": 2**i,
                    "num_pairs": count,
                    "num_by_chance": units / _UNITS,
                }
                for i, (count, units) in enumerate(zip(self.counts, self.by_chance, strict=True))
            ]
        if self.worst:
            report["worst_ranks"] = [dataclasses.asdict(one) for one in self.worst]
        return report


def _low_ranks(ranked: RankedPairs, sources: Array, targets: Array) -> list[LowRank]:
    return [
        LowRank(
            source=as_text(sources[ranked.rows[i], ranked.columns[i]]),
            target=as_text(targets[ranked.rows[i], ranked.columns[i]]),
            rank=float(ranked.ranks[i]),
            num_candidates=int(ranked.num_candidates[i]),
            score=float(ranked.scores[i]),
            best_score=float(ranked.best_scores[i]),
        )
        for i in positions_of_worst(ranked.ranks)
    ]


def _added(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in itertools.zip_longest(first, second, fillvalue=0))
