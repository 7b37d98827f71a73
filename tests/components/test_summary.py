from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tfx_gnn.records.blessing import write_blessing
from tfx_gnn_pipelines.assembly import COMPONENTS
from tfx_gnn_pipelines.lineage import ArtifactRecord, ComponentRun
from tfx_gnn_pipelines.run_outcome import read_outcome
from tfx_gnn_pipelines.summary import print_short_summary, print_summary

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
        anomalies=(),
        budget_warnings=(),
        training_warnings=(),
        page="root/index.html",
        doubts=None,
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
        console = Console(file=io.StringIO(), width=80)
        outcome = read_outcome(tiny_config, runs)
        if doubts is None:
            print_summary(console, outcome, 12.4, page=page and str(tmp_path / page))
        else:
            print_short_summary(console, outcome, 12.4, page=page and str(tmp_path / page), doubts=doubts)
        return outcome.is_pushed, [line.rstrip() for line in console.file.getvalue().splitlines()]

    return run


@pytest.fixture
def version_dir(tmp_path):
    folder = tmp_path / "serving" / "3"
    folder.mkdir(parents=True)
    return folder


def test_a_quiet_run_ends_with_five_lines_at_most(summarize, version_dir):
    _, lines = summarize(
        {"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"},
        training_warnings=["Training is short."],
        doubts=["GraphTrainer: `x` should be y."],
    )

    assert [line.partition(" ")[0] for line in lines] == ["warning", "result", "pushed", "page", "next"]
    assert lines[0] == "warning    GraphTrainer: Training is short. (2 in all; see the page)"
    assert lines[4].endswith("--examples SubgraphExampleGen/examples/Split-test --limit 5")


def test_a_run_ends_with_the_result_the_page_and_a_command_in_at_most_six_lines(summarize, version_dir):
    metrics = {
        **METRICS,
        "roc_auc": 0.875,
        "intervals": {"metrics": {"accuracy": {"lower": 0.6581, "upper": 0.7618}}},
        "trees_baseline": {"meaning": "trees on 'paper' alone reach 0.7; the network 0.712"},
    }

    is_there, lines = summarize(
        {"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"}, metrics=metrics
    )

    words = "accuracy 0.712 [0.658, 0.762], macro-F1 0.646"
    assert is_there
    assert lines[:5] == [
        "",
        f"result     {words}; majority class (libdevel) 0.135, 0.005; 290 examples; split test",
        "trees      trees on 'paper' alone reach 0.7; the network 0.712",
        "pushed     serving/3; 9 steps in 12 s, none cached",
        "page       root/index.html",
    ]
    words = "serve, explain, compare, show: their commands for this run are on its page; ask it now:"
    assert lines[5] == f"next       {words}"
    assert lines[6].endswith(
        "tfx-gnn predict --model-dir serving/3 --examples SubgraphExampleGen/examples/Split-test --limit 5"
    )
    assert len(lines) == 7


def test_the_latest_blessed_model_and_the_area_under_the_curve_stand_in_the_result(summarize, version_dir):
    metrics = {
        **METRICS,
        "roc_auc": 0.875,
        "majority_baseline": {**METRICS["majority_baseline"], "roc_auc": 0.5},
        "change": {"latest_blessed": {"accuracy": 0.7, "macro_f1": 0.6}},
    }

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics=metrics)

    assert "macro-F1 0.646, ROC AUC 0.875; majority class (libdevel) 0.135, 0.005, 0.500" in lines[1]
    assert "; latest blessed model 0.700, 0.600; 290 examples" in lines[1]


def test_each_task_has_a_result(summarize, version_dir):
    tasks = {
        "price": {"num_examples": 4, "rmse": 1.0, "mean_baseline": {"mean": [2.0], "rmse": 1.5}},
        "link": {"num_examples": 3, "mrr": 0.5, "num_ranked": 3, "random_baseline": {"mrr": 0.25}},
    }

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics={"split": "test", "tasks": tasks})

    assert lines[1:3] == [
        "result     task 'price': RMSE 1.000; mean label 1.500; 4 examples; split test",
        "result     task 'link': MRR 0.500; random order 0.250; 3 examples; split test",
    ]


def test_cached_steps_are_counted(summarize, version_dir):
    _, lines = summarize({"pushed_destination": str(version_dir)}, ("cached",) * 5 + ("complete",) * 4)

    assert "pushed     serving/3; 9 steps in 12 s, 5 cached" in lines


def test_model_that_was_not_blessed_is_shown_with_the_reasons(summarize):
    is_there, lines = summarize({"pushed": 0})

    assert not is_there
    assert ("not pushed accuracy 0.1 does not exceed the majority class's 0.2; 9 steps in 12 s, none cached") in lines
    assert lines[-1].startswith("next       show, explain, compare:")


def test_warnings_of_all_steps_are_shown_with_a_model_that_learned_nothing_first(summarize, version_dir):
    useless = {**METRICS, "accuracy": 0.1345, "warnings": ["Trees are better. Serve trees."]}
    drift = {
        "check": "drift",
        "severity": "warning",
        "split": "train",
        "about": "nodes/paper.x",
        "description": "Look at it.",
    }
    leak = {**drift, "check": "leak", "severity": "error", "about": "nodes/paper.y", "description": "Exclude it."}

    _, lines = summarize(
        {"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"},
        metrics=useless,
        anomalies=[drift, leak],
        budget_warnings=["There are few graphs."],
        training_warnings=["It has learned nothing. Train longer."],
    )

    first = lines.index("6 warnings, the most severe first; docs/warnings.md explains each name in brackets:") + 1
    assert lines[first].startswith("  GraphEvaluator: the model's accuracy of 0.135 is no better than that of")
    assert lines[first + 1 : first + 6] == [
        "  GraphTrainer: It has learned nothing. Train longer.",
        "  GraphExampleValidator, split 'train', nodes/paper.y: Exclude it. [leak]",
        "  GraphExampleValidator, split 'train', nodes/paper.x: Look at it. [drift]",
        "  GraphEvaluator: Trees are better. Serve trees.",
        "  SizeConstraintLearner: There are few graphs.",
    ]
    assert lines[first + 6] == ""
    assert lines[first + 7].startswith("result ")


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
        "Weigh the classes, or use the probabilities and let `main_metric: roc_auc` of GraphEvaluator decide. "
        "[no_better_than_constant]"
    )


def test_the_gain_over_trees_stands_beside_the_metrics(summarize, version_dir):
    meaning = "trees on 'paper' alone reach accuracy 0.700; the network 0.712: a gain of +0.012 [+0.001, +0.023]"
    trees = {"meaning": meaning, "trees": {"accuracy": 0.7, "macro_f1": 0.625}}

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics={**METRICS, "trees_baseline": trees})

    assert f"trees      {meaning}" in lines


def test_a_task_without_trees_says_why(summarize, version_dir):
    metrics = {**METRICS, "trees_baseline": {"reason": "the task is about graphs"}}

    _, lines = summarize({"pushed_destination": str(version_dir)}, metrics=metrics)

    assert "trees      not compared: the task is about graphs" in lines


def test_run_without_warnings_says_nothing_of_them(summarize, version_dir):
    _, lines = summarize({"pushed": 1, "pushed_destination": str(version_dir), "pushed_version": "3"})

    assert "warning" not in "\n".join(lines)


def test_objections_to_serving_are_shown_too(summarize):
    _, lines = summarize({"pushed": 0}, serving_blessed=False)

    assert "not pushed accuracy 0.1 does not exceed the majority class's 0.2; nodes/paper.x: 2 differ" in "\n".join(
        lines
    )


def test_pushed_version_that_is_gone_is_told(summarize, tmp_path):
    is_there, lines = summarize({"pushed": 1, "pushed_destination": str(tmp_path / "serving" / "3")}, ("cached",) * 9)

    assert not is_there
    assert any(
        "serving/3 is gone. To push it again, remove the record of that push, GraphPusher/pushed_model, and run again;"
        in line
        for line in lines
    )


def test_a_run_without_a_page_says_how_to_have_one(summarize, version_dir):
    _, lines = summarize({"pushed_destination": str(version_dir)}, page="")

    assert any(line.startswith("page       none yet; write it: tfx-gnn show ") for line in lines)
