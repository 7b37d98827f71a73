"""Which tables a snapshot takes, what it writes, and what it refuses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.snapshot.snapshot_manifest import read_snapshot_manifest
from tfx_gnn.snapshot.source import Source, SourceForeignKey, SourceTable, TableReading
from tfx_gnn.snapshot.take_snapshot import take_snapshot


class MemorySource(Source):
    """A source whose tables have one column `id`."""

    address = "memory"

    def __init__(self, *tables, num_rows=1, counted=None):
        self._tables = tables
        self._num_rows = num_rows
        self._counted = num_rows if counted is None else counted

    def open(self):
        pass

    def list_tables(self):
        return self._tables

    def read_table(self, table):
        schema = pa.schema([("id", pa.int64())])
        rows = pa.record_batch([pa.array(range(self._num_rows), pa.int64())], schema=schema)
        return TableReading(query="all", schema=schema, batches=iter([rows]), num_rows=self._counted)

    def taken_at(self):
        return "2026-01-02T00:00:00Z"

    def close(self):
        pass


def table(place, **more):
    schema, _, name = place.rpartition(".")
    return SourceTable(schema=schema, name=name, **more)


@pytest.fixture
def take(tmp_path):
    return lambda source, **chosen: take_snapshot(source, str(tmp_path), **chosen)


def test_the_manifest_tells_what_is_in_each_file(tmp_path, take):
    manifest = take(MemorySource(table("shop.users"), num_rows=3))

    entry = manifest.tables["users"]
    assert (entry.table, entry.file, entry.rows, entry.query) == ("shop.users", "users.parquet", 3, "all")
    assert entry.sha256 == hashlib.sha256((tmp_path / "users.parquet").read_bytes()).hexdigest()
    assert (manifest.source, manifest.taken_at) == ("memory", "2026-01-02T00:00:00Z")
    assert read_snapshot_manifest(str(tmp_path)) == manifest
    assert pq.read_table(tmp_path / "users.parquet").num_rows == 3


def test_tables_are_chosen_by_name_with_or_without_schema(take):
    source = MemorySource(table("a.t"), table("a.u"), table("a.v", is_view=True), table("b.w"))

    assert list(take(source).tables) == ["t", "u", "w"]
    assert list(take(source, tables=["a.t", "v"]).tables) == ["t", "v"]
    assert list(take(source, schemas=["a"], exclude=["t"]).tables) == ["u"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"tables": ["uzers"]}, r"`tables` must name tables .* got 'uzers', .* none of its 1. Did you mean 'users'"),
        ({"exclude": ["b.users"]}, "`exclude` must name tables of the source; got 'b.users'"),
        ({"exclude": ["users"]}, "`source` must have tables to take; got none of"),
    ],
)
def test_names_that_are_unknown_or_leave_nothing_are_refused(take, chosen, message):
    with pytest.raises(ValueError, match=message):
        take(MemorySource(table("a.users")), **chosen)


def test_names_that_would_be_one_file_and_tables_that_may_not_be_read_are_refused(take):
    with pytest.raises(ValueError, match=r"got 'order-items' and 'order_items' .* both be order_items\.parquet"):
        take(MemorySource(table("order-items"), table("order_items")))

    with pytest.raises(ValueError, match=r"got no right to read a\.t, a\.u in memory\. Get it \(GRANT SELECT\)"):
        take(MemorySource(table("a.t", is_readable=False), table("a.u", is_readable=False)))


def test_rows_that_are_missing_are_noticed(take):
    with pytest.raises(ValueError, match="must keep one moment while it is read; got 2 rows of t where 3 had been"):
        take(MemorySource(table("t"), num_rows=2, counted=3))


def test_a_table_that_others_refer_to_by_one_column_has_it_as_its_key(tmp_path, take):
    key = SourceForeignKey(columns=("id",), schema="", table="users", referenced=("id",))

    take(MemorySource(table("users"), table("orders", foreign_keys=(key,))))

    kept = pq.read_schema(tmp_path / "users.parquet").metadata
    assert json.loads(kept[b"pkey_col"]) == "id"


def test_a_foreign_key_to_a_table_that_is_left_out_is_said(take):
    key = SourceForeignKey(columns=("id",), schema="a", table="users", referenced=("id",))

    manifest = take(MemorySource(table("a.users"), table("a.orders", foreign_keys=(key,))), exclude=["users"])

    assert manifest.tables["orders"].notes == (
        "a.orders.id refers to a.users, which is not in the snapshot: no key is kept",
    )


def test_many_rows_are_in_several_row_groups(tmp_path):
    (tmp_path / "out").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO t VALUES (?)", ((number,) for number in range(150_000)))
        connection.commit()

    with open_source(str(tmp_path / "shop.db")) as source:
        take_snapshot(source, str(tmp_path / "out"))

    file = pq.ParquetFile(tmp_path / "out" / "t.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [131_072, 18_928]
    assert file.read()["id"].to_pylist() == list(range(150_000))


def test_equal_rows_give_equal_files_whatever_was_written_in_between(tmp_path):
    hashes = []
    for number, script in enumerate(
        ("INSERT INTO t VALUES ('a', 1), ('b', 2)", "INSERT INTO t VALUES ('b', 2), ('c', 3), ('a', 1)")
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            connection.executescript(f"CREATE TABLE t (k TEXT PRIMARY KEY, v); {script}; DELETE FROM t WHERE k = 'c'")
        with open_source(str(tmp_path / f"{number}.db")) as source:
            hashes.append(take_snapshot(source, str(folder)).tables["t"].sha256)

    assert hashes[0] == hashes[1]
