"""GraphIndexer as a component of TFX: what it declares reaches the stage."""

from __future__ import annotations

import pytest

from tfx_gnn.components.artifacts import GraphIndexArtifact
from tfx_gnn.components.graph_indexer import GraphIndexer, GraphIndexerOptions
from tfx_gnn.components.graph_indexer.executor import Executor
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.tables.row_rules import RowRules

TABLES = {
    "graph_schema.pbtxt": """
node_sets { key: "user" value { metadata { filename: "users.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  features { key: "since" value { dtype: DT_INT64 } } metadata { filename: "knows.csv" } } }
""",
    "users.csv": "id,part\nbob,old\nann,new\n",
    "knows.csv": "source,target,since\nbob,ann,3\nbob,ann,4\nbob,ann,3\n",
}


@pytest.fixture
def tables_dir(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    return folder


def test_options_of_the_component_reach_the_index(tables_dir, tmp_path):
    options = GraphIndexerOptions(
        rules=RowRules(duplicate_edges="keep_first"),
        extra_columns={"user": ("part",)},
        edge_times={"knows": "since"},
        execution="beam",
    )
    component = GraphIndexer(tables_dir=str(tables_dir), options=options)
    artifact = GraphIndexArtifact()
    artifact.uri = str(tmp_path / "index")

    executor = Executor(Executor.Context(beam_pipeline_args=["--direct_num_workers=1"]))
    executor.Do({}, {"graph_index": [artifact]}, component.exec_properties)

    index = open_graph_index(artifact.uri)
    assert index.node_tables["user"].ids.to_pylist() == ["ann", "bob"]
    assert index.node_tables["user"].extra_columns["part"].to_pylist() == ["new", "old"]
    assert index.edge_tables["knows"].features["since"].to_pylist() == [3, 4]


def test_tables_that_changed_since_the_pipeline_was_built_are_refused(tables_dir, tmp_path):
    component = GraphIndexer(tables_dir=str(tables_dir), options=GraphIndexerOptions())
    artifact = GraphIndexArtifact()
    artifact.uri = str(tmp_path / "index")
    (tables_dir / "users.csv").write_text("id,part\nbob,old\nann,new\neve,new\n")

    with pytest.raises(ValueError, match="must hold the tables that the pipeline was built with"):
        Executor().Do({}, {"graph_index": [artifact]}, component.exec_properties)

    assert not (tmp_path / "index").exists()
