"""Every task, measured on the answers of a model that were worked out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.evaluation_report import GraphEvaluation
from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
from tfx_gnn.io import options_json
from tfx_gnn.models.tasks import GraphClassification, GraphRegression, LinkPrediction, MultiTask, NodeRegression

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } features { key: "shape" value { dtype: DT_STRING } } }
node_sets { key: "item" value { features { key: "kind" value { dtype: DT_STRING } } } }
node_sets { key: "shop" value { features { key: "size" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value { features { key: "price" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


class _Answers(tf.Module):
    """Answers what stands in `context/answer` and, of pairs, in `_readout.guess`."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(
            examples,
            {
                "context/answer": tf.io.FixedLenFeature([], tf.float32),
                "nodes/_readout.guess": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
                "context/year": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        answer, guesses = parsed["context/answer"], parsed["nodes/_readout.guess"]
        shape = tf.where(answer > 2.0, "round", "flat")
        return {
            "prediction": answer[:, tf.newaxis],
            "scores": guesses.to_tensor(float("-inf")),
            "num_candidates": guesses.row_lengths(),
            "source_id": parsed["context/year"][:, tf.newaxis],
            "label": shape,
            "price/prediction": answer[:, tf.newaxis],
            "shape/label": shape,
        }


def example(answer: float, price: float, **features: Any) -> dict[str, list[Any]]:
    """Two items, of which the second is the seed."""
    content: dict[str, list[Any]] = {
        "context/answer": [answer],
        "context/year": [2000],
        "context/shape": ["round"],
        "context/price": [price],
        "nodes/item.#size": [2],
        "nodes/item.kind": ["other", "plain"],
        "nodes/_readout.#size": [1],
        "nodes/_readout.price": [price],
        "nodes/_readout.guess": [],
        "edges/_readout/seed.#source": [1],
    }
    for name, value in features.items():
        content[{"kind": "nodes/item.kind", "year": "context/year", "shape": "context/shape"}[name]] = value
    return content


SPLITS = {
    # The mean price is 2.
    "train": [[example(0.0, 1.0), example(0.0, 3.0)]],
    # Errors 1, -1, 2, 0: all squares 6, of the kind "odd" 5.
    "test": [
        [example(1.0, 0.0, shape=["flat"]), example(1.0, 2.0, kind=["odd", "odd"], shape=["flat"])],
        [example(6.0, 4.0, kind=["plain", "odd"], year=[2001]), example(3.0, 3.0)],
    ],
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("answers")
    module = _Answers()
    tf.saved_model.save(module, str(folder / "Format-Serving"), signatures={"serving_default": module.predict})
    return str(folder)


@pytest.fixture
def evaluate(tmp_path: Path, model_dir: str, write_examples: Any) -> Any:
    def run(splits: Any = SPLITS, folder: str = "", **options: Any) -> tuple[GraphEvaluation, dict[str, Any]]:
        output = tmp_path / folder
        evaluation = evaluate_graph_model(
            examples_dir=write_examples(str(output / "examples"), splits, SCHEMA),
            model_dir=model_dir,
            evaluation_dir=str(output / "evaluation"),
            blessing_dir=str(output / "blessing"),
            # Few examples show nothing beyond chance.
            options=GraphEvaluatorOptions(**{"baseline_confidence": 0.0, **options}),
        )
        return evaluation, json.loads((output / "evaluation" / "metrics.json").read_text())

    return run


def test_regression_is_measured_beside_the_mean(evaluate: Any) -> None:
    evaluation, report = evaluate(
        task=NodeRegression(label_feature="price"), thresholds={"rmse": 1.2, "mae": {"gain": 0.2}, "r2": -0.5}
    )

    # True prices 0, 2, 4, 3 of mean 2.25; the baseline says 2.
    spread = 2.25**2 + 0.25**2 + 1.75**2 + 0.75**2
    assert (report["kind"], report["num_examples"]) == ("regression", 4)
    assert report["rmse"] == pytest.approx(math.sqrt(6 / 4))
    assert report["mae"] == 1.0
    assert report["r2"] == pytest.approx(1 - 6 / spread)
    assert report["mean_baseline"] == {
        "mean": [2.0],
        "mean_from_split": "train",
        "rmse": 1.5,
        "mae": 1.25,
        "r2": pytest.approx(1 - 9 / spread),
    }
    (residuals,) = report["residuals"]
    assert [(one["low"], one["num_examples"]) for one in residuals["bins"]] == [(-2, 1), (-1, 1), (0, 1), (1, 1)]
    # The model returns no ids.
    assert "largest_residuals" not in report
    assert not evaluation.blessed
    assert list(evaluation.reasons) == [
        "RMSE 1.2247 is below the mean label's 1.5000 by more than 0",
        "RMSE 1.2247 is above 1.2",
        "MAE 1.0000 is below the mean label's 1.2500 by more than 0.2",
        "R2 0.3143 is at least -0.5",
    ]


def test_numbers_that_stand_for_missing_labels_are_left_out(evaluate: Any) -> None:
    """Else the third error, of 2, would count; and the mean of "train" would be 2."""
    task = NodeRegression(label_feature="price", missing_values=(4, 1))
    _, report = evaluate(task=task, max_examples_without_label=2)

    assert report["num_examples"] == 3
    assert report["rmse"] == pytest.approx(math.sqrt(2 / 3))
    assert report["mean_baseline"]["mean"] == [3.0]


def test_model_of_another_task_is_refused(evaluate: Any) -> None:
    tasks = {"price": NodeRegression(label_feature="price"), "cost": GraphRegression(label_feature="year")}

    with pytest.raises(ValueError, match=r"got no output 'cost/prediction' among .*Name the task that it was trained"):
        evaluate(task=MultiTask(tasks=tasks))


def test_slices_are_those_of_the_seed_and_are_judged(evaluate: Any) -> None:
    evaluation, report = evaluate(
        task=GraphRegression(label_feature="price"),
        slices=("nodes/item.kind", "context/year", "nodes/item.#size"),
        num_slices=1,
        slice_thresholds={"mae": 1.2},
    )

    found = {(part["feature"], part["value"]): part for part in report["slices"]}
    assert {key: (part["num_examples"], part["mae"]) for key, part in found.items()} == {
        ("nodes/item.kind", "odd"): (2, 1.5),
        ("nodes/item.kind", "plain"): (2, 0.5),
        ("context/year", "2000"): (3, pytest.approx(2 / 3)),
        ("context/year", "2001"): (1, 2.0),
        ("nodes/item.#size", "2"): (4, 1.0),
    }
    assert found["context/year", "2001"]["baseline"] == {"rmse": 2.0, "mae": 2.0, "r2": 0.0}
    assert report["num_slices_not_shown"] == {"nodes/item.kind": 0, "context/year": 0, "nodes/item.#size": 0}
    assert not evaluation.blessed
    assert list(evaluation.reasons[1:]) == [
        "context/year = '2001': MAE 2.0000 is above 1.2",
        "nodes/item.kind = 'odd': MAE 1.5000 is above 1.2",
    ]


def test_all_slices_are_judged_also_those_that_are_not_shown(evaluate: Any) -> None:
    tests = [example(2.0, 2.0, year=[year]) for year in (1, 1, 1, 2, 2, 3)] + [example(9.0, 3.0, year=[2])]

    evaluation, report = evaluate(
        {"train": [[example(0.0, 9.0)]], "test": [tests]},
        task=NodeRegression(label_feature="price"),
        slices=("context/year",),
        num_slices=1,
        slice_thresholds={"rmse": 1.0},
        min_slice_examples=2,
    )

    assert [part["value"] for part in report["slices"]] == ["1", "3"]
    assert report["num_slices_not_shown"] == {"context/year": 1}
    assert evaluation.reasons[-1].startswith("context/year = '2': RMSE 3.4641 is above 1")


def test_slices_by_quantiles_are_of_equal_size_and_name_their_ranges(evaluate: Any) -> None:
    tests = [example(float(year % 4), 0.0, year=[year]) for year in (8, 1, 6, 3, 5, 2, 7, 4)]

    evaluation, report = evaluate(
        {**SPLITS, "test": [tests[:3], tests[3:]]},
        task=NodeRegression(label_feature="price"),
        slices=("context/year",),
        slice_quantiles={"context/year": 4},
        slice_thresholds={"mae": 2.0},
    )

    assert {(one["value"], one["range"], one["num_examples"], one["mae"]) for one in report["slices"]} == {
        ("q1", "<= 2", 2, 1.5),
        ("q2", "(2, 4]", 2, 1.5),
        ("q3", "(4, 6]", 2, 1.5),
        ("q4", "> 6", 2, 1.5),
    }
    assert not [one for one in evaluation.reasons if "context/year" in one]


def test_slices_by_what_training_saw_count_neighbours_in_its_subgraphs(evaluate: Any) -> None:
    """The second item is the seed; training has items 1 and 2."""

    def of_items(first: int, seed: int) -> dict[str, list[Any]]:
        return {**example(1.0, 0.0, year=[seed]), "nodes/item.#id": [first, seed]}

    tests = [of_items(9, 1), of_items(1, 3), of_items(9, 2), of_items(2, 4), of_items(9, 5)]

    evaluation, report = evaluate(
        {"train": [[of_items(1, 2)]], "test": [tests[:2], tests[2:]]},
        task=NodeRegression(label_feature="price"),
        slices=("seen_in_training",),
        slice_thresholds={"mae": 0.5},
    )

    assert {(one["value"], one["num_examples"]) for one in report["slices"]} == {("seen", 2), ("unseen", 3)}
    assert evaluation.objections[-1] == "seen_in_training = 'unseen': MAE 1.0000 is above 0.5"


def test_links_are_ranked_beside_a_random_order(evaluate: Any) -> None:
    def link(guesses: list[float], labels: list[int]) -> dict[str, list[Any]]:
        content = example(0.0, 0.0)
        return {**content, "nodes/_readout.guess": guesses, "nodes/_readout.label": labels}

    tests = [link([0.5, 0.1, 0.9], [1, 0, 0]), link([2.0, 1.0], [1, 0]), link([0.3, 0.2, 0.1, 0.4], [0, 0, 1, 0])]

    evaluation, report = evaluate({"test": [tests[:1], tests[1:]]}, task=LinkPrediction(), thresholds={"mrr": 0.6})

    # Ranks 2 of 3, 1 of 2, 4 of 4.
    assert (report["kind"], report["num_examples"], report["num_ranked"]) == ("link_prediction", 3, 3)
    assert (report["num_true_pairs"], report["num_false_pairs"]) == (3, 6)
    assert report["mrr"] == pytest.approx((1 / 2 + 1 + 1 / 4) / 3)
    assert [report[f"hits_at_{k}"] for k in (1, 3, 10)] == pytest.approx([1 / 3, 2 / 3, 1.0])
    # Of the 18 pairs of a true and a false one, 0.5 wins 4, 2.0 all 6, and 0.1 none but ties one.
    assert report["roc_auc"] == pytest.approx((4 + 6 + 0.5) / 18)
    assert report["random_baseline"]["mrr"] == pytest.approx((11 / 18 + 3 / 4 + 25 / 48) / 3)
    assert not evaluation.blessed
    assert list(evaluation.reasons) == [
        "MRR 0.5833 does not exceed a random order's 0.6273 by more than 0",
        "MRR 0.5833 is below 0.6",
    ]


def _many(links: Any, copies: int) -> list[dict[str, list[Any]]]:
    """Examples that differ in the year only."""
    return [{**one, "context/year": [year]} for year in range(copies) for one in links]


@pytest.mark.parametrize("width", [1, 3])
def test_link_predictor_is_compared_with_a_random_order(evaluate: Any, width: int) -> None:
    """First by mean reciprocal ranks, of 1 beside 11/18 on average; then by areas, where examples hold one pair."""
    good = {**example(0.0, 0.0), "nodes/_readout.guess": [0.9, 0.5, 0.1], "nodes/_readout.label": [1, 0, 0]}
    single = [
        {**good, "nodes/_readout.guess": [guess], "nodes/_readout.label": [label]}
        for guess, label in ((1.0, 1), (0.0, 0))
    ]
    tests = _many([good] if width == 3 else single, 8)

    evaluation, report = evaluate(
        {"test": [tests[:5], tests[5:]]}, task=LinkPrediction(), baseline_confidence=0.95, bootstrap_replicas=400
    )

    compared = report["baseline_comparison"]
    assert evaluation.blessed
    assert compared["is_better"]
    assert compared["metric"] == ("mrr" if width == 3 else "roc_auc")
    assert compared["gain"] == pytest.approx(7 / 18 if width == 3 else 0.5)
    assert (compared["num_examples"], compared["num_replicas"]) == (8, 400)
    assert compared["lower"] == pytest.approx(compared["upper"]) == pytest.approx(compared["gain"])
    assert f"8 {'examples' if width == 3 else 'pairs'} of split 'test'" in compared["meaning"]
    assert len(report["warnings"]) == (2 if width == 3 else 0)


def test_bound_on_a_metric_that_is_the_same_for_every_model_is_refused(evaluate: Any) -> None:
    link = {**example(0.0, 0.0), "nodes/_readout.guess": [0.9, 0.5], "nodes/_readout.label": [1, 0]}

    with pytest.raises(
        ValueError, match=r"got 'hits_at_10', which is 1 for every model, because no true pair of split 'test' has more"
    ):
        evaluate({"test": [[link]]}, task=LinkPrediction(), thresholds={"hits_at_10": 0.9})


def test_interval_does_not_depend_on_files_and_order(evaluate: Any) -> None:
    tests = _many(SPLITS["test"][0] + SPLITS["test"][1], 6)
    found = []
    for number, files in enumerate(([tests], [tests[::-2], tests[-2::-2]])):
        _, report = evaluate(
            {**SPLITS, "test": files},
            folder=str(number),
            task=NodeRegression(label_feature="price"),
            baseline_confidence=0.9,
        )
        found.append([report["baseline_comparison"][name] for name in ("lower", "gain", "upper")])

    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0][0] < 1.5 - math.sqrt(6 / 4) < found[0][2]


def test_pairs_with_examples_of_their_own_are_ranked_among_those_that_follow(evaluate: Any) -> None:
    """A batch of 128 ends between the second and the third pair of a group of three."""

    def pair(guess: float, label: int, source: int) -> dict[str, list[Any]]:
        content = example(0.0, 0.0, year=[source])
        return {**content, "nodes/_readout.guess": [guess], "nodes/_readout.label": [label]}

    # Rank 1, 2 or 3 of 3, in turn; then one of another source, which follows no true pair, and a true pair alone.
    groups = [[pair(0.5, 1, n), pair(0.6 * (n % 3 > 0), 0, n), pair(0.7 * (n % 3 > 1), 0, n)] for n in range(45)]
    tests = [one for group in groups for one in group] + [pair(0.9, 0, 99), pair(0.1, 1, 98)]

    _, report = evaluate({"test": [tests]}, task=LinkPrediction(scoring="seal"), slices=("context/year",))

    assert (report["num_examples"], report["num_true_pairs"], report["num_false_pairs"]) == (137, 46, 91)
    assert (report["num_ranked"], report["num_unranked"]) == (45, 1)
    assert report["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert report["hits_at_1"] == pytest.approx(1 / 3)
    assert report["random_baseline"]["mrr"] == pytest.approx(11 / 18)
    assert {round(part["mrr"], 3) for part in report["slices"] if "mrr" in part} == {1.0, 0.5, 0.333}


def test_tasks_are_measured_each_by_itself(evaluate: Any) -> None:
    task = MultiTask(
        tasks={
            "price": NodeRegression(label_feature="price"),
            "shape": GraphClassification(label_feature="shape", class_vocabulary="shape"),
        }
    )

    evaluation, report = evaluate(task=task, thresholds={"price.rmse": 2.0}, min_accuracy=0.9)

    assert sorted(report["tasks"]) == ["price", "shape"]
    assert report["tasks"]["price"]["mae"] == 1.0
    assert report["tasks"]["shape"]["accuracy"] == 1.0
    assert report["tasks"]["shape"]["majority_baseline"]["class"] == "round"
    assert evaluation.blessed
    assert list(evaluation.reasons) == [
        "task 'price': RMSE 1.2247 is below the mean label's 1.5000 by more than 0",
        "task 'price': RMSE 1.2247 is at most 2",
        "task 'shape': accuracy 1.0000 exceeds the majority class's 0.5000 by more than 0",
        "task 'shape': accuracy 1.0000 is at least 0.9",
    ]


def test_unknown_numbers_count_as_missing_labels(evaluate: Any) -> None:
    splits = {"train": SPLITS["train"], "test": [[example(1.0, 0.0), example(1.0, math.nan)]]}

    _, report = evaluate(splits, task=NodeRegression(label_feature="price"), max_examples_without_label=2)

    assert (report["num_examples"], report["num_examples_without_label"], report["rmse"]) == (1, 1, 1.0)


@pytest.mark.parametrize(
    ("splits", "options", "message"),
    [
        (SPLITS, {"slices": ("nodes/shop.size",)}, r"or of the seed's node set \['item'\]; got 'nodes/shop.size'"),
        (SPLITS, {"slices": ("nodes/_readout.price",)}, "got floats in 'nodes/_readout.price' of record 0 of graphs"),
        (SPLITS, {"task": NodeRegression(label_feature="price", num_outputs=2)}, r"of 2 number\(s\) per example; got"),
        (
            {**SPLITS, "test": [[example(math.inf, 1.0)]]},
            {},
            "must hold a model that returns finite numbers; got NaN or infinity in output 'prediction'",
        ),
        (SPLITS, {"task": LinkPrediction(label_feature="price")}, "must hold a model that scores every pair"),
    ],
    ids=["slice of others", "slice of floats", "other width", "infinite answer", "labels without scores"],
)
def test_what_cannot_be_measured_is_refused(evaluate: Any, splits: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(splits, **{"task": NodeRegression(label_feature="price"), **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_feature": "color"}, "`label_feature` must not be empty unless `task` is given, and not both"),
        ({"min_accuracy": 0.5}, "`min_accuracy` must be 0 where nothing is classified; got 0.5"),
        ({"thresholds": {"accuracy": 0.5}}, r"must name metrics of the task; got 'accuracy'. Choose among \['mae'"),
        ({"slices": ("kind",)}, "`slices` must name features as in tf.Examples; got 'kind'"),
        ({"slices": ("edges/link.weight",)}, "`slices` must name features as in tf.Examples; got 'edges/link.weight'"),
        ({"slices": ("context/a", "context/a")}, "`slices` must name each feature once"),
        ({"baseline_confidence": 95.0}, r"`baseline_confidence` must be 0 or lie in \[0.5, 0.999\]; got 95.0"),
        ({"bootstrap_replicas": 10}, r"`bootstrap_replicas` must lie in \[200, 10000\]; got 10"),
        ({"num_slices": 0}, "`num_slices` must be at least 1; got 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(**{"task": NodeRegression(label_feature="price"), **options})


def test_options_travel_as_json() -> None:
    options = GraphEvaluatorOptions(
        task=LinkPrediction(), thresholds={"mrr": 0.5}, slices=("context/year",), slice_thresholds={"roc_auc": 0.5}
    )

    assert options_json.from_json(options_json.to_json(options), GraphEvaluatorOptions) == options
