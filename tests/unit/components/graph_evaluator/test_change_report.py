"""A model against the latest blessed one, on answers that were worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE
from tfx_gnn.serving.model_interface import ServedTask, write_served_task

SCHEMA = 'context { features { key: "year" value { dtype: DT_INT64 } } } node_sets { key: "_readout" value {} }'
TRUTH = ["red", "blue"] * 20


def _answers(wrong: set[int]) -> list[str]:
    other = {"red": "blue", "blue": "red"}
    return [other[color] if position in wrong else color for position, color in enumerate(TRUTH)]


# The first ten examples are of the year 2000, the others of 2001.
MODELS = {
    "three wrong": _answers({0, 10, 20}),
    "three others wrong": _answers({1, 11, 21}),
    "four wrong": _answers({10, 20, 21, 30}),
    "many wrong": _answers(set(range(12, 32, 1))),
    "other classes": ["up"] * len(TRUTH),
}


class _Recall(tf.Module):
    """Answers what stands in a feature of the context."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._key = f"context/{model}"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, {self._key: tf.io.FixedLenFeature([], tf.string)})
        return {"label": parsed[self._key]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    made: dict[str, str] = {}

    def make(name: str) -> str:
        if name not in made:
            made[name] = str(tmp_path_factory.mktemp("model"))
            module = _Recall(name)
            tf.saved_model.save(module, f"{made[name]}/Format-Serving", signatures={"serving_default": module.predict})
        return made[name]

    return make


@pytest.fixture(scope="module")
def examples_dir(tmp_path_factory: pytest.TempPathFactory, write_examples: Any) -> str:
    examples = [
        {
            "context/year": [2000 if position < 10 else 2001],
            # Copies of an example would be no further evidence.
            "context/number": [position],
            "nodes/_readout.#size": [1],
            "nodes/_readout.color": [color],
            **{f"context/{name}": [answers[position]] for name, answers in MODELS.items()},
        }
        for position, color in enumerate(TRUTH)
    ]
    folder: str = write_examples(
        str(tmp_path_factory.mktemp("examples")),
        {"train": [examples[:3]], "test": [examples[:25], examples[25:]]},
        SCHEMA,
    )
    return folder


@pytest.fixture
def evaluate(tmp_path: Path, model: Callable[[str], str], examples_dir: str) -> Any:
    def run(new: str, blessed_model_dir: str, **options: Any) -> tuple[GraphEvaluation, dict[str, Any]]:
        evaluation = evaluate_graph_model(
            examples_dir=examples_dir,
            model_dir=model(new),
            evaluation_dir=str(tmp_path / "evaluation"),
            blessing_dir=str(tmp_path / "blessing"),
            blessed_model_dir=blessed_model_dir,
            options=GraphEvaluatorOptions(**{"label_feature": "color", "bootstrap_replicas": 200, **options}),
        )
        return evaluation, json.loads((tmp_path / "evaluation" / "metrics.json").read_text())

    return run


def test_worse_model_is_not_blessed_and_the_report_says_by_how_much(evaluate: Any, model: Any) -> None:
    evaluation, report = evaluate("many wrong", model("three wrong"), thresholds={"accuracy": {"gain": -0.5}})

    assert evaluation.objections == ("accuracy 0.5000 is worse than the latest blessed model's 0.9250",)
    change = report["change"]
    assert change["latest_blessed"]["accuracy"] == 0.925
    assert (change["metric"], change["gain"], change["num_examples"]) == ("accuracy", pytest.approx(-0.425), 40)
    assert change["lower"] < -0.425 < change["upper"] < 0.0
    assert report["latest_blessed_model"] == {"found": True, "description": model("three wrong")}


def test_better_model_is_blessed(evaluate: Any, model: Any) -> None:
    evaluation, _ = evaluate("three wrong", model("four wrong"), change_thresholds={"accuracy": 0.025})

    assert evaluation.blessed
    assert evaluation.reasons[-1] == ("accuracy 0.9250 is at least 0.025 better than the latest blessed model's 0.9000")


def test_equal_model_is_blessed(evaluate: Any, model: Any) -> None:
    evaluation, report = evaluate("three wrong", model("three others wrong"))

    assert evaluation.blessed
    assert evaluation.reasons[-1] == "accuracy 0.9250 is not worse than the latest blessed model's 0.9250"
    # Six examples differ, so chance might have it either way.
    assert report["change"]["lower"] < 0.0 < report["change"]["upper"]


def test_small_loss_may_be_chance_and_can_be_allowed_but_not_in_a_slice(
    evaluate: Any, model: Any, tmp_path: Path
) -> None:
    blessed = model("three wrong")
    refused, _ = evaluate("four wrong", blessed)
    (tmp_path / "evaluation").rename(tmp_path / "first")
    (tmp_path / "blessing").rename(tmp_path / "first blessing")

    allowed, report = evaluate(
        "four wrong",
        blessed,
        change_thresholds={"accuracy": -0.025},
        slices=("context/year",),
        slice_change_thresholds={"accuracy": 0},
    )

    assert refused.objections[0].startswith(
        "accuracy 0.9000 is worse than the latest blessed model's 0.9250; chance may explain that: the 95% interval of "
        "the difference on 40 examples is -0."
    )
    assert "accuracy 0.9000 is at most 0.025 worse than the latest blessed model's 0.9250" in allowed.reasons
    # In 2000 it is better by one example, in 2001 worse by two.
    assert allowed.objections == (
        "context/year = '2001': accuracy 0.8667 is worse than the latest blessed model's 0.9333",
    )
    assert [one["latest_blessed"]["accuracy"] for one in report["slices"]] == [pytest.approx(28 / 30), 0.9]
    validations = list(
        tf.data.TFRecordDataset(str(tmp_path / "evaluation" / "validations.tfrecord")).as_numpy_iterator()
    )
    assert b"candidate" in validations[0]


def test_all_metrics_and_slices_have_intervals_and_too_few_examples_decide_nothing(evaluate: Any, model: Any) -> None:
    evaluation, report = evaluate(
        "four wrong",
        model("three wrong"),
        change_thresholds={"accuracy": -0.025},
        slices=("context/year",),
        slice_thresholds={"accuracy": 0.95},
        slice_change_thresholds={"accuracy": 0},
        max_slice_intervals={"accuracy": 0.3},
    )

    intervals = report["intervals"]
    assert (intervals["confidence"], intervals["num_resampled"]) == (0.95, 40)
    assert set(intervals["metrics"]) == set(intervals["changes"]) == {"accuracy", "macro_f1", "balanced_accuracy"}
    assert intervals["metrics"]["accuracy"]["lower"] < 0.9 < intervals["metrics"]["accuracy"]["upper"]
    assert {name: report["change"][name] for name in ("lower", "upper")} == intervals["changes"]["accuracy"]
    # Of 2001, 4 of 30 are wrong, so the interval is about 0.25 wide; of 2000, 10 examples are all right.
    of_2001, of_2000 = report["slices"]
    ends = of_2001["intervals"]["metrics"]["accuracy"]
    assert 0.2 < ends["upper"] - ends["lower"] < 0.3
    assert of_2000["intervals"]["metrics"]["accuracy"] == {"lower": 1.0, "upper": 1.0}
    # The change in 2000 is one of ten examples: too few to decide on. That of 2001 decides.
    assert of_2000["too_few_examples"] == {"metrics": [], "changes": ["accuracy"]}
    assert "too_few_examples" not in of_2001
    assert evaluation.objections == (
        "context/year = '2001': accuracy 0.8667 is below 0.95",
        "context/year = '2001': accuracy 0.8667 is worse than the latest blessed model's 0.9333",
    )
    assert evaluation.warnings == (
        (
            "1 of 2 slices of 'context/year' have too few examples to decide on the change of accuracy: its interval "
            "is wider than 0.3, so no bound on it applies to them. [wide_slice_intervals]"
        ),
    )


def test_first_model_is_judged_by_absolute_bounds_alone(evaluate: Any, tmp_path: Path) -> None:
    record = {"found": False, "description": "no version in /serving"}
    (tmp_path / LATEST_BLESSED_MODEL_FILE).write_text(json.dumps(record))

    evaluation, report = evaluate("three wrong", str(tmp_path))

    assert evaluation.blessed
    assert not [reason for reason in evaluation.reasons if "latest blessed" in reason]
    assert (report["latest_blessed_model"], "change" in report) == (record, False)


def test_blessed_model_of_other_classes_or_another_task_is_refused(evaluate: Any, model: Any, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"must hold a model of the same classes, such as \['blue', 'red'\]; got only \['up'\] from the latest",
    ):
        evaluate("three wrong", model("other classes"))
    task = {"kind": "node_classification", "label_feature": "color", "num_classes": 2}
    for name, changes in (("four wrong", {"num_classes": 3}), ("many wrong", {"label_feature": "shape"})):
        served = ServedTask(task={**task, **changes}, label_keys=(), roots=(), tensor_inputs={})
        write_served_task(served, model(name) + "/Format-Serving")
    with pytest.raises(ValueError, match=r'same task, .*"color".*; got .*"shape".* Push this model to another dest'):
        evaluate("four wrong", model("many wrong"))


def test_blessed_model_that_needs_a_feature_that_is_gone_is_refused(evaluate: Any, model: Any) -> None:
    with pytest.raises(ValueError, match=r"`blessed_model_dir` must hold a model that answers the same examples; got"):
        evaluate("three wrong", model("gone"))


def test_folder_without_model_or_record_is_refused(evaluate: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds neither"):
        evaluate("three wrong", str(tmp_path))


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"acuracy": 0}, r"`change_thresholds` must name metrics of the task; got 'acuracy'"),
        ({"accuracy": {"min": 0}}, r"`change_thresholds` must give a number for each metric.*got \{'min': 0\}"),
        ({"accuracy": 2}, r"`change_thresholds` must be a bound that some models miss"),
    ],
)
def test_wrong_bounds_are_refused(thresholds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(label_feature="color", change_thresholds=thresholds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_slice_intervals": {"acuracy": 1}}, "`max_slice_intervals` must name metrics of the task; got 'acuracy'"),
        ({"max_slice_intervals": {"accuracy": 0}}, "must give a width above 0 for each metric; got 0 for 'accuracy'"),
        (
            {"max_slice_intervals": {"accuracy": 0.1}, "baseline_confidence": 0.0},
            "`max_slice_intervals` must be empty without intervals; got .* Give a confidence, such as 0.95",
        ),
    ],
)
def test_wrong_limits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(label_feature="color", **options)
