from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation, TaskEvaluation
from tfx_gnn.components.graph_evaluator.measures import Quality
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.tfma_files import write_tfma_files
from tfx_gnn.components.graph_evaluator.thresholds import Verdict
from tfx_gnn.models.tasks import MultiTask, NodeClassification, NodeRegression

OF_2001 = ("context/year", "2001")
TWO_TASKS = MultiTask(
    tasks={"kind": NodeClassification(label_feature="kind", num_classes=2), "price": NodeRegression(label_feature="p")}
)


def verdict(metric: str, value: float, **changes: Any) -> Verdict:
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
) -> None:
    blessed = all(one.passed for one in verdicts)
    evaluation = GraphEvaluation(split="test", tasks=tasks, blessed=blessed, reasons=(), objections=())
    write_tfma_files(
        str(folder), evaluation, verdicts, options=options, examples_dir="/data/examples", model_dir="/data/model"
    )


def records(path: Path) -> list[bytes]:
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def test_records_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    task = TaskEvaluation(
        kind="classification",
        num_examples=4,
        num_examples_without_label=0,
        baseline_name="chance",
        quality=Quality(metrics={"accuracy": 0.75}, baseline={"accuracy": 0.5}, report={}),
        slices=(),
        num_slices_not_shown={},
    )
    missed = verdict("accuracy", 0.75, bounds={"min": 0.875}, slice_key=OF_2001)

    write(tmp_path, {"": task}, [missed], GraphEvaluatorOptions(label_feature="color"))

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
