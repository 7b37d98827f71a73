"""What a regression gets wrong: a histogram of its residuals for each target, and the largest of them.

A residual is the label minus the prediction. Both merge across machines, in any order, and have a bounded size
whatever they summarize.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfx_gnn.components.graph_evaluator.measures import Array
from tfx_gnn.components.graph_evaluator.worst_examples import keep_worst, positions_of_worst

BINS_PER_SIDE = 32
"""Bins below 0, and from 0 on; a power of two."""

# Bins of this width tell no residuals apart that matter, and give zeros alone a width.
_FINEST = -64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualHistogram:
    """Residuals in bins of equal width, a power of two that is as small as the largest absolute residual allows.

    Because wider bins are pairs of narrower ones, the counts are exact however parts are merged.

    Attributes:
        exponent: the bins are 2**exponent wide.
        counts: residuals in each of the `2 * BINS_PER_SIDE` bins around 0, ascending; a bin includes its lower edge.
    """

    exponent: int = _FINEST
    counts: tuple[int, ...] = (0,) * (2 * BINS_PER_SIDE)

    @classmethod
    def of(cls, residuals: Array) -> ResidualHistogram:
        """Counts finite residuals, float64 [n]."""
        _, powers = np.frexp(residuals[residuals != 0.0])
        exponent = max(_FINEST, int(powers.max(initial=_FINEST)) - (BINS_PER_SIDE.bit_length() - 1))
        bins = np.floor(np.ldexp(residuals, -exponent)).astype(np.int64) + BINS_PER_SIDE
        return cls(exponent=exponent, counts=tuple(np.bincount(bins, minlength=2 * BINS_PER_SIDE).tolist()))

    def merged_with(self, other: ResidualHistogram) -> ResidualHistogram:
        """Adds the counts of other residuals, in the wider bins of both."""
        exponent = max(self.exponent, other.exponent)
        pairs = zip(self._widened(exponent), other._widened(exponent), strict=True)
        return ResidualHistogram(exponent=exponent, counts=tuple(one + another for one, another in pairs))

    def _widened(self, exponent: int) -> list[int]:
        counts = [0] * (2 * BINS_PER_SIDE)
        for position, count in enumerate(self.counts):
            counts[((position - BINS_PER_SIDE) >> (exponent - self.exponent)) + BINS_PER_SIDE] += count
        return counts

    def bins(self) -> list[dict[str, Any]]:
        """Lists the bins that are not empty, ascending."""
        width = 2.0**self.exponent
        return [
            {"low": i * width, "high": (i + 1) * width, "num_examples": count}
            for i, count in enumerate(self.counts, -BINS_PER_SIDE)
            if count
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Residual:
    """What is left of a label after a prediction.

    Attributes:
        id: original id of the seed node or of the graph.
        target: position of the target, from 0.
        label: the true value.
        prediction: the model's.
        residual: the label minus the prediction.
    """

    id: str
    target: int
    label: float
    prediction: float
    residual: float

    @property
    def sort_key(self) -> tuple[float, str, int, float]:
        """The largest absolute residual comes first, ties by id and target."""
        return (-abs(self.residual), self.id, self.target, self.label)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualCounts:
    """The residuals of a regression.

    Attributes:
        histograms: the residuals of each target.
        largest: the largest absolute residuals of all targets, in the order of their sort key; empty if the model
            returns no ids.
    """

    histograms: tuple[ResidualHistogram, ...] = ()
    largest: tuple[Residual, ...] = ()

    @classmethod
    def of(cls, ids: Sequence[str] | None, truth: Array, predicted: Array) -> ResidualCounts:
        """Subtracts predictions from labels, both float64 [n, num_targets]; a NaN label is unknown."""
        residuals = truth - predicted
        rows, targets = np.nonzero(np.isfinite(residuals))
        by_target = (column[np.isfinite(column)] for column in residuals.T)
        largest = []
        if ids is not None:
            worst = positions_of_worst(np.abs(residuals[rows, targets]))
            largest = [
                Residual(
                    id=ids[int(row)],
                    target=int(target),
                    label=float(truth[row, target]),
                    prediction=float(predicted[row, target]),
                    residual=float(residuals[row, target]),
                )
                for row, target in zip(rows[worst], targets[worst], strict=True)
            ]
        return cls(histograms=tuple(map(ResidualHistogram.of, by_target)), largest=keep_worst(largest))

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ResidualCounts:
        """Restores what `to_json` wrote."""
        histograms, largest = plain
        return cls(
            histograms=tuple(
                ResidualHistogram(exponent=exponent, counts=tuple(counts)) for exponent, counts in histograms
            ),
            largest=tuple(Residual(**residual) for residual in largest),
        )

    def to_json(self) -> list[Any]:
        """Converts the counts to lists."""
        return [
            [[histogram.exponent, list(histogram.counts)] for histogram in self.histograms],
            [dataclasses.asdict(residual) for residual in self.largest],
        ]

    def merged_with(self, other: ResidualCounts) -> ResidualCounts:
        """Adds the residuals of other examples."""
        pairs = itertools.zip_longest(self.histograms, other.histograms, fillvalue=ResidualHistogram())
        return ResidualCounts(
            histograms=tuple(one.merged_with(another) for one, another in pairs),
            largest=keep_worst([*self.largest, *other.largest]),
        )

    def report(self) -> dict[str, Any]:
        """Assembles the part of `metrics.json` about residuals, without what is not known."""
        report: dict[str, Any] = {}
        if self.histograms:
            report["residuals"] = [
                {"target": target, "bins": histogram.bins()} for target, histogram in enumerate(self.histograms)
            ]
        if self.largest:
            report["largest_residuals"] = [dataclasses.asdict(residual) for residual in self.largest]
        return report
