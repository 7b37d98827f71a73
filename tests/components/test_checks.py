"""The check of a pipeline, beside the mistakes in docs/mistakes.md: several at once, doubts, and when it is made."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from rich.console import Console
from typer.testing import CliRunner

from tfx_gnn import homogeneous
from tfx_gnn.cli import app
from tfx_gnn.components import GraphEvaluatorOptions, GraphLayerwiseInferrerOptions
from tfx_gnn.models import NodeClassification
from tfx_gnn.sampling import GraphLevelExamples, SplitPlan
from tfx_gnn_pipelines.bulk_inference import BulkInferenceOptions
from tfx_gnn_pipelines.checks.background_check import run_checked
from tfx_gnn_pipelines.checks.example_checks import check_examples
from tfx_gnn_pipelines.checks.findings import Finding, FindingsCollector, PipelineCheck
from tfx_gnn_pipelines.checks.model_checks import check_inputs
from tfx_gnn_pipelines.checks.passed_checks import PASSED_FILE, read_passed, remember_passed
from tfx_gnn_pipelines.checks.pipeline_check import check_names
from tfx_gnn_pipelines.checks.threshold_checks import check_thresholds
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.task import load_task

DOUBT = Finding(severity="warning", step="GraphTrainer", message="`x` should be y.")
TASK = NodeClassification(label_feature="section", class_vocabulary="section")


@pytest.fixture
def config(tmp_path):
    return quickstart(load_task("debian_sections"), root=str(tmp_path / "root"))


def _broken(tmp_path):
    """A task with five independent mistakes."""
    (tmp_path / "five_mistakes.py").write_text(
        "import dataclasses\n"
        "from tfx_gnn_pipelines.tasks.debian_sections import TASK as GOOD\n"
        "PLAN = dataclasses.replace(GOOD.plan, label_features=('sektion',), hops=tuple(\n"
        "    dataclasses.replace(hop, edge_set='dependz') for hop in GOOD.plan.hops))\n"
        "TASK = dataclasses.replace(\n"
        "    GOOD, plan=PLAN, model_fn='five_mistakes:absent', preprocessing_fn='five_mistakez:f', batch_size=10**9)\n"
    )


def test_numbers_that_would_saturate_a_network_are_a_doubt(config):
    year, small = tf.fill([3], 2013.0), tf.constant([-1.0, 0.5, 1.5])
    graphs = [
        homogeneous(source=tf.constant([0]), target=tf.constant([1]), node_features=features)
        for features in ({"year": year}, {"small": small})
    ]
    found = FindingsCollector()

    for graph in graphs:
        check_inputs(config, graph, found)

    (doubt,) = found.findings
    assert (doubt.severity, doubt.step) == ("warning", "GraphTrainer")
    assert "nodes/nodes.year of about 2,013. Standardize them by `z_score`" in doubt.message
    assert "small" not in doubt.message


def test_independent_mistakes_are_found_together(tmp_path, monkeypatch):
    _broken(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    result = CliRunner().invoke(app, ["check", "five_mistakes:TASK", "--json"])

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert not found["passed"]
    messages = [finding["message"] for finding in found["findings"]]
    for part in ("five_mistakez:f", "five_mistakes:absent", "'dependz'", "'sektion'"):
        assert any(part in message for message in messages), messages
    assert len(messages) == 4
    assert list(tmp_path.glob("runs")) == []


def test_wrong_usage_is_no_finding():
    result = CliRunner().invoke(app, ["check", "debian_sektions"])

    assert result.exit_code == 2
    assert "got 'debian_sektions'. Did you mean 'debian_sections'?" in result.output


def test_debug_shows_the_traceback_of_wrong_usage():
    result = CliRunner().invoke(app, ["check", "debian_sektions", "--debug"])

    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize("flags", [("check", "--debug"), ("--debug", "check"), ("check",)], ids=" ".join)
def test_debug_shows_the_traceback_behind_a_finding(tmp_path, monkeypatch, capfd, flags):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "failing_task.py").write_text("TASK = 1 / 0\n")

    with pytest.raises(SystemExit, match="1"):
        app([*flags, "failing_task:TASK", "--json"])

    shown = capfd.readouterr()
    assert "ZeroDivisionError" in json.loads(shown.out)["findings"][0]["message"]
    assert ("Traceback (most recent call last)" in shown.err) == ("--debug" in flags)


def _of_thresholds(config, num, **options):
    found = FindingsCollector()
    evaluator = GraphEvaluatorOptions(task=TASK, **options)
    check_thresholds(dataclasses.replace(config, graph_evaluator=evaluator), {"test": num}, found)
    return [(finding.severity, finding.message) for finding in found.findings]


@pytest.mark.parametrize(
    ("options", "num", "severity", "part"),
    [
        ({"min_accuracy": 0.995}, 100, "error", "at least 200 examples"),
        ({"slice_thresholds": {"accuracy": 0.5}}, 100, "error", "must go with `slices`"),
        ({}, 20, "warning", "got 20 in 'test', where a share of 0.5 is known to 0.22"),
    ],
)
def test_thresholds_without_meaning_are_named(config, options, num, severity, part):
    ((found, message),) = _of_thresholds(config, num, **options)

    assert found == severity
    assert part in message


@pytest.mark.parametrize("options", [{}, {"min_accuracy": 0.98}, {"thresholds": {"accuracy": {"gain": 0.1}}}])
def test_good_thresholds_pass(config, options):
    assert _of_thresholds(config, 100, **options) == []


def test_table_of_ids_to_ask_about_is_looked_at(config):
    config = dataclasses.replace(config, graph_bulk_inferrer=BulkInferenceOptions(ids="absent.csv"))

    (finding,) = check_names(config).findings

    assert (finding.step, finding.severity) == ("GraphBulkInferrer", "error")
    assert "must name a file that exists" in finding.message
    assert "'absent.csv'" in finding.message


def test_a_table_without_rows_is_no_mistake(config, tmp_path):
    tables = shutil.copytree(config.tables_dir, tmp_path / "tables")
    pq.ParquetWriter(tables / "nothing.parquet", pa.schema([("id", pa.string())])).close()
    with (tables / "graph_schema.pbtxt").open("a") as schema:
        schema.write('node_sets { key: "nothing" value { metadata { filename: "nothing.parquet" } } }')

    assert check_names(dataclasses.replace(config, tables_dir=str(tables))).findings == ()


@pytest.mark.parametrize("choice", ["drop", "refuse"])
def test_wrong_rows_are_named_with_a_remedy_only_if_no_rule_allows_them(config, tmp_path, choice):
    tables = shutil.copytree(config.tables_dir, tmp_path / "tables")
    header = (tables / "depends.csv").read_text().split("\n", 1)[0]
    row = ",".join(
        {"package": "abiword-plugin-grammar", "target": "gone{}"}.get(name, "1") for name in header.split(",")
    )
    with (tables / "depends.csv").open("a") as edges:
        edges.writelines(f"{row.format(number)}\n" for number in range(5))
    rules = dataclasses.replace(config.subgraph_example_gen.rules, dangling_edges=choice)
    options = dataclasses.replace(config.subgraph_example_gen, rules=rules)
    found = FindingsCollector()

    check_examples(
        dataclasses.replace(config, tables_dir=str(tables), subgraph_example_gen=options), str(tmp_path / "it"), found
    )

    messages = [one.message for one in found.findings]
    assert {one.severity for one in found.findings} == {"warning" if choice == "drop" else "error"}
    if choice == "drop":
        (message,) = messages
        assert "got 5 rows that do not, which `rules` allows by dangling_edges: drop. See all with" in message
    else:
        assert ["drop them by dangling_edges" in message for message in messages] == [True] * 3 + [False]
        assert "got 5 rows that do not, of which the first 3 are named. See all with" in messages[-1]


@pytest.mark.parametrize(("neighborhoods", "num_warnings"), [("as_trained", 1), ("full", 0)])
def test_fan_outs_that_may_cut_whole_neighborhoods_are_named(config, neighborhoods, num_warnings):
    export = dataclasses.replace(config.graph_trainer.export, layerwise_inference=True)
    trainer = dataclasses.replace(config.graph_trainer, export=export)
    asked = GraphLayerwiseInferrerOptions(neighborhoods=neighborhoods)
    config = dataclasses.replace(config, graph_trainer=trainer, graph_layerwise_inferrer=asked)

    found = check_names(config).findings

    assert [(finding.step, finding.severity) for finding in found] == [
        ("GraphLayerwiseInferrer", "warning")
    ] * num_warnings
    assert all("`neighborhoods` must be 'full' if a node has more edges" in finding.message for finding in found)


def test_passed_pipeline_is_remembered_until_something_changes(config):
    passed = PipelineCheck(findings=(DOUBT,))
    before = read_passed(config)
    remember_passed(config, passed)
    changed = dataclasses.replace(config, graph_trainer=dataclasses.replace(config.graph_trainer, num_epochs=3))

    assert (before, read_passed(config), read_passed(changed)) == (None, passed, None)


def test_pipeline_that_passed_before_starts_no_check_beside_its_run_and_shows_its_warnings(config):
    remember_passed(config, PipelineCheck(findings=(DOUBT,)))
    screen = io.StringIO()

    shown = run_checked(
        lambda _: screen.getvalue(), config, Console(file=screen), command=("/there/is/no/such/program",)
    )

    assert shown == "warning  GraphTrainer: `x` should be y.\n"


@pytest.mark.parametrize(
    "found",
    [
        PipelineCheck(findings=(dataclasses.replace(DOUBT, severity="error"),)),
        PipelineCheck(findings=(), not_checked=("rows",)),
    ],
)
def test_pipeline_that_did_not_pass_in_full_is_checked_again(config, found):
    remember_passed(config, found)

    assert read_passed(config) is None


@pytest.mark.parametrize("text", ["", "[]", '{"fingerprint": "x"}', '{"fingerprint": "", "findings": [{"a": 1}]}'])
def test_damaged_note_is_none(config, text):
    remember_passed(config, PipelineCheck(findings=()))
    Path(config.root, PASSED_FILE).write_text(text)

    assert read_passed(config) is None


MOLECULES = """
context { features { key: "kind" value { dtype: DT_INT64 } } metadata { filename: "molecules.csv" } }
node_sets { key: "atom" value { features { key: "x" value { dtype: DT_FLOAT } } metadata { filename: "atoms.csv" } } }
edge_sets { key: "bond" value { source: "atom" target: "atom" metadata { filename: "bonds.csv" } } }
"""


@pytest.mark.parametrize(("last", "message"), [("a1", ""), ("a7", "`target` must name a node of 'atom'")])
def test_tables_of_many_graphs_follow_their_own_rules(config, tmp_path, last, message):
    tables = tmp_path / "tables"
    tables.mkdir()
    names = [f"m{number}" for number in range(20)]
    (tables / "graph_schema.pbtxt").write_text(MOLECULES)
    (tables / "molecules.csv").write_text("graph,kind\n" + "".join(f"{name},1\n" for name in names))
    (tables / "atoms.csv").write_text(
        "graph,id,x\n" + "".join(f"{name},a{atom},0.5\n" for name in names for atom in range(2))
    )
    (tables / "bonds.csv").write_text(
        "graph,source,target\n" + "".join(f"{name},a0,a1\n" for name in names) + f"m0,a1,{last}\n"
    )
    graphs = GraphLevelExamples(
        graph_id_column="graph", label_features=("kind",), splits=SplitPlan(weights={"train": 2, "val": 1, "test": 1})
    )
    of_graphs = dataclasses.replace(
        config,
        tables_dir=str(tables),
        subgraph_example_gen=dataclasses.replace(config.subgraph_example_gen, plan=None, graph_level_examples=graphs),
    )
    found = FindingsCollector()

    examples = check_examples(of_graphs, str(tmp_path / "examples"), found)

    assert [message in finding.message for finding in found.findings] == ([True] if message else [])
    assert examples.has_sample == (not message)
    assert sum(examples.num_examples.values()) == (0 if message else 20)
