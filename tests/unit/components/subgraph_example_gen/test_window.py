"""Examples of a rolling window of spans: two snapshots of a graph, sampled each in its own."""

import json
import logging
from pathlib import Path

import pytest

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.records.example_gen_report import EXAMPLE_GEN_REPORT_FILE
from tfx_gnn.records.examples_folder import describe_content, files_by_span, record_files
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.row_rules import RowRules

SCHEMA = """
node_sets { key: "n" value {
  features { key: "label" value { dtype: DT_STRING } }
  features { key: "x" value { dtype: DT_FLOAT } }
  metadata { filename: "n.csv" } } }
edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.csv" } } }
"""
PLAN = SamplingPlan(seed_node_set="n", hops=(Hop(edge_set="e", fan_out=2),), label_features=("label",))
NODES = {3: range(40), 7: range(10, 60), 8: range(20, 60)}


def write_tables(folder, span, nodes):
    """A path of nodes, whose feature is the span; one edge of span 3 leads nowhere."""
    folder.mkdir(parents=True)
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    rows = [f"n{i:02d},{'odd' if i % 2 else 'even'},{span}" for i in nodes]
    (folder / "n.csv").write_text("\n".join(["id,label,x", *rows]) + "\n")
    edges = [f"n{i:02d},n{i + 1:02d}" for i in nodes[:-1]] + (["n00,nowhere"] if span == 3 else [])
    (folder / "e.csv").write_text("\n".join(["source,target", *edges]) + "\n")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for span, nodes in NODES.items():
        write_tables(folder / str(span), span, nodes)
    return f"{folder}/{{SPAN}}"


def generate(tables, examples_dir, **arguments):
    options = {"plan": PLAN, "rules": RowRules(dangling_edges="drop", max_dropped_share=0.1), **arguments}
    span = options.pop("span", "")
    return generate_subgraph_examples(
        tables_dir=tables, examples_dir=str(examples_dir), span=span, options=SubgraphExampleGenOptions(**options)
    )


@pytest.fixture(scope="module")
def window(tables, tmp_path_factory):
    """The examples of spans 7 and 8, and the report."""
    folder = tmp_path_factory.mktemp("window") / "examples"
    return folder, generate(tables, folder, num_spans=2)


def contents(examples_dir, split):
    return [list(map(describe_content, files)) for files in files_by_span(record_files(str(examples_dir), [split]))]


def test_first_split_has_every_span_as_sampled_alone_and_the_others_the_newest(tables, window, tmp_path):
    folder, _ = window
    for span in ("7", "8"):
        generate(tables, tmp_path / span, span=span)

    assert contents(folder, "train") == [*contents(tmp_path / "7", "train"), *contents(tmp_path / "8", "train")]
    assert contents(folder, "val") == contents(tmp_path / "8", "val")
    assert contents(folder, "test") == contents(tmp_path / "8", "test")
    names = sorted(path.name for path in (folder / "Split-train").iterdir())
    assert names == [f"{prefix}-0000{shard}-of-00002.gz" for prefix in ("graphs", "span-7") for shard in (0, 1)]
    assert {path.name for path in folder.iterdir() if path.name.startswith(".")} == set()


def test_report_says_what_the_window_has(window):
    folder, report = window

    (earlier,) = report.earlier_spans
    assert (earlier.tables_span.name, report.tables_span.name) == ("7", "8")
    assert earlier.tables["nodes/n"].rows_used == 50
    assert report.tables["nodes/n"].rows_used == 40
    assert report.num_seeds["train"] == report.statistics.num_subgraphs["train"] > earlier.num_seeds > 30
    assert sum(report.num_seeds.values()) == 40 + earlier.num_seeds
    assert json.loads((folder / EXAMPLE_GEN_REPORT_FILE).read_text())["earlier_spans"][0]["tables_span"]["name"] == "7"


def test_spans_that_are_missing_are_reported_and_do_not_matter(tables, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="tfx_gnn"):
        report = generate(tables, tmp_path / "examples", num_spans=4)

    assert [one.tables_span.name for one in report.earlier_spans] == ["3", "7"]
    assert report.gaps == (("3", "7"),)
    assert "The window has 3 spans, of 4 that it may have: 3, 7, 8" in caplog.text
    assert "A span seems to be missing in the window, between 3 and 7" in caplog.text
    assert list(Path(tmp_path, "examples", "dead_letters", "span-3").iterdir())


def test_spans_with_other_features_are_refused(tables, tmp_path):
    for span in (1, 2):
        write_tables(tmp_path / str(span), span, range(30))
    schema = tmp_path / "1" / "graph_schema.pbtxt"
    schema.write_text(schema.read_text().replace("DT_FLOAT", "DT_INT64"))

    with pytest.raises(
        ValueError, match=r"`num_spans` must name spans .* other \['nodes/n.x'\] in '.*/1' than in '.*/2'"
    ):
        generate(f"{tmp_path}/{{SPAN}}", tmp_path / "examples", num_spans=2)
    with pytest.raises(ValueError, match="`num_spans` must be at least 1; got 0"):
        SubgraphExampleGenOptions(plan=PLAN, num_spans=0)


def test_earlier_span_without_seeds_of_the_first_split_adds_none(tmp_path):
    plan = SamplingPlan(seed_node_set="n", hops=PLAN.hops, splits=SplitPlan(column="fold"))
    for span, folds in {1: ("test", "test"), 2: ("train", "test")}.items():
        folder = tmp_path / "tables" / str(span)
        folder.mkdir(parents=True)
        (folder / "graph_schema.pbtxt").write_text(SCHEMA)
        rows = [f"n{number},odd,0,{fold}" for number, fold in enumerate(folds)]
        (folder / "n.csv").write_text("\n".join(["id,label,x,fold", *rows]) + "\n")
        (folder / "e.csv").write_text("source,target\n")

    report = generate(f"{tmp_path}/tables/{{SPAN}}", tmp_path / "examples", plan=plan, num_spans=2)

    assert [one.num_seeds for one in report.earlier_spans] == [0]
    assert report.num_seeds["train"] == 1
