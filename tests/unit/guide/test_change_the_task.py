"""docs/how_to/change_the_task.md: each change is one of the starter's project.yaml, and fits its tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tfx_gnn.models import GraphClassification, LinkPrediction, NodeClassification, NodeRegression
from tfx_gnn_pipelines.checks.pipeline_check import check_names
from tfx_gnn_pipelines.project import read_project

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how_to" / "change_the_task.md").read_text()
DIFFS = dict(
    zip(
        ("regression", "links", "subgraphs", "graphs", "network", "few labels"),
        re.findall(r"^```diff\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE),
        strict=True,
    )
)
"""The changes, in the order of the page."""

MOLECULES = {
    "graph_schema.pbtxt": """
        context { features { key: "mutagenic" value { dtype: DT_INT64 } } metadata { filename: "context.csv" } }
        node_sets { key: "atom" value {
          features { key: "element" value { dtype: DT_STRING } } metadata { filename: "atom.csv" } } }
        edge_sets { key: "bond" value { source: "atom" target: "atom"
          features { key: "kind" value { dtype: DT_STRING } } metadata { filename: "bond.csv" } } }
    """,
    "context.csv": "graph_id,mutagenic\na,0\nb,1\n",
    "atom.csv": "graph_id,id,element\na,0,C\na,1,N\nb,0,O\n",
    "bond.csv": "graph_id,source,target,kind\na,0,1,single\na,1,0,single\n",
}
"""Tables as `tfx-gnn dataset mutag` makes them, which downloads the real ones."""


def changed(text, diff):
    """Applies a diff whose hunks are parted by empty lines and need no line numbers."""
    for hunk in diff.strip("\n").split("\n\n"):
        lines = hunk.split("\n")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in signs) for signs in (" -", " +"))
        assert text.count(old) == 1, f"{old!r} is not once in the project"
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starter")
    shutil.copytree(ROOT / "templates" / "starter", folder, dirs_exist_ok=True)
    (folder / "my_graph" / "mutag").mkdir()
    for name, text in MOLECULES.items():
        (folder / "my_graph" / "mutag" / name).write_text(text)
    return folder


@pytest.fixture
def config_of(starter, monkeypatch):
    """Makes the config of the starter with a change of the page."""

    def make(change):
        # Put back at the end, like the path that `read_project` extends.
        monkeypatch.setenv("PYTHONPATH", "")
        monkeypatch.syspath_prepend(str(starter))
        text = (ROOT / "templates" / "starter" / "project.yaml").read_text()
        (starter / "project.yaml").write_text(changed(text, DIFFS[change]))
        return read_project(str(starter)).configure()

    return make


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("regression", NodeRegression),
        ("links", LinkPrediction),
        ("subgraphs", NodeClassification),
        ("graphs", GraphClassification),
        ("network", NodeClassification),
        ("few labels", NodeClassification),
    ],
)
def test_change_fits_the_tables(config_of, change, kind):
    config = config_of(change)

    checked = check_names(config)

    assert [finding.message for finding in checked.findings] == []
    assert type(config.graph_trainer.task) is kind


def test_figures_of_the_page_are_those_of_its_changes():
    counted = [
        (len(re.findall("^-", diff, re.MULTILINE)), len(re.findall("^[+]", diff, re.MULTILINE)))
        for diff in DIFFS.values()
    ]

    stated = re.findall(r"^\| .* \| (\d+), (\d+) \|", PAGE, re.MULTILINE)

    assert [(int(removed), int(added)) for removed, added in stated] == counted
