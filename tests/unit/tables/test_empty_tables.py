import dataclasses
import functools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import check_tables, read_tables
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_inference import infer_schema

SCHEMA = """
node_sets {{ key: "user" value {{ features {{ key: "age" value {{ dtype: DT_INT64 }} }}
  metadata {{ filename: "users.csv" }} }} }}
node_sets {{ key: "shop" value {{ metadata {{ filename: "shops.csv" }} }} }}
edge_sets {{ key: "knows" value {{ source: "user" target: "user" metadata {{ filename: "knows.csv" }} }} }}
edge_sets {{ key: "likes" value {{ source: "user" target: "user"
  features {{ key: "weight" value {{ dtype: DT_FLOAT }} }} metadata {{ filename: "{likes}" }} }} }}
"""
PLAN = SamplingPlan(
    seed_node_set="user",
    splits=SplitPlan(weights={"train": 1}),
    hops=(
        Hop(edge_set="knows", fan_out=2),
        Hop(edge_set="likes", fan_out=2, name="liked"),
        Hop(edge_set="likes", fan_out=2, name="likers", direction="backward", strategy="in_degree"),
    ),
)


def _csv(path):
    path.write_text("source,target,weight\n")


def _parquet(path):
    columns = {"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}
    pq.write_table(pa.table({**columns, "weight": pa.array([], pa.float32())}), path)


def _tfrecord(path):
    tf.io.TFRecordWriter(str(path)).close()


FORMATS = {"likes.csv": _csv, "likes.parquet": _parquet, "likes.tfrecord": _tfrecord}


def _folder(tmp_path, likes):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(SCHEMA.format(likes=likes))
    (folder / "users.csv").write_text("id,age\nann,30\nbob,20\n")
    (folder / "shops.csv").write_text("id\n")
    (folder / "knows.csv").write_text("source,target\nann,bob\n")
    FORMATS[likes](folder / likes)
    return str(folder)


@pytest.mark.parametrize("likes", FORMATS)
def test_an_empty_edge_table_of_any_format_is_read_checked_and_sampled(tmp_path, likes):
    folder = _folder(tmp_path, likes)

    edges = read_tables(folder).edge_tables["likes"]
    report = generate_subgraph_examples(
        tables_dir=folder, examples_dir=str(tmp_path / "examples"), options=SubgraphExampleGenOptions(plan=PLAN)
    )

    assert check_tables(folder).is_good
    assert (edges.num_edges, str(edges.features["weight"].type), len(edges.features["weight"])) == (0, "float", 0)
    assert report.num_seeds == {"train": 2}
    assert (report.tables["edges/likes"].rows_read, report.statistics.all_edges.max) == (0, 1)


def test_beam_writes_the_same_examples_where_an_edge_table_is_empty(tmp_path):
    folder = _folder(tmp_path, "likes.csv")
    options = SubgraphExampleGenOptions(plan=PLAN, num_shards=1)
    make = functools.partial(generate_subgraph_examples, tables_dir=folder)

    here = make(examples_dir=str(tmp_path / "here"), options=options)
    on_beam = make(examples_dir=str(tmp_path / "beam"), options=dataclasses.replace(options, execution="beam"))

    assert on_beam == here
    [written] = sorted(Path(tmp_path, "here", "Split-train").iterdir())
    assert (tmp_path / "beam" / "Split-train" / written.name).read_bytes() == written.read_bytes()


@pytest.mark.parametrize("execution", ["in_memory", "beam"])
def test_an_empty_node_table_that_is_referred_to_is_refused(tmp_path, execution):
    folder = _folder(tmp_path, "likes.csv")
    Path(folder, "users.csv").write_text("id,age\n")
    options = SubgraphExampleGenOptions(plan=PLAN, execution=execution)

    with pytest.raises(ValueError, match=r"users.csv` must hold at least one record; got a header line only"):
        generate_subgraph_examples(tables_dir=folder, examples_dir=str(tmp_path / "examples"), options=options)


@pytest.mark.parametrize("likes", FORMATS)
def test_a_schema_is_inferred_where_an_edge_table_is_empty(tmp_path, likes):
    folder = _folder(tmp_path, likes)
    Path(folder, "graph_schema.pbtxt").unlink()

    schema = infer_schema(
        node_tables={"user": "users.csv", "shop": "shops.csv"},
        edge_tables={"likes": ("user", "user", likes)},
        tables_dir=folder,
    )

    Path(folder, "graph_schema.pbtxt").write_text(text_format.MessageToString(schema))
    assert sorted(schema.edge_sets["likes"].features) == (["weight"] if likes == "likes.parquet" else [])
    assert read_tables(folder).edge_tables["likes"].num_edges == 0
    assert check_tables(folder).is_good


def test_dropped_edges_are_counted_by_edge_set(tmp_path):
    folder = _folder(tmp_path, "likes.csv")
    Path(folder, "knows.csv").write_text("source,target\nann,bob\nann,eve\neve,ann\n")

    report = generate_subgraph_examples(
        tables_dir=folder,
        examples_dir=str(tmp_path / "examples"),
        options=SubgraphExampleGenOptions(plan=PLAN, rules=RowRules(dangling_edges="drop")),
    )

    assert report.tables["edges/knows"].dropped == {"dangling_source": 1, "dangling_target": 1}
    assert report.tables["edges/likes"].dropped == {}
