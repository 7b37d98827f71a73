"""Snapshots of a real PostgreSQL server: types, keys, one moment, and what goes wrong."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import traceback

import adbc_driver_manager
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.databases.conftest import PASSWORD
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.components.table_snapshot_gen.options import TableSnapshotGenOptions
from tfx_gnn.components.table_snapshot_gen.stage import snapshot_tables
from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.tables.keys.declared_keys import read_declared_keys
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.table_access import TableAccess


@pytest.fixture
def taken(server, database, tmp_path):
    """Runs statements, takes a snapshot and reads it back: the manifest, and the tables by name."""

    def take(*statements, **chosen):
        server.run(database, *statements)
        folder = tmp_path / f"snapshot_{len(list(tmp_path.iterdir()))}"
        manifest = snapshot_tables(
            source=server.address(database), snapshot_dir=str(folder), options=TableSnapshotGenOptions(**chosen)
        )
        return manifest, {name: pq.read_table(folder / entry.file) for name, entry in manifest.tables.items()}, folder

    return take


def test_types_are_kept_and_what_arrow_does_not_have_becomes_text(taken):
    _, tables, _ = taken(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN price AS numeric(6, 2)",
        "CREATE DOMAIN positive AS price CHECK (value > 0)",
        """
        CREATE TABLE t (i2 int2, i4 int4, i8 int8, f4 real, f8 float8, b boolean, dec numeric(12, 2), free numeric,
          scaled numeric(5, -2), dom positive, cash money, at timestamptz, plain timestamp, day date, clock time,
          wait interval, id uuid, kind mood, doc jsonb, raw bytea, fixed char(4), name name, ints int[], texts text[],
          moods mood[], decs numeric[], ip inet, span int4range, object oid)
        """,
        r"""
        INSERT INTO t VALUES (1, 2, 3, 1.5, 2.5, true, 1.50, 3.14159, 12345, 7.25, 12.5, '2026-01-02 10:00+02',
          '2026-01-02 10:00:00.123456', '2026-01-02', '10:00', '1 month 2 days',
          'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', '{"k": [1]}', '\x00ff', 'ab', 'n', '{1,NULL}', '{a,NULL}',
          '{ok}', '{1.5}', '10.0.0.1', '[1,5)', 4000000000)
        """,
        "INSERT INTO t (i2) VALUES (NULL)",
    )

    table = tables["t"]
    filled, empty = table.to_pylist()
    assert filled == {
        "i2": 1,
        "i4": 2,
        "i8": 3,
        "f4": 1.5,
        "f8": 2.5,
        "b": True,
        "dec": decimal.Decimal("1.50"),
        "free": decimal.Decimal("3.14159"),
        "scaled": decimal.Decimal(12300),
        "dom": decimal.Decimal("7.25"),
        "cash": decimal.Decimal("12.50"),
        "at": dt.datetime(2026, 1, 2, 8, tzinfo=dt.timezone.utc),
        "plain": dt.datetime(2026, 1, 2, 10, 0, 0, 123456),  # noqa: DTZ001 - it has no zone.
        "day": dt.date(2026, 1, 2),
        "clock": dt.time(10),
        "wait": "P1M2D",
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "kind": "ok",
        "doc": '{"k": [1]}',
        "raw": b"\0\xff",
        "fixed": "ab",
        "name": "n",
        "ints": [1, None],
        "texts": ["a", None],
        "moods": ["ok"],
        "decs": [1.5],
        "ip": "10.0.0.1/32",
        "span": "[1,5)",
        "object": 4_000_000_000,
    }
    assert set(empty.values()) == {None}
    types = {field.name: field.type for field in table.schema}
    assert (types["dec"], types["dom"], types["scaled"]) == (
        pa.decimal128(12, 2),
        pa.decimal128(6, 2),
        pa.decimal128(7, 0),
    )
    assert types["free"] == pa.decimal128(38, 5)
    assert types["at"] == pa.timestamp("us", "UTC")


def test_what_cannot_be_kept_is_counted(taken):
    manifest, tables, _ = taken(
        "CREATE TABLE t (a numeric, b numeric(4,1), "
        "at timestamptz, day date, grid int[], huge numeric, decs numeric[])",
        "INSERT INTO t VALUES ('NaN', 'NaN', 'infinity', '-infinity', '{{1,2},{3,4}}', 1e50, NULL)",
        "INSERT INTO t VALUES ('Infinity', 1, '2026-01-02', NULL, '{1}', 0.5, NULL)",
    )

    assert manifest.tables["t"].notes == (
        "public.t.a: values that are no finite number, and empty here: 2",
        "public.t.b: values that are no finite number, and empty here: 1",
        "public.t.at: infinite times, which are empty here: 1",
        "public.t.day: infinite times, which are empty here: 1",
        "public.t.grid: arrays of several dimensions are kept as texts",
        "public.t.huge: numbers of more than 38 digits are kept as texts",
        "public.t.decs: decimals in arrays are rounded to 64-bit floats",
    )
    assert tables["t"]["grid"].to_pylist() == ["{{1,2},{3,4}}", "{1}"]
    assert tables["t"]["huge"].to_pylist() == ["1" + "0" * 50, "0.5"]
    assert tables["t"]["b"].to_pylist() == [None, decimal.Decimal(1)]


def test_declared_keys_decide_and_their_nulls_are_counted(taken):
    manifest, _, folder = taken(
        'CREATE TABLE "Shop.Users" (id uuid PRIMARY KEY, mail text UNIQUE, boss uuid REFERENCES "Shop.Users")',
        'CREATE TABLE pairs (a int, "b/""q" text, weight float8, PRIMARY KEY ("b/""q", a))',
        """
        CREATE TABLE uses (n bigserial PRIMARY KEY, buyer uuid REFERENCES "Shop.Users", x int, y text,
          mail text REFERENCES "Shop.Users" (mail), FOREIGN KEY (x, y) REFERENCES pairs (a, "b/""q"))
        """,
        """
        INSERT INTO "Shop.Users" SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid
        FROM generate_series(1, 9) i
        """,
        "INSERT INTO pairs SELECT i, 'k' || i FROM generate_series(1, 9) i",
        "INSERT INTO uses (buyer, x, y) SELECT id, 1, 'k1' FROM \"Shop.Users\"",
        "INSERT INTO uses (buyer, x, y) VALUES (NULL, NULL, 'k1')",
    )

    database = find_keys(find_tables(str(folder), TableAccess()), str(folder))

    assert database.keys == {"Shop_Users": ("id",), "pairs": ('b/"q', "a"), "uses": ("n",)}
    found = {(key.table, key.columns): (key.node_set, key.num_null, key.num_known) for key in database.foreign_keys}
    assert found["uses", ("buyer",)] == ("Shop_Users", 1, 9)
    assert found["uses", ("y", "x")] == ("pairs", 1, 9)
    assert found["Shop_Users", ("boss",)] == ("Shop_Users", 9, 0)
    assert manifest.tables["uses"].notes == (
        "public.uses.mail refers to mail of public.Shop.Users, which is not its primary key: no key is kept",
    )


def test_partitions_belong_to_their_table_and_views_are_taken_by_name(taken):
    statements = (
        "CREATE TABLE visits (id int, year int, PRIMARY KEY (id, year)) PARTITION BY RANGE (year)",
        "CREATE TABLE visits_old PARTITION OF visits FOR VALUES FROM (2000) TO (2026)",
        "CREATE TABLE visits_new PARTITION OF visits FOR VALUES FROM (2026) TO (2030)",
        "INSERT INTO visits VALUES (2, 2026), (1, 2025)",
        "CREATE TABLE animals (name text)",
        "CREATE TABLE cats () INHERITS (animals)",
        "INSERT INTO animals VALUES ('hen')",
        "INSERT INTO cats VALUES ('tom')",
        "CREATE VIEW recent AS SELECT id FROM visits WHERE year = 2026",
    )

    manifest, tables, folder = taken(*statements)

    assert list(manifest.tables) == ["animals", "cats", "visits"]
    assert tables["visits"].to_pydict() == {"id": [1, 2], "year": [2025, 2026]}
    assert tables["animals"]["name"].to_pylist() == ["hen"]
    assert read_declared_keys(str(folder / "visits.parquet")).primary_key == ("id", "year")
    assert taken(tables=["recent"])[1]["recent"].to_pydict() == {"id": [2]}


def test_empty_tables_are_tables_and_one_without_columns_is_refused(taken):
    _, tables, folder = taken("CREATE TABLE t (a int, at timestamptz)")

    assert tables["t"].schema.names == ["a", "at"]
    assert find_tables(str(folder), TableAccess())["t"].columns["a"].num_rows == 0

    with pytest.raises(ValueError, match=r"must have columns in each table; got none in public\.empty\. Leave it out"):
        taken("CREATE TABLE empty ()")


def test_two_schemas_with_a_table_of_one_name_are_told_apart_by_option(taken):
    statements = ("CREATE SCHEMA old", "CREATE TABLE old.t AS SELECT 1 AS a", "CREATE TABLE t AS SELECT 2 AS a")

    with pytest.raises(ValueError, match=r"got 'old\.t' and 'public\.t' in postgresql:///.* both be t\.parquet"):
        taken(*statements)

    assert taken(schemas=["old"])[1]["t"]["a"].to_pylist() == [1]


def test_all_tables_are_of_the_moment_at_which_the_snapshot_began(server, database):
    server.run(database, "CREATE TABLE a AS SELECT 1 AS x", "CREATE TABLE b AS SELECT 1 AS x")

    with open_source(server.address(database)) as source:
        tables = source.list_tables()
        source.hold(tables)
        readings = []
        for table in tables:
            server.run(database, "INSERT INTO a VALUES (2)", "UPDATE b SET x = 3", "INSERT INTO b VALUES (4)")
            reading = source.read_table(table)
            readings.append((reading.num_rows, pa.Table.from_batches(reading.batches).to_pydict()))

    assert readings == [(1, {"x": [1]}), (1, {"x": [1]})]


def test_a_table_that_is_being_read_cannot_be_emptied_or_dropped(server, database):
    server.run(database, "CREATE TABLE a AS SELECT 1 AS x")

    with open_source(server.address(database)) as source, server.connected(database) as other:
        source.hold(source.list_tables())
        other.execute("SET lock_timeout = '50ms'")
        for statement in ("TRUNCATE a", "DROP TABLE a"):
            with pytest.raises(adbc_driver_manager.Error, match="lock timeout"):
                other.execute(statement)


def test_a_server_that_goes_away_leaves_nothing_and_is_named(server, database, tmp_path, monkeypatch):
    server.run(
        database,
        "CREATE TABLE a AS SELECT i, repeat('x', 400) AS text FROM generate_series(1, 100000) i",
        "CREATE TABLE b AS SELECT 1 AS x",
    )
    (tmp_path / "out").mkdir()
    real_batches = []

    def end_connections(self, batches):
        with self.explained():
            for batch in batches:
                real_batches.append(batch.num_rows)
                server.run(
                    "postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
                )
                yield batch

    monkeypatch.setattr("tfx_gnn.snapshot.postgresql_source.PostgresqlSource.explained_batches", end_connections)

    with pytest.raises(ValueError, match=r"from postgresql:///db_.*Nothing was written: take it again when the server"):
        snapshot_tables(
            source=server.address(database),
            snapshot_dir=str(tmp_path / "out" / "tables"),
            options=TableSnapshotGenOptions(),
        )

    assert 0 < sum(real_batches) < 100_000
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == []


def test_tables_without_the_right_to_read_them_are_named(server, database, monkeypatch, tmp_path):
    server.run(
        database,
        "CREATE TABLE a AS SELECT 1 AS x",
        "CREATE TABLE b AS SELECT 1 AS x",
        f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'",
        "GRANT SELECT ON a TO reader",
    )
    address = server.address(database, user="reader")
    try:
        with pytest.raises(ValueError, match=r"got no right to read public\.b in postgresql:///.*user=reader\. Get it"):
            snapshot_tables(source=address, snapshot_dir=str(tmp_path / "one"), options=TableSnapshotGenOptions())

        snapshot_tables(
            source=address, snapshot_dir=str(tmp_path / "two"), options=TableSnapshotGenOptions(exclude=("b",))
        )
        assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["a.parquet", "snapshot.json"]

        server.run(
            database,
            "ALTER TABLE a ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY few ON a USING (x > 1)",
        )
        with pytest.raises(ValueError, match=r'row-level security policy for table "a".* leave it out by `exclude`'):
            snapshot_tables(
                source=address, snapshot_dir=str(tmp_path / "three"), options=TableSnapshotGenOptions(exclude=("b",))
            )
    finally:
        server.run(database, "DROP OWNED BY reader", "DROP ROLE reader")


def test_a_password_in_the_address_is_used_and_never_shown(server, database, tmp_path, monkeypatch):
    server.run(database, "CREATE TABLE a AS SELECT 1 AS x")
    monkeypatch.delenv("PGPASSWORD")
    escaped = PASSWORD.replace("/", "%2F")
    address = f"postgresql://admin:{escaped}@/{database}?host={server.folder}"

    shown = CliRunner().invoke(app, ["--debug", "snapshot", address, "--to", str(tmp_path / "tables")])

    assert shown.exit_code == 0, shown.output
    manifest = (tmp_path / "tables" / "snapshot.json").read_text()
    assert json.loads(manifest)["source"] == f"postgresql://admin@/{database}?host={server.folder}"
    assert not any(secret in text for secret in (PASSWORD, escaped) for text in (manifest, shown.output))
    # What is asked for afterwards needs the password again.
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def test_a_wrong_password_and_an_unknown_database_are_named_without_a_secret(server, database, tmp_path, monkeypatch):
    for address, message in (
        (f"postgresql://admin:wr0ng@/{database}?host={server.folder}", "authentication failed .* Set PGPASSWORD or"),
        (f"postgresql://admin:wr0ng@localhost:1/{database}", "Connection refused.*when the server answers"),
        (f"postgresql://admin:wr0ng@localhost:port/{database}", "invalid"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            snapshot_tables(source=address, snapshot_dir=str(tmp_path / "no"), options=TableSnapshotGenOptions())

        assert "wr0ng" not in "".join(traceback.format_exception(caught.value))

    with pytest.raises(ValueError, match='database "gone" does not exist'):
        snapshot_tables(
            source=server.address("gone"), snapshot_dir=str(tmp_path / "no"), options=TableSnapshotGenOptions()
        )


def test_a_source_that_fails_after_it_was_connected_is_closed(server, database, monkeypatch):
    monkeypatch.setattr("tfx_gnn.snapshot.postgresql_source._SETTINGS", ("SET no_such_setting = 1",))

    # The error keeps what failed, and so would keep a connection that is open.
    failing = pytest.raises(ValueError, match="unrecognized configuration parameter")
    with failing as caught, open_source(server.address(database)):
        pass

    assert caught.value.__traceback__ is not None
    with server.connected("postgres") as cursor:
        cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'")
        assert cursor.fetchall() == [(0,)]
