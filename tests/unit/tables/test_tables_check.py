import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.tables_check import check_tables

SCHEMA = """
node_sets {{ key: "user" value {{ features {{ key: "age" value {{ dtype: DT_INT64 }} }} {id}
  metadata {{ filename: "{users}" }} }} }}
edge_sets {{ key: "knows" value {{ source: "user" target: "user" metadata {{ filename: "knows.csv" }} }} }}
"""


def _check(tmp_path, users, knows, *, filename="users.csv", id_feature=""):
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA.format(users=filename, id=id_feature))
    if isinstance(users, str):
        (tmp_path / filename).write_text(users)
    else:
        pq.write_table(pa.table(users), tmp_path / filename)
    (tmp_path / "knows.csv").write_text("source,target\n" + knows)
    return check_tables(str(tmp_path))


def _places(found):
    return [(problem.table, problem.row, problem.rule) for problem in found.problems]


@pytest.mark.parametrize(
    ("users", "filename"),
    [
        ("id,age\nann,30\nbob,old\ncid,\nbob,20\n", "users.csv"),
        ({"id": ["ann", "bob", "cid", "bob"], "age": ["30", "old", None, "20"]}, "users.parquet"),
    ],
)
def test_edges_of_a_node_whose_row_is_bad_are_not_problems_too(tmp_path, users, filename):
    found = _check(tmp_path, users, "ann,bob\nbob,ann\ncid,cid\nann,cid\nann,eve\n", filename=filename)

    first = 2 if filename == "users.csv" else 0
    assert _places(found) == [
        ("nodes/user", first + 1, "type"),
        ("nodes/user", first + 2, "missing"),
        ("edges/knows", 6, "dangling_target"),
    ]
    edges = found.reports["edges/knows"]
    assert (edges.rows_read, edges.rows_used, edges.self_loops, edges.duplicate_edges) == (5, 4, 1, 0)
    assert found.reports["nodes/user"].rows_used == 2


def test_integer_ids_of_bad_rows_are_known(tmp_path):
    found = _check(
        tmp_path,
        "id,age\n1,30\n2,old\nx,20\n",
        "1,2\n2,1\n1,3\n",
        id_feature='features { key: "#id" value { dtype: 9 } }',
    )

    assert _places(found) == [
        ("nodes/user", 3, "type"),
        ("nodes/user", 4, "type"),
        ("edges/knows", 4, "dangling_target"),
    ]


def test_edges_of_a_row_without_a_readable_id_are_problems(tmp_path):
    found = _check(tmp_path, "id,age\nann,30\nbob\n", "ann,bob\nann,ann\n")

    assert _places(found) == [("nodes/user", 3, "cells"), ("edges/knows", 2, "dangling_target")]
