import dataclasses
import gzip
import io
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.tables import tfrecord_table
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_files import list_units, read_table
from tfx_gnn.tables.table_layout import TableColumn, TableLayout
from tfx_gnn.tables.tfrecord_table import TFRecordFormat, is_record_head, record_heads

COLUMNS = {
    "#id": TableColumn(name="id", alternatives=("#id",), dtype=pa.large_string()),
    "age": TableColumn(name="age", dtype=pa.int64(), default="-1"),
    "score": TableColumn(name="score", dtype=pa.float32()),
    "tags": TableColumn(name="tags", dtype=pa.large_string(), shape=(-1,)),
    "box": TableColumn(name="box", dtype=pa.int32(), shape=(2, 2), default="0"),
}
DROP = RowRules(invalid_rows="drop", max_dropped_share=1.0)


def _feature(values):
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _example(**features):
    named = {name.replace("_id", "#id"): _feature(values) for name, values in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString(deterministic=True)


ANN = _example(_id=[b"ann"], age=[30], score=[0.5], tags=[b"a", b"b"], box=[1, 2, 3, 4])
BOB = _example(_id=[b"bob"], score=[1.5])
CAT = _example(_id=[b"cat"], age=[], score=[2.5], tags=[], other=[1])


def _write(path, *records, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def _layout(*files, **columns):
    return TableLayout(kind="node", name="user", files=files, format="tfrecord", columns=columns or COLUMNS)


def _read(layout, rules=DROP):
    table = read_table(layout, rules)
    assert table.report.rows_read == table.report.rows_used + len(table.problems)
    return {key: column.to_pylist() for key, column in table.columns.items()}, table


def _one(path, name, **options):
    return _layout(path, id=COLUMNS["#id"], x=TableColumn(name=name, **options))


def test_records_become_rows_and_absent_values_their_defaults(tmp_path):
    columns, table = _read(_layout(_write(tmp_path / "t", ANN, BOB, CAT)), RowRules())

    assert columns == {
        "#id": ["ann", "bob", "cat"],
        "age": [30, -1, -1],
        "score": [0.5, 1.5, 2.5],
        "tags": [["a", "b"], [], []],
        "box": [[1, 2, 3, 4], [0] * 4, [0] * 4],
    }
    assert {key: column.type for key, column in table.columns.items()} == {
        key: column.arrow_type for key, column in COLUMNS.items()
    }
    assert table.rows.tolist() == [0, 1, 2]


def test_gzip_is_told_by_content_and_every_file_is_a_unit(tmp_path):
    first = _write(tmp_path / "t.tfrecord", ANN, compression="GZIP")
    second = _write(tmp_path / "t.gz", BOB)
    # Two members, as of files that were joined.
    third = tmp_path / "joined"
    third.write_bytes((tmp_path / "t.tfrecord").read_bytes() + gzip.compress((tmp_path / "t.gz").read_bytes()))
    layout = _layout(first, second, str(third))

    columns, table = _read(layout, RowRules())

    assert columns["#id"] == ["ann", "bob", "ann", "bob"]
    assert len(list_units(layout)) == 3
    assert table.locate(np.arange(4)) == [(first, 0), (second, 0), (str(third), 0), (str(third), 1)]


def test_a_record_length_that_looks_like_gzip_is_none(tmp_path):
    blank = len(_example(_id=[b""], score=[0.5]))
    # gzip files begin with 1f 8b 08, which is the length of this record.
    name = b"x" * (0x088B1F - blank - 10)
    record = _example(_id=[name], score=[0.5])
    assert struct.pack("<Q", len(record)).startswith(b"\x1f\x8b\x08")

    path = _write(tmp_path / "t", record)
    columns, _ = _read(_one(path, "score", dtype=pa.float32()), RowRules())

    assert columns["id"] == [name.decode()]


def test_blocks_are_bounded_in_rows_and_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_table, "_READ_AT_ONCE", 2)
    monkeypatch.setattr(tfrecord_table, "MAX_BLOCK_ROWS", 4)
    path = _write(tmp_path / "t", *[ANN] * 9)
    reader = TFRecordFormat(_layout(path))

    blocks = list(reader.read_raw_blocks(path, 0, ["#id"]))
    monkeypatch.setattr(tfrecord_table, "_BLOCK_BYTES", 1)
    small = list(reader.read_raw_blocks(path, 0, ["#id"]))

    assert [block.rows.tolist() for block in blocks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [block.num_rows_read for block in small] == [2, 2, 2, 2, 1]


def test_a_file_without_records_has_no_rows(tmp_path):
    empty = _write(tmp_path / "empty")

    columns, _ = _read(_layout(empty, _write(tmp_path / "t", ANN), empty), RowRules())

    assert columns["#id"] == ["ann"]


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({"dtype": pa.int64()}, [b"12"], [12]),
        ({"dtype": pa.float32()}, [3], [3.0]),
        ({"dtype": pa.int32()}, [3.0], [3]),
        ({"dtype": pa.large_string()}, [7], ["7"]),
        ({"dtype": pa.bool_()}, [1], [True]),
        ({"dtype": pa.float32(), "shape": (-1,)}, [1, 2], [[1.0, 2.0]]),
    ],
)
def test_another_kind_of_feature_is_converted_if_nothing_is_lost(tmp_path, options, values, expected):
    path = _write(tmp_path / "t", _example(_id=[b"a"], x=values))

    assert _read(_one(path, "x", **options), RowRules())[0]["x"] == expected


@pytest.mark.parametrize(
    ("record", "rule", "message"),
    [
        (b"no example", "cells", "must be a tf.Example in every record; got 10 bytes that are none in .*t, record 1"),
        (_example(_id=[b"x"]), "missing", "`score` must have a value in every record; got no value in .*, record 1"),
        (_example(_id=[b"x"], score=[]), "missing", "`score` must have a value in every record"),
        (
            _example(_id=[b"x"], score=[1]),
            "type",
            "`score` must be of kind float_list, as in other records; got int64_list in .*t, record 1",
        ),
        (
            _example(_id=[b"x"], score=[1.0, 2.0]),
            "shape",
            r"`score` must have one value in every record; got 2 values, \[1.0, 2.0\] in .*t, record 1",
        ),
        (_example(_id=[b"x"], score=[float("nan")]), "finite", "`score` must be a finite number .*; got nan"),
        (_example(_id=[b"\xff"], score=[1.0]), "encoding", "`#id` must be UTF-8 text; got byte 0xff"),
        (_example(_id=[b""], score=[1.0]), "empty_id", "record 1"),
        (_example(score=[1.0]), "missing", "`#id` must have a value"),
        (_example(_id=[b"x"], score=[1.0], box=[1, 2, 3]), "shape", "`box` must have the shape"),
        (_example(_id=[b"x"], score=[1.0], box=[1, 2, 3, 1 << 40]), "type", "`box` must be of type int32"),
    ],
)
def test_a_bad_record_is_refused_or_dropped_and_counted(tmp_path, record, rule, message):
    layout = _layout(_write(tmp_path / "t", ANN, record, BOB, CAT))

    with pytest.raises(ValueError, match=message):
        read_table(layout)
    columns, table = _read(layout)

    assert columns["#id"] == ["ann", "bob", "cat"]
    assert table.rows.tolist() == [0, 2, 3]
    assert dict(table.report.dropped) == {rule: 1}
    assert [(problem.row, problem.rule) for problem in table.problems] == [(1, rule)]


def test_bad_records_of_later_blocks_are_placed_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_table, "_READ_AT_ONCE", 2)
    monkeypatch.setattr(tfrecord_table, "MAX_BLOCK_ROWS", 2)
    several = _example(_id=[b"x"], score=[1.0, 2.0])

    columns, table = _read(_layout(_write(tmp_path / "t", ANN, BOB, several, b"\xff\xff", CAT, several)))

    assert columns["#id"] == ["ann", "bob", "cat"]
    assert [(problem.row, problem.rule) for problem in table.problems] == [(2, "shape"), (3, "cells"), (5, "shape")]


def test_a_feature_that_only_later_records_have_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_table, "_READ_AT_ONCE", 1)
    path = _write(tmp_path / "t", BOB, ANN)

    columns, table = _read(_one(path, "age", dtype=pa.int64()))

    assert columns == {"id": ["ann"], "x": [30]}
    assert [problem.rule for problem in table.problems] == ["missing"]


def test_a_feature_that_no_record_has_is_an_error_unless_it_has_a_default(tmp_path):
    path = _write(tmp_path / "t", BOB)

    with pytest.raises(ValueError, match=r"`agee` must be one column .* got none among \['#id', 'score'\] in .*t\."):
        read_table(_one(path, "agee", dtype=pa.int64()))
    assert _read(_one(path, "agee", dtype=pa.int64(), default="5"))[0]["x"] == [5]


def test_a_list_that_no_record_of_a_file_has_is_in_another_file_or_an_error(tmp_path):
    bob, ann = _write(tmp_path / "1", BOB), _write(tmp_path / "2", ANN)
    column = {"dtype": pa.large_string(), "shape": (-1,)}

    columns, _ = _read(dataclasses.replace(_one(bob, "tags", **column), files=(bob, ann)), RowRules())

    assert columns["x"] == [[], ["a", "b"]]
    with pytest.raises(ValueError, match="`tags` must be one column"):
        read_table(_one(bob, "tags", **column))


def _damaged(content):
    return content[:-40] + bytes([content[-40] ^ 0xFF]) + content[-39:]


@pytest.mark.parametrize(
    ("compression", "damage", "message"),
    [
        ("", lambda content: content[:-5], "whole TFRecord file; got truncated record at .* in record 2"),
        ("", _damaged, "whole TFRecord file; got corrupted record at .* in record 2"),
        ("GZIP", lambda content: content[:-12], "must be a whole TFRecord file; got .* in record [0-9]"),
        ("GZIP", lambda content: content[:9], "must be a whole gzip file; got Compressed file ended"),
        ("", lambda content: content[:5], "must be a TFRecord file, gzipped or not; got one that does not begin as"),
        (
            "",
            lambda _: b"id,age\nann,30\n" * 2,
            "must be a TFRecord file, gzipped or not; got one that does not begin as",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_record(tmp_path, compression, damage, message):
    path = tmp_path / "t"
    _write(path, ANN, BOB, CAT, compression=compression)
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(ValueError, match=message) as raised:
        read_table(_layout(str(path)), DROP)

    assert str(path) in str(raised.value)
    assert "function_node" not in str(raised.value)


def test_a_file_above_the_limit_of_a_record_that_ends_too_early_is_refused_with_the_record(tmp_path):
    long = _example(_id=[b"x" * 3000], score=[0.5])
    path = tmp_path / "t"
    _write(path, long, long)
    path.write_bytes(path.read_bytes()[:-2000])

    with pytest.raises(ValueError, match=rf"`{path}` must be a whole TFRecord file; got .* in record 1\. Write"):
        read_table(dataclasses.replace(_layout(str(path)), max_record_bytes=1 << 12), DROP)


def test_a_gzip_file_that_ends_between_records_is_refused(tmp_path):
    records = [_write(tmp_path / str(i), record) for i, record in enumerate([ANN, BOB])]
    contents = [tf.io.gfile.GFile(path, "rb").read() for path in records]
    whole = gzip.compress(contents[0]) + gzip.compress(contents[1])
    path = tmp_path / "t"
    path.write_bytes(whole[: len(gzip.compress(contents[0])) + 4])

    with pytest.raises(ValueError, match="must be a whole gzip file"):
        read_table(_layout(str(path)))


SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  metadata { filename: "users-?????-of-00002" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } }
  metadata { filename: "items*.tfrecord.gz" extra { key: "id_column" value: "number" } } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "count" value { dtype: DT_INT32 } }
  metadata { filename: "buys" extra { key: "format" value: "tfrecord" } } } }
edge_sets { key: "sees" value { source: "user" target: "item" metadata { filename: "sees.tfrecord" } } }
"""


def test_a_full_graph_in_tf_gnns_layout_is_read_as_tables(tmp_path):
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA)
    _write(tmp_path / "users-00000-of-00002", _example(_id=[b"bob"], age=[30], tags=[b"x", b"y"]))
    _write(tmp_path / "users-00001-of-00002", _example(_id=[b"ann"], age=[20]), compression="GZIP")
    _write(tmp_path / "items1.tfrecord.gz", _example(number=[7]), compression="GZIP")
    _write(tmp_path / "items2.tfrecord.gz", _example(number=[b"5"]), compression="GZIP")
    ends = [(b"ann", 7), (b"bob", 5), (b"ann", 5)]
    _write(tmp_path / "buys", *(_example(source=[user], target=[item], count=[item]) for user, item in ends))
    renamed = [
        {"#source": _feature([user]), "#target": _feature([str(item).encode()])} for user, item in reversed(ends)
    ]
    examples = [tf.train.Example(features=tf.train.Features(feature=features)) for features in renamed]
    _write(tmp_path / "sees.tfrecord", *(example.SerializeToString(deterministic=True) for example in examples))

    tables = read_tables(str(tmp_path))

    users, items = tables.node_tables["user"], tables.node_tables["item"]
    assert (users.ids.to_pylist(), items.ids.to_pylist()) == (["ann", "bob"], [5, 7])
    assert users.features["age"].to_pylist() == [20, 30]
    assert users.features["tags"].to_pylist() == [[], ["x", "y"]]
    buys, sees = tables.edge_tables["buys"], tables.edge_tables["sees"]
    assert list(zip(buys.sources.tolist(), buys.targets.tolist(), strict=True)) == [(0, 1), (1, 0), (0, 0)]
    assert buys.features["count"].to_pylist() == [7, 5, 5]
    assert list(zip(sees.sources.tolist(), sees.targets.tolist(), strict=True)) == [(0, 0), (1, 0), (0, 1)]


def test_floats_are_read_however_they_are_written_and_damaged_ones_are_problems(tmp_path):
    def record(list_of_floats):
        # Features, an entry of the map, its key "x" and its Feature: a float_list.
        feature = b"\x12" + bytes([len(list_of_floats)]) + list_of_floats
        entry = b"\x0a\x01x\x12" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        return _example(_id=[b"ann"]) + b"\x0a" + bytes([len(features)]) + features

    one, two = struct.pack("<f", 1.0), struct.pack("<f", 2.0)
    in_two_pieces = record(b"\x0a\x04" + one + b"\x0d" + two)
    # Four gigabytes, says its length, which ends a process that believes it.
    damaged = record(b"\x0a\xff\xff\xff\xff\x0f" + one)
    path = _write(tmp_path / "t", in_two_pieces, damaged)

    columns, table = _read(_one(path, "x", dtype=pa.float32(), shape=(2,)))

    assert columns["x"] == [[1.0, 2.0]]
    assert [(problem.row, problem.requirement) for problem in table.problems] == [
        (1, "be a tf.Example in every record")
    ]


HEAD_3 = b"\x03\0\0\0\0\0\0\0\xb0\x99I\x0e"
HEAD_4_GIB = b"\0\0\0\0\x01\0\0\0\xb2\x8d\xe7\xd2"
RECORD = HEAD_3 + b"abc" + b"crc!"


class _Unseekable(io.BytesIO):
    def seekable(self):
        return False


class _EndedFile(io.BytesIO):
    """Cannot be moved behind its end, as TensorFlow's files."""

    def seek(self, offset, whence=io.SEEK_SET):
        size = len(self.getvalue())
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: size}[whence]
        if start + offset > size:
            raise EOFError
        return super().seek(start + offset)


@pytest.mark.parametrize("kind", [_Unseekable, _EndedFile])
@pytest.mark.parametrize(
    ("data", "heads"),
    [
        (b"", []),
        (RECORD * 2, [HEAD_3, HEAD_3]),
        (RECORD + RECORD[:-1], [HEAD_3, HEAD_3]),
        (RECORD + HEAD_3[:5], [HEAD_3]),
        (RECORD + b"\x04" + RECORD[1:] + RECORD, [HEAD_3]),
        (RECORD + HEAD_4_GIB + b"abc", [HEAD_3, HEAD_4_GIB]),
    ],
    ids=["empty", "whole", "cut data", "cut head", "damaged length", "longer than the file"],
)
def test_heads_are_told_up_to_the_end_or_to_damage_without_memory_for_what_is_missing(kind, data, heads):
    tracemalloc.start()

    found = list(record_heads(kind(data)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == heads
    assert peak < 1 << 22


def test_a_head_is_told_by_its_checksum():
    assert is_record_head(HEAD_3)
    assert not is_record_head(HEAD_3[:-1] + b"\0")
