"""GraphIndexer as a component of TFX: what it declares reaches the stage."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components.artifacts import GraphIndexArtifact
from tfx_gnn.components.graph_indexer import GraphIndexer, GraphIndexerOptions
from tfx_gnn.components.graph_indexer.executor import Executor
from tfx_gnn.records.example_gen_report import EXAMPLE_GEN_REPORT_FILE
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.spans import find_span

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


def test_index_is_of_the_span_that_examples_were_made_of(tables_dir, tmp_path):
    pattern = str(tmp_path / "data" / "{SPAN}")
    shutil.copytree(tables_dir, tmp_path / "data" / "1")
    (tmp_path / "examples").mkdir()
    report = {"tables_span": dataclasses.asdict(find_span(pattern))}
    (tmp_path / "examples" / EXAMPLE_GEN_REPORT_FILE).write_text(json.dumps(report))
    examples, artifact = standard_artifacts.Examples(), GraphIndexArtifact()
    examples.uri, artifact.uri = str(tmp_path / "examples"), str(tmp_path / "index")
    component = GraphIndexer(
        tables_dir=pattern, options=GraphIndexerOptions(), same_span_as=channel_utils.as_channel([examples])
    )
    # A newer span arrives.
    shutil.copytree(tables_dir, tmp_path / "data" / "2")
    (tmp_path / "data" / "2" / "users.csv").write_text("id,part\nbob,old\nann,new\neve,new\n")

    Executor().Do({"same_span_as": [examples]}, {"graph_index": [artifact]}, component.exec_properties)

    assert open_graph_index(artifact.uri).node_tables["user"].ids.to_pylist() == ["ann", "bob"]
