"""The results of an evaluation, as `metrics.json`."""

from __future__ import annotations

import dataclasses
from typing import Any

import tfx_gnn
from tfx_gnn.components.graph_evaluator.measures import Quality

SINGLE_TASK = ""
"""Name of the task of a model that has only one."""


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
