"""Snapshots of SQLite files: types by values, keys by declaration."""

from __future__ import annotations

import contextlib
import sqlite3

import pyarrow as pa
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.tables.keys.declared_keys import read_declared_keys


@pytest.fixture
def database(tmp_path):
    def make(script):
        path = tmp_path / "shop.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        return path

    return make


def test_a_column_has_the_type_of_its_values(database, taken):
    path = database("""
        CREATE TABLE t (i INTEGER, f NUMERIC, b BOOLEAN, not_b BOOLEAN, s TEXT, r BLOB, mixed, bytes, none, big REAL);
        INSERT INTO t VALUES (1, 1.5, 1, 2, 'a', x'00ff', 'x', x'00', NULL, 1.5);
        INSERT INTO t VALUES (NULL, 2, 0, 0, NULL, NULL, 7, 'text', NULL, 9007199254740993);
    """)

    manifest, tables = taken(path)

    assert tables["t"].to_pydict() == {
        "i": [1, None],
        "f": [1.5, 2.0],
        "b": [True, False],
        "not_b": [2, 0],
        "s": ["a", None],
        "r": [b"\0\xff", None],
        "mixed": ["x", "7"],
        "bytes": [b"\0", b"text"],
        "none": [None, None],
        "big": [1.5, 9007199254740992.0],
    }
    assert tables["t"].schema.types[:3] == [pa.int64(), pa.float64(), pa.bool_()]
    assert manifest.tables["t"].notes == (
        "t.mixed: numbers among texts are kept as texts",
        "t.bytes: values of several types are kept as bytes",
    )


def test_integers_that_a_float_does_not_hold_are_counted(database, taken):
    path = database("CREATE TABLE t (a); INSERT INTO t VALUES (0.5), (9007199254740993)")

    manifest, _ = taken(path)

    assert manifest.tables["t"].notes == ("t.a: integers among floats, rounded to 64-bit floats: 1",)


def test_keys_are_those_that_the_database_declares(database, taken, tmp_path):
    path = database("""
        CREATE TABLE users (id INTEGER PRIMARY KEY, mail TEXT UNIQUE, boss REFERENCES users);
        CREATE TABLE pairs (a, b, PRIMARY KEY (b, a));
        CREATE TABLE uses (x, y, mail REFERENCES users (mail), who REFERENCES USERS (id),
          FOREIGN KEY (x, y) REFERENCES pairs (a, b));
    """)

    manifest, _ = taken(path)
    keys = {name: read_declared_keys(str(tmp_path / "snapshot" / f"{name}.parquet")) for name in manifest.tables}

    assert {name: one.primary_key for name, one in keys.items()} == {"users": ("id",), "pairs": ("b", "a"), "uses": ()}
    assert {(one.columns, one.table) for one in keys["uses"].foreign_keys} == {
        (("who",), "users"),
        (("y", "x"), "pairs"),
    }
    assert [(one.columns, one.table) for one in keys["users"].foreign_keys] == [(("boss",), "users")]
    assert manifest.tables["uses"].notes == (
        "uses.mail refers to mail of users, which is not its primary key: no key is kept",
    )


def test_a_view_is_taken_by_name_alone(database, taken):
    path = database("CREATE TABLE t (a); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT a + 1 AS b FROM t")

    assert list(taken(path)[0].tables) == ["t"]
    assert taken(path, tables=["v"])[1]["v"].to_pydict() == {"b": [2]}


def test_rows_that_arrive_after_the_beginning_are_not_seen(database):
    path = database("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")

    with open_source(str(path)) as source, contextlib.closing(sqlite3.connect(path)) as writer:
        (table,) = source.list_tables()
        with writer:
            writer.execute("INSERT INTO t VALUES (2)")
        reading = source.read_table(table)
        rows = pa.Table.from_batches(reading.batches).to_pydict()

    assert (reading.num_rows, rows) == (1, {"a": [1]})


def test_large_rows_are_read_in_small_batches(database):
    path = database("""
        CREATE TABLE t (a);
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100)
        INSERT INTO t SELECT zeroblob(524288) FROM numbers;
    """)

    with open_source(str(path)) as source:
        (table,) = source.list_tables()
        sizes = [batch.num_rows for batch in source.read_table(table).batches]

    # 16 MiB hold 31 rows and what else a row takes.
    assert sizes == [64, 31, 5]


def test_names_with_quotes_and_dots_are_quoted(database, taken):
    path = database('CREATE TABLE "Order ""Lines"".v1" ("a.b" PRIMARY KEY, "say ""x""", "q\'s")')

    manifest, tables = taken(path)

    assert list(manifest.tables) == ["Order_Lines_v1"]
    assert tables["Order_Lines_v1"].column_names == ["a.b", 'say "x"', "q's"]


def test_text_that_is_no_utf8_is_an_error_that_names_the_source(database, taken):
    path = database("CREATE TABLE t (a); INSERT INTO t VALUES (CAST(x'ff' AS TEXT))")

    with pytest.raises(ValueError, match=r"`source` must be a source that can be read; got .*UTF-8.* from .*shop.db"):
        taken(path)


def test_a_damaged_file_is_an_error_that_names_the_source(tmp_path, taken):
    path = tmp_path / "shop.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(200))

    with pytest.raises(ValueError, match=r"`source` must be a source that can be read; got .* from .*shop.db. Restore"):
        taken(path)
