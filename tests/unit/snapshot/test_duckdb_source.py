"""Snapshots of DuckDB files."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.tables.keys.declared_keys import read_declared_keys


@pytest.fixture
def database(tmp_path):
    def make(script):
        path = tmp_path / "shop.duckdb"
        with contextlib.closing(duckdb.connect(str(path))) as connection:
            connection.execute(script)
        return path

    return make


def test_types_are_kept_and_what_arrow_does_not_have_becomes_text(database, taken):
    path = database("""
        CREATE TABLE t AS SELECT 1::TINYINT AS i, 2.50::DECIMAL(10, 2) AS d, DATE '2026-01-02' AS day,
          TIMESTAMPTZ '2026-01-02 10:00:00+02' AS at, [1, NULL] AS list, {'a': 1} AS struct, '\\x00'::BLOB AS raw,
          'b'::ENUM('a', 'b') AS kind, '{"k": 1}'::JSON AS json, INTERVAL 1 DAY AS span,
          'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID AS id, true AS yes
        UNION ALL SELECT NULL, NULL, NULL, 'infinity'::TIMESTAMPTZ, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
    """)

    manifest, tables = taken(path)

    table = tables["t"]
    assert table.slice(0, 1).to_pylist() == [
        {
            "i": 1,
            "d": decimal.Decimal("2.50"),
            "day": dt.date(2026, 1, 2),
            "at": dt.datetime(2026, 1, 2, 8, tzinfo=dt.timezone.utc),
            "list": [1, None],
            "struct": {"a": 1},
            "raw": b"\0",
            "kind": "b",
            "json": '{"k": 1}',
            "span": "1 day",
            "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "yes": True,
        }
    ]
    assert all(value is None for value in table.slice(1).to_pylist()[0].values())
    assert (table.schema.field("d").type, table.schema.field("i").type) == (pa.decimal128(10, 2), pa.int8())
    assert manifest.tables["t"].notes == ("main.t.at: infinite times, which are empty here: 1",)


def test_keys_are_those_that_the_database_declares(database, taken, tmp_path):
    path = database("""
        CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (b, a));
        CREATE TABLE uses (id INT PRIMARY KEY, x INT, y INT, FOREIGN KEY (x, y) REFERENCES pairs (b, a));
    """)

    taken(path)

    keys = read_declared_keys(str(tmp_path / "snapshot" / "uses.parquet"))
    assert keys.primary_key == ("id",)
    assert [(one.columns, one.table) for one in keys.foreign_keys] == [(("x", "y"), "pairs")]


def test_two_schemas_with_a_table_of_one_name_are_told_apart_by_option(database, taken):
    path = database("CREATE TABLE t AS SELECT 1 AS a; CREATE SCHEMA old; CREATE TABLE old.t AS SELECT 2 AS a")

    with pytest.raises(ValueError, match=r"got 'main.t' and 'old.t' in .*, which would both be t.parquet. Choose by"):
        taken(path)

    assert taken(path, schemas=["old"])[1]["t"].to_pydict() == {"a": [2]}
    assert taken(path, exclude=["old.t"])[1]["t"].to_pydict() == {"a": [1]}
    with pytest.raises(ValueError, match=r"`schemas` must name schemas with tables; got 'odl', .* Did you mean 'old'?"):
        taken(path, schemas=["odl"])


def test_nobody_else_writes_the_file_while_it_is_read(database):
    path = database("CREATE TABLE t AS SELECT 1 AS a")
    command = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(path)!r})"]

    with open_source(str(path)):
        during = subprocess.run(command, capture_output=True, text=True, check=False)
    after = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "lock" in during.stderr
    assert after.returncode == 0, after.stderr


def test_a_damaged_file_is_an_error_that_names_it(tmp_path, taken):
    path = tmp_path / "shop.duckdb"
    path.write_bytes(bytes(8) + b"DUCK" + bytes(4096))

    with pytest.raises(ValueError, match=r"`source` must be a source that can be read; got .* from .*shop.duckdb"):
        taken(path)
