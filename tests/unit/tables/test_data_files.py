import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.tables.data_files import TableBytes, format_of_name, open_table_bytes, resolve_files, resolve_table_files
from tfx_gnn.tables.graph_tables import list_table_files, read_tables


def _resolve(tmp_path, name):
    return [path.removeprefix(f"{tmp_path}/") for path in resolve_files(str(tmp_path / name))]


@pytest.fixture
def folder(tmp_path):
    for name in [
        *(f"x-{i:05d}-of-00003.csv" for i in range(3)),
        *(f"y.tfrecord-{i:05d}-of-00002" for i in range(2)),
        "nodes-b.csv",
        "nodes-a.csv",
        "one.csv",
        "what?.csv",
        "nodes-folder.csv/inner.csv",
        "z-00001-of-00002.csv",
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one.csv", ["one.csv"]),
        ("what?.csv", ["what?.csv"]),
        ("nodes-*.csv", ["nodes-a.csv", "nodes-b.csv"]),
        ("x@3.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("x@*.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("x-?????-of-00003.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("y.tfrecord@2", ["y.tfrecord-00000-of-00002", "y.tfrecord-00001-of-00002"]),
        ("y.tfrecord-?????-of-?????", ["y.tfrecord-00000-of-00002", "y.tfrecord-00001-of-00002"]),
        ("z-00001-of-00002.csv", ["z-00001-of-00002.csv"]),
        ("[xz]-00001*.csv", []),
        ("absent.csv", []),
        ("absent@3.csv", []),
        ("absent-*.csv", []),
        ("nodes-folder.csv", []),
    ],
)
def test_a_name_stands_for_files_in_order(folder, name, expected):
    if name.startswith("["):
        with pytest.raises(ValueError, match=r"must name shards of one number; got shards of \[2, 3\]"):
            _resolve(folder, name)
    else:
        assert _resolve(folder, name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x@2.csv", None),
        ("x@4.csv", None),
        ("z@2.csv", r"got 1 of 2 files for .*z@2.csv', without \[0\]"),
        ("z-*.csv", r"got 1 of 2 files for .*z-\*.csv', without \[0\]"),
        ("x-0000[01]*.csv", r"got 2 of 3 files for .*, without \[2\]"),
    ],
)
def test_every_shard_must_be_there(folder, name, message):
    if message is None:
        assert _resolve(folder, name) == []
    else:
        with pytest.raises(ValueError, match=message):
            _resolve(folder, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.csv", ("csv", ",")),
        ("b.csv.gz", ("csv", ",")),
        ("b.tsv", ("csv", "\t")),
        ("b@4.tsv.gz", ("csv", "\t")),
        ("b-?????-of-00004.parquet", ("parquet", "")),
        ("b-00001-of-00004.csv", ("csv", ",")),
        ("b.csv@*", ("csv", ",")),
        ("nodes-*.parquet", ("parquet", "")),
        ("nodes.parquet*", ("parquet", "")),
        ("b.tfrecord", ("tfrecord", "")),
        ("b.tfrecords.gz-?????-of-?????", ("tfrecord", "")),
        ("b-?????-of-?????", ("tfrecord", "")),
        ("b@4", ("tfrecord", "")),
        ("b.csv.zip", None),
        ("b-*", None),
        ("b.xlsx@4", None),
        ("", None),
    ],
)
def test_the_format_is_told_by_the_name(name, expected):
    assert format_of_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one.csv,nodes-*.csv", ["one.csv", "nodes-a.csv", "nodes-b.csv"]),
        ("nodes-b.csv,nodes-a.csv", ["nodes-b.csv", "nodes-a.csv"]),
        ("x@3.csv,one.csv", [*(f"x-{i:05d}-of-00003.csv" for i in range(3)), "one.csv"]),
        ("with,comma.csv", ["with,comma.csv"]),
        ("absent.csv", []),
    ],
)
def test_names_between_commas_stand_for_files_in_their_order(folder, name, expected):
    (folder / "with,comma.csv").write_text("")

    assert [path.removeprefix(f"{folder}/") for path in resolve_table_files(str(folder), name)] == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one.csv,absent.csv", "got 'absent.csv', which names no file, in 'one.csv,absent.csv'"),
        ("one.csv,", "got '', which names no file, in 'one.csv,'"),
        ("nodes-a.csv,nodes-*.csv", r"got 'nodes-\*.csv', which names a file again"),
    ],
)
def test_each_of_several_names_stands_for_files_of_its_own(folder, name, message):
    with pytest.raises(ValueError, match=message):
        resolve_table_files(str(folder), name)


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("name", ["link.csv", "there/x.csv", "there/absent.csv", "there/x@2.csv", "there/*.csv"])
def test_a_link_that_leads_out_is_refused_before_anything_is_told_of_what_is_there(tmp_path, scheme, name):
    outside, tables = tmp_path / "outside", tmp_path / "tables"
    for path in (outside, tables):
        path.mkdir()
    for file in ("x.csv", "x-00000-of-00002.csv"):
        (outside / file).write_text("")
    (tables / "there").symlink_to(outside)
    (tables / "link.csv").symlink_to(outside / "x.csv")

    with pytest.raises(ValueError, match=r"must name a file inside of the tables folder; .* by a symbolic link"):
        resolve_table_files(f"{scheme}{tables}", name, allow_outside_files=False)


def test_files_of_a_folder_by_its_address_are_found(tmp_path):
    (tmp_path / "x.csv").write_text("")

    files = resolve_table_files(f"file://{tmp_path}", "x.csv", allow_outside_files=False)

    assert files == (f"file://{tmp_path}/x.csv",)


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
