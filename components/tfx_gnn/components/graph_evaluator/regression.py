"""How regressions of one or more targets are measured, from mergeable sums.

Means over targets are unweighted, as by default in scikit-learn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers
from tfx_gnn.components.graph_evaluator.intervals import WeightedMetrics
from tfx_gnn.components.graph_evaluator.measures import (
    Array,
    ExampleSums,
    Measure,
    Quality,
    as_text,
    check_finite_output,
    feature_values,
    model_output,
)
from tfx_gnn.components.graph_evaluator.paired_bootstrap import PairedTerms
from tfx_gnn.components.graph_evaluator.residuals import ResidualCounts
from tfx_gnn.components.graph_evaluator.weighted_metrics import weigh_numbers
from tfx_gnn.serving import model_interface

_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionSums(ExampleSums):
    """Sums over examples, per target; an example whose target is unknown does not count for that target.

    Attributes:
        counts: float64 array, shape [num_targets]: examples whose target is known.
        means: float64 array of the same shape: mean of the true values.
        spreads: sums of squared distances of the true values from their mean.
        squares: sums of squared errors.
        absolutes: sums of absolute errors.
        baseline_squares: sums of squared errors of the constant baseline.
        baseline_absolutes: sums of absolute errors of the constant baseline.
        residuals: the same examples by residual.
    """

    counts: _Floats
    means: _Floats
    spreads: _Floats
    squares: _Floats
    absolutes: _Floats
    baseline_squares: _Floats
    baseline_absolutes: _Floats
    residuals: ResidualCounts = dataclasses.field(default_factory=ResidualCounts)

    @classmethod
    def of(cls, truth: npt.NDArray[Any], predicted: npt.NDArray[Any], constant: Sequence[float]) -> RegressionSums:
        """Compares predictions with the truth, both [num_examples, num_targets]; a NaN truth is unknown.

        `constant` is what the baseline always predicts, per target.
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
        """Restores what `to_json` wrote."""
        num_examples, num_without_label, residuals, *arrays = plain
        values = {name: np.asarray(array, np.float64) for name, array in zip(_sum_names(), arrays, strict=True)}
        return cls(
            num_examples=num_examples,
            num_without_label=num_without_label,
            residuals=ResidualCounts.from_json(residuals),
            **values,
        )

    def to_json(self) -> list[Any]:
        """Converts the sums to lists of numbers."""
        arrays = (getattr(self, name).tolist() for name in _sum_names())
        return [self.num_examples, self.num_without_label, self.residuals.to_json(), *arrays]

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
            # Subtracting the squared sum from the sum of squares would lose all digits of values far from 0.
            spreads=self.spreads + other.spreads + self.counts * share * between**2,
            squares=self.squares + other.squares,
            absolutes=self.absolutes + other.absolutes,
            baseline_squares=self.baseline_squares + other.baseline_squares,
            baseline_absolutes=self.baseline_absolutes + other.baseline_absolutes,
            residuals=self.residuals.merged_with(other.residuals),
        )

    def metrics(self) -> dict[str, float]:
        """Computes "rmse", "mae" and "r2" of the predictions.

        They are means over the targets that are known in some example; empty if no target is known.
        """
        return _mean_over_targets(self._by_target(self.squares, self.absolutes))

    def baseline_metrics(self) -> dict[str, float]:
        """Computes the same metrics for the constant baseline."""
        return _mean_over_targets(self._by_target(self.baseline_squares, self.baseline_absolutes))

    def metrics_by_target(self) -> list[dict[str, float]]:
        """Computes the quality of the predictions for each target.

        Each dict has the metrics and "num_examples", or only the latter if it is 0.
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


def _sum_names() -> list[str]:
    return [field.name for field in dataclasses.fields(RegressionSums)][2:-1]


def _r2(square: float, spread: float) -> float:
    """Fraction of the variance that is explained; if all true values are equal, 1 for exact predictions, else 0."""
    if spread == 0.0:
        return float(square == 0.0)
    return 1.0 - square / spread


def _mean_over_targets(by_target: Sequence[Mapping[str, float]]) -> dict[str, float]:
    known = [values for values in by_target if values]
    return {name: sum(values[name] for values in known) / len(known) for name in known[0]} if known else {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegressionMeasure(Measure):
    """One or more numbers per example; the baseline always predicts their mean in a split.

    Attributes:
        label_key: key of the true values in a raw tf.Example, `num_targets` numbers.
        num_targets: numbers per example.
        missing_values: numbers that mark a missing value.
        output_prefix: prefix of the names of this task's outputs.
        main_metric: one of `main_metrics`; empty: the first that is defined.
    """

    label_key: str
    num_targets: int = 1
    missing_values: tuple[float, ...] = ()
    output_prefix: str = ""
    main_metric: str = ""

    kind: ClassVar[str] = "regression"
    main_metrics: ClassVar[tuple[str, ...]] = ("rmse",)
    baseline_name: ClassVar[str] = "the mean label"
    needs_baseline_split: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return ("rmse", "mae", "r2")

    @property
    def setting(self) -> tuple[int, ...]:
        """Numbers per example."""
        return (self.num_targets,)

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the true values, float64 [n, num_targets]; missing values become NaN."""
        truth = np.full([len(examples), self.num_targets], np.nan)
        for position, (features, place) in enumerate(zip(examples, places, strict=True)):
            kind, values = feature_values(features, self.label_key)
            if len(values) not in (0, self.num_targets) or kind == "bytes_list":
                raise ValueError(
                    f"`task` must name a label of {self.num_targets} number(s) per example; got "
                    f"{list(values[:3])!r} in {self.label_key!r} of {place}. Name the label feature of a regression, "
                    "and write NaN for single values that are unknown."
                )
            if values:
                truth[position] = values
        # Examples hold float32, in which -999.9 is a different number.
        truth[np.isin(truth, np.asarray(self.missing_values, np.float32))] = np.nan
        return truth

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> RegressionSums:
        """Sums up the model's errors, and those of predicting the mean of `baseline`."""
        name = self.output_prefix + model_interface.PREDICTION_OUTPUT
        predicted = np.asarray(model_output(outputs, name), np.float64).reshape(truth.shape)
        check_finite_output(predicted, name)
        sums = RegressionSums.of(truth, predicted, _means(baseline, self.num_targets))
        ids = outputs.get(model_interface.ID_OUTPUT)
        texts = None if ids is None else [as_text(one) for one in ids.tolist()]
        return dataclasses.replace(sums, residuals=ResidualCounts.of(texts, truth, predicted))

    def paired_terms(
        self, truth: Array, outputs: Mapping[str, Array], baseline: Any, hashes: npt.NDArray[np.uint64]
    ) -> PairedTerms:
        """Squares the model's errors, and those of the mean."""
        name = self.output_prefix + model_interface.PREDICTION_OUTPUT
        predicted = np.asarray(model_output(outputs, name), np.float64).reshape(truth.shape)
        is_known = np.isfinite(truth)
        known = np.where(is_known, truth, 0.0)
        squares = [(answer - known) ** 2 for answer in (predicted, np.asarray(_means(baseline, self.num_targets)))]
        terms = np.stack([is_known.astype(np.float64), *(np.where(is_known, one, 0.0) for one in squares)], axis=1)
        return PairedTerms(hashes=hashes, terms=terms)

    def answers(self, truth: Array, outputs: Mapping[str, Array]) -> Answers:
        """Takes the values and predictions of examples with a known target."""
        name = self.output_prefix + model_interface.PREDICTION_OUTPUT
        predicted = np.asarray(model_output(outputs, name), np.float64).reshape(truth.shape)
        counts = np.isfinite(truth).any(axis=1)
        return Answers(
            examples=np.arange(len(truth)),
            lengths=counts * np.int64(truth.shape[1]),
            values={"truth": truth[counts].reshape(-1), "predicted": predicted[counts].reshape(-1)},
        )

    def weighted_metrics(self, values: Mapping[str, Array], lengths: Array) -> WeightedMetrics:
        """Computes metrics from weighted sums over examples."""
        return weigh_numbers(values, self.num_targets)

    def label_sums(self, truth: Array) -> RegressionSums:
        """Averages labels."""
        return RegressionSums.of(truth, np.zeros_like(truth), [0.0] * truth.shape[1])

    def sums_from_json(self, plain: Any) -> RegressionSums:
        """Reads sums."""
        return RegressionSums.from_json(plain)

    def quality(self, sums: RegressionSums, baseline: RegressionSums, split: str) -> Quality:
        """Computes RMSE, MAE and R2 as means over targets."""
        values, of_mean = sums.metrics(), sums.baseline_metrics()
        mean_baseline = {"mean": _means(baseline, self.num_targets), "mean_from_split": split, **of_mean}
        report: dict[str, Any] = {**values, "mean_baseline": mean_baseline, **sums.residuals.report()}
        if self.num_targets > 1:
            report["per_target"] = sums.metrics_by_target()
        return Quality(metrics=values, baseline=of_mean, report=report)


def _means(baseline: RegressionSums | None, num_targets: int) -> list[float]:
    return [0.0] * num_targets if baseline is None else baseline.means.tolist()
