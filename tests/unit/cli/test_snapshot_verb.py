from __future__ import annotations

import contextlib
import sqlite3
import sys

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.snapshot.snapshot_manifest import read_snapshot_manifest


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE users (id INTEGER PRIMARY KEY, note);
            CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id REFERENCES users);
            INSERT INTO users VALUES (1, 'a'), (2, 3);
            INSERT INTO orders VALUES (1, 1), (2, 2), (3, NULL);
        """)
    return str(path)


def _run(*args):
    return CliRunner().invoke(app, ["snapshot", *args], env={"COLUMNS": "200"})


def test_tables_are_copied_and_counted_and_what_changed_is_said(shop, tmp_path):
    shown = _run(shop, "--to", str(tmp_path / "tables"))

    assert shown.exit_code == 0, shown.output
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "│" in line]
    assert cells == [["orders", "3", "orders.parquet"], ["users", "2", "users.parquet"]]
    assert "users.note: numbers among texts are kept as texts." in shown.stdout
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "orders.parquet",
        "snapshot.json",
        "users.parquet",
    ]


def test_tables_are_chosen_by_flags(shop, tmp_path):
    shown = _run(shop, "--to", str(tmp_path / "tables"), "--table", "users")

    assert shown.exit_code == 0, shown.output
    assert list(read_snapshot_manifest(str(tmp_path / "tables")).tables) == ["users"]


def test_a_snapshot_that_fails_leaves_nothing(shop, tmp_path):
    with contextlib.closing(sqlite3.connect(shop)) as connection:
        connection.executescript("CREATE TABLE zebra (a); INSERT INTO zebra VALUES (CAST(x'ff' AS TEXT))")

    shown = _run(shop, "--to", str(tmp_path / "tables"))

    assert shown.exit_code == 2
    assert "UTF-8" in shown.output
    assert [path.name for path in tmp_path.iterdir() if "tables" in path.name and path.is_dir()] == []


def test_a_folder_with_files_is_not_written_into(shop, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.txt").write_text("")

    shown = _run(shop, "--to", str(tmp_path / "tables"))

    assert shown.exit_code == 2
    assert "`--to` must be absent or an empty folder" in shown.output


@pytest.mark.parametrize(
    ("address", "module", "extra"),
    [("postgresql://ann:secret@host/shop", "adbc_driver_postgresql", "snapshot"), ("{folder}", "duckdb", "snapshot")],
)
def test_a_driver_that_is_missing_is_an_error_with_the_command_that_installs_it(
    tmp_path, monkeypatch, address, module, extra
):
    (tmp_path / "data").mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    shown = _run(address.format(folder=tmp_path / "data"), "--to", str(tmp_path / "tables"))

    assert shown.exit_code == 2
    assert (
        f"must have its driver '{module}' installed; got none. Install tfx-gnn with its extra '{extra}'."
        in shown.output
    )
    assert "secret" not in shown.output
