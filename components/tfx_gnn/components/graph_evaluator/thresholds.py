"""Thresholds on metrics, and the messages that say whether they are met."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

ERRORS = frozenset({"rmse", "mae"})
"""Metrics that are better when smaller."""

_SHOWN = {
    "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R2",
    "mrr": "MRR",
    "hits_at_1": "hits@1",
    "hits_at_3": "hits@3",
    "hits_at_10": "hits@10",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
}
_KINDS = ("min", "max", "gain")
_IS_BETTER = {
    (True, True): "is below",
    (True, False): "is not below",
    (False, True): "exceeds",
    (False, False): "does not exceed",
}
"""Words by (metric is an error, model is better)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether one bound is met.

    Attributes:
        passed: whether the bound is met.
        sentence: the metric, its value and the bound in words.
    """

    passed: bool
    sentence: str


def shown_metric(name: str) -> str:
    """Returns the usual spelling of a metric's name, for messages."""
    return _SHOWN.get(name, name)


def normalize_thresholds(
    option: str, thresholds: Mapping[str, Any], metrics: Collection[str]
) -> dict[str, dict[str, float]]:
    """Normalizes bounds: metric to a dict with some of "min", "max" and "gain".

    A plain number is a minimum or, for an error metric, a maximum. "gain" is the improvement over the
    baseline that the metric must exceed.
    """
    checked = {}
    for name, bound in thresholds.items():
        if name not in metrics:
            raise ValueError(f"`{option}` must name metrics of the task; got {name!r}. Choose among {sorted(metrics)}.")
        if not isinstance(bound, Mapping):
            bound = {"max" if _metric(name) in ERRORS else "min": bound}
        if not bound or not all(kind in _KINDS and _is_number(value) for kind, value in bound.items()):
            raise ValueError(
                f"`{option}` must give a number, or a dict of numbers with some of {list(_KINDS)}, for each metric; "
                f"got {dict(bound)!r} for {name!r}. Write for example {{'rmse': {{'max': 1.3}}}}."
            )
        checked[name] = {kind: float(value) for kind, value in bound.items()}
    return checked


def check_thresholds(
    thresholds: Mapping[str, Mapping[str, float]],
    values: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    baseline_name: str,
    place: str = "",
) -> list[Verdict]:
    """Checks metrics against bounds in the form of `normalize_thresholds`.

    A metric that could not be computed misses every bound. `place` names the slice in words; "" for all examples.
    `evaluation_report.check_task_thresholds` adds the rule that the main metric must beat the baseline.
    """
    verdicts = []
    for name, bounds in thresholds.items():
        shown = f"{place}{place and ': '}{shown_metric(name)}"
        if name not in values:
            verdicts.append(Verdict(passed=False, sentence=f"{shown} could not be computed from these examples"))
            continue
        value = values[name]
        for kind, bound in bounds.items():
            if kind == "min":
                passed = value >= bound
                words = f"is {'at least' if passed else 'below'} {bound:g}"
            elif kind == "max":
                passed = value <= bound
                words = f"is {'at most' if passed else 'above'} {bound:g}"
            else:
                of_baseline = baseline[name]
                passed = value < of_baseline - bound if name in ERRORS else value > of_baseline + bound
                words = (
                    f"{_IS_BETTER[name in ERRORS, passed]} {baseline_name}'s {of_baseline:.4f} by more than {bound:g}"
                )
            verdicts.append(Verdict(passed=passed, sentence=f"{shown} {value:.4f} {words}"))
    return verdicts


def _metric(name: str) -> str:
    """Strips the task's name from a metric's name."""
    return name.rpartition(".")[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
