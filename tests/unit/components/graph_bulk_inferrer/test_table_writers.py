from __future__ import annotations

import csv
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_bulk_inferrer.table_writers import whole_table

IDS = ["a,b", 'say "hi"', "two\nlines", " blank ", "", "\u00fc\U0001f600", "\r", "'", "=1+1"]
TABLE = pa.table({
    "id": IDS,
    "number": pa.array([2**63 - 1, -(2**63), *range(len(IDS) - 2)], pa.int64()),
    "vector": pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 2 * len(IDS), pa.float32()), 2),
})  # fmt: skip


def write(path, file_format):
    with whole_table(str(path), file_format) as writer:
        writer.write(TABLE.slice(0, 4))
        writer.write(TABLE.slice(4))


def test_any_id_can_be_read_back_from_csv(tmp_path):
    write(tmp_path / "table.csv", "csv")

    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == IDS
    assert [int(row["number"]) for row in rows] == TABLE["number"].to_pylist()
    assert json.loads(rows[0]["vector"]) == [0.5, 0.5]


def test_any_id_can_be_read_back_from_tfrecord(tmp_path):
    write(tmp_path / "table.gz", "tfrecord")

    records = tf.data.TFRecordDataset(str(tmp_path / "table.gz"), "GZIP").as_numpy_iterator()
    rows = [tf.train.Example.FromString(record).features.feature for record in records]
    assert [row["id"].bytes_list.value[0].decode() for row in rows] == IDS
    assert [row["number"].int64_list.value[0] for row in rows] == TABLE["number"].to_pylist()
    assert list(rows[0]["vector"].float_list.value) == [0.5, 0.5]


def test_parquet_has_the_types_of_the_columns(tmp_path):
    write(tmp_path / "table.parquet", "parquet")

    assert pq.read_table(tmp_path / "table.parquet").equals(TABLE)
    assert os.listdir(tmp_path) == ["table.parquet"]


@pytest.mark.parametrize("name", ["table.parquet", "table.csv", "table.gz"])
def test_file_is_on_disk_before_it_gets_its_name_and_the_name_is_at_the_end(tmp_path, monkeypatch, name):
    happened, whole = [], []
    fsync, rename = os.fsync, tf.io.gfile.rename

    def synced(descriptor):
        happened.append(("fsync", os.fstat(descriptor).st_ino))
        whole.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    def renamed(path, target, **options):
        happened.append(("rename", os.stat(path).st_ino))
        rename(path, target, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(tf.io.gfile, "rename", renamed)

    write(tmp_path / name, {"gz": "tfrecord"}.get(name[6:], name[6:]))

    file, folder = (tmp_path / name).stat().st_ino, tmp_path.stat().st_ino
    assert happened == [("fsync", file), ("rename", file), ("fsync", folder)]
    assert whole[0] == (tmp_path / name).stat().st_size


def test_file_that_was_not_written_to_its_end_is_not_there(tmp_path):
    def interrupted():
        with whole_table(str(tmp_path / "table.csv"), "csv") as writer:
            writer.write(TABLE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert not (tmp_path / "table.csv").exists()
