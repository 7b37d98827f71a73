"""TensorFlow Model Analysis loads what GraphEvaluator writes for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tfx_gnn.components.graph_evaluator.baseline_comparison import BaselineComparison
from tfx_gnn.components.graph_evaluator.change_report import ChangeReport, LatestBlessedModel
from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation, SliceEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.intervals import Intervals
from tfx_gnn.components.graph_evaluator.measures import Quality
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.tfma_files import write_tfma_files
from tfx_gnn.components.graph_evaluator.thresholds import Verdict
from tfx_gnn.models.tasks import MultiTask, NodeClassification, NodeRegression

# TFX's components import it, too: here it costs nothing more.
tfma = pytest.importorskip(
    "tensorflow_model_analysis", reason="TFX brings it, so lanes 1 and 2 have it; the library alone does not"
)

OF_2001 = ("context/year", "2001")


def quality(metric: str, value: float, baseline: float) -> Quality:
    return Quality(metrics={metric: value}, baseline={metric: baseline}, report={})


def evaluated(of_all: Quality, of_2001: Quality, comparison: BaselineComparison | None = None) -> TaskEvaluation:
    one_slice = SliceEvaluation(feature=OF_2001[0], value=OF_2001[1], num_examples=2, quality=of_2001)
    return TaskEvaluation(
        kind="",
        num_examples=4,
        num_examples_without_label=0,
        baseline_name="chance",
        quality=of_all,
        slices=(one_slice,),
        num_slices_not_shown={"context/year": 0},
        comparison=comparison,
    )


def verdict(metric: str, value: float | None, **changes: Any) -> Verdict:
    rest: dict[str, Any] = {"passed": False, "sentence": "low", "slice_key": ("", ""), "baseline": 0.5}
    return Verdict(**{**rest, "metric": metric, "value": value, **changes})


def test_tfma_loads_metrics_intervals_and_failures_of_all_tasks(tmp_path: Path) -> None:
    task = MultiTask(
        tasks={
            "kind": NodeClassification(label_feature="kind", num_classes=2),
            "price": NodeRegression(label_feature="price"),
        }
    )
    comparison = BaselineComparison(
        metric="rmse",
        gain=0.5,
        lower=-0.25,
        upper=1.0,
        confidence=0.9,
        num_examples=4,
        num_replicas=200,
        is_better=False,
        meaning="too few",
    )
    tasks = {
        "kind": evaluated(quality("accuracy", 0.75, 0.5), quality("accuracy", 0.5, 1.0)),
        "price": evaluated(quality("rmse", 1.5, 2.0), quality("rmse", 3.0, 2.5), comparison=comparison),
    }
    verdicts = [
        verdict("accuracy", 0.75, task="kind", bounds={"gain": 0.0}, passed=True),
        verdict("rmse", 1.5, task="price", bounds={"gain": 0.0}, baseline=2.0, sentence="too few"),
        verdict("macro_f1", None, task="kind", bounds={"min": 0.1, "max": 0.9}, baseline=None),
        verdict("rmse", 3.0, task="price", bounds={"max": 2.5}, slice_key=OF_2001, baseline=2.5),
    ]
    evaluation = GraphEvaluation(split="test", tasks=tasks, blessed=False, reasons=(), objections=())
    options = GraphEvaluatorOptions(task=task, slices=("context/year",), slice_thresholds={"price.rmse": 2.5})

    folder = str(tmp_path)
    write_tfma_files(folder, evaluation, verdicts, options=options, examples_dir="/examples", model_dir="/model")
    result = tfma.load_eval_result(folder)
    validation = tfma.load_validation_result(folder)

    def double(value: float) -> dict[str, float]:
        return {"doubleValue": value}

    interval = {"boundedValue": {"lowerBound": -1.0, "upperBound": 0.25, "value": -0.5}}
    assert dict(result.slicing_metrics) == {
        (): {
            "kind": {"": {"example_count": double(4), "accuracy": double(0.75), "accuracy_diff": double(0.25)}},
            "price": {"": {"example_count": double(4), "rmse": double(1.5), "rmse_diff": interval}},
        },
        (OF_2001,): {
            "kind": {"": {"example_count": double(2), "accuracy": double(0.5), "accuracy_diff": double(-0.5)}},
            "price": {"": {"example_count": double(2), "rmse": double(3), "rmse_diff": double(0.5)}},
        },
    }
    assert (result.data_location, result.model_location) == ("/examples", "/model")
    assert (list(result.plots), list(result.attributions)) == ([], [])
    assert [list(spec.feature_keys) for spec in result.config.slicing_specs] == [[], ["context/year"]]
    assert result.config.metrics_specs[1].per_slice_thresholds["rmse"].thresholds[0].threshold == (
        tfma.MetricThreshold(value_threshold={"upper_bound": {"value": 2.5}})
    )
    assert not validation.validation_ok
    of_all, of_slice = validation.metric_validations_per_slice
    diff, least, most = of_all.failures
    assert (diff.metric_key.name, diff.metric_key.output_name, diff.metric_key.is_diff) == ("rmse", "price", True)
    assert diff.metric_threshold.change_threshold == tfma.GenericChangeThreshold(
        absolute={"value": 0.0}, direction=tfma.MetricDirection.LOWER_IS_BETTER
    )
    assert (diff.metric_value.double_value.value, diff.message) == (-0.5, "too few")
    assert least.metric_threshold.value_threshold.lower_bound.value == 0.1
    assert most.metric_threshold.value_threshold.upper_bound.value == 0.9
    assert not least.HasField("metric_value")
    assert [(key.column, key.bytes_value) for key in of_slice.slice_key.single_slice_keys] == [
        ("context/year", b"2001")
    ]
    assert [failure.metric_value.double_value.value for failure in of_slice.failures] == [3.0]


def test_tfma_shows_the_latest_blessed_model_the_candidate_and_the_change(tmp_path: Path) -> None:
    of_all, of_2001 = quality("accuracy", 0.75, 0.5), quality("accuracy", 0.5, 1.0)
    change = ChangeReport(
        quality=quality("accuracy", 0.625, 0.5),
        slices={OF_2001: quality("accuracy", 1.0, 1.0)},
        metric="accuracy",
        gain=0.125,
        lower=-0.25,
        upper=0.5,
        confidence=0.95,
        num_examples=4,
    )
    intervals = Intervals(num_rows=4, metrics={"accuracy": (0.25, 1.0)}, changes={"accuracy": (-0.25, 0.5)})
    task = dataclasses.replace(evaluated(of_all, of_2001), change=change, intervals=intervals)
    evaluation = GraphEvaluation(
        split="test",
        tasks={"": task},
        blessed=False,
        reasons=(),
        objections=(),
        latest_blessed_model=LatestBlessedModel(saved_model_dir="/serving/3", description="version 3"),
    )
    missed = verdict("accuracy", 0.5, task="", bounds={"change": 0.0}, slice_key=OF_2001, baseline=1.0)

    folder = str(tmp_path)
    write_tfma_files(
        folder,
        evaluation,
        [verdict("accuracy", 0.75, task="", bounds={"gain": 0.25}, passed=True), missed],
        options=GraphEvaluatorOptions(
            label_feature="color", slices=("context/year",), slice_change_thresholds={"accuracy": -0.125}
        ),
        examples_dir="/examples",
        model_dir="/model",
    )
    loaded = {name: tfma.load_eval_result(folder, model_name=name) for name in ("candidate", "latest_blessed")}
    by_default = tfma.load_eval_result(folder)

    def metrics(result: Any, key: Any) -> Any:
        return dict(result.slicing_metrics)[key][""][""]

    assert (
        metrics(loaded["candidate"], ())
        == metrics(by_default, ())
        == {
            "example_count": {"doubleValue": 4.0},
            "accuracy": {"boundedValue": {"lowerBound": 0.25, "upperBound": 1.0, "value": 0.75}},
            "accuracy_diff": {"boundedValue": {"lowerBound": -0.25, "upperBound": 0.5, "value": 0.125}},
        }
    )
    assert metrics(loaded["latest_blessed"], ())["accuracy"] == {"doubleValue": 0.625}
    assert metrics(loaded["candidate"], (OF_2001,))["accuracy_diff"] == {"doubleValue": -0.5}
    assert metrics(loaded["latest_blessed"], (OF_2001,))["accuracy"] == {"doubleValue": 1.0}
    baseline = tfma.load_eval_result(folder, model_name="naive_baseline")
    assert metrics(baseline, ())["accuracy"] == {"doubleValue": 0.5}
    assert [result.model_location for result in (loaded["latest_blessed"], baseline)] == ["/serving/3", "chance"]
    # In TFMA, a change is against the latest blessed model, so the bound on the gain over the baseline is none.
    (spec,) = by_default.config.metrics_specs
    assert not spec.thresholds["accuracy"].HasField("change_threshold")
    of_slices = spec.per_slice_thresholds["accuracy"].thresholds[0].threshold
    assert of_slices.change_threshold.absolute.value == -0.125
    (failure,) = tfma.load_validation_result(folder).metric_validations_per_slice[0].failures
    assert (failure.metric_key.model_name, failure.metric_key.is_diff) == ("candidate", True)
    assert failure.metric_value.double_value.value == -0.5
