from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import pytest
import tensorflow as tf
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.cli.training_data_verbs import batches, learn
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.size_report import render_size_report
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SizeConstraintsFile,
    fingerprint_examples,
    fingerprint_graph_schema,
    read_size_constraints,
    write_size_constraints,
)
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.training.data.precomputed_batches import PrecomputedBatchesOptions, read_manifest

SCHEMA = """
node_sets { key: "item" value { features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_STRING } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


def _run_sizes(*args, columns=200):
    return CliRunner().invoke(app, ["sizes", *args], env={"COLUMNS": str(columns)})


def _rows(text):
    """Cells of the table that was printed, by the first."""
    lines = [line.replace("┃", "│").split("│")[1:-1] for line in text.splitlines()]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines if cells}


@pytest.fixture(scope="module")
def budgets(tmp_path_factory, size_constraints_by_hand):
    folder = tmp_path_factory.mktemp("budgets")
    content = size_constraints_by_hand.made_content(warnings=("[red]kernel[/red] loses 40%.",))
    write_size_constraints(content, str(folder))
    return folder


@pytest.mark.parametrize("verb", ["learn", "report"])
def test_each_verb_explains_every_option_without_tensorflow(verb):
    code = (
        "import sys\nfrom tfx_gnn.cli.training_data_verbs import sizes\n"
        f"try:\n    sizes([{verb!r}, '--help'])\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "assert not {'tensorflow', 'jinja2', 'matplotlib'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    for parameter in get_command(app).commands["sizes"].commands[verb].params:
        assert parameter.help, f"{verb} --{parameter.name} has no help"


def test_the_verb_has_the_options_and_defaults_of_the_learner():
    offered = inspect.signature(learn).parameters

    for option in dataclasses.fields(SizeConstraintLearnerOptions):
        default = offered[option.name].default
        if default is None:
            default = {"success_ratios": (0.99,)}.get(option.name, ())
        assert default == option.default, option.name


def test_budgets_are_learned_and_shown(tmp_path, toy_examples_dir):
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA)
    learned = _run_sizes(
        "learn", "--transformed-examples-dir", toy_examples_dir, "--transformed-graph-schema-dir", str(tmp_path),
        "--size-constraints-dir", str(tmp_path / "sizes"), "--batch-size", "3",
        "--split", "train",
    )  # fmt: skip

    assert learned.exit_code == 0, learned.output
    content = read_size_constraints(str(tmp_path / "sizes"))
    assert content.options["batch_size"] == 3
    assert {"packing_3", "fit_or_skip_3_0.99", "tight_3"} < set(_rows(learned.stdout))
    assert (tmp_path / "sizes" / REPORT_FILE).exists()


def test_a_report_is_a_table_and_the_warnings(budgets):
    shown = _run_sizes("report", str(budgets))

    assert shown.exit_code == 0, shown.output
    rows = _rows(shown.stdout)
    assert list(rows)[:3] == ["budget", "packing_2", "fit_or_skip_2_0.99"]
    assert rows["packing_2"] == ["3", "400", "100", "97.0%", "2.5", "200", "all", "all", "2 KiB"]
    assert rows["fit_or_skip_2_0.99"][6:8] == ["99.00%", "98.60%"]
    assert "warning: [red]kernel[/red] loses 40%." in shown.stdout
    assert "report " not in shown.stdout


def test_names_and_numbers_are_whole_on_narrow_terminals_and_in_files(budgets):
    assert _rows(_run_sizes("report", str(budgets), columns=80).stdout) == _rows(
        _run_sizes("report", str(budgets)).stdout
    )


def test_the_page_is_written_where_it_is_asked_for(budgets, tmp_path):
    output = tmp_path / "new" / "page.html"

    shown = _run_sizes("report", str(budgets), "--output", str(output))

    assert output.read_text(encoding="utf-8") == render_size_report(read_size_constraints(str(budgets)))
    assert str(output) in shown.stdout


def test_the_learners_own_page_is_pointed_at(tmp_path, size_constraints_by_hand):
    write_size_constraints(size_constraints_by_hand.made_content(), str(tmp_path))
    (tmp_path / REPORT_FILE).touch()

    assert str(tmp_path / REPORT_FILE) in _run_sizes("report", str(tmp_path)).stdout


def test_a_folder_without_budgets_is_one_line(tmp_path):
    refused = _run_sizes("report", str(tmp_path))

    assert refused.exit_code == 2
    assert refused.stderr.startswith("`size_constraints_dir` must hold size_constraints.json; got ")
    assert refused.stderr.count("\n") == 1


FOLDERS_OF_TRANSFORM = (
    "examples-dir", "graph-schema-dir", "transform-graph-dir", "transformed-examples-dir",
    "transformed-graph-schema-dir",
)  # fmt: skip


@pytest.mark.parametrize(
    "options", [["--schema-file", "mine.pbtxt"], ["--allow-outside-files"], ["--max-record-mib", "32"]]
)
def test_what_is_about_tables_is_refused_without_them(tmp_path, options):
    folders = [text for name in FOLDERS_OF_TRANSFORM for text in (f"--{name}", str(tmp_path / name))]

    shown = CliRunner().invoke(app, ["transform", "--preprocessing-fn", "a.b:c", *folders, *options])

    assert shown.exit_code == 2
    assert "`--max-record-mib` must go with `--tables`, which they are about; got " in shown.output


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


def _run_batches(folder, output, *options):
    inputs = ("transformed-examples-dir", "transformed-graph-schema-dir", "size-constraints-dir")
    command = ["batches", *(part for name in inputs for part in (f"--{name}", str(folder)))]
    return CliRunner().invoke(
        app, [*command, "--precomputed-batches-dir", str(output), *options], env={"COLUMNS": "200"}
    )


def test_epochs_are_stored_and_told(folder, tmp_path):
    shown = _run_batches(
        folder, tmp_path / "ready", "--batching", "fit_or_skip", "--success-ratio", "0.9", "--num-epochs", "2"
    )

    assert shown.exit_code == 0, shown.output
    manifest = read_manifest(str(tmp_path / "ready"))
    assert [epoch.num_batches for epoch in manifest.epochs] == [3, 3]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "MiB │" in line]
    assert rows == [["0", "3", "5", "1.7", "0", "0.0 MiB"], ["1", "3", "5", "1.7", "0", "0.0 MiB"]]
    assert str(tmp_path / "ready") in shown.stdout


def test_a_budget_that_is_not_there_is_one_line(folder, tmp_path):
    shown = _run_batches(folder, tmp_path / "ready")

    assert shown.exit_code == 2
    assert "`--size-constraints-dir` must hold the budget that is asked for, packing" in shown.output
    assert not (tmp_path / "ready").exists()


def test_the_verb_has_the_options_and_defaults_of_the_stage():
    offered = inspect.signature(batches).parameters

    for option in dataclasses.fields(PrecomputedBatchesOptions):
        assert offered[option.name].default == option.default, option.name
    for parameter in get_command(app).commands["batches"].params:
        assert parameter.help, f"--{parameter.name} has no help"
