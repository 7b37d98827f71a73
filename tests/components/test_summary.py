from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tfx_gnn.components import SkewReport
from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew
from tfx_gnn.components.graph_skew_validator.report import write_skew_report
from tfx_gnn.records.blessing import write_blessing
from tfx_gnn_pipelines.assembly import COMPONENTS
from tfx_gnn_pipelines.lineage import ArtifactRecord, ComponentRun
from tfx_gnn_pipelines.run_outcome import read_outcome
from tfx_gnn_pipelines.summary import print_summary

OUTPUTS = {
    "SubgraphExampleGen": ["examples"],
    "GraphSchemaGen": ["graph_schema", "schema"],
    "GraphExampleValidator": ["statistics", "anomalies", "blessing"],
    "GraphTransform": ["transform_graph", "transformed_examples", "transformed_graph_schema"],
    "SizeConstraintLearner": ["size_constraints"],
    "GraphTrainer": ["model", "model_run"],
    "GraphEvaluator": ["evaluation", "blessing"],
    "GraphSkewValidator": ["skew", "infra_blessing"],
    "GraphPusher": ["pushed_model"],
}
METRICS = {
    "split": "test",
    "num_examples": 290,
    "accuracy": 0.7123,
    "macro_f1": 0.6456,
    "majority_baseline": {"class": "libdevel", "accuracy": 0.1345, "macro_f1": 0.0051},
}


SKEW = SkewReport(
    blessed=True,
    reasons=(),
    options={},
    num_examples={"val": 64},
    num_compared=63,
    batch_size=32,
    num_unanswered=0,
    num_of_another_seed=1,
    num_of_another_size=0,
    first_problems=(),
    ids_compared=True,
    only_in_training=(),
    only_served=(),
    features=(),
    largest_difference=0.0,
    rounding=FeatureSkew(key="floats of other batches", kind="float"),
    outputs=(FeatureSkew(key="logits", kind="float"),),
    one_by_one=(FeatureSkew(key="logits", kind="float"),),
    num_other_labels=0,
    num_other_labels_one_by_one=0,
)


@pytest.fixture
def summarize(tiny_config, tmp_path, monkeypatch):
    """Prints the summary of a made-up run; gives whether the model is there, and the lines."""
    monkeypatch.chdir(tmp_path)

    def run(
        pushed_properties,
        states=("complete",) * 9,
        *,
        serving_blessed=True,
        metrics=METRICS,
        more=(),
        anomalies=(),
        budget_warnings=(),
        training_warnings=(),
    ):
        runs = [
            ComponentRun(
                component=component,
                state=state,
                seconds=1.0,
                outputs={
                    name: ArtifactRecord(
                        uri=str(tmp_path / component / name),
                        properties=pushed_properties if component == "GraphPusher" else {},
                    )
                    for name in OUTPUTS[component]
                },
            )
            for component, state in zip(COMPONENTS, states, strict=True)
        ]
        for made in runs[6:8]:
            for record in made.outputs:
                (tmp_path / made.component / record).mkdir(parents=True)
        for folder, name, content in (
            ("GraphExampleValidator/anomalies", "anomalies.json", {"anomalies": anomalies}),
            ("SizeConstraintLearner/size_constraints", "size_constraints.json", {"warnings": budget_warnings}),
            ("GraphTrainer/model_run", "training_summary.json", {"warnings": training_warnings}),
        ):
            (tmp_path / folder).mkdir(parents=True)
            (tmp_path / folder / name).write_text(json.dumps(content))
        (tmp_path / "GraphEvaluator" / "evaluation" / "metrics.json").write_text(json.dumps(metrics))
        reasons = ["accuracy 0.1 does not exceed the majority class's 0.2"]
        write_blessing(str(tmp_path / "GraphEvaluator" / "blessing"), blessed=False, reasons=reasons)
        infra_blessing = str(tmp_path / "GraphSkewValidator" / "infra_blessing")
        write_blessing(infra_blessing, blessed=serving_blessed, reasons=["nodes/paper.x: 2 differ"], prefix="INFRA_")
        write_skew_report(SKEW, str(tmp_path / "GraphSkewValidator" / "skew"))
        console = Console(file=io.StringIO(), width=80)
        outcome = read_outcome(tiny_config, [*runs, *more])
        print_summary(console, outcome, 12.4)
        return outcome.is_pushed, [line.rstrip() for line in console.file.getvalue().splitlines()]

    return run


@pytest.fixture
def version_dir(tmp_path):
    folder = tmp_path / "serving" / "3"
    folder.mkdir(parents=True)
    return folder


def test_last_line_is_a_command_relative_to_the_current_folder(summarize, version_dir):
    is_there, lines = summarize({"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"})

    assert is_there
    assert lines[-2] == "Ask the pushed model:"
    assert lines[-1].endswith(
        "tfx-gnn predict --model-dir serving/3 --examples SubgraphExampleGen/examples/Split-test --limit 5"
    )


def test_metrics_stand_beside_those_of_the_majority_class(summarize, version_dir):
    _, lines = summarize({"pushed_destination": str(version_dir)})

    assert [line.split() for line in lines if "0.7" in line or "0.13" in line] == [
        ["│", "this", "model", "│", "0.712", "│", "0.646", "│"],
        ["│", "majority", "class", "(libdevel)", "│", "0.135", "│", "0.005", "│"],
    ]


@pytest.mark.parametrize("blessed", [1, 0])
def test_answers_of_a_blessed_model_have_a_place(summarize, version_dir, blessed):
    inferrers = [
        ComponentRun(
            component=name,
            state="complete",
            seconds=1.0,
            outputs={"inference": ArtifactRecord(uri=f"runs/{name}", properties={"blessed": blessed})},
        )
        for name in ("GraphBulkInferrer", "GraphLayerwiseInferrer")
    ]

    _, lines = summarize({"pushed_destination": str(version_dir)}, more=inferrers)

    expected = ["answers       runs/GraphBulkInferrer", "layerwise     runs/GraphLayerwiseInferrer"]
    assert [line for line in lines if "Inferrer" in line and "runs/" in line] == (expected if blessed else [])


def test_each_task_has_a_table(summarize, version_dir):
    tasks = {
        "price": {"num_examples": 4, "rmse": 1.0, "mean_baseline": {"mean": [2.0], "rmse": 1.5}},
        "link": {"num_examples": 3, "mrr": 0.5, "num_ranked": 3, "random_baseline": {"mrr": 0.25}},
    }

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics={"split": "test", "tasks": tasks})

    rows = [line.replace("│", " ").replace("┃", " ").split() for line in lines]
    assert ["this", "model", "1.000"] in rows
    assert ["mean", "label", "1.500"] in rows
    assert ["random", "order", "0.250"] in rows
    assert ["price", "RMSE"] in rows
    assert ["link", "MRR"] in rows
    assert "test split, 4 examples" in lines


def test_every_place_is_named(summarize, version_dir):
    _, lines = summarize({"pushed_destination": str(version_dir)})

    assert "graph schema  GraphSchemaGen/graph_schema/graph_schema.pbtxt" in lines
    assert "budgets       SizeConstraintLearner/size_constraints/size_constraints.json" in lines
    assert "budget report SizeConstraintLearner/size_constraints/report.html" in lines
    assert "model         GraphTrainer/model/Format-Serving" in lines
    assert "pushed model  serving/3" in lines
    assert "skew          largest difference 0 in 63 examples, GraphSkewValidator/skew/skew.json" in lines
    (tensorboard,) = [line for line in lines if line.startswith("TensorBoard")]
    assert tensorboard.endswith("tensorboard --logdir GraphTrainer/model_run/logs")


def test_cached_components_are_told_from_those_that_ran(summarize, version_dir):
    states = ("cached",) * 5 + ("complete",) * 4

    _, lines = summarize({"pushed_destination": str(version_dir)}, states)

    assert (
        "components    9 in 12 s; cached: SubgraphExampleGen, GraphSchemaGen, GraphExampleValidator, GraphTransform, "
        "SizeConstraintLearner; run: GraphTrainer, GraphEvaluator, GraphSkewValidator, GraphPusher"
    ) in lines


def test_model_that_was_not_blessed_is_shown_with_the_reasons(summarize):
    is_there, lines = summarize({"pushed": 0})

    assert not is_there
    assert lines[-2] == "The model was not pushed, because it was not blessed:"
    assert lines[-1] == "  accuracy 0.1 does not exceed the majority class's 0.2"


def test_warnings_of_all_steps_are_shown_with_a_model_that_learned_nothing_first(summarize, version_dir):
    useless = {**METRICS, "accuracy": 0.1345, "warnings": ["Trees are better. Serve trees."]}
    drift = {"severity": "warning", "split": "train", "about": "nodes/paper.x", "description": "Look at it."}
    leak = {"severity": "error", "split": "train", "about": "nodes/paper.y", "description": "Exclude it."}

    _, lines = summarize(
        {"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"},
        metrics=useless,
        anomalies=[drift, leak],
        budget_warnings=["There are few graphs."],
        training_warnings=["It has learned nothing. Train longer."],
    )

    first = lines.index("6 warnings, the most severe first:") + 1
    assert lines[first].startswith("  GraphEvaluator: the model's accuracy of 0.135 is no better than that of")
    assert lines[first + 1 : first + 6] == [
        "  GraphTrainer: It has learned nothing. Train longer.",
        "  GraphExampleValidator, split 'train', nodes/paper.y: Exclude it.",
        "  GraphExampleValidator, split 'train', nodes/paper.x: Look at it.",
        "  GraphEvaluator: Trees are better. Serve trees.",
        "  SizeConstraintLearner: There are few graphs.",
    ]
    assert lines[-1].startswith("  ")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            {"rmse": 1.5, "mean_baseline": {"mean": [2.0], "rmse": 1.5}},
            "RMSE of 1.500 is no better than that of the mean",
        ),
        ({"rmse": 1.4, "mean_baseline": {"mean": [2.0], "rmse": 1.5}}, ""),
        (
            {"mrr": 0.25, "random_baseline": {"mrr": 0.25}},
            "MRR of 0.250 is no better than that of a random order, 0.250",
        ),
        ({"mrr": 0.26, "random_baseline": {"mrr": 0.25}}, ""),
        ({"roc_auc": 0.5, "random_baseline": {"roc_auc": 0.5}}, ""),
    ],
)
def test_models_of_every_task_can_have_learned_nothing(summarize, version_dir, task, words):
    metrics = {"split": "test", "num_examples": 4, **task}

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics=metrics)

    assert [words in line for line in lines if "no better" in line] == [True] * bool(words)


def test_a_model_that_orders_what_it_never_answers_has_learned_something(summarize, version_dir):
    trees = {"meaning": "trees reach less", "trees": {"roc_auc": 0.5}, "model": {"roc_auc": 0.75}}

    _, lines = summarize(
        {"pushed_destination": str(version_dir)}, metrics={**METRICS, "accuracy": 0.1345, "trees_baseline": trees}
    )

    (warning,) = [line for line in lines if "no better" in line]
    assert warning.endswith(
        "Weigh the classes, or use the probabilities and let `main_metric: roc_auc` of GraphEvaluator decide."
    )


def test_the_gain_over_trees_stands_beside_the_metrics(summarize, version_dir):
    meaning = "trees on 'paper' alone reach accuracy 0.700; the network 0.712: a gain of +0.012 [+0.001, +0.023]"
    trees = {"meaning": meaning, "trees": {"accuracy": 0.7, "macro_f1": 0.625}}

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics={**METRICS, "trees_baseline": trees})

    assert ["│", "trees", "alone", "│", "0.700", "│", "0.625", "│"] in [line.split() for line in lines]
    assert f"trees         {meaning}" in lines


def test_a_task_without_trees_says_why(summarize, version_dir):
    metrics = {**METRICS, "trees_baseline": {"reason": "the task is about graphs"}}

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics=metrics)

    assert "trees         not compared: the task is about graphs" in lines


def test_run_without_warnings_says_nothing_of_them(summarize, version_dir):
    _, lines = summarize({"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"})

    assert "warning" not in "\n".join(lines)


def test_objections_to_serving_are_shown_too(summarize):
    _, lines = summarize({"pushed": 0}, serving_blessed=False)

    assert lines[-2:] == ["  accuracy 0.1 does not exceed the majority class's 0.2", "  nodes/paper.x: 2 differ"]


def test_pushed_version_that_is_gone_is_told(summarize, tmp_path):
    is_there, lines = summarize({"pushed": 1, "pushed_destination": str(tmp_path / "serving" / "3")}, ("cached",) * 9)

    assert not is_there
    assert " ".join(lines[-2:]).endswith(
        "serving/3 is gone. To push it again, remove the record of that push, GraphPusher/pushed_model, and run again."
    )
