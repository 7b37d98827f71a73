from __future__ import annotations

import dataclasses
import inspect

import pytest
import tensorflow as tf
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.cli.batches_verb import batches
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SizeConstraintsFile,
    fingerprint_examples,
    fingerprint_graph_schema,
    write_size_constraints,
)
from tfx_gnn.training.data.precomputed_batches import PrecomputedBatchesOptions, read_manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five graphs of one item, and a budget for two of them."""
    path = tmp_path_factory.mktemp("batches")
    one = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    record = tf.train.Example(features=tf.train.Features(feature={"nodes/item.#size": one})).SerializeToString()
    write_split_shard(str(path), "train", 0, 1, [record] * 5)
    (path / "graph_schema.pbtxt").write_text('node_sets { key: "item" value { } }')
    budget = Budget(
        kind="fit_or_skip",
        batch_size=2,
        total_num_components=3,
        total_num_nodes={"item": 3},
        total_num_edges={},
        success_ratio=0.9,
        graphs_per_batch=2.0,
        fill=0.6,
        fill_by_set={},
        bytes_per_batch=0,
    )
    content = SizeConstraintsFile(
        data_fingerprint=fingerprint_examples(str(path)),
        graph_schema_fingerprint=fingerprint_graph_schema(str(path)),
        options={"splits": [], "batch_size": 2, "success_ratios": [0.9]},
        splits={},
        budgets={budget.name: budget},
    )
    write_size_constraints(content, str(path))
    return path


def _run(folder, output, *options):
    inputs = ("transformed-examples-dir", "transformed-graph-schema-dir", "size-constraints-dir")
    command = ["batches", *(part for name in inputs for part in (f"--{name}", str(folder)))]
    return CliRunner().invoke(
        app, [*command, "--precomputed-batches-dir", str(output), *options], env={"COLUMNS": "200"}
    )


def test_epochs_are_stored_and_told(folder, tmp_path):
    shown = _run(folder, tmp_path / "ready", "--batching", "fit_or_skip", "--success-ratio", "0.9", "--num-epochs", "2")

    assert shown.exit_code == 0, shown.output
    manifest = read_manifest(str(tmp_path / "ready"))
    assert [epoch.num_batches for epoch in manifest.epochs] == [3, 3]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "MiB │" in line]
    assert rows == [["0", "3", "5", "1.7", "0", "0.0 MiB"], ["1", "3", "5", "1.7", "0", "0.0 MiB"]]
    assert str(tmp_path / "ready") in shown.stdout


def test_a_budget_that_is_not_there_is_one_line(folder, tmp_path):
    shown = _run(folder, tmp_path / "ready")

    assert shown.exit_code == 2
    assert "`--size-constraints-dir` must hold the budget that is asked for, packing" in shown.output
    assert not (tmp_path / "ready").exists()


def test_the_verb_has_the_options_and_defaults_of_the_stage():
    offered = inspect.signature(batches).parameters

    for option in dataclasses.fields(PrecomputedBatchesOptions):
        assert offered[option.name].default == option.default, option.name
    for parameter in get_command(app).commands["batches"].params:
        assert parameter.help, f"--{parameter.name} has no help"
