"""Writes an evaluation as files that TensorFlow Model Analysis (TFMA) loads, without importing it.

The protocol buffers are `MetricsForSlice`, `ValidationResult` and, as JSON, `EvalRun` of TFMA 0.47 to 0.52.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_evaluator.baseline_comparison import BaselineComparison
from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation
from tfx_gnn.components.graph_evaluator.intervals import Intervals
from tfx_gnn.components.graph_evaluator.measures import Quality
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.thresholds import Thresholds, Verdict
from tfx_gnn.io.protobuf_wire import Message, encode_message
from tfx_gnn.records.metric_names import ERRORS, full_metric_name, metric_of_full_name

_EVAL_CONFIG_FILE = "eval_config.json"
_METRICS_FILE = "metrics.tfrecord"
_VALIDATIONS_FILE = "validations.tfrecord"

_ALL_EXAMPLES = ("", "")
_CANDIDATE, _BLESSED, _BASELINE = "candidate", "latest_blessed", "naive_baseline"
_LOWER_IS_BETTER, _HIGHER_IS_BETTER = 1, 2
_DIFFERENCES = ("gain", "change", "trees")


def write_tfma_files(
    folder: str,
    evaluation: GraphEvaluation,
    verdicts: Sequence[Verdict],
    *,
    options: GraphEvaluatorOptions,
    examples_dir: str,
    model_dir: str,
) -> None:
    """Writes `eval_config.json`, `metrics.tfrecord` and `validations.tfrecord`.

    The slices are those of `metrics.json`, and missed thresholds of any slice. Metrics have their bootstrap intervals.
    The difference of a metric to the baseline, model minus baseline, is the metric's "diff" in TFMA; that of the main
    metric has the bootstrap interval. Tasks of a model with several are TFMA's outputs.

    With a latest blessed model, there are three models in TFMA: "candidate", "latest_blessed" and "naive_baseline". The
    "diff" is then that of the candidate to the latest blessed model, with the interval of the change.

    Args:
        folder: existing folder to write to.
        evaluation: what was measured.
        verdicts: one for each bound on all examples, and the missed bounds on slices.
        options: the evaluation's options.
        examples_dir: where the examples are, for display.
        model_dir: where the model is, for display.
    """
    latest = evaluation.latest_blessed_model
    model = _CANDIDATE if latest is not None and latest.saved_model_dir else ""
    run: dict[str, Any] = {
        "evalConfig": _eval_config(verdicts, options, difference="change" if model else "gain"),
        "version": f"tfx_gnn {tfx_gnn.__version__}",
        "dataLocation": examples_dir,
        "fileFormat": "tfrecords",
        "modelLocations": {"": model_dir},
    }
    if latest is not None and model:
        baselines = ", ".join(dict.fromkeys(task.baseline_name for task in evaluation.tasks.values()))
        run["modelLocations"] = {_CANDIDATE: model_dir, _BLESSED: latest.saved_model_dir, _BASELINE: baselines}
        run["evalConfig"]["modelSpecs"] = [
            {"name": _CANDIDATE},
            {"name": _BLESSED, "isBaseline": True},
            {"name": _BASELINE},
        ]
    with tf.io.gfile.GFile(os.path.join(folder, _EVAL_CONFIG_FILE), "w") as file:
        file.write(json.dumps(run, indent=2, allow_nan=False) + "\n")
    _write_records(os.path.join(folder, _METRICS_FILE), _metrics_for_slices(evaluation, model))
    _write_records(os.path.join(folder, _VALIDATIONS_FILE), [_validation_result(evaluation.blessed, verdicts, model)])


def _write_records(path: str, messages: Iterable[Message]) -> None:
    with tf.io.TFRecordWriter(path) as writer:
        for message in messages:
            writer.write(encode_message(message))


def _metrics_for_slices(evaluation: GraphEvaluation, model: str) -> list[Message]:
    """Lists a `MetricsForSlice` for all examples and for each slice, with the metrics of all tasks."""
    by_slice: dict[tuple[str, str], list[Message]] = {_ALL_EXAMPLES: []}
    for task, of_task in evaluation.tasks.items():
        blessed: dict[tuple[str, str], Quality] = {}
        if of_task.change is not None:
            blessed = {**of_task.change.slices, _ALL_EXAMPLES: of_task.change.quality}
        measured = [(_ALL_EXAMPLES, of_task.num_examples, of_task.quality, of_task.intervals)]
        measured += [((one.feature, one.value), one.num_examples, one.quality, one.intervals) for one in of_task.slices]
        for key, num_examples, quality, intervals in measured:
            metrics = by_slice.setdefault(key, [])
            # Without a model's name, TFMA shows the count for all models.
            metrics.append({1: _metric_key(task, "example_count"), 2: _metric_value(num_examples)})
            if model:
                metrics += _three_models(task, quality, blessed.get(key), intervals)
            else:
                comparison = of_task.comparison if key == _ALL_EXAMPLES else None
                metrics += _one_model(task, quality, intervals, comparison)
    return [{1: _slice_key(key), 51: metrics} for key, metrics in by_slice.items()]


def _one_model(
    task: str, quality: Quality, intervals: Intervals | None, comparison: BaselineComparison | None
) -> Iterator[Message]:
    """Lists metrics, and their differences to the baseline."""
    for name, value in quality.metrics.items():
        ends = intervals.metrics.get(name) if intervals is not None else None
        yield {1: _metric_key(task, name), 2: _metric_value(value), 3: _interval(ends)}
        if name in quality.baseline:
            difference = _metric_value(value - quality.baseline[name])
            compared = comparison if comparison is not None and comparison.metric == name else None
            yield {1: _metric_key(task, name, is_diff=True), 2: difference, 3: _interval(_ends(compared))}


def _three_models(
    task: str, quality: Quality, blessed: Quality | None, intervals: Intervals | None
) -> Iterator[Message]:
    """Lists metrics of the candidate, the latest blessed model and the baseline, and the change between the first."""
    for name, value in quality.metrics.items():
        ends = intervals.metrics.get(name) if intervals is not None else None
        yield {1: _metric_key(task, name, model=_CANDIDATE), 2: _metric_value(value), 3: _interval(ends)}
        if blessed is not None and name in blessed.metrics:
            ends = intervals.changes.get(name) if intervals is not None else None
            key = _metric_key(task, name, is_diff=True, model=_CANDIDATE)
            yield {1: key, 2: _metric_value(value - blessed.metrics[name]), 3: _interval(ends)}
    for model, metrics in ((_BLESSED, blessed.metrics if blessed is not None else {}), (_BASELINE, quality.baseline)):
        for name, value in metrics.items():
            yield {1: _metric_key(task, name, model=model), 2: _metric_value(value)}


def _ends(comparison: BaselineComparison | None) -> tuple[float, float] | None:
    """Returns the interval of model minus baseline."""
    if comparison is None or comparison.lower is None or comparison.upper is None:
        return None
    if comparison.metric in ERRORS:
        return 0.0 - comparison.upper, 0.0 - comparison.lower
    return comparison.lower, comparison.upper


def _interval(ends: tuple[float, float] | None) -> Message | None:
    """Returns a `ConfidenceInterval`."""
    return None if ends is None else {1: _metric_value(ends[1]), 2: _metric_value(ends[0])}


def _validation_result(
    blessed: bool,  # noqa: FBT001 - a field of the message.
    verdicts: Iterable[Verdict],
    model: str,
) -> Message:
    failures: dict[tuple[str, str], list[Message]] = {}
    for verdict in verdicts:
        if not verdict.passed:
            failures.setdefault(verdict.slice_key, []).extend(_failures(verdict, model))
    return {1: blessed, 2: [{2: _slice_key(key), 3: of_slice} for key, of_slice in failures.items()]}


def _failures(verdict: Verdict, model: str) -> Iterator[Message]:
    for kind, bound in verdict.bounds.items():
        value, is_diff = verdict.value, kind in _DIFFERENCES
        if is_diff and value is not None and verdict.baseline is not None:
            value -= verdict.baseline
        yield {
            1: _metric_key(verdict.task, verdict.metric, is_diff=is_diff, model=model),
            2: _metric_threshold(verdict.metric, kind, bound),
            3: None if value is None else _metric_value(value),
            4: verdict.sentence,
        }


def _metric_key(task: str, name: str, *, is_diff: bool = False, model: str = "") -> Message:
    return {1: name, 2: task or None, 4: model or None, 5: is_diff or None}


def _metric_value(value: float) -> Message:
    return {1: _double_value(value)}


def _double_value(value: float) -> Message:
    return {1: float(value)}


def _slice_key(key: tuple[str, str]) -> Message:
    feature, value = key
    return {1: {1: feature, 2: value}} if feature else {}


def _metric_threshold(metric: str, kind: str, bound: float) -> Message:
    if kind not in _DIFFERENCES:
        return {1: {1 if kind == "min" else 2: _double_value(bound)}}
    direction = _LOWER_IS_BETTER if metric in ERRORS else _HIGHER_IS_BETTER
    return {2: {1: _double_value(_least_change(metric, bound)), 3: direction}}


def _least_change(metric: str, gain: float) -> float:
    """Converts a gain, above 0 if the model is better, to model minus baseline."""
    return 0.0 - gain if metric in ERRORS else gain


def _eval_config(verdicts: Iterable[Verdict], options: GraphEvaluatorOptions, *, difference: str) -> dict[str, Any]:
    """Describes the evaluation; of the bounds on differences, "gain" and "change", TFMA knows one only."""
    by_task: dict[str, dict[str, dict[str, float]]] = {}
    for verdict in verdicts:
        if verdict.slice_key == _ALL_EXAMPLES:
            known = {kind: bound for kind, bound in verdict.bounds.items() if kind in ("min", "max", difference)}
            of_metric = by_task.setdefault(verdict.task, {}).setdefault(verdict.metric, {})
            # The first gain is the required one; the second says that it must be above 0 beyond chance.
            of_metric.update({kind: bound for kind, bound in known.items() if kind not in of_metric})
    features = [{"featureKeys": [feature]} for feature in options.slices]
    config: dict[str, Any] = {
        "modelSpecs": [{}],
        "slicingSpecs": [{}, *features],
        "metricsSpecs": [
            {
                **({"outputNames": [task]} if task else {}),
                "thresholds": {name: _threshold_json(name, bounds) for name, bounds in thresholds.items()},
                "perSliceThresholds": {
                    name: {"thresholds": [{"slicingSpecs": features, "threshold": _threshold_json(name, bounds)}]}
                    for name, bounds in _slice_bounds(options, task, difference).items()
                },
            }
            for task, thresholds in by_task.items()
        ],
    }
    if options.baseline_confidence:
        config["options"] = {
            "computeConfidenceIntervals": True,
            "confidenceIntervals": {"method": "POISSON_BOOTSTRAP"},
        }
    return config


def _slice_bounds(options: GraphEvaluatorOptions, task: str, difference: str) -> Thresholds:
    """Returns the bounds that every slice must meet, by metric of a task."""
    found: dict[str, dict[str, float]] = {}
    changes = {name: {"change": least} for name, least in options.slice_change_thresholds.items()}
    for thresholds in (options.slice_thresholds, changes):
        for name, bounds in thresholds.items():
            metric = metric_of_full_name(name)
            known = {kind: bound for kind, bound in bounds.items() if kind in ("min", "max", difference)}
            if known and name == full_metric_name(task, metric):
                found.setdefault(metric, {}).update(known)
    return found


def _threshold_json(metric: str, bounds: Mapping[str, float]) -> dict[str, Any]:
    ends = {end: bounds[kind] for end, kind in (("lowerBound", "min"), ("upperBound", "max")) if kind in bounds}
    threshold: dict[str, Any] = {"valueThreshold": ends} if ends else {}
    for kind in ("gain", "change"):
        if kind in bounds:
            threshold["changeThreshold"] = {
                "absolute": _least_change(metric, bounds[kind]),
                "direction": "LOWER_IS_BETTER" if metric in ERRORS else "HIGHER_IS_BETTER",
            }
    return threshold
