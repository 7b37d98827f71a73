"""Tables of files that go through PostgreSQL lead to the same keys and the same prepared tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest
from tests.databases.conftest import Server

from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions
from tfx_gnn.components.table_snapshot_gen.stage import snapshot_tables
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.prepared_tables import write_prepared_tables
from tfx_gnn.tables.table_access import TableAccess

NUMBERS = range(120)
HOURS = [f"2026-01-{1 + i % 20:02d} 05:00:00" for i in NUMBERS]
TABLES = {
    "flights": {
        "hour": HOURS,
        "tail": [None if i % 10 == 0 else "gone" if i % 10 == 1 else f"N{i % 4}" for i in NUMBERS],
        "origin": [("EWR", "JFK")[i % 2] for i in NUMBERS],
        "pilot_id": [i % 30 for i in NUMBERS],
        "delay": [None if i % 7 == 0 else i / 4 for i in NUMBERS],
        "late": [i % 3 == 0 for i in NUMBERS],
    },
    "planes": {"tail": [f"N{i}" for i in range(4)], "seats": [100, 120, None, 100]},
    "airports": {"faa": ["EWR", "JFK", "LGA"], "alt": [18, 13, 22]},
    "weather": {
        "origin": [place for place in ("EWR", "JFK") for _ in range(20)],
        "hour": [*HOURS[:20], *HOURS[:20]],
        "temp": [i / 4 for i in range(40)],
    },
}


def _write_parquet(table: pa.Table, path: str) -> None:
    if "hour" in table.column_names:
        position = table.column_names.index("hour")
        table = table.set_column(position, "hour", table["hour"].cast(pa.timestamp("us")))
    pq.write_table(table, path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_keys_and_prepared_tables_are_those_of_the_files(server: Server, database, tmp_path, suffix):
    files, from_files, from_server = tmp_path / "files", tmp_path / "from_files", tmp_path / "from_server"
    files.mkdir()
    for name, columns in TABLES.items():
        write = pc_csv.write_csv if suffix == "csv" else _write_parquet
        write(pa.table(columns), f"{files}/{name}.{suffix}")
    options = TableSnapshotGenOptions()
    snapshot_tables(source=str(files), snapshot_dir=str(from_files), options=options)
    with server.connected(database) as cursor:
        for name in TABLES:
            rows = pq.read_table(from_files / f"{name}.parquet").replace_schema_metadata(None)
            cursor.adbc_ingest(name, rows.to_reader())

    snapshot_tables(source=server.address(database), snapshot_dir=str(from_server), options=options)

    access, found, prepared = TableAccess(), [], []
    for folder in (files, from_files, from_server):
        keys = find_keys(find_tables(str(folder), access), str(folder), label=("flights", "late"), access=access)
        found.append((keys.keys, keys.foreign_keys, keys.entities, keys.edges, keys.left_out, keys.questions))
        written = tmp_path / f"prepared_{folder.name}"
        written.mkdir()
        schema = write_prepared_tables(keys, str(folder), str(written), access=access).schema
        tables = {path.name: pq.read_table(path) for path in sorted(written.iterdir())}
        prepared.append((schema, tables))
    assert found[0] == found[1] == found[2]
    assert set(found[0][0]) == {"airports", "flights", "planes", "weather"}
    assert len(found[0][1]) == 5
    for schema, tables in prepared[1:]:
        assert schema == prepared[0][0]
        assert {name: table.to_pydict() for name, table in tables.items()} == {
            name: table.to_pydict() for name, table in prepared[0][1].items()
        }
