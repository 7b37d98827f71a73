from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.baseline_comparison import BaselineComparison
from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation, SliceEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.measures import Quality
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.tfma_files import write_tfma_files
from tfx_gnn.components.graph_evaluator.thresholds import Verdict
from tfx_gnn.models.tasks import MultiTask, NodeClassification, NodeRegression

OF_2001 = ("context/year", "2001")
TWO_TASKS = MultiTask(
    tasks={"kind": NodeClassification(label_feature="kind", num_classes=2), "price": NodeRegression(label_feature="p")}
)


def quality(metric: str, value: float, baseline: float) -> Quality:
    return Quality(metrics={metric: value}, baseline={metric: baseline}, report={})


def evaluated(of_all: Quality, *of_slices: Quality, comparison: BaselineComparison | None = None) -> TaskEvaluation:
    return TaskEvaluation(
        kind="",
        num_examples=4,
        num_examples_without_label=0,
        baseline_name="chance",
        quality=of_all,
        slices=tuple(
            SliceEvaluation(feature=OF_2001[0], value=OF_2001[1], num_examples=2, quality=one) for one in of_slices
        ),
        num_slices_not_shown={},
        comparison=comparison,
    )


def verdict(metric: str, value: float | None, **changes: Any) -> Verdict:
    by_default: dict[str, Any] = {
        "passed": False,
        "sentence": "low",
        "task": "",
        "slice_key": ("", ""),
        "baseline": 0.5,
    }
    return Verdict(**{**by_default, "metric": metric, "value": value, **changes})


def write(
    folder: Path, tasks: dict[str, TaskEvaluation], verdicts: list[Verdict], options: GraphEvaluatorOptions
) -> str:
    blessed = all(one.passed for one in verdicts)
    evaluation = GraphEvaluation(split="test", tasks=tasks, blessed=blessed, reasons=(), objections=())
    write_tfma_files(
        str(folder), evaluation, verdicts, options=options, examples_dir="/data/examples", model_dir="/data/model"
    )
    return str(folder)


def records(path: Path) -> list[bytes]:
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def test_records_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    missed = verdict("accuracy", 0.75, bounds={"min": 0.875}, slice_key=OF_2001)

    write(tmp_path, {"": evaluated(quality("accuracy", 0.75, 0.5))}, [missed], GraphEvaluatorOptions(label_feature="c"))

    four, quarter, three_quarters, seven_eighths = (
        b"\x09" + b"\0" * 6 + end for end in (b"\x10\x40", b"\xd0\x3f", b"\xe8\x3f", b"\xec\x3f")
    )
    assert (
        records(tmp_path / "metrics.tfrecord")
        == [
            b"\x0a\x00"  # All examples.
            b"\x9a\x03\x1e\x0a\x0f\x0a\x0dexample_count\x12\x0b\x0a\x09"
            + four
            + b"\x9a\x03\x19\x0a\x0a\x0a\x08accuracy"
            b"\x12\x0b\x0a\x09" + three_quarters + b"\x9a\x03\x1b\x0a\x0c\x0a\x08accuracy\x28\x01"  # The difference.
            b"\x12\x0b\x0a\x09" + quarter
        ]
    )
    assert records(tmp_path / "validations.tfrecord") == [
        b"\x08\x00\x12\x47\x12\x16\x0a\x14\x0a\x0ccontext/year\x12\x042001\x1a\x2d\x0a\x0a\x0a\x08accuracy"
        b"\x12\x0d\x0a\x0b\x0a\x09" + seven_eighths + b"\x1a\x0b\x0a\x09" + three_quarters + b"\x22\x03low"
    ]


def test_config_holds_slices_and_thresholds(tmp_path: Path) -> None:
    options = GraphEvaluatorOptions(
        task=TWO_TASKS, slices=("context/year",), slice_thresholds={"price.rmse": 2.5}, baseline_confidence=0.9
    )
    verdicts = [
        verdict("accuracy", 0.75, task="kind", bounds={"gain": 0.2}, passed=True),
        verdict("accuracy", 0.75, task="kind", bounds={"gain": 0.0}, passed=True),
        verdict("rmse", 1.5, task="price", bounds={"gain": 0.25}, passed=True),
        verdict("rmse", 1.5, task="price", bounds={"max": 2.0}, passed=True),
        verdict("rmse", 3.0, task="price", bounds={"max": 2.5}, slice_key=OF_2001),
    ]

    write(tmp_path, {}, verdicts, options)

    run = json.loads((tmp_path / "eval_config.json").read_text())
    assert (run["dataLocation"], run["modelLocations"]) == ("/data/examples", {"": "/data/model"})
    assert run["evalConfig"]["slicingSpecs"] == [{}, {"featureKeys": ["context/year"]}]
    gain = {"absolute": 0.2, "direction": "HIGHER_IS_BETTER"}
    fall = {"absolute": -0.25, "direction": "LOWER_IS_BETTER"}
    of_slices = {
        "slicingSpecs": [{"featureKeys": ["context/year"]}],
        "threshold": {"valueThreshold": {"upperBound": 2.5}},
    }
    assert run["evalConfig"]["metricsSpecs"] == [
        {
            "outputNames": ["kind"],
            "thresholds": {"accuracy": {"changeThreshold": gain}},
            "perSliceThresholds": {},
        },
        {
            "outputNames": ["price"],
            "thresholds": {"rmse": {"valueThreshold": {"upperBound": 2.0}, "changeThreshold": fall}},
            "perSliceThresholds": {"rmse": {"thresholds": [of_slices]}},
        },
    ]
    assert run["evalConfig"]["options"]["confidenceIntervals"] == {"method": "POISSON_BOOTSTRAP"}


def test_tfma_loads_metrics_intervals_and_failures_of_all_tasks(tmp_path: Path) -> None:
    tfma = pytest.importorskip(
        "tensorflow_model_analysis", reason="TFX brings it: lanes 1 and 2 have it, the library alone does not"
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
    options = GraphEvaluatorOptions(task=TWO_TASKS, slices=("context/year",), slice_thresholds={"price.rmse": 2.5})

    folder = write(tmp_path, tasks, verdicts, options)
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
    assert (result.data_location, result.model_location) == ("/data/examples", "/data/model")
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
