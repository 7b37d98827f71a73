"""Computes metrics, slices and the verdict from the summed results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx_gnn.components.graph_evaluator.evaluation_pipeline import EvaluationSums
from tfx_gnn.components.graph_evaluator.evaluation_report import SINGLE_TASK, SliceEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.example_sums import ExampleSums
from tfx_gnn.components.graph_evaluator.measures import Measure
from tfx_gnn.components.graph_evaluator.slices import largest_and_smallest
from tfx_gnn.components.graph_evaluator.thresholds import Verdict, check_thresholds

Thresholds = Mapping[str, Mapping[str, float]]


def evaluated_slices(
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
        num_examples_without_label=num_without_label(sums, task),
        baseline_name=measure.baseline_name,
        quality=measure.quality(of_all, baseline, baseline_split),
        slices=tuple(kept),
        num_slices_not_shown=num_not_shown,
    )


def num_without_label(sums: EvaluationSums, task: str) -> int:
    """Counts the examples of both splits that lack a label."""
    parts: list[ExampleSums | None] = [sums.evaluated.get((task, "", "")), sums.baselines.get(task)]
    return sum(part.num_without_label for part in parts if part is not None)


def verdicts_of_task(
    measure: Measure,
    evaluation: TaskEvaluation,
    task: str,
    *,
    thresholds: Thresholds,
    slices: Mapping[str, Mapping[str, SliceEvaluation]],
    slice_thresholds: Thresholds,
    min_slice_examples: int,
) -> list[Verdict]:
    """Holds one task to its bounds: one verdict a bound, but for slices only the bounds that are missed.

    The main metric must also be better than the baseline's, unless `thresholds` say by how much. `slice_thresholds`
    apply to slices of at least `min_slice_examples` labelled examples.
    """
    quality = evaluation.quality
    main = next((name for name in measure.main_metrics if name in quality.metrics), measure.main_metrics[0])
    bounds: dict[str, Any] = {main: {"gain": 0.0}}
    for name, of_metric in thresholds.items():
        bounds[name] = {**bounds.get(name, {}), **of_metric}
    of_task = [f"task {task!r}"] if task != SINGLE_TASK else []
    found = check_thresholds(
        bounds, quality.metrics, quality.baseline, baseline_name=evaluation.baseline_name, place=", ".join(of_task)
    )
    for feature, by_value in slices.items():
        for value, one_slice in by_value.items():
            if one_slice.num_examples >= min_slice_examples:
                of_slice = check_thresholds(
                    slice_thresholds,
                    one_slice.quality.metrics,
                    one_slice.quality.baseline,
                    baseline_name=evaluation.baseline_name,
                    place=", ".join([*of_task, f"{feature} = {value!r}"]),
                )
                found += [verdict for verdict in of_slice if not verdict.passed]
    return found
