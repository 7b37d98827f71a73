import os
import socket

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.io.text_files import check_regular_file, describe_mistake, parse_json, read_json


@pytest.mark.parametrize("depth", [101, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_json_that_is_nested_too_deeply_is_refused(depth, opened, closed):
    with pytest.raises(ValueError, match="nested at most 100 deep"):
        parse_json(opened * depth + "1" + closed * depth)


def test_json_of_some_depth_is_read():
    assert parse_json("[" * 100 + "]" * 100)
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


def test_an_object_with_a_key_twice_is_refused():
    with pytest.raises(ValueError, match="objects must have each key once; got 'b' again"):
        parse_json('{"a": [{"b": 1, "c": 2, "b": 1}]}')


def test_a_long_key_that_is_there_twice_is_cut():
    key = "x" * 10_000

    with pytest.raises(ValueError, match=r"x{240}' again$") as got:
        parse_json(f'{{"{key}": 1, "{key}": 2}}')

    assert len(str(got.value)) < 400


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 100_000, "objects and lists must be nested at most 100 deep"),
        (b"root:x:0:0:secret", "Expecting value: line 1 column 1"),
        (b'{"a": "\xff"}', "text that is not UTF-8"),
    ],
)
def test_a_file_that_is_no_json_is_refused_by_name_and_not_shown(tmp_path, data, message):
    path = tmp_path / "options.json"
    path.write_bytes(data)

    with pytest.raises(
        ValueError, match=f"`.*options.json` must be a JSON file; got a mistake in it: {message}"
    ) as got:
        read_json(str(path))

    assert "secret" not in str(got.value)
    assert len(str(got.value)) < 400


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('node_sets { key: "a" valeu { } }', 'has no field named "valeu"'),
        ("node_sets { key: " + "[" * 100_000, "node_sets { key: [[["),
    ],
)
def test_a_mistake_in_a_schema_is_shown_in_one_short_line(tmp_path, text, shown):
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)

    with pytest.raises(text_format.ParseError, match="`filename` must name a text-format GraphSchema") as got:
        read_schema(str(path))

    assert shown in str(got.value)
    assert len(str(got.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "root:x:0:0:root:/root:/bin/bash\n",
        "hunter2",
        "-----BEGIN KEY-----\nhunter2\n",
        "PASSWORD=hunter2\nLEVEL=info\n",
    ],
)
def test_a_file_that_is_no_schema_is_not_shown(tmp_path, text):
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)

    with pytest.raises(text_format.ParseError, match="text that does not describe a GraphSchema in line 1") as got:
        read_schema(str(path))

    assert not [word for word in ("root:", "hunter2", "BEGIN") if word in str(got.value)]


def test_text_that_is_no_utf_8_is_told_by_its_byte():
    with pytest.raises(UnicodeDecodeError) as error:
        b"node_sets \xff".decode()

    assert describe_mistake(error.value, b"node_sets \xff", GraphSchema()) == "byte 10 is not UTF-8"
    assert describe_mistake(RecursionError(), b"", GraphSchema()) == "messages are nested too deeply"


def test_files_folders_and_paths_at_which_nothing_is_pass(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")

    for path in ("file", "link", ".", "absent", "file/below", "zero\0byte"):
        check_regular_file(str(tmp_path / path))


@pytest.mark.parametrize("path", ["gs://bucket/pipe", "ram:///dev/zero", "s3://dev/zero"])
def test_other_file_systems_are_not_looked_at(path):
    check_regular_file(path)


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("gone")

    with pytest.raises(ValueError, match="/link` must be a regular file; got a link to 'gone', which does not exist"):
        check_regular_file(str(tmp_path / "link"))


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_pipes_sockets_and_devices_are_refused(tmp_path, monkeypatch, prefix):
    monkeypatch.chdir(tmp_path)  # The name of a socket must be short.
    os.mkfifo("pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")

    kinds = {"pipe": "a named pipe", "link": "a named pipe", "socket": "a socket"}
    for name, kind in kinds.items():
        with pytest.raises(ValueError, match=rf"/{name}` must be a regular file; got {kind}\. Write what it gives to"):
            check_regular_file(f"{prefix}{tmp_path}/{name}")
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(ValueError, match=f"`{prefix}{device}` must be a regular file; got a device"):
            check_regular_file(prefix + device)
