"""Columns of tables that nothing reads."""

from __future__ import annotations

import pytest

from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn_pipelines.checks.unread_columns import find_unread_columns

SCHEMA = """
node_sets { key: "user" value {
  features { key: "signup_channel" value { dtype: DT_STRING } } metadata { filename: "users.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
edge_sets { key: "blocks" value { source: "user" target: "user"
  features { key: "since" value { dtype: DT_INT64 } } metadata { filename: "knows.csv" } } }
"""


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("id,signup_channel", []),
        ("id,signup_channel,split", []),
        ("id,signup_channel,#age", []),
        (
            "id,signup_channel,signup_chanel",
            ["users.csv: column 'signup_chanel' is read by nothing (did you mean feature 'signup_channel'?). "],
        ),
        ("id,signup_channel,weight", ["users.csv: column 'weight' is read by nothing. "]),
        (
            "id,signup_channel,a,b,c,d,e,f,g",
            ["users.csv: 7 columns are read by nothing, 'a', 'b', 'c', 'd', 'e' and 2 more. "],
        ),
    ],
    ids=["none", "named by the project", "named in a comment", "misspelt", "another", "many"],
)
def test_each_table_has_one_line_of_what_nothing_reads(tmp_path, head, said):
    (tmp_path / "graph_schema.pbtxt").write_text(f"# left out: #age\n{SCHEMA}")
    (tmp_path / "users.csv").write_text(f"{head}\n")
    (tmp_path / "knows.csv").write_text("source,target,since\n")
    (tmp_path / "project.yaml").write_text("plan: {splits: {column: split}}\n")

    lines = list(
        find_unread_columns(
            read_tables_schema(str(tmp_path)), str(tmp_path), TableAccess(), [str(tmp_path / "project.yaml")]
        )
    )

    assert [line.partition("Declare")[0] for line in lines] == said
