from __future__ import annotations

import json

import pytest
from tfx.orchestration.experimental.interactive import visualizations

from tfx_gnn.components import (
    ExamplesBlessingArtifact,
    GraphSchemaArtifact,
    InferenceTableArtifact,
    SizeConstraintsArtifact,
    SkewReportArtifact,
    register_notebook_views,
)

HOSTILE = "<script>alert(1)</script>"
_BUDGET = {"fill": 0.5, "graphs_per_batch": 2.0, "total_num_nodes": {"a": 1200}, "total_num_edges": {"e": 3}}
_FEATURE = {"key": HOSTILE, "num_values": 4, "num_differing": 1, "largest_difference": 0.25}


@pytest.mark.parametrize(
    ("kind", "files", "texts"),
    [
        (
            GraphSchemaArtifact,
            {"graph_schema.pbtxt": f'node_sets {{ key: "{HOSTILE}" value {{ }} }}'},
            ["<svg", "node set"],
        ),
        (SizeConstraintsArtifact, {"size_constraints.json": json.dumps({"budgets": {HOSTILE: _BUDGET}})}, ["1,200"]),
        (
            ExamplesBlessingArtifact,
            {"NOT_BLESSED": "", "reasons.json": json.dumps({"reasons": [HOSTILE]})},
            ["not blessed"],
        ),
        (
            SkewReportArtifact,
            {"skew.json": json.dumps({"blessed": True, "reasons": [], "features": [_FEATURE], "outputs": []})},
            ["0.25"],
        ),
        (
            InferenceTableArtifact,
            {
                "inference.json": json.dumps(
                    {
                        "blessed": True,
                        "num_examples": {HOSTILE: 1234},
                        "num_refused": {HOSTILE: 34},
                        "num_rows": {HOSTILE: 1200},
                    }
                )
            },
            ["1,234", "1,200"],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_artifact_is_displayed_and_its_names_are_escaped(tmp_path, capsys, kind, files, texts):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    artifact = kind()
    artifact.uri = str(tmp_path)
    register_notebook_views()

    view = visualizations.get_registry().get_visualization(kind.TYPE_NAME)
    view.display(artifact)

    # What IPython prints of HTML outside of a notebook.
    assert "HTML object" in capsys.readouterr().out
    page = view.html(artifact.uri)
    assert all(text in page for text in texts)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
