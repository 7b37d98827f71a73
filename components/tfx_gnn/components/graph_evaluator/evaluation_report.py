"""The results of an evaluation, computed from sums over its examples, and written as `metrics.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tfx_gnn
from tfx_gnn.components.graph_evaluator.baseline_comparison import BaselineComparison, compare_with_baseline
from tfx_gnn.components.graph_evaluator.change_report import (
    ChangeReport,
    LatestBlessedModel,
    check_same_classes,
    compare_with_blessed,
)
from tfx_gnn.components.graph_evaluator.intervals import Intervals, MeasuredMetrics, bootstrap_intervals
from tfx_gnn.components.graph_evaluator.kept_predictions import KeptPredictions
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK, EvaluationSums, ExampleSums, Measure, Quality
from tfx_gnn.components.graph_evaluator.slices import largest_and_smallest, quantile_ranges
from tfx_gnn.components.graph_evaluator.trees_comparison import TreesComparison

if TYPE_CHECKING:
    from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceEvaluation:
    """The model's quality on a slice of the examples.

    Attributes:
        feature: key of the slicing feature in a tf.Example.
        value: the feature's value in this slice.
        num_examples: examples with a label.
        quality: the metrics, and the baseline's.
        range: range of a slice by quantiles; empty for other slices.
        intervals: intervals of the metrics and of their changes; None if they were not computed, or of less than two
            examples.
        too_wide: metrics whose interval is too wide for bounds on them to decide.
        too_wide_changes: metrics whose change has an interval that is too wide.
    """

    feature: str
    value: str
    num_examples: int
    quality: Quality
    range: str = ""
    intervals: Intervals | None = None
    too_wide: tuple[str, ...] = ()
    too_wide_changes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskEvaluation:
    """The model's quality at one task.

    Attributes:
        kind: "classification", "regression" or "link_prediction".
        num_examples: examples with a label.
        num_examples_without_label: examples of the two splits that lack a label.
        baseline_name: the baseline in words.
        quality: the metrics, and the baseline's.
        slices: the largest and the smallest slices of each feature.
        num_slices_not_shown: number of further slices, by feature.
        comparison: whether the model is better than the baseline beyond chance; None if that was not asked for.
        change: the difference to the latest blessed model; None without one.
        intervals: intervals of the metrics and of their changes; None without.
        confidence: how often such intervals contain the true value.
        trees: the difference to trees on the seeds' own columns; None if that was not asked for.
        predictions: the answers that are kept.
    """

    kind: str
    num_examples: int
    num_examples_without_label: int
    baseline_name: str
    quality: Quality
    slices: tuple[SliceEvaluation, ...]
    num_slices_not_shown: dict[str, int]
    comparison: BaselineComparison | None = None
    change: ChangeReport | None = None
    intervals: Intervals | None = None
    confidence: float = 0.0
    trees: TreesComparison | None = None
    predictions: KeptPredictions | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluation:
    """Results of an evaluation.

    Attributes:
        split: the split that was evaluated.
        tasks: results by task name; a single task has the name "".
        blessed: whether every threshold is met.
        reasons: one sentence per threshold.
        objections: the sentences of the missed thresholds.
        warnings: metrics and thresholds that say nothing about a model on these examples, in sentences.
        latest_blessed_model: the model that this one was compared with, or why there was none; None if that was not
            asked for.
    """

    split: str
    tasks: dict[str, TaskEvaluation]
    blessed: bool
    reasons: tuple[str, ...]
    objections: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    latest_blessed_model: LatestBlessedModel | None = None

    def report(self) -> dict[str, Any]:
        """Assembles the contents of `metrics.json`.

        Returns:
            Plain JSON. Results of a single task are at the top level, those of several tasks under "tasks".
        """
        if list(self.tasks) == [SINGLE_TASK]:
            of_tasks = _task_report(self.tasks[SINGLE_TASK])
        else:
            of_tasks = {"tasks": {name: _task_report(task) for name, task in self.tasks.items()}}
        return {
            "format_version": 2,
            "tfx_gnn_version": tfx_gnn.__version__,
            "split": self.split,
            "blessed": self.blessed,
            "reasons": list(self.reasons),
            "objections": list(self.objections),
            "warnings": list(self.warnings),
            **of_tasks,
            **({"latest_blessed_model": self.latest_blessed_model.report()} if self.latest_blessed_model else {}),
        }


def _task_report(task: TaskEvaluation) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": task.kind,
        "num_examples": task.num_examples,
        "num_examples_without_label": task.num_examples_without_label,
        **task.quality.report,
    }
    if task.comparison is not None:
        report["baseline_comparison"] = task.comparison.report()
    if task.trees is not None:
        report["trees_baseline"] = task.trees.report()
    if task.predictions is not None:
        report["predictions"] = task.predictions.report()
    if task.intervals is not None:
        report["intervals"] = {"confidence": task.confidence, **task.intervals.report()}
    blessed: Mapping[tuple[str, str], Quality] = {}
    if task.change is not None:
        report["change"] = task.change.report()
        blessed = task.change.slices
    if task.num_slices_not_shown:
        report["slices"] = [
            {
                "feature": one_slice.feature,
                "value": one_slice.value,
                **({"range": one_slice.range} if one_slice.range else {}),
                "num_examples": one_slice.num_examples,
                **one_slice.quality.metrics,
                "baseline": one_slice.quality.baseline,
                **_blessed_slice(blessed.get((one_slice.feature, one_slice.value))),
                **_slice_intervals(one_slice),
            }
            for one_slice in task.slices
        ]
        report["num_slices_not_shown"] = task.num_slices_not_shown
    return report


def _blessed_slice(quality: Quality | None) -> dict[str, Any]:
    return {} if quality is None else {"latest_blessed": quality.metrics}


def _slice_intervals(one_slice: SliceEvaluation) -> dict[str, Any]:
    intervals = one_slice.intervals.report() if one_slice.intervals is not None else {}
    too_few = {"metrics": list(one_slice.too_wide), "changes": list(one_slice.too_wide_changes)}
    return {
        **({"intervals": intervals} if intervals else {}),
        **({"too_few_examples": too_few} if any(too_few.values()) else {}),
    }


def evaluate_intervals(
    measure: Measure,
    sums: EvaluationSums,
    task: str,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    options: GraphEvaluatorOptions,
) -> dict[tuple[str, str], Intervals]:
    """Computes intervals of all examples, of the slices that are reported, and of those that bounds apply to."""
    sample = sums.samples.get(task)
    if sample is None:
        return {}
    keys = [("", "")]
    for feature, by_value in slices.items():
        shown, _ = largest_and_smallest(_sized(by_value), options.num_slices)
        if options.max_slice_intervals:
            shown |= {value: one for value, one in by_value.items() if one.num_examples >= options.min_slice_examples}
        keys += [(feature, value) for value in shown]
    baseline = sums.baselines.get(task)

    def metrics(of_slice: ExampleSums | None) -> Mapping[str, float]:
        counts = of_slice is not None and of_slice.num_examples
        return measure.quality(of_slice, baseline, options.baseline_split).metrics if counts else {}

    measured = {
        key: MeasuredMetrics(
            model=metrics(sums.evaluated.get((task, *key))), blessed=metrics(sums.blessed.get((task, *key)))
        )
        for key in keys
    }
    return bootstrap_intervals(
        sample,
        measured,
        measure.weighted_metrics,
        num_replicas=options.bootstrap_replicas,
        confidence=options.baseline_confidence,
    )


def with_intervals(
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    intervals: Mapping[tuple[str, str], Intervals],
    limits: Mapping[str, float],
) -> dict[str, dict[str, SliceEvaluation]]:
    """Adds intervals to slices, and says which are wider than `limits`, by metric, or absent."""

    def of(one_slice: SliceEvaluation) -> SliceEvaluation:
        found = intervals.get((one_slice.feature, one_slice.value))
        known = found if found is not None else Intervals(num_rows=0, metrics={}, changes={})
        return dataclasses.replace(
            one_slice,
            intervals=found,
            too_wide=known.too_wide(limits, of_changes=False),
            too_wide_changes=known.too_wide(limits, of_changes=True),
        )

    return {feature: {value: of(one) for value, one in by_value.items()} for feature, by_value in slices.items()}


def _sized(by_value: Mapping[str, SliceEvaluation]) -> dict[str, tuple[int, SliceEvaluation]]:
    return {value: (one_slice.num_examples, one_slice) for value, one_slice in by_value.items()}


def evaluate_change(
    measure: Measure,
    sums: EvaluationSums,
    task: str,
    quality: Quality,
    intervals: Intervals | None,
    *,
    baseline_split: str,
    confidence: float,
) -> ChangeReport | None:
    """Compares one task's `quality` with that of the latest blessed model; None if there are no sums of one."""
    of_all, baseline = sums.blessed.get((task, "", "")), sums.baselines.get(task)
    if of_all is None:
        return None
    check_same_classes(sums.evaluated[task, "", ""], of_all)
    return compare_with_blessed(
        measure,
        quality,
        measure.quality(of_all, baseline, baseline_split),
        {
            (feature, value): measure.quality(of_slice, baseline, baseline_split)
            for (of_task, feature, value), of_slice in sums.blessed.items()
            if of_task == task and feature and of_slice.num_examples
        },
        intervals,
        num_examples=of_all.num_examples,
        confidence=confidence,
    )


def evaluate_slices(
    measure: Measure, sums: EvaluationSums, task: str, baseline_split: str
) -> dict[str, dict[str, SliceEvaluation]]:
    """Computes the metrics of all slices that have a labelled example, by feature and value."""
    slices: dict[str, dict[str, SliceEvaluation]] = {}
    ranges = {feature: quantile_ranges(edges) for feature, edges in sums.quantiles.items()}
    for (of_task, feature, value), of_slice in sorted(sums.evaluated.items()):
        if of_task == task and feature and of_slice.num_examples:
            quality = measure.quality(of_slice, sums.baselines.get(task), baseline_split)
            slices.setdefault(feature, {})[value] = SliceEvaluation(
                feature=feature,
                value=value,
                num_examples=of_slice.num_examples,
                quality=quality,
                range=ranges.get(feature, {}).get(value, ""),
            )
    return slices


def evaluate_task(
    measure: Measure,
    sums: EvaluationSums,
    task: str,
    *,
    baseline_split: str,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    intervals: Intervals | None,
    num_slices: int,
    split: str,
    confidence: float,
    num_replicas: int,
    trees: TreesComparison | None = None,
    predictions: KeptPredictions | None = None,
) -> TaskEvaluation:
    """Assembles the results of one task, with the `num_slices` largest and smallest slices of each feature.

    With a `confidence` above 0 the model is compared with the baseline; `split` is the evaluated one. `trees` is what a
    comparison with trees found, `predictions` the answers that are kept.
    """
    of_all, baseline = sums.evaluated[task, "", ""], sums.baselines.get(task)
    kept: list[SliceEvaluation] = []
    num_not_shown = {}
    for feature, by_value in slices.items():
        chosen, num_not_shown[feature] = largest_and_smallest(_sized(by_value), num_slices)
        kept += chosen.values()
    quality = measure.quality(of_all, baseline, baseline_split)
    comparison = None
    if confidence:
        comparison = compare_with_baseline(
            measure,
            quality,
            of_all,
            sums.replicas.get(task),
            split=split,
            confidence=confidence,
            num_replicas=num_replicas,
        )
    return TaskEvaluation(
        kind=measure.kind,
        num_examples=of_all.num_examples,
        num_examples_without_label=count_without_label(sums, task),
        baseline_name=measure.baseline_name,
        quality=quality,
        slices=tuple(kept),
        num_slices_not_shown=num_not_shown,
        comparison=comparison,
        change=evaluate_change(
            measure, sums, task, quality, intervals, baseline_split=baseline_split, confidence=confidence
        ),
        intervals=intervals,
        confidence=confidence,
        trees=trees,
        predictions=predictions,
    )


def count_without_label(sums: EvaluationSums, task: str) -> int:
    """Counts the examples of both splits that lack a label."""
    parts: list[ExampleSums | None] = [sums.evaluated.get((task, "", "")), sums.baselines.get(task)]
    return sum(part.num_without_label for part in parts if part is not None)
