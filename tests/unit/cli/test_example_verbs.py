from __future__ import annotations

import json
import sys

import pytest
import tensorflow as tf
import typer
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.cli.example_verbs import validate
from tfx_gnn.cli.project_verbs import create_project
from tfx_gnn.records.examples_folder import write_split_shard

SCHEMA = """
node_sets { key: "user" value { metadata { filename: "users.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
"""
PLANS = """from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples

SPLITS = SplitPlan(weights={"train": 1})
PLAN = SamplingPlan(seed_node_set="user", splits=SPLITS, hops=(Hop(edge_set="knows", fan_out=2),))
GRAPHS = GraphLevelExamples(splits=SPLITS)

def make_plan():
    return PLAN
"""
SPEC = """seed_op { op_name: "seed" node_set_name: "user" }
sampling_ops { op_name: "hop" input_op_names: "seed" edge_set_name: "knows" sample_size: 3 strategy: RANDOM_UNIFORM }"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.pbtxt").write_text(SCHEMA)
    (tmp_path / "spec.pbtxt").write_text(SPEC)
    (tmp_path / "users.csv").write_text("id\nann\nbob\n")
    (tmp_path / "knows.csv").write_text("source,target\nann,bob\nann,eve\n")
    return tmp_path


def _sample(folder, *args, plan="spec.pbtxt"):
    return CliRunner().invoke(
        app,
        [
            "sample", "--tables-dir", str(folder), "--schema-file", "shop.pbtxt", "--plan", str(folder / plan),
            "--examples-dir", str(folder / "examples"), *args,
        ],
        env={"COLUMNS": "200"},
    )  # fmt: skip


def test_a_sampling_spec_with_few_seeds_is_sampled_by_a_flag(folder):
    refused = _sample(folder, "--dangling-edges", "drop")
    sampled = _sample(folder, "--dangling-edges", "drop", "--allow-empty-splits")

    assert refused.exit_code == 2
    assert "got none for [" in refused.stderr
    assert "or set `--allow-empty-splits`." in refused.stderr
    assert sampled.exit_code == 0, sampled.stderr
    assert "1 dangling_target" in sampled.stdout
    report = json.loads((folder / "examples" / "statistics.json").read_text())
    assert report["tables"]["edges/knows"]["dropped"] == {"dangling_target": 1}
    assert sum(report["num_seeds"].values()) == 2
    assert 0 in report["num_seeds"].values()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--allow-empty-splits"], "`target` must name a node of 'user'"),
        (["--allow-empty-splits"], "or drop them by `--dangling-edges`."),
        (["--max-dropped-share", "0.5"], "`--max-dropped-share` must go with `--dangling-edges drop`"),
        (
            ["--allow-empty-splits", "--dangling-edges", "drop", "--max-dropped-share", "0.1"],
            "`--max-dropped-share` must cover the rows that are dropped; got 0.1 for 1 of 2 rows of edges/knows",
        ),
        (["--num-shards", "0"], "`--num-shards` must be in"),
        (["--label-feature", "age"], "`--label-feature` must be one of [] for 'user'; got 'age'"),
        (["--schema-file", "none.pbtxt"], "`--tables-dir` must hold a none.pbtxt; got none"),
    ],
)
def test_mistakes_are_told_by_their_flags(folder, args, message):
    refused = _sample(folder, *args)

    assert refused.exit_code == 2
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("text", "message"), [("[" * 100_000, "nested at most 100 deep"), ("root:x:0:secret", "Expecting value: line 1")]
)
def test_a_plan_that_is_no_json_is_one_line(folder, text, message):
    (folder / "plan.json").write_text(text)

    refused = _sample(folder, plan="plan.json")

    assert refused.exit_code == 2
    assert f"`--plan` must name a JSON file of a SamplingPlan; got '{folder}/plan.json'" in refused.stderr
    assert message in refused.stderr
    assert "secret" not in refused.stderr


@pytest.fixture
def here(folder, monkeypatch):
    """Makes the tables' folder the current one, and puts a module of plans there."""
    (folder / "my_sampled_plans.py").write_text(PLANS)
    (folder / "knows.csv").write_text("source,target\nann,bob\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield folder
    sys.modules.pop("my_sampled_plans", None)


@pytest.mark.parametrize("name", ["PLAN", "make_plan"])
def test_a_plan_of_a_module_in_the_current_folder_is_sampled(here, name):
    sampled = _sample(here, "--plan", f"my_sampled_plans:{name}")

    assert sampled.exit_code == 0, sampled.stderr
    assert json.loads((here / "examples" / "statistics.json").read_text())["num_seeds"] == {"train": 2}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("my_sampled_plans:PLANS", "`--plan` must name a function of the module; got 'my_sampled_plans:PLANS', where"),
        ("my_sampled_plan:PLAN", "`--plan` must name an importable module; got 'my_sampled_plan:PLAN'. Install"),
        ("my_sampled_plans.PLAN", "`--plan` must have the form 'package.module:function'; got 'my_sampled_plans.PLAN'"),
        (
            "my_sampled_plans:GRAPHS",
            "`--plan` must name a SamplingPlan, or a function that returns one; got GraphLevelExamples from",
        ),
    ],
)
def test_what_is_no_plan_of_a_module_is_refused(here, reference, message):
    refused = _sample(here, "--plan", reference)

    assert refused.exit_code == 2
    assert message in refused.stderr


def test_the_plan_of_the_starter_project_is_sampled(tmp_path, monkeypatch):
    project, name = create_project(str(tmp_path / "sampled_shop"))
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [*sys.path])

    sampled = CliRunner().invoke(
        app,
        [
            "sample", "--plan", "project.yaml", "--tables-dir", f"{name}/data",
            "--examples-dir", str(tmp_path / "examples"),
        ],
    )  # fmt: skip

    assert sampled.exit_code == 0, sampled.stderr
    assert sum(json.loads((tmp_path / "examples" / "statistics.json").read_text())["num_seeds"].values()) == 400


SCHEMA_OF_EXAMPLES = """
node_sets { key: "paper" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "year" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value { features { key: "topic" value { dtype: DT_STRING } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper"
    features { key: "year" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "paper" target: "_readout" } }
"""


def record(name: str, year: int, cited: str) -> bytes:
    """A paper of a year that cites another one in the same year."""
    ints = {
        "nodes/paper.#size": [2],
        "nodes/paper.year": [year, 1],
        "nodes/_readout.#size": [1],
        "edges/cites.#size": [1],
        "edges/cites.#source": [0],
        "edges/cites.#target": [1],
        "edges/cites.year": [year],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    example = tf.train.Example()
    for key, values in ints.items():
        example.features.feature[key].int64_list.value.extend(values)
    example.features.feature["nodes/paper.#id"].bytes_list.value.extend([name.encode(), cited.encode()])
    example.features.feature["nodes/_readout.topic"].bytes_list.value.append(b"networks")
    return example.SerializeToString()


@pytest.fixture
def run(tmp_path):
    app = typer.Typer(cls=OneLineErrors, pretty_exceptions_enable=False)
    app.command()(validate)
    app.command()(lambda: None)

    def run(cited: str, *more: str):
        examples_dir = str(tmp_path / "examples")
        write_split_shard(examples_dir, "train", 0, 1, [record("a", 1, cited), record("b", 2, "x")])
        write_split_shard(examples_dir, "val", 0, 1, [record("c", 5, "x")])
        (tmp_path / "examples" / "graph_schema.pbtxt").write_text(SCHEMA_OF_EXAMPLES)
        folders = [f"--{name}-dir={tmp_path / name}" for name in ("statistics", "anomalies", "blessing")]
        given = [f"--examples-dir={examples_dir}", f"--graph-schema-dir={examples_dir}", *folders, *more]
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["validate", *given])

    return run


PROMISES = (
    "--label-feature=topic",
    "--seed-time-feature=year",
    "--edge-time=cites=year",
    "--inductive",
    "--required-set=edges/cites",
    "--max-jensen-shannon-skew=1",
    "--max-l-infinity-skew=1",
)


def test_whole_examples_are_blessed(run, tmp_path):
    shown = run("x", *PROMISES)

    assert shown.exit_code == 0, shown.output
    first, *rest = shown.stdout.splitlines()
    assert first == "whole examples: 2 of 'train', 1 of 'val'"
    assert [line.split()[0] for line in rest] == ["statistics", "anomalies", "blessing", "blessed"]
    assert (tmp_path / "blessing" / "BLESSED").exists()


def test_a_leak_is_shown_in_a_table_and_is_the_exit_code(run, tmp_path):
    shown = run("c", *PROMISES)

    assert shown.exit_code == 1
    text = " ".join(shown.stdout.split())
    assert "unseen_node_shown" in text
    assert "nodes/paper of split" in text
    assert shown.stdout.splitlines()[-1] == "NOT blessed: unseen_node_shown in split 'train'"
    assert (tmp_path / "blessing" / "NOT_BLESSED").exists()


def test_severities_and_the_order_of_splits_are_options(run):
    shown = run("c", *PROMISES, "--severity=unseen_node_shown=warning")

    assert shown.exit_code == 0, shown.output
    assert "warning" in shown.stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--severity=loud", "`--severity` must have the form '<name>=<value>'; got 'loud'"),
        ("--split-order=train", "`--split-order` must name every split that is read"),
    ],
)
def test_a_wrong_option_is_one_line(run, option, message):
    shown = run("x", option)

    assert shown.exit_code == 2
    assert message in " ".join(shown.output.split())
