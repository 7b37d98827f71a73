"""Regression metrics of one or more targets from mergeable sums.

Means over targets are plain, as those of scikit-learn by default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.example_sums import ExampleSums

_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionSums(ExampleSums):
    """Sums over examples, for each target; an example whose target is unknown does not count for that target.

    Attributes:
        counts: float64 array, shape [num_targets]: examples whose target is known.
        means: float64 array of the same shape: mean of the true values.
        spreads: sums of squared distances of the true values from their mean.
        squares: sums of squared errors.
        absolutes: sums of absolute errors.
        baseline_squares: sums of squared errors of always predicting the same.
        baseline_absolutes: sums of absolute errors of that.
    """

    counts: _Floats
    means: _Floats
    spreads: _Floats
    squares: _Floats
    absolutes: _Floats
    baseline_squares: _Floats
    baseline_absolutes: _Floats

    @classmethod
    def of(cls, truth: npt.NDArray[Any], predicted: npt.NDArray[Any], constant: Sequence[float]) -> RegressionSums:
        """Compares predictions with the truth, both [num_examples, num_targets]; NaN is unknown truth.

        `constant` is what the baseline always predicts, by target.
        """
        truth = np.asarray(truth, np.float64)
        is_known = np.isfinite(truth)
        counts = is_known.sum(axis=0).astype(np.float64)
        known = np.where(is_known, truth, 0.0)
        means = known.sum(axis=0) / np.maximum(counts, 1.0)

        def total(distances: npt.NDArray[Any]) -> _Floats:
            sums: _Floats = np.where(is_known, distances, 0.0).sum(axis=0)
            return sums

        errors, distances = predicted - known, np.asarray(constant, np.float64) - known
        num_examples = int(is_known.any(axis=1).sum())
        return cls(
            num_examples=num_examples,
            num_without_label=len(truth) - num_examples,
            counts=counts,
            means=means,
            spreads=total((known - means) ** 2),
            squares=total(errors**2),
            absolutes=total(np.abs(errors)),
            baseline_squares=total(distances**2),
            baseline_absolutes=total(np.abs(distances)),
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> RegressionSums:
        """Reads what `to_json` wrote."""
        num_examples, num_without_label, *arrays = plain
        names = [field.name for field in dataclasses.fields(cls)][2:]
        values = {name: np.asarray(array, np.float64) for name, array in zip(names, arrays, strict=True)}
        return cls(num_examples=num_examples, num_without_label=num_without_label, **values)

    def to_json(self) -> list[Any]:
        """Writes the sums as lists of numbers."""
        names = [field.name for field in dataclasses.fields(self)][2:]
        return [self.num_examples, self.num_without_label, *(getattr(self, name).tolist() for name in names)]

    def merged_with(self, other: RegressionSums) -> RegressionSums:
        """Adds the sums over other examples."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1.0)
        between = other.means - self.means
        return RegressionSums(
            num_examples=self.num_examples + other.num_examples,
            num_without_label=self.num_without_label + other.num_without_label,
            counts=counts,
            means=self.means + share * between,
            # Sums of squares less the square of the sum would lose all digits of values far from 0.
            spreads=self.spreads + other.spreads + self.counts * share * between**2,
            squares=self.squares + other.squares,
            absolutes=self.absolutes + other.absolutes,
            baseline_squares=self.baseline_squares + other.baseline_squares,
            baseline_absolutes=self.baseline_absolutes + other.baseline_absolutes,
        )

    def metrics(self) -> dict[str, float]:
        """Computes "rmse", "mae" and "r2" of the predictions.

        They are means over the targets that are known of some example; there are none if no target is.
        """
        return _mean_over_targets(self._by_target(self.squares, self.absolutes))

    def baseline_metrics(self) -> dict[str, float]:
        """Computes the same metrics for always predicting the same."""
        return _mean_over_targets(self._by_target(self.baseline_squares, self.baseline_absolutes))

    def metrics_by_target(self) -> list[dict[str, float]]:
        """Computes the quality of the predictions for each target.

        Beside the names of `metrics` there is "num_examples", or that alone if it is 0.
        """
        counts = self.counts.astype(np.int64).tolist()
        by_target = self._by_target(self.squares, self.absolutes)
        return [{"num_examples": count, **values} for count, values in zip(counts, by_target, strict=True)]

    def _by_target(self, squares: _Floats, absolutes: _Floats) -> list[dict[str, float]]:
        rows = zip(*(array.tolist() for array in (self.counts, self.spreads, squares, absolutes)), strict=True)
        return [
            {"rmse": (square / count) ** 0.5, "mae": absolute / count, "r2": _r2(square, spread)} if count else {}
            for count, spread, square, absolute in rows
        ]


def _r2(square: float, spread: float) -> float:
    """Share of the spread that is explained; of equal true values, 1 if they are met and else 0."""
    if spread == 0.0:
        return float(square == 0.0)
    return 1.0 - square / spread


def _mean_over_targets(by_target: Sequence[Mapping[str, float]]) -> dict[str, float]:
    known = [values for values in by_target if values]
    return {name: sum(values[name] for values in known) / len(known) for name in known[0]} if known else {}
