from __future__ import annotations

import pytest
import tensorflow as tf
import typer
from typer.testing import CliRunner

from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.cli.validate_verb import validate
from tfx_gnn.records.examples_folder import write_split_shard

SCHEMA = """
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
        (tmp_path / "examples" / "graph_schema.pbtxt").write_text(SCHEMA)
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
