"""Added rows may lack values, which become what the schema declares for them, as those of tables do."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.added_rows import check_rows

SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "city" value { dtype: DT_STRING } }
  features { key: "is_new" value { dtype: DT_BOOL } }
  features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "size" value { dtype: DT_FLOAT } }
  metadata { filename: "user.parquet"
    extra { key: "default.age" value: "-8" } extra { key: "default.city" value: "<no value>" }
    extra { key: "default.is_new" value: "true" } extra { key: "default.pair" value: "0.5" } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  features { key: "since" value { dtype: DT_INT64 } }
  metadata { filename: "knows.csv" extra { key: "default.since" value: "1900" } } } }
"""
NEW = {"#id": ["v"], "age": [None], "city": [None], "is_new": [None], "pair": [None], "size": [1.5]}


@pytest.fixture
def index(build, tmp_path: Path):
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "graph_schema.pbtxt").write_text(SCHEMA)
    pair = pa.array([[1.0, 2.0]], pa.list_(pa.float32()))
    columns = {"id": ["u"], "age": [30], "city": ["Oslo"], "is_new": [False], "pair": pair, "size": [0.5]}
    pq.write_table(pa.table(columns), tables / "user.parquet")
    (tables / "knows.csv").write_text("source,target,since\nu,u,2001\n")
    build(str(tables), tmp_path / "index")
    return open_graph_index(str(tmp_path / "index"))


def _check(index, nodes, edges):
    return check_rows(
        index, nodes, edges, num_added={"user": 0}, find_added=lambda _, ids: np.full(len(ids), -1, np.int64)
    )


def test_missing_values_are_what_the_schema_declares(index):
    batch = _check(index, {"user": NEW}, {"knows": {"#source": ["u"], "#target": ["v"], "since": [None]}})

    assert {name: column.to_pylist() for name, column in batch.nodes["user"].items()} == {
        "#id": ["v"], "age": [-8], "city": ["<no value>"], "is_new": [True], "pair": [[0.5, 0.5]], "size": [1.5],
    }  # fmt: skip
    assert batch.edges["knows"]["since"].to_pylist() == [1900]


def test_a_missing_value_of_which_nothing_is_declared_is_refused(index):
    with pytest.raises(ValueError, match=r"must have values of type float in 'size'; got a null\. Give each new row"):
        _check(index, {"user": {**NEW, "size": [None]}}, {})
