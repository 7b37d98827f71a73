"""The results of an evaluation, computed from sums over its examples, as `metrics.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tfx_gnn
from tfx_gnn.components.graph_evaluator.measures import SINGLE_TASK, EvaluationSums, ExampleSums, Measure, Quality
from tfx_gnn.components.graph_evaluator.slices import largest_and_smallest


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceEvaluation:
    """What a model is worth on a part of the examples.

    Attributes:
        feature: what is sliced by, as the key of a tf.Example.
        value: the value of these examples.
        num_examples: examples with a label.
        quality: the metrics, and those of the baseline.
    """

    feature: str
    value: str
    num_examples: int
    quality: Quality


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskEvaluation:
    """What a model is worth at one task.

    Attributes:
        kind: "classification", "regression" or "link_prediction".
        num_examples: examples with a label.
        num_examples_without_label: examples of the two splits that could not be counted.
        baseline_name: what the model is compared with, in words.
        quality: the metrics, and those of the baseline.
        slices: the same for parts of the examples, the largest and the smallest of each feature.
        num_slices_not_shown: by feature, how many parts there are beside.
    """

    kind: str
    num_examples: int
    num_examples_without_label: int
    baseline_name: str
    quality: Quality
    slices: tuple[SliceEvaluation, ...]
    num_slices_not_shown: dict[str, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluation:
    """What an evaluation found.

    Attributes:
        split: the split that was evaluated.
        tasks: by name, what was found for each task; a single task has the name "".
        blessed: whether every threshold is met.
        reasons: one sentence a threshold.
        objections: those of the thresholds that are missed.
    """

    split: str
    tasks: dict[str, TaskEvaluation]
    blessed: bool
    reasons: tuple[str, ...]
    objections: tuple[str, ...]

    def report(self) -> dict[str, Any]:
        """Puts `metrics.json` together.

        Returns:
            Plain JSON. What is known of a single task stands at the top, that of several below "tasks".
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
            **of_tasks,
        }


def _task_report(task: TaskEvaluation) -> dict[str, Any]:
    report: dict[str, Any] = {
        "kind": task.kind,
        "num_examples": task.num_examples,
        "num_examples_without_label": task.num_examples_without_label,
        **task.quality.report,
    }
    if task.num_slices_not_shown:
        report["slices"] = [
            {
                "feature": one_slice.feature,
                "value": one_slice.value,
                "num_examples": one_slice.num_examples,
                **one_slice.quality.metrics,
                "baseline": one_slice.quality.baseline,
            }
            for one_slice in task.slices
        ]
        report["num_slices_not_shown"] = task.num_slices_not_shown
    return report


def evaluate_slices(
    measure: Measure, sums: EvaluationSums, task: str, baseline_split: str
) -> dict[str, dict[str, SliceEvaluation]]:
    """Computes the metrics of all slices that have a labelled example, by feature and value."""
    slices: dict[str, dict[str, SliceEvaluation]] = {}
    for (of_task, feature, value), of_slice in sorted(sums.evaluated.items()):
        if of_task == task and feature and of_slice.num_examples:
            quality = measure.quality(of_slice, sums.baselines.get(task), baseline_split)
            slices.setdefault(feature, {})[value] = SliceEvaluation(
                feature=feature, value=value, num_examples=of_slice.num_examples, quality=quality
            )
    return slices


def evaluate_task(
    measure: Measure,
    sums: EvaluationSums,
    task: str,
    *,
    baseline_split: str,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    num_slices: int,
) -> TaskEvaluation:
    """Puts together what is known of one task, with the `num_slices` largest and smallest slices of each feature."""
    of_all, baseline = sums.evaluated[task, "", ""], sums.baselines.get(task)
    kept: list[SliceEvaluation] = []
    num_not_shown = {}
    for feature, by_value in slices.items():
        sized = {value: (one_slice.num_examples, one_slice) for value, one_slice in by_value.items()}
        chosen, num_not_shown[feature] = largest_and_smallest(sized, num_slices)
        kept += chosen.values()
    return TaskEvaluation(
        kind=measure.kind,
        num_examples=of_all.num_examples,
        num_examples_without_label=count_without_label(sums, task),
        baseline_name=measure.baseline_name,
        quality=measure.quality(of_all, baseline, baseline_split),
        slices=tuple(kept),
        num_slices_not_shown=num_not_shown,
    )


def count_without_label(sums: EvaluationSums, task: str) -> int:
    """Counts the examples of both splits that lack a label."""
    parts: list[ExampleSums | None] = [sums.evaluated.get((task, "", "")), sums.baselines.get(task)]
    return sum(part.num_without_label for part in parts if part is not None)
