"""Thresholds on metrics, and the messages that say whether they are met."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tfx_gnn.components.graph_evaluator.classification import ClassificationMeasure
from tfx_gnn.components.graph_evaluator.evaluation_report import SliceEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK, Measure

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions

Thresholds = Mapping[str, Mapping[str, float]]

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


def full_metric_name(task: str, metric: str) -> str:
    """Name of a metric of one of several tasks; a task alone has no name."""
    return f"{task}.{metric}" if task else metric


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
    thresholds: Thresholds,
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


def check_task_thresholds(
    task: str,
    measure: Measure,
    evaluation: TaskEvaluation,
    *,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    options: GraphEvaluatorOptions,
) -> list[Verdict]:
    """Checks one task against its bounds: one verdict per bound, but for slices only the missed bounds.

    The main metric must also beat the baseline's, unless `thresholds` sets the gain. `slice_thresholds` apply to slices
    with at least `min_slice_examples` labelled examples.
    """
    quality = evaluation.quality
    main = next((name for name in measure.main_metrics if name in quality.metrics), measure.main_metrics[0])
    of_task = [f"task {task!r}"] if task != SINGLE_TASK else []
    found = check_thresholds(
        _task_thresholds(task, measure, main, options),
        quality.metrics,
        quality.baseline,
        baseline_name=evaluation.baseline_name,
        place=", ".join(of_task),
    )
    slice_thresholds = _of_task(options.slice_thresholds, task, measure)
    for feature, by_value in slices.items():
        for value, one_slice in by_value.items():
            if one_slice.num_examples >= options.min_slice_examples:
                of_slice = check_thresholds(
                    slice_thresholds,
                    one_slice.quality.metrics,
                    one_slice.quality.baseline,
                    baseline_name=evaluation.baseline_name,
                    place=", ".join([*of_task, f"{feature} = {value!r}"]),
                )
                found += [verdict for verdict in of_slice if not verdict.passed]
    return found


def _task_thresholds(task: str, measure: Measure, main: str, options: GraphEvaluatorOptions) -> Thresholds:
    """Returns the bounds of one task: of its main metric, from options of their own, and from `thresholds`."""
    bounds: dict[str, dict[str, float]] = {main: {"gain": 0.0}}

    def add(name: str, of_metric: Mapping[str, float]) -> None:
        bounds[name] = {**bounds.get(name, {}), **of_metric}

    if isinstance(measure, ClassificationMeasure):
        add("accuracy", {"gain": options.min_accuracy_over_majority})
        for name, least in (("accuracy", options.min_accuracy), ("macro_f1", options.min_macro_f1)):
            if least > 0.0:
                add(name, {"min": least})
    for name, of_metric in _of_task(options.thresholds, task, measure).items():
        add(name, of_metric)
    return bounds


def _of_task(thresholds: Thresholds, task: str, measure: Measure) -> Thresholds:
    """Returns the bounds of one task's metrics, by their names within the task."""
    by_name = {full_metric_name(task, metric): metric for metric in measure.metrics}
    return {by_name[name]: bounds for name, bounds in thresholds.items() if name in by_name}


def _metric(name: str) -> str:
    """Strips the task's name from a metric's name."""
    return name.rpartition(".")[2]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # Integers beyond float's range compare, too.
    return -sys.float_info.max <= value <= sys.float_info.max
