from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
from tfx_gnn.records.blessing import is_blessed, read_reasons
from tfx_gnn.records.examples_folder import read_split, write_split_shard

BEAM_ARGS = ("--runner=DirectRunner", "--direct_running_mode=in_memory")


@pytest.fixture(scope="module")
def unlabelled_dir(tmp_path_factory: pytest.TempPathFactory, toy_records: dict[str, list[bytes]]) -> str:
    """The toy examples, one without a label in each split."""
    examples_dir = str(tmp_path_factory.mktemp("unlabelled"))
    for split, records in toy_records.items():
        stripped = tf.train.Example.FromString(records[0])
        del stripped.features.feature["nodes/_readout.color"]
        write_split_shard(examples_dir, split, 0, 1, [*records, stripped.SerializeToString()])
    return examples_dir


def _evaluate(tmp_path: Path, *, model_dir: str, examples_dir: str, **options: Any) -> GraphEvaluation:
    return evaluate_graph_model(
        examples_dir=examples_dir,
        model_dir=model_dir,
        evaluation_dir=str(tmp_path / "evaluation"),
        blessing_dir=str(tmp_path / "blessing"),
        options=GraphEvaluatorOptions(**{"label_feature": "color", **options}),
        beam_args=BEAM_ARGS,
    )


def test_metrics_and_baseline_are_those_worked_out_by_hand(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir)

    # Test: truth red, blue, red, red; predicted red, blue, red, blue. Majority of train: red.
    report = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert report["num_examples"] == 4
    assert report["accuracy"] == 0.75
    assert report["per_class"]["blue"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1}
    assert report["per_class"]["red"]["f1"] == pytest.approx(4 / 5)
    assert report["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert report["majority_baseline"] == {
        "class": "red",
        "class_from_split": "train",
        "accuracy": 0.75,
        "macro_f1": pytest.approx(3 / 7),
        "balanced_accuracy": 0.5,
        "roc_auc": 0.5,
    }
    # The one that is blue is the surest to be blue.
    assert report["roc_auc"] == 1.0
    assert report["confusion"] == [
        {"true": "blue", "predicted": "blue", "count": 1},
        {"true": "red", "predicted": "blue", "count": 1},
        {"true": "red", "predicted": "red", "count": 2},
    ]
    # Two answers have a probability of sigmoid(1), one of them wrong; the others sigmoid(3) and sigmoid(4), both right.
    (mistake,) = report["confident_mistakes"]
    assert (mistake["true"], mistake["predicted"], mistake["score"]) == ("red", "blue", pytest.approx(0.731059))
    assert report["expected_calibration_error"] == report["calibration"]["expected_calibration_error"]
    assert report["expected_calibration_error"] == pytest.approx(
        (2 * (0.7310586 - 0.5) + 2 * (1 - (0.9525741 + 0.9820138) / 2)) / 4, abs=1e-6
    )
    assert (report["format_version"], report["kind"], report["split"]) == (2, "classification", "test")
    assert sorted(path.name for path in (tmp_path / "evaluation").iterdir()) == [
        "eval_config.json",
        "metrics.json",
        "metrics.tfrecord",
        "predictions.parquet",
        "validations.tfrecord",
    ]


def test_model_as_good_as_the_majority_is_not_blessed(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    evaluation = _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir)

    assert not evaluation.blessed
    assert not is_blessed(str(tmp_path / "blessing"))
    assert read_reasons(str(tmp_path / "blessing")) == [
        "accuracy 0.7500 does not exceed the majority class's 0.7500 by more than 0"
    ]


def test_model_above_every_threshold_is_blessed(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    # With blue the majority of train the baseline gets one of four test examples right.
    evaluation = _evaluate(
        tmp_path,
        model_dir=toy_model_dir,
        examples_dir=_with_blue_majority(tmp_path, toy_examples_dir),
        baseline_confidence=0.0,
        min_accuracy_over_majority=0.4,
        min_accuracy=0.75,
        min_macro_f1=0.7,
        thresholds={"expected_calibration_error": 0.2},
    )

    assert evaluation.tasks[""].quality.baseline["accuracy"] == 0.25
    assert evaluation.blessed
    assert is_blessed(str(tmp_path / "blessing"))
    assert list(evaluation.reasons) == [
        "accuracy 0.7500 exceeds the majority class's 0.2500 by more than 0.4",
        "accuracy 0.7500 is at least 0.75",
        "macro-F1 0.7333 is at least 0.7",
        "expected calibration error 0.1319 is at most 0.2",
    ]


def test_few_examples_do_not_show_that_a_model_is_better(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    examples_dir = _with_blue_majority(tmp_path, toy_examples_dir)

    evaluation = _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=examples_dir, min_accuracy=0.2)

    report = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    compared = report["baseline_comparison"]
    assert not evaluation.blessed
    assert evaluation.objections == (compared["meaning"],)
    assert compared["meaning"].startswith(
        "accuracy 0.7500 may be better than the majority class's 0.2500 by chance only: the 95% interval of the "
        "difference on 4 examples of split 'test' is "
    )
    assert "The split is too small to tell: evaluate " in compared["meaning"]
    assert (compared["gain"], compared["num_examples"], compared["is_better"]) == (0.5, 4, False)
    assert -1.0 <= compared["lower"] <= 0.0 < compared["upper"] <= 1.0
    (warning,) = report["warnings"]
    assert warning == (
        "accuracy at least 0.2 is met by the majority class, which reaches 0.2500: choose a stricter bound. "
        "[loose_bound]"
    )


def test_one_threshold_that_is_missed_is_enough(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    evaluation = _evaluate(
        tmp_path,
        model_dir=toy_model_dir,
        examples_dir=_with_blue_majority(tmp_path, toy_examples_dir),
        baseline_confidence=0.0,
        min_macro_f1=0.74,
    )

    assert not evaluation.blessed
    assert list(evaluation.reasons) == [
        "accuracy 0.7500 exceeds the majority class's 0.2500 by more than 0",
        "macro-F1 0.7333 is below 0.74",
    ]
    assert evaluation.objections == ("macro-F1 0.7333 is below 0.74",)
    assert json.loads((tmp_path / "evaluation" / "metrics.json").read_text())["objections"] == [
        "macro-F1 0.7333 is below 0.74"
    ]
    assert read_reasons(str(tmp_path / "blessing")) == ["macro-F1 0.7333 is below 0.74"]


def _with_blue_majority(tmp_path: Path, toy_examples_dir: str) -> str:
    examples_dir = str(tmp_path / "examples")
    records = {split: list(read_split(toy_examples_dir, split).as_numpy_iterator()) for split in ("train", "test")}
    blue = [record for record in records["train"] if b"blue" in record]
    write_split_shard(examples_dir, "train", 0, 1, blue)
    write_split_shard(examples_dir, "test", 0, 1, records["test"])
    return examples_dir


def test_examples_without_label_fail_the_evaluation(tmp_path: Path, toy_model_dir: str, unlabelled_dir: str) -> None:
    with pytest.raises(ValueError, match=r"label 'color' on all but 0 examples; got 2 without one in splits 'test'"):
        _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=unlabelled_dir)

    assert not (tmp_path / "evaluation").exists()
    assert not (tmp_path / "blessing").exists()


def test_label_that_no_example_has_is_answered_by_those_there_are(
    tmp_path: Path, toy_model_dir: str, toy_examples_dir: str
) -> None:
    examples_dir = shutil.copytree(toy_examples_dir, tmp_path / "examples")
    features = 'features { key: "color" value { dtype: DT_STRING } }'
    (examples_dir / "graph_schema.pbtxt").write_text(f'node_sets {{ key: "_readout" value {{ {features} }} }}')

    with pytest.raises(ValueError, match=r"'colour' on .*\. Available features are \['color'\]: name one of them"):
        _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=str(examples_dir), label_feature="colour")


def test_examples_without_label_within_the_limit_are_counted(
    tmp_path: Path, toy_model_dir: str, unlabelled_dir: str
) -> None:
    evaluation = _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=unlabelled_dir, max_examples_without_label=2)

    assert evaluation.tasks[""].num_examples_without_label == 2
    assert evaluation.tasks[""].num_examples == 4


def test_label_that_no_example_has_is_refused(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    with pytest.raises(ValueError, match="must hold labelled examples of split 'test'; got none"):
        _evaluate(
            tmp_path,
            model_dir=toy_model_dir,
            examples_dir=toy_examples_dir,
            label_feature="shape",
            max_examples_without_label=8,
        )


def test_split_that_does_not_exist_is_refused(tmp_path: Path, toy_model_dir: str, toy_examples_dir: str) -> None:
    with pytest.raises(ValueError, match=r"`split` must be one of \['test', 'train'\]; got 'val'"):
        _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, split="val")
    with pytest.raises(ValueError, match=r"`baseline_split` must be one of \['test', 'train'\]; got 'val'"):
        _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=toy_examples_dir, baseline_split="val")


def test_record_that_is_no_example_is_named(
    tmp_path: Path, toy_model_dir: str, toy_records: dict[str, list[bytes]]
) -> None:
    examples_dir = str(tmp_path / "examples")
    write_split_shard(examples_dir, "train", 0, 1, toy_records["train"])
    write_split_shard(examples_dir, "test", 0, 1, [toy_records["test"][0], b"\x0agarbage"])

    with pytest.raises(
        ValueError, match=r"got 8 other bytes in record 1 of graphs-00000-of-00001\.gz \(split 'test'\)"
    ):
        _evaluate(tmp_path, model_dir=toy_model_dir, examples_dir=examples_dir)


def test_folder_without_model_is_refused(tmp_path: Path, toy_examples_dir: str) -> None:
    with pytest.raises(FileNotFoundError, match="must be a SavedModel"):
        _evaluate(tmp_path, model_dir=str(tmp_path), examples_dir=toy_examples_dir)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_feature": ""}, "`label_feature` must not be empty"),
        ({"min_accuracy": 70.0}, r"`min_accuracy` must lie in \[0, 1\]; got 70.0"),
        ({"max_examples_without_label": -1}, "`max_examples_without_label` must be at least 0; got -1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(**{"label_feature": "color", **options})
