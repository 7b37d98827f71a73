"""TableSnapshotGen as a component of TFX: what it declares reaches the stage, and other components take its output."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components.artifacts import GraphIndexArtifact, GraphSchemaArtifact
from tfx_gnn.components.graph_indexer import GraphIndexer, GraphIndexerOptions
from tfx_gnn.components.graph_indexer.executor import Executor as GraphIndexerExecutor
from tfx_gnn.components.table_snapshot_gen import TableSnapshotGen, TableSnapshotGenOptions
from tfx_gnn.components.table_snapshot_gen.executor import Executor
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.snapshot.snapshot_manifest import read_snapshot_manifest

SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } } metadata { filename: "users.parquet" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.parquet" } } }
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE users (id INTEGER PRIMARY KEY, age INTEGER);
            CREATE TABLE knows (source REFERENCES users, target REFERENCES users);
            CREATE TABLE audit (line TEXT);
            INSERT INTO users VALUES (7, 30), (8, 40);
            INSERT INTO knows VALUES (7, 8);
        """)
    return str(path)


def test_the_tables_of_a_database_reach_a_component_that_takes_tables(source, tmp_path):
    snapshot = TableSnapshotGen(source=source, options=TableSnapshotGenOptions(exclude=("audit",)))
    tables, schema, index = standard_artifacts.Examples(), GraphSchemaArtifact(), GraphIndexArtifact()
    for artifact, name in ((tables, "tables"), (schema, "schema"), (index, "index")):
        artifact.uri = str(tmp_path / name)
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "graph_schema.pbtxt").write_text(SCHEMA)

    Executor().Do({}, {"snapshot": [tables]}, snapshot.exec_properties)
    indexer = GraphIndexer(
        tables=channel_utils.as_channel([tables]),
        tables_schema=channel_utils.as_channel([schema]),
        options=GraphIndexerOptions(),
    )
    given = {"tables": [tables], "tables_schema": [schema]}
    GraphIndexerExecutor().Do(given, {"graph_index": [index]}, indexer.exec_properties)

    assert list(read_snapshot_manifest(tables.uri).tables) == ["knows", "users"]
    built = open_graph_index(index.uri)
    assert built.node_tables["user"].ids.to_pylist() == ["7", "8"]
    assert built.node_tables["user"].features["age"].to_pylist() == [30, 40]
    assert built.reports["edges/knows"].rows_used == 1


def test_a_pipeline_that_is_built_anew_takes_a_new_snapshot_unless_it_names_one(source):
    def snapshot_id(**given):
        component = TableSnapshotGen(source=source, options=TableSnapshotGenOptions(), **given)
        return component.exec_properties["snapshot_id"]

    assert snapshot_id() != snapshot_id()
    assert snapshot_id(snapshot_id="2026-01") == "2026-01"


def test_a_password_is_refused_because_parameters_are_stored():
    with pytest.raises(ValueError, match="must hold no password where it is stored; got one for postgresql://ann@host"):
        TableSnapshotGen(source="postgresql://ann:secret@host/shop", options=TableSnapshotGenOptions())


def test_a_table_cannot_be_both_taken_and_left_out():
    with pytest.raises(ValueError, match=r"`exclude` must name other tables than `tables`; got \['a'\] in both"):
        TableSnapshotGenOptions(tables=("a", "b"), exclude=("a",))
