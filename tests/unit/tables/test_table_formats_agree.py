"""One table reads equal from CSV, gzipped CSV, Parquet, TFRecord, and shards."""

import csv
import gzip
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.tables.schema_layouts import seeds_layout
from tfx_gnn.tables.table_files import read_table
from tfx_gnn.tables.table_layout import TableColumn

COLUMNS = {
    "text": TableColumn(name="text", dtype=pa.large_string(), default="none"),
    "small": TableColumn(name="small", dtype=pa.int16(), default="-1"),
    "large": TableColumn(name="large", dtype=pa.int64()),
    "real": TableColumn(name="real", dtype=pa.float32(), default="0.5"),
    "truth": TableColumn(name="truth", dtype=pa.bool_()),
}
TYPES = {
    "text": pa.string(),
    "small": pa.int64(),
    "large": pa.int64(),
    "real": pa.float64(),
    "truth": pa.bool_(),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
            "small": st.one_of(st.none(), st.integers(-(2**15), 2**15 - 1)),
            "large": st.integers(-(2**63), 2**63 - 1),
            "real": st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
            "truth": st.booleans(),
        }
    ),
    min_size=1,
    max_size=30,
)


def _cell(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return repr(value).lower()


def _csv(rows, end):
    lines = [",".join(COLUMNS), *(",".join(_cell(row[name]) for name in COLUMNS) for row in rows)]
    return end.join([*lines, ""]).encode()


def _example(row):
    features = {
        "large": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["large"]])),
        "truth": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row["truth"])])),
    }
    if row["text"] is not None:
        features["text"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["text"].encode()]))
    if row["small"] is not None:
        features["small"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[row["small"]]))
    if row["real"] is not None:
        features["real"] = tf.train.Feature(float_list=tf.train.FloatList(value=[row["real"]]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _write(folder, rows, end, cut):
    def write_parquet(name, part):
        columns = {key: pa.array([row[key] for row in part], dtype) for key, dtype in TYPES.items()}
        pq.write_table(pa.table(columns), folder / name, row_group_size=3)

    (folder / "t.csv").write_bytes(_csv(rows, end))
    (folder / "t.csv.gz").write_bytes(gzip.compress(_csv(rows, end)))
    write_parquet("t.parquet", rows)
    with tf.io.TFRecordWriter(str(folder / "t.tfrecord"), "GZIP") as writer:
        for row in rows:
            writer.write(_example(row))
    for shard, part in enumerate((rows[:cut], rows[cut:])):
        (folder / f"s-{shard:05d}-of-00002.csv").write_bytes(_csv(part, end))
        write_parquet(f"s-{shard:05d}-of-00002.parquet", part)
    return ["t.csv", "t.csv.gz", "t.parquet", "t.tfrecord", "s@2.csv", "s-*.csv", "s-?????-of-00002.parquet"]


@settings(max_examples=30, deadline=None)
@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.integers(0, 30))
def test_a_table_reads_equal_from_every_format(rows, end, cut):
    with tempfile.TemporaryDirectory() as folder:
        names = _write(Path(folder), rows, end, cut)
        tables = {name: read_table(seeds_layout(folder, name, COLUMNS)) for name in names}

    expected = {
        "text": ["none" if row["text"] is None else row["text"] for row in rows],
        "small": [-1 if row["small"] is None else row["small"] for row in rows],
        "large": [row["large"] for row in rows],
        "real": [0.5 if row["real"] is None else np.float32(row["real"]) for row in rows],
        "truth": [row["truth"] for row in rows],
    }
    for name, table in tables.items():
        assert {key: column.to_pylist() for key, column in table.columns.items()} == expected, name
        assert table.rows.tolist() == list(range(len(rows)))
        assert table.report.rows_read == table.report.rows_used == len(rows)


TABLE = st.lists(
    st.lists(st.text(st.sampled_from('ab",\n\r é'), max_size=5), min_size=2, max_size=2), min_size=1, max_size=20
)


@settings(max_examples=100, deadline=None)
@given(TABLE)
def test_what_pythons_writer_writes_is_read_back(records):
    with tempfile.TemporaryDirectory() as folder:
        with open(Path(folder, "t.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *records])
        columns = {name: TableColumn(name=name, dtype=pa.large_string()) for name in "ab"}
        table = read_table(seeds_layout(folder, "t.csv", columns))

        lines = [line for _, line in table.locate(table.rows)]

    assert [list(record) for record in zip(*(table.columns[name].to_pylist() for name in "ab"), strict=True)] == records
    assert lines[0] == 2
    assert lines == sorted(set(lines))
