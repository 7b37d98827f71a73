"""What is open of a source when opening it fails, whichever source it is."""

from __future__ import annotations

import contextlib
import sqlite3

import adbc_driver_sqlite.dbapi as stand_in
import duckdb
import pytest

from tfx_gnn.snapshot.duckdb_source import DuckdbSource
from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sqlite_source import SqliteSource
from tfx_gnn.snapshot.table_folder import TableFolder
from tfx_gnn.snapshot.warehouse_source import WarehouseSource


def _sqlite(folder):
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    return SqliteSource(_address("sqlite", folder / "shop.db"))


def _duckdb(folder):
    duckdb.connect(str(folder / "shop.duckdb")).close()
    return DuckdbSource(_address("duckdb", folder / "shop.duckdb"))


def _folder(folder):
    (folder / "t.csv").write_text("a\n1\n")
    return TableFolder(_address("folder", folder))


def _warehouse(folder):
    return WarehouseSource(
        _address("bigquery", "shop"), lambda: stand_in.connect(str(folder / "shop.db")), catalog="main"
    )


def _address(kind, place):
    return SourceAddress(kind=kind, text=str(place), shown=str(place), secrets=())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("make", [_sqlite, _duckdb, _folder, _warehouse])
def test_a_source_that_fails_after_it_was_connected_is_closed(tmp_path, monkeypatch, make, error):
    source = make(tmp_path)

    def fail(self, query):
        raise error("no moment")

    monkeypatch.setattr(type(source), "ask", fail)

    with pytest.raises(error, match="no moment"), source:
        pass

    # Each driver says so in its own words.
    with pytest.raises(source._errors, match=r"closed|must call AdbcConnectionInit first"):
        source._connection.cursor().execute("SELECT 1")


def test_a_folder_with_a_table_that_cannot_be_read_is_closed(tmp_path, monkeypatch):
    opened = []
    real_connect = TableFolder.connect
    monkeypatch.setattr(TableFolder, "connect", lambda self: opened.append(real_connect(self)) or opened[-1])
    (tmp_path / "t.jsonl").write_text("no JSON\n")

    with pytest.raises(ValueError, match="must be a source that can be read; got"), open_source(str(tmp_path)):
        pass

    with pytest.raises(duckdb.ConnectionException, match="closed"):
        opened[0].execute("SELECT 1")
