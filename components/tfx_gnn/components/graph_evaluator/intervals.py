"""Intervals of all metrics, of all examples and of slices, from one bootstrap of the same examples.

Each example has the same weight in a replica whatever metric, model or slice is looked at: differences between two
models are paired, and slices agree with the whole. See `paired_bootstrap` for weights and intervals.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.paired_bootstrap import interval_of, poisson_weights
from tfx_gnn.records.metric_names import is_share

Array = npt.NDArray[Any]

WeightedMetrics = Callable[[Array], Mapping[str, Array]]
"""From weights of rows, shape [num_rows, num_replicas], to metrics, each of shape [num_replicas]; NaN: undefined."""

_WEIGHTS_IN_MEMORY = 100_000_000
_WEIGHTS_AT_ONCE = 2_000_000
LEAST_DEFINED = 0.5
"""Share of the replicas in which a metric must be defined to have an interval."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Intervals:
    """Intervals of metrics, and of their differences to the latest blessed model's.

    Attributes:
        num_rows: rows that were resampled.
        metrics: lower and upper end by metric.
        changes: lower and upper end of the model's value minus the latest blessed model's; empty without one.
        least_width: how wide the interval of a share of rows is at least. Rows that are all alike have no spread, but
            of n rows, a kind that makes up this share of all is missing as rarely as such intervals fail: 3 / n at a
            confidence of 0.95, the rule of three.
    """

    num_rows: int
    metrics: Mapping[str, tuple[float, float]]
    changes: Mapping[str, tuple[float, float]]
    least_width: float = 0.0

    def too_wide(self, limits: Mapping[str, float], *, of_changes: bool) -> tuple[str, ...]:
        """Lists the metrics of `limits` whose interval is wider than the limit, or that have none."""
        found = self.changes if of_changes else self.metrics

        def width(name: str) -> float:
            lower, upper = found[name]
            return max(upper - lower, self.least_width if is_share(name) else 0.0)

        return tuple(name for name, limit in limits.items() if name not in found or width(name) > limit)

    def report(self) -> dict[str, Any]:
        """Returns the contents of `intervals` in `metrics.json`; empty if there are none."""
        named = {"metrics": self.metrics, "changes": self.changes}
        found = {
            name: {metric: {"lower": lower, "upper": upper} for metric, (lower, upper) in intervals.items()}
            for name, intervals in named.items()
            if intervals
        }
        return {"num_resampled": self.num_rows, **found} if found else {}


class GroupSums:
    """Sums weights of rows by group, in all replicas at once."""

    def __init__(self, groups: Array, num_groups: int, rows: Array | None = None) -> None:
        """Takes the group of each member, in [0, num_groups), and its row; by default, member i is row i."""
        self._order = np.argsort(groups, kind="stable")
        self._rows = self._order if rows is None else rows[self._order]
        self._present, self._starts = np.unique(groups[self._order], return_index=True)
        self._num_groups = num_groups

    def __call__(self, weights: Array, factors: Array | None = None) -> Array:
        """Returns the sums of weights, times one factor for each member: float64 [num_groups, num_replicas]."""
        sums = np.zeros([self._num_groups, weights.shape[1]])
        if len(self._rows):
            members = weights[self._rows]
            if factors is not None:
                members *= factors[self._order, np.newaxis]
            sums[self._present] = np.add.reduceat(members, self._starts, axis=0)
        return sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredMetrics:
    """Metrics on all examples of a slice, around which intervals lie.

    Attributes:
        model: the model's.
        blessed: the latest blessed model's; empty without one.
    """

    model: Mapping[str, float]
    blessed: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResampledRows:
    """A slice: its rows, and a function for each model."""

    rows: Array
    num_values: int
    functions: list[WeightedMetrics]
    replicas: list[list[Mapping[str, Array]]]

    def add(self, weights: Array) -> None:
        """Computes the metrics of some replicas; `weights` has a row for each row of the sample."""
        at_once = max(1, _WEIGHTS_AT_ONCE // max(len(self.rows), self.num_values))
        for start in range(0, weights.shape[1], at_once):
            of_rows = weights[self.rows, start : start + at_once].astype(np.float64)
            for function, found in zip(self.functions, self.replicas, strict=True):
                found.append(function(of_rows))

    def of_metric(self, model: int, name: str) -> tuple[Array, float]:
        """Returns a metric in all replicas, and that of the rows as they are."""
        (value,) = self.functions[model](np.ones([len(self.rows), 1]))[name]
        return np.concatenate([found[name] for found in self.replicas[model]]), float(value)


def bootstrap_intervals(
    sample: BootstrapSample,
    measured: Mapping[tuple[str, str], MeasuredMetrics],
    weighted_metrics: Callable[[Mapping[str, Array], Array], WeightedMetrics],
    *,
    num_replicas: int,
    confidence: float,
) -> dict[tuple[str, str], Intervals]:
    """Computes intervals of metrics by resampling the rows of a sample.

    If the sample does not have all rows, intervals are as narrow as if it had: a replica's distance from the sample's
    metric is scaled by the square root of the share of rows that are in the sample.

    Args:
        sample: the rows.
        measured: by slice, which is feature and value, both "" for all rows: the metrics.
        weighted_metrics: makes a function of weights from values and lengths as in `BootstrapSample`.
        num_replicas: replicas of the bootstrap.
        confidence: how often such intervals contain the true value, in (0, 1).

    Returns:
        By slice, the intervals, without slices of less than two rows.
    """
    parts: dict[tuple[str, str], ResampledRows] = {}
    for feature, value in measured:
        rows = np.flatnonzero(sample.slices[feature] == value) if feature else np.arange(len(sample.hashes))
        if len(rows) > 1:
            of_slice = sample.rows(rows)
            models = [of_slice.model, *([of_slice.blessed] if of_slice.blessed else [])]
            parts[feature, value] = ResampledRows(
                rows=rows,
                num_values=int(of_slice.lengths.sum()),
                functions=[weighted_metrics(values, of_slice.lengths) for values in models],
                replicas=[[] for _ in models],
            )
    for weights in draw_weights(sample, num_replicas):
        for part in parts.values():
            part.add(weights)
    scale = math.sqrt(sample.share)
    return {key: _intervals(part, measured[key], scale=scale, confidence=confidence) for key, part in parts.items()}


def draw_weights(sample: BootstrapSample, num_replicas: int) -> Iterator[Array]:
    """Draws weights of all rows, a byte each, in as many replicas at a time as memory allows."""
    num_rows = max(1, len(sample.hashes))
    at_once, drawn_at_once = (max(1, limit // num_rows) for limit in (_WEIGHTS_IN_MEMORY, _WEIGHTS_AT_ONCE))
    for first in range(0, num_replicas, at_once):
        weights = np.empty([len(sample.hashes), min(at_once, num_replicas - first)], np.uint8)
        for start in range(0, weights.shape[1], drawn_at_once):
            stop = min(start + drawn_at_once, weights.shape[1])
            weights[:, start:stop] = poisson_weights(sample.hashes, stop - start, first=first + start)
        yield weights


def _intervals(part: ResampledRows, measured: MeasuredMetrics, *, scale: float, confidence: float) -> Intervals:
    metrics, changes = {}, {}
    for name, value in measured.model.items():
        replicas, of_sample = part.of_metric(0, name)
        metrics[name] = _interval(
            replicas, of_sample, value, num_rows=len(part.rows), scale=scale, confidence=confidence
        )
        if name in measured.blessed and len(part.functions) > 1:
            others, of_other_sample = part.of_metric(1, name)
            changes[name] = _interval(
                replicas - others,
                of_sample - of_other_sample,
                value - measured.blessed[name],
                num_rows=len(part.rows),
                scale=scale,
                confidence=confidence,
            )
    return Intervals(
        num_rows=len(part.rows),
        # Rows that are not in the sample are alike, too.
        least_width=-math.log1p(-confidence) / len(part.rows) * scale**2,
        metrics={name: ends for name, ends in metrics.items() if ends is not None},
        changes={name: ends for name, ends in changes.items() if ends is not None},
    )


def _interval(
    replicas: Array, of_sample: float, value: float, *, num_rows: int, scale: float, confidence: float
) -> tuple[float, float] | None:
    defined = replicas[~np.isnan(replicas)]
    if math.isnan(of_sample) or len(defined) < LEAST_DEFINED * len(replicas):
        return None
    return interval_of(value + (defined - of_sample) * scale, num_rows, confidence)
