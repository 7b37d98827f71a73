import gzip
import os
import pickle
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.tables.graph_tables import check_tables, list_table_files, read_tables, read_tables_schema
from tfx_gnn.tables.schema_inference import infer_schema
from tfx_gnn.tables.table_access import TableAccess

ANYWHERE = TableAccess(allow_outside_files=True)
SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"


def _folder(tmp_path, filename="users.csv", *, schema_file="graph_schema.pbtxt", extra=""):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / schema_file).write_text(
        'node_sets { key: "user" value { features { key: "age" value { dtype: DT_INT64 } } metadata { filename: "'
        f'{filename}" {extra} }} }} }}'
    )
    (folder / "users.csv").write_text("id,age\nann,30\n")
    (tmp_path / "outside.csv").write_text("id,age\nann,30\n")
    (tmp_path / "secret.csv").write_text(SECRET)
    return folder


@pytest.mark.parametrize(
    "filename",
    [
        "../outside.csv", "{}/outside.csv", "sub/../../outside.csv", "../out*.csv", "users.csv,../outside.csv",
        "users.csv,{}/outside.csv", "../tables-of-others/x.csv", "../tables@*.csv", "link.csv", "links/outside.csv",
        "l*nk.csv", "gs://bucket/outside.csv", "file://{}/outside.csv", "../absent.csv",
    ],
)  # fmt: skip
def test_files_outside_of_the_folder_are_refused(tmp_path, filename):
    folder = _folder(tmp_path, filename.format(tmp_path))
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    (folder / "links").symlink_to(tmp_path)

    with pytest.raises(
        ValueError, match=r"`metadata.filename` must name a file inside .* `allow_outside_files`"
    ) as got:
        read_tables(str(folder))

    assert "for node set 'user' in " in str(got.value)


@pytest.mark.parametrize("access", [None, ANYWHERE])
def test_a_file_name_with_a_zero_byte_is_refused_by_set_and_schema(tmp_path, access):
    (tmp_path / "graph_schema.pbtxt").write_text(
        'node_sets { key: "user" value { metadata { filename: "u\\000.csv" } } }'
    )

    with pytest.raises(ValueError, match=r"without zero bytes; got 'u\\x00.csv' for node set 'user' in /.*schema"):
        read_tables(str(tmp_path), access=access)


@pytest.mark.parametrize("filename", ["../outside.csv", "{}/outside.csv", "link.csv", "../out*.csv"])
def test_files_outside_of_the_folder_are_read_where_that_is_allowed(tmp_path, filename):
    folder = _folder(tmp_path, filename.format(tmp_path))
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")

    assert read_tables(str(folder), access=ANYWHERE).node_tables["user"].ids.to_pylist() == ["ann"]


@pytest.mark.parametrize("filename", ["users.csv", "{}/tables/users.csv", "sub/../users.csv", "near.csv", "us*.csv"])
def test_names_and_links_may_go_ways_inside_of_the_folder(tmp_path, filename, monkeypatch):
    folder = _folder(tmp_path, filename.format(tmp_path))
    (folder / "sub").mkdir()
    (folder / "near.csv").symlink_to("users.csv")
    (tmp_path / "alias").symlink_to(folder)
    monkeypatch.chdir(folder)

    for tables_dir in (str(folder), str(tmp_path / "alias"), "."):
        if "{}" not in filename or tables_dir != str(tmp_path / "alias"):
            assert read_tables(tables_dir).node_tables["user"].ids.to_pylist() == ["ann"]


@pytest.mark.parametrize(
    ("suffix", "extra"),
    [
        ("csv", ""),
        ("csv", 'extra { key: "delimiter" value: ":" }'),
        ("csv", 'extra { key: "id_column" value: "user" }'),
        ("parquet", ""),
        ("tfrecord", ""),
    ],
)
def test_what_is_no_table_is_not_shown(tmp_path, suffix, extra):
    folder = _folder(tmp_path, f"secret.{suffix}", extra=extra)
    (folder / f"secret.{suffix}").write_text(SECRET)

    found = check_tables(str(folder))

    fault = found.faults["nodes/user"]
    assert f"secret.{suffix}" in fault
    assert not [part for part in ("BEGIN", "b3Bl", "KEY", "----") if part in fault], fault


def test_another_name_of_the_schema(tmp_path):
    folder = _folder(tmp_path, schema_file="shop.pbtxt")
    access = TableAccess(schema_file="shop.pbtxt")

    assert list(read_tables_schema(str(folder), access=access).node_sets) == ["user"]
    assert read_tables(str(folder), access=access).node_tables["user"].num_nodes == 1
    assert [os.path.basename(path) for path in list_table_files(str(folder), access=access)] == [
        "shop.pbtxt",
        "users.csv",
    ]
    with pytest.raises(ValueError, match=r"must hold a graph_schema.pbtxt; .* or name another file by `schema_file`"):
        read_tables(str(folder))


@pytest.mark.parametrize("name", ["users.csv", "users.csv.gz", "users.parquet", "users.tfrecord", "users-*.csv"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_table_that_is_no_regular_file_is_refused(tmp_path, name, make):
    folder = _folder(tmp_path, name)
    (folder / "users.csv").unlink()
    make(folder / name.replace("*", "1"))

    found = check_tables(str(folder), access=ANYWHERE)

    assert re.search(r"/users\S+` must be a regular file; got a (named pipe|device)\. ", found.faults["nodes/user"])
    with pytest.raises(ValueError, match="must be a regular file; got a"):
        read_tables(str(folder), access=ANYWHERE)
    with pytest.raises(ValueError, match="must be a regular file; got a"):
        list_table_files(str(folder), access=ANYWHERE)
    with pytest.raises(ValueError, match="must be a regular file; got a"):
        infer_schema(node_tables={"user": name}, tables_dir=str(folder), access=ANYWHERE)


def test_a_schema_that_is_no_regular_file_is_refused(tmp_path):
    folder = _folder(tmp_path)
    (folder / "graph_schema.pbtxt").unlink()
    os.mkfifo(folder / "graph_schema.pbtxt")

    with pytest.raises(ValueError, match=r"graph_schema.pbtxt` must be a regular file; got a named pipe\."):
        check_tables(str(folder))


def _bomb_csv(folder):
    with gzip.open(folder / "users.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"id,age\nann,30\n")
        for _ in range(192):
            file.write(b"x" * (1 << 20))
    return "users.csv.gz", "line 3"


def _bomb_header(folder):
    with gzip.open(folder / "users.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(192):
            file.write(b"x" * (1 << 20))
    return "users.csv.gz", "line 1"


def _bomb_tfrecord(folder):
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(str(folder / "users.tfrecord"), options) as file:
        file.write(b"")
        file.write(b"x" * (24 << 20))
    return "users.tfrecord", "record 1"


def _bomb_parquet(folder):
    pq.write_table(pa.table({"id": ["x" * (24 << 20)], "age": [1]}), folder / "users.parquet", compression="gzip")
    return "users.parquet", "row 0"


@pytest.mark.parametrize("bomb", [_bomb_csv, _bomb_header, _bomb_tfrecord, _bomb_parquet])
def test_a_small_file_with_a_huge_record_is_refused_with_its_place(tmp_path, bomb):
    folder = _folder(tmp_path)
    filename, place = bomb(folder)
    schema = folder / "graph_schema.pbtxt"
    schema.write_text(schema.read_text().replace("users.csv", filename))
    assert (folder / filename).stat().st_size < 1 << 20

    with pytest.raises(ValueError, match=f"at most 16 MiB; got .*{filename}, {place}. .* raise `max_record_mib`"):
        read_tables(str(folder))


def test_a_large_record_is_read_where_that_is_allowed(tmp_path):
    folder = _folder(tmp_path)
    name = "x" * (3 << 20)
    (folder / "users.csv").write_text(f"id,age\n{name},30\n")

    with pytest.raises(ValueError, match=r"users.csv, line 2. Split the record, or raise `max_record_mib`"):
        read_tables(str(folder), access=TableAccess(max_record_mib=1))
    assert read_tables(str(folder), access=TableAccess(max_record_mib=4)).node_tables["user"].ids[0].as_py() == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema_file": ""}, "`schema_file` must name a file of the tables folder; got ''"),
        ({"max_record_mib": 0}, "`max_record_mib` must be a whole number of MiB in .* got 0"),
        ({"max_record_mib": 2048}, "`max_record_mib` must be a whole number of MiB in .* got 2048"),
        ({"max_record_mib": 1.5}, "`max_record_mib` must be a whole number of MiB in .* got 1.5"),
    ],
)
def test_access_is_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TableAccess(**options)


def test_access_travels():
    with pytest.raises(TypeError, match="`allow_outside_files` must be True or False; got 1"):
        TableAccess(allow_outside_files=1)
    assert pickle.loads(pickle.dumps(ANYWHERE)) == ANYWHERE
    assert TableAccess(schema_file="/a/b.pbtxt").schema_path("tables") == "/a/b.pbtxt"
    assert TableAccess(max_record_mib=3).max_record_bytes == 3 << 20
