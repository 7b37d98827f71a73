"""How a model differs from the latest blessed one, on the same examples."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tfx_gnn.components.graph_evaluator.classification import ClassCounts
from tfx_gnn.components.graph_evaluator.intervals import Intervals
from tfx_gnn.components.graph_evaluator.measures import Measure, Quality
from tfx_gnn.records.latest_blessed_model import find_latest_blessed_model
from tfx_gnn.records.metric_names import ERRORS
from tfx_gnn.serving.model_interface import read_served_task

_COMPARED_FIELDS = ("kind", "label_feature", "num_outputs", "scoring")
_REMEDY = "Push this model to another destination, or leave the comparison out"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatestBlessedModel:
    """The model that a new one must not be worse than.

    Attributes:
        saved_model_dir: its SavedModel; empty if no model has been blessed yet.
        description: where it comes from, or why there is none, in words.
    """

    saved_model_dir: str
    description: str

    def report(self) -> dict[str, Any]:
        """Returns the contents of `latest_blessed_model` in `metrics.json`."""
        return {"found": bool(self.saved_model_dir), "description": self.description}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChangeReport:
    """A task's metrics compared with those of the latest blessed model.

    Attributes:
        quality: metrics of the latest blessed model.
        slices: its metrics by slice: feature and value.
        metric: the main metric.
        gain: how much better the model is in it; below 0 if it is worse.
        lower: lower end of the interval of `gain`; None if there is none.
        upper: its upper end.
        confidence: how often such intervals contain the true difference; 0 without an interval.
        num_examples: labelled examples.
    """

    quality: Quality
    slices: Mapping[tuple[str, str], Quality]
    metric: str
    gain: float | None
    lower: float | None
    upper: float | None
    confidence: float
    num_examples: int

    def report(self) -> dict[str, Any]:
        """Returns the contents of `change` in `metrics.json`."""
        return {
            "method": "poisson_bootstrap" if self.confidence else "",
            **{
                name: getattr(self, name) for name in ("metric", "gain", "lower", "upper", "confidence", "num_examples")
            },
            "latest_blessed": self.quality.metrics,
        }


def read_latest_blessed_model(blessed_model_dir: str, saved_model_dir: str) -> LatestBlessedModel:
    """Finds the model to compare with, and checks that it was trained for the same task.

    Args:
        blessed_model_dir: output of LatestBlessedModelResolver, a trained model, a SavedModel or a push destination.
        saved_model_dir: SavedModel at hand.

    Raises:
        FileNotFoundError: if there is no model, and nothing says that none has been blessed yet.
        ValueError: if the models predict different things.
    """
    blessed, description = find_latest_blessed_model(blessed_model_dir)
    if blessed:
        _check_same_task(saved_model_dir, blessed, description)
    return LatestBlessedModel(saved_model_dir=blessed, description=description)


def compare_with_blessed(
    measure: Measure,
    quality: Quality,
    blessed: Quality,
    slices: Mapping[tuple[str, str], Quality],
    intervals: Intervals | None,
    *,
    num_examples: int,
    confidence: float,
) -> ChangeReport:
    """Compares a task's main metric with that of the latest blessed model.

    Args:
        measure: how the task is measured.
        quality: metrics of the model.
        blessed: metrics of the latest blessed model on the same examples.
        slices: its metrics by slice.
        intervals: those of all examples; None without.
        num_examples: labelled examples.
        confidence: of the interval, in (0, 1); 0 for none.
    """
    metric = measure.main_metric_of(quality)
    gain = None
    if metric in quality.metrics and metric in blessed.metrics:
        gain = improvement(metric, quality.metrics[metric], blessed.metrics[metric])
    ends = intervals.changes.get(metric) if intervals is not None else None
    lower = upper = None
    if ends is not None:
        lower, upper = sorted(improvement(metric, end, 0.0) for end in ends)
    return ChangeReport(
        quality=blessed,
        slices=slices,
        metric=metric,
        gain=gain,
        lower=lower,
        upper=upper,
        confidence=confidence if ends else 0.0,
        num_examples=num_examples,
    )


def check_same_classes(sums: Any, blessed: Any) -> None:
    """Refuses a latest blessed model that only answers classes that neither the examples nor this model have.

    Classes may come and go; those that a model does not know count as its mistakes.
    """
    if not isinstance(sums, ClassCounts):
        return
    known = {name for pair in sums.confusion for name in pair}
    answered = {predicted for _, predicted in blessed.confusion}
    if answered and not answered & known:
        raise ValueError(
            f"`blessed_model_dir` must hold a model of the same classes, such as {sorted(known)[:3]}; got only "
            f"{sorted(answered)[:3]} from the latest blessed model. {_REMEDY}."
        )


def improvement(metric: str, value: float, other: float) -> float:
    """Returns by how much a value of a metric is better than another; below 0 if it is worse."""
    return other - value if metric in ERRORS else value - other


def refuse_other_model(error: ValueError, blessed_model_dir: str) -> ValueError:
    """Returns the error of a latest blessed model that cannot answer what the model at hand answers."""
    return ValueError(
        "`blessed_model_dir` must hold a model that answers the same examples; got an error of the latest blessed "
        f"model in {blessed_model_dir!r}: {error} {_REMEDY}."
    )


def _check_same_task(saved_model_dir: str, blessed: str, description: str) -> None:
    """Compares what both models say of themselves; models of other tools say nothing."""
    served = [read_served_task(folder) for folder in (saved_model_dir, blessed)]
    known = [_described(one.task) for one in served if one is not None]
    if len(known) == 2 and known[0] != known[1]:
        this, other = (json.dumps(one, sort_keys=True) for one in known)
        raise ValueError(
            f"`blessed_model_dir` must hold a model of the same task, {this}; got {other} in the latest blessed model, "
            f"{description}. {_REMEDY}."
        )


def _described(task: Mapping[str, Any]) -> dict[str, Any]:
    """Reduces a task to what must be equal for two models to be compared; classes may come and go."""
    found: dict[str, Any] = {name: task[name] for name in _COMPARED_FIELDS if name in task}
    if isinstance(task.get("tasks"), dict):
        found["tasks"] = {name: _described(part) for name, part in task["tasks"].items()}
    return found
