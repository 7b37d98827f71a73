from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.datasets.tables_folder import DescribedGraph, DescribedTable, graph_schema_of, write_tables_folder
from tfx_gnn.graph.proto.graph_schema_pb2 import FULL
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.graph.schema.schema_validation import ValidationError

USERS = DescribedTable(
    filename="users.parquet",
    description="Someone.",
    table=pa.table({"name": ["a", "b"], "age": pa.array([1, 2], pa.int64()), "split": ["train", "test"]}),
    features={"age": "In years."},
    extra={"id_column": "name"},
)
FOLLOWS = DescribedTable(
    filename="follows.parquet",
    description="Who follows whom.",
    table=pa.table({"source": ["a"], "target": ["b"], "weight": pa.array([0.5], pa.float32())}),
    features={"weight": "How much."},
)
GRAPHS = DescribedTable(
    filename="graphs.parquet",
    description="Graphs.",
    table=pa.table({"graph_id": ["g"], "title": ["A graph"]}),
    features={"title": "What it is called."},
)
GRAPH = DescribedGraph(
    node_sets={"user": USERS}, edge_sets={"follows": FOLLOWS}, ends={"follows": ("user", "user")}, context=GRAPHS
)


def test_files_and_schema_are_written(tmp_path):
    write_tables_folder(str(tmp_path / "tables"), GRAPH)

    schema = read_schema(str(tmp_path / "tables" / "graph_schema.pbtxt"))
    user, follows = schema.node_sets["user"], schema.edge_sets["follows"]
    assert schema == graph_schema_of(GRAPH)
    assert schema.info.graph_type == FULL
    assert (schema.context.features["title"].dtype, schema.context.metadata.filename) == (7, "graphs.parquet")
    assert (user.description, user.metadata.filename, user.metadata.cardinality) == ("Someone.", "users.parquet", 2)
    assert {entry.key: entry.value for entry in user.metadata.extra} == {"id_column": "name"}
    assert {name: (feature.dtype, feature.description) for name, feature in user.features.items()} == {
        "age": (9, "In years.")
    }
    assert (follows.source, follows.target, follows.features["weight"].dtype) == ("user", "user", 1)
    for described in (USERS, FOLLOWS, GRAPHS):
        assert pq.read_table(tmp_path / "tables" / described.filename).equals(described.table)
    assert len(list((tmp_path / "tables").iterdir())) == 4


def test_a_large_table_has_several_row_groups(tmp_path):
    table = pa.table({"id": pa.array(range(150_000), pa.int64())})
    write_tables_folder(
        str(tmp_path),
        DescribedGraph(
            node_sets={"n": DescribedTable(filename="n.parquet", description="", table=table)}, edge_sets={}, ends={}
        ),
    )

    assert pq.ParquetFile(tmp_path / "n.parquet").num_row_groups == 3


def test_sets_that_do_not_fit_together_are_refused(tmp_path):
    graph = dataclasses.replace(GRAPH, ends={"follows": ("user", "item")})

    with pytest.raises(ValidationError, match="item"):
        write_tables_folder(str(tmp_path), graph)
