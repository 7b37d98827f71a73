"""Warehouses, as far as that goes without one: SQLite's driver stands in, and theirs are asked offline."""

from __future__ import annotations

import contextlib
import sqlite3
import sys

import adbc_driver_sqlite.dbapi as stand_in
import pyarrow.parquet as pq
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.take_snapshot import take_snapshot
from tfx_gnn.snapshot.warehouse_source import WarehouseSource
from tfx_gnn.tables.keys.declared_keys import read_declared_keys


@pytest.fixture
def warehouse(tmp_path):
    """A warehouse whose earlier states are given by a name of the table: SQLite has none."""
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (b, a));
            CREATE TABLE uses (who REFERENCES users, x INT, y INT, FOREIGN KEY (x, y) REFERENCES pairs (a, b));
            CREATE VIEW names AS SELECT name FROM users;
            INSERT INTO users VALUES (2, 'b'), (1, NULL);
        """)
    address = SourceAddress(kind="bigquery", text="secret", shown="warehouse", secrets=("secret",))

    def connect():
        return stand_in.connect(str(path))

    with WarehouseSource(address, connect, catalog="main", as_of='AS "at {time}"') as source:
        yield source


def test_keys_are_those_that_the_driver_lists(warehouse, tmp_path):
    (tmp_path / "out").mkdir()

    manifest = take_snapshot(warehouse, str(tmp_path / "out"))

    assert list(manifest.tables) == ["pairs", "users", "uses"]
    keys = {name: read_declared_keys(str(tmp_path / "out" / f"{name}.parquet")) for name in manifest.tables}
    assert {name: one.primary_key for name, one in keys.items()} == {"pairs": ("b", "a"), "users": ("id",), "uses": ()}
    assert {(one.columns, one.table) for one in keys["uses"].foreign_keys} == {
        (("who",), "users"),
        (("y", "x"), "pairs"),
    }
    assert sorted(pq.read_table(tmp_path / "out" / "users.parquet").to_pylist(), key=str) == [
        {"id": 1, "name": None},
        {"id": 2, "name": "b"},
    ]


def test_tables_are_read_as_of_the_time_of_the_connection_and_views_as_they_are(warehouse, tmp_path):
    (tmp_path / "out").mkdir()

    manifest = take_snapshot(warehouse, str(tmp_path / "out"), tables=["users", "names"])

    assert manifest.taken_at.endswith("+00:00")
    assert manifest.tables["users"].query == (
        f'SELECT "id" AS "id", "name" AS "name" FROM "main"."users" AS "at {manifest.taken_at}"'
    )
    assert manifest.tables["names"].query == 'SELECT "name" AS "name" FROM "main"."names"'


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("bigquery://project", "must be bigquery://PROJECT/DATASET; got bigquery://project. Name all"),
        (
            "snowflake://ann:hush@account/shop",
            r"must be snowflake://USER@ACCOUNT/DATABASE/SCHEMA; got snowflake://ann@",
        ),
        ("bigquery://project/shop", "credentials.* from bigquery://project/shop. Check the credentials"),
        ("snowflake://ann@account/shop/public?warehouse=w", "password is empty.* from snowflake://ann@account/shop/"),
    ],
)
def test_the_real_drivers_take_the_settings_and_say_what_is_missing(tmp_path, monkeypatch, address, message):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    monkeypatch.delenv("SNOWFLAKE_PASSWORD", raising=False)

    with pytest.raises(ValueError, match=message) as caught, open_source(address):
        pass

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "module"),
    [("bigquery://project/shop", "adbc_driver_bigquery"), ("snowflake://a@b/c/d", "adbc_driver_snowflake")],
)
def test_a_driver_that_is_missing_is_an_error_with_the_command_that_installs_it(monkeypatch, address, module):
    for name in (module, f"{module}.dbapi"):
        monkeypatch.setitem(sys.modules, name, None)

    message = (
        f"must have its driver '{module}' installed; got none. Install tfx-gnn with its extra 'snapshot-warehouses'"
    )
    with pytest.raises(ModuleNotFoundError, match=message), open_source(address):
        pass
