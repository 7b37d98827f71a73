"""Models whose answers stand in the examples, beside trees that see the seed's own column."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format
from sklearn.metrics import roc_auc_score

from tfx_gnn.components.graph_evaluator import column_sample
from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
from tfx_gnn.components.graph_evaluator.task_measures import task_measures
from tfx_gnn.components.graph_evaluator.trees_comparison import plan_trees
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.models.tasks import GraphRegression, LinkPrediction, MultiTask, NodeClassification, NodeRegression

SCHEMA = """
context { features { key: "answer" value { dtype: DT_FLOAT } } }
node_sets { key: "flight" value {
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "carrier" value { dtype: DT_STRING } }
  features { key: "delay" value { dtype: DT_FLOAT } }
  features { key: "stops" value { dtype: DT_STRING shape { dim { size: -1 } } } }
} }
node_sets { key: "_readout" value {
  features { key: "late" value { dtype: DT_STRING } } features { key: "minutes" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "flight" target: "_readout" } }
"""
KINDS = ("early", "late")


class _Answers(tf.Module):
    """Answers `context/answer`: a number, and the log odds of "late"."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(
            examples,
            {
                "context/answer": tf.io.FixedLenFeature([], tf.float32),
                "nodes/flight.#id": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        answer = parsed["context/answer"]
        probabilities = tf.stack([tf.sigmoid(-answer), tf.sigmoid(answer)], axis=1)
        return {
            "prediction": answer[:, tf.newaxis],
            "probabilities": probabilities,
            "label": tf.gather(tf.constant(KINDS), tf.cast(answer > 0.0, tf.int32)),
            "score": tf.reduce_max(probabilities, axis=1),
            "id": parsed["nodes/flight.#id"],
            "scores": tf.zeros([tf.size(answer), 0]),
            "num_candidates": tf.zeros_like(parsed["nodes/flight.#id"]),
            "source_id": tf.zeros([tf.size(answer), 0], tf.int64),
        }


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("answers")
    module = _Answers()
    tf.saved_model.save(module, str(folder / "Format-Serving"), signatures={"serving_default": module.predict})
    return str(folder)


def _example(number: int, *, late: bool, trees_are_right: bool, odds: float) -> dict[str, list[Any]]:
    """A flight whose carrier says "late" to whoever knows carriers, rightly or not."""
    return {
        "context/answer": [odds],
        "nodes/flight.#size": [1],
        "nodes/flight.#id": [number],
        "nodes/flight.carrier": ["slow" if late == trees_are_right else "fast"],
        "nodes/flight.delay": [float("nan")],
        "nodes/_readout.#size": [1],
        "nodes/_readout.late": [KINDS[late]],
        "nodes/_readout.minutes": [30.0 if late else 0.0],
        "edges/_readout/seed.#source": [0],
    }


def _split(first: int, *, network_is_right: float, bias: float = 0.0) -> list[list[dict[str, list[Any]]]]:
    """200 flights of which the carrier tells 4 in 5, and the network a share, surer of some than of others."""
    examples = []
    for number in range(200):
        late = bool(number % 2)
        is_right = (number * 7) % 100 < 100 * network_is_right
        odds = bias + (1.0 + number % 5) * (1.0 if late == is_right else -1.0)
        examples.append(_example(first + number, late=late, trees_are_right=number % 10 > 1, odds=odds))
    return [examples[:120], examples[120:]]


@pytest.fixture
def evaluate(tmp_path: Path, model_dir: str, write_examples: Any) -> Any:
    def run(
        *, schema: str = SCHEMA, network_is_right: float = 0.95, bias: float = 0.0, **options: Any
    ) -> tuple[GraphEvaluation, dict[str, Any]]:
        splits = {
            "train": _split(0, network_is_right=network_is_right, bias=bias),
            "test": _split(1000, network_is_right=network_is_right, bias=bias),
        }
        evaluation = evaluate_graph_model(
            examples_dir=write_examples(str(tmp_path / "examples"), splits, schema),
            model_dir=model_dir,
            evaluation_dir=str(tmp_path / "evaluation"),
            blessing_dir=str(tmp_path / "blessing"),
            options=GraphEvaluatorOptions(
                **{
                    "task": NodeClassification(label_feature="late", num_classes=2),
                    "bootstrap_replicas": 200,
                    **options,
                }
            ),
        )
        return evaluation, json.loads((tmp_path / "evaluation" / "metrics.json").read_text())

    return run


def test_the_gain_over_trees_has_an_interval_and_a_sentence(evaluate: Any) -> None:
    evaluation, report = evaluate(trees_thresholds={"roc_auc": 0.1, "accuracy": 0.2})

    found = report["trees_baseline"]
    # Carriers are right in 4 of 5, of both classes: so is the area under a curve of one corner.
    assert found["trees"]["accuracy"] == pytest.approx(0.8)
    assert found["trees"]["roc_auc"] == pytest.approx(0.8)
    examples = [one for file in _split(0, network_is_right=0.95) for one in file]
    truth = [one["nodes/_readout.late"] == ["late"] for one in examples]
    area = roc_auc_score(truth, [one["context/answer"][0] for one in examples])
    assert found["model"]["roc_auc"] == pytest.approx(area)
    assert found["model"]["accuracy"] == report["accuracy"]
    assert found["gain"] == pytest.approx(area - 0.8)
    assert found["lower"] < found["gain"] < found["upper"]
    assert found["lower"] > 0.0
    assert found["beats_trees"]
    assert found["intervals"]["roc_auc"] == {"lower": found["lower"], "upper": found["upper"]}
    assert (found["num_training_rows"], found["num_examples"], found["metric"]) == (200, 200, "roc_auc")
    assert (found["columns"], found["left_out"]) == (["carrier", "delay"], ["stops"])
    assert found["meaning"] == (
        f"trees on 'flight' alone reach ROC AUC 0.800; the network {area:.3f}: a gain of {area - 0.8:+.3f} "
        f"[{found['lower']:+.3f}, {found['upper']:+.3f}]"
    )
    assert not evaluation.warnings
    assert f"ROC AUC {area:.4f} is at least 0.1 better than the trees' 0.8000" in evaluation.reasons
    assert list(evaluation.objections) == [
        f"accuracy {report['accuracy']:.4f} is less than 0.2 better than the trees' 0.8000"
    ]


@pytest.mark.parametrize(
    ("edges", "advice"),
    [
        ('edge_sets { key: "next" value { source: "flight" target: "flight" } }', "the graph too, and is not better"),
        ("", "the same, since no edge leads to another node, and is not better"),
    ],
    ids=["edges", "no edges"],
)
def test_a_network_that_trees_beat_is_warned_of(evaluate: Any, edges: str, advice: str) -> None:
    evaluation, report = evaluate(network_is_right=0.7, schema=SCHEMA + edges)

    assert evaluation.blessed
    assert not report["trees_baseline"]["beats_trees"]
    (warning,) = report["warnings"]
    assert warning.startswith(report["trees_baseline"]["meaning"])
    assert f"The network sees {advice} than they are: train longer, " in warning
    assert ("sample more hops" in warning) == bool(edges)


def test_a_network_that_orders_well_is_blessed_by_the_area_if_that_is_the_main_metric(evaluate: Any) -> None:
    # All are "early", as half of the examples are; the late ones less surely.
    evaluation, report = evaluate(bias=-20.0, main_metric="roc_auc", trees_baseline="none")

    examples = [one for file in _split(0, network_is_right=0.95) for one in file]
    truth = [one["nodes/_readout.late"] == ["late"] for one in examples]
    area = roc_auc_score(truth, [one["context/answer"][0] for one in examples])
    assert (report["accuracy"], report["majority_baseline"]["roc_auc"]) == (0.5, 0.5)
    assert report["roc_auc"] == pytest.approx(area)
    assert evaluation.blessed
    comparison = report["baseline_comparison"]
    assert (comparison["metric"], comparison["num_examples"]) == ("roc_auc", 100)
    assert comparison["gain"] == pytest.approx(area - 0.5)
    assert 0.0 < comparison["lower"] < comparison["gain"] < comparison["upper"]
    assert report["intervals"]["metrics"]["roc_auc"]["lower"] < area


def test_the_main_metric_is_one_of_the_task(evaluate: Any) -> None:
    with pytest.raises(ValueError, match=r"`main_metric` must be one of \['rmse'\] for this task; got 'roc_auc'"):
        evaluate(task=NodeRegression(label_feature="minutes"), main_metric="roc_auc")


def test_numbers_are_compared_by_their_errors(evaluate: Any) -> None:
    _, report = evaluate(task=NodeRegression(label_feature="minutes"))

    found = report["trees_baseline"]
    # The best that a carrier tells is 24 or 6 minutes: wrong by 6 in four of five, by 24 in the others.
    assert found["trees"]["rmse"] == pytest.approx((0.8 * 6.0**2 + 0.2 * 24.0**2) ** 0.5, rel=1e-3)
    assert found["model"]["rmse"] == pytest.approx(report["rmse"])
    assert found["gain"] == pytest.approx(found["trees"]["rmse"] - report["rmse"])
    assert found["upper"] < 0.0
    assert "reach RMSE 12; the network" in found["meaning"]


def test_samples_bound_what_is_grown_and_compared(evaluate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_sample, "MOST_ROWS", 150)

    _, report = evaluate()

    found = report["trees_baseline"]
    assert (found["num_training_rows"], found["num_examples"]) == (150, 150)
    # Both models' metrics are of these examples; on all 200 the network's is another.
    assert found["model"]["accuracy"] * 150 == pytest.approx(round(found["model"]["accuracy"] * 150))
    assert found["trees"]["accuracy"] * 150 == pytest.approx(round(found["trees"]["accuracy"] * 150))


def test_where_there_are_no_trees_the_report_and_the_bounds_say_why(evaluate: Any) -> None:
    evaluation, report = evaluate(schema="", trees_thresholds={"accuracy": 0.1})

    why = "the examples have no graph schema that says what their one seed is"
    assert report["trees_baseline"] == {"reason": why}
    assert list(evaluation.objections) == [f"accuracy could not be compared with the trees': {why}"]


def test_no_trees_are_grown_where_none_are_wanted(evaluate: Any) -> None:
    _, report = evaluate(trees_baseline="none")

    assert "trees_baseline" not in report


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"trees_baseline": "off"}, r"`trees_baseline` must be one of .*'auto', 'none'.*got 'off'"),
        ({"trees_baseline": "none", "trees_thresholds": {"accuracy": 0.1}}, "must be empty without trees"),
        ({"baseline_confidence": 0.0, "trees_thresholds": {"accuracy": 0.1}}, "must be empty without trees"),
        ({"trees_thresholds": {"rmse": 0.1}}, r"must name metrics of the task; got 'rmse'.*'roc_auc'"),
        ({"trees_thresholds": {"roc_auc": 1.5}}, "no model can meet"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GraphEvaluatorOptions(label_feature="late", **options)


@pytest.mark.parametrize(
    ("schema", "options", "reason"),
    [
        (SCHEMA, {"label_feature": "late"}, ""),
        (SCHEMA, {"task": LinkPrediction(label_feature="late")}, "one seed, and the task is about pairs"),
        (SCHEMA, {"task": GraphRegression(label_feature="answer")}, "one seed, and the task is about graphs"),
        (SCHEMA, {"label_feature": "late", "baseline_confidence": 0.0}, "`baseline_confidence` is 0"),
        (SCHEMA.replace('"_readout/seed"', '"_readout/source"'), {"label_feature": "late"}, "no graph schema"),
        (re.sub(r'features { key: "(carrier|delay|stops)".*', "", SCHEMA), {"label_feature": "late"}, "no columns of"),
    ],
    ids=["compared", "pairs", "graphs", "no intervals", "no seeds", "no columns"],
)
def test_tasks_have_trees_or_a_reason(schema: str, options: dict[str, Any], reason: str) -> None:
    checked = GraphEvaluatorOptions(**options)

    plan = plan_trees(task_measures(checked), text_format.Parse(schema, GraphSchema()), checked)

    assert plan is not None
    assert reason in plan.reasons[""]
    assert plan.tasks == (() if reason else ("",))


def test_of_several_tasks_those_about_nodes_have_trees() -> None:
    late = NodeClassification(label_feature="late", num_classes=2)
    options = GraphEvaluatorOptions(
        task=MultiTask(tasks={"late": late, "linked": LinkPrediction(label_feature="link")})
    )

    plan = plan_trees(task_measures(options), text_format.Parse(SCHEMA, GraphSchema()), options)

    assert plan is not None
    assert plan.tasks == ("late",)
