import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.tables.graph_tables import list_table_files, read_tables
from tfx_gnn.tables.table_bytes import TableBytes, open_table_bytes

SCHEMA = b"""
node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } metadata { filename: "a.parquet" } } }
edge_sets { key: "e" value { source: "a" target: "a" metadata { filename: "e-*.csv" } } }
"""


def test_tables_are_read_from_every_file_system_of_tensorflow():
    folder = "ram://test_table_bytes/tables"
    parquet = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["m", "n"], "x": [1.0, 2.0]}), parquet)
    files = {
        "graph_schema.pbtxt": SCHEMA,
        "a.parquet": parquet.getvalue().to_pybytes(),
        "e-1.csv": gzip.compress(b"source,target\nm,n\n"),
        "e-2.csv": b"source,target\nn,n\n",
    }
    tf.io.gfile.makedirs(folder)
    for name, data in files.items():
        with tf.io.gfile.GFile(f"{folder}/{name}", "wb") as file:
            file.write(data)

    tables = read_tables(folder)

    assert tables.node_tables["a"].features["x"].to_pylist() == [1.0, 2.0]
    assert tables.edge_tables["e"].sources.tolist() == [0, 1]
    assert tables.edge_tables["e"].targets.tolist() == [1, 1]
    assert list_table_files(folder) == tuple(
        f"{folder}/{name}" for name in ("a.parquet", "e-1.csv", "e-2.csv", "graph_schema.pbtxt")
    )


def test_a_file_can_be_read_from_any_position(tmp_path):
    (tmp_path / "x").write_bytes(b"0123456789")

    with TableBytes(str(tmp_path / "x")) as file:
        assert file.read(3) == b"012"
        assert file.seek(-2, 2) == file.tell() == 8
        assert file.read() == b"89"
        assert (file.seek(1), file.seek(2, 1)) == (1, 3)
        assert file.read(1) == b"3"


def test_gzip_files_of_several_parts_are_read_whole(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))

    with open_table_bytes(str(tmp_path / "x")) as file:
        assert file.read() == b"one two"


def test_an_empty_file_has_no_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"")

    with open_table_bytes(str(tmp_path / "x")) as file:
        assert file.read() == b""


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`path` must be a file; got"):
        open_table_bytes(str(tmp_path / name))


def test_a_named_pipe_and_a_device_are_refused_before_they_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")

    with pytest.raises(ValueError, match=r"pipe.csv` must be a regular file; got a named pipe\. Write"):
        TableBytes(str(tmp_path / "pipe.csv"))
    with pytest.raises(ValueError, match="`/dev/zero` must be a regular file; got a device"):
        open_table_bytes("/dev/zero")
