"""PostgreSQL: all tables in one transaction that sees the database as of its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfx_gnn.snapshot.adbc_source import AdbcSource
from tfx_gnn.snapshot.drivers import import_driver
from tfx_gnn.snapshot.source import SourceTable
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import (
    MAX_DIGITS,
    Selected,
    SqlColumn,
    cast_column,
    decimal_type,
    plain_column,
    quoted,
    time_column,
)
from tfx_gnn.snapshot.sql_source import tables_with_keys

_TABLES = r"""
SELECT n.nspname::text, c.relname::text, c.relkind::text,
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%'
ORDER BY 1, 2
"""
# Constraints of partitions, which repeat those of their table, have a parent.
_KEYS = """
SELECT n.nspname::text, c.relname::text, k.contype::text,
  (SELECT array_agg(a.attname::text ORDER BY o.i) FROM unnest(k.conkey) WITH ORDINALITY o(number, i)
   JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = o.number),
  other_n.nspname::text, other.relname::text,
  (SELECT array_agg(a.attname::text ORDER BY o.i) FROM unnest(k.confkey) WITH ORDINALITY o(number, i)
   JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = o.number)
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class other ON other.oid = k.confrelid
LEFT JOIN pg_catalog.pg_namespace other_n ON other_n.oid = other.relnamespace
WHERE k.contype IN ('p', 'f') AND k.conparentid = 0
ORDER BY 1, 2, k.contype DESC, k.conname
"""
# The type of a domain is that which it is made of, maybe by other domains; that of an array, of its elements.
_COLUMNS = """
WITH RECURSIVE made_of (number, name, type, modifier) AS (
  SELECT attnum, attname::text, atttypid, atttypmod FROM pg_catalog.pg_attribute
  WHERE attrelid = {place}::regclass AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT m.number, m.name, d.typbasetype, CASE WHEN d.typtypmod >= 0 THEN d.typtypmod ELSE m.modifier END
  FROM made_of m JOIN pg_catalog.pg_type d ON d.oid = m.type AND d.typtype = 'd'
)
SELECT m.name, t.typname::text, m.modifier::int8,
  CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN e.typname::text ELSE '' END
FROM made_of m
JOIN pg_catalog.pg_type t ON t.oid = m.type AND t.typtype <> 'd'
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
ORDER BY m.number
"""
# Row security would leave rows out without a word; as it is set here, such a table is an error.
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET row_security = off",
    "SET timezone = 'UTC'",
    "SET intervalstyle = 'iso_8601'",
    "SET lock_timeout = '60s'",
)
_KEPT = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea", "time")
_KEPT_IN_ARRAYS = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar")
_TIMES = ("date", "timestamp", "timestamptz")


class PostgresqlSource(AdbcSource):
    """A database of PostgreSQL.

    Rows come in batches of about 16 MiB, so memory does not grow with a table.
    """

    _ADVICE = (
        (r"password|authentication|SASL|28P01|28000", "Set PGPASSWORD or PGPASSFILE, and check the user."),
        (
            r"permission denied|42501|row-level security",
            "Get the right to read it, or leave it out by `exclude`.",
        ),
        (r"conflict with recovery|40001", "Take it again, or from the primary server."),
        (r"lock timeout|55P03", "Wait until nobody changes the form of the tables, then take it again."),
        (
            r"closed the connection|terminating connection|57P0\d|no connection|connect|08\d{3}",
            "Nothing was written: take it again when the server answers.",
        ),
    )

    def __init__(self, address: SourceAddress) -> None:
        """Notes where the server is; passwords come from the address, PGPASSWORD or PGPASSFILE."""
        self._dbapi = import_driver("adbc_driver_postgresql.dbapi", "snapshot")
        super().__init__(address)
        self._ordinary: set[tuple[str, str]] = set()
        self._started = ""

    def connect(self) -> Any:
        """Connects to the server."""
        return self._dbapi.connect(self._address.text)

    def begin(self) -> None:
        """Begins the transaction."""
        super().begin()
        with self.explained():
            for setting in _SETTINGS:
                self._cursor.execute(setting)
        ((self._started,),) = self.ask('SELECT to_char(now(), \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\')')

    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists tables and views of all schemas but the system's; partitions belong to their table."""
        found = self.ask(_TABLES)
        self._ordinary = {(schema, name) for schema, name, kind, _ in found if kind == "r"}
        return tables_with_keys(
            ((schema, name, kind in "vmf", bool(is_readable)) for schema, name, kind, is_readable in found),
            ((schema, name, kind == "p", *columns) for schema, name, kind, *columns in self.ask(_KEYS)),
        )

    def hold(self, tables: Sequence[SourceTable]) -> None:
        """Locks tables against TRUNCATE and ALTER, not against changes of their rows, as pg_dump does."""
        places = [self.place_in_sql(table) for table in tables if not table.is_view]
        if places:
            with self.explained():
                self._cursor.execute(f"LOCK TABLE {', '.join(places)} IN ACCESS SHARE MODE")

    def place_in_sql(self, table: SourceTable) -> str:
        """Names a table in SQL; the rows of tables that inherit from it are theirs."""
        only = "ONLY " if (table.schema, table.name) in self._ordinary else ""
        return f"{only}{super().place_in_sql(table)}"

    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns; see `SqlSource`."""
        place = "'{}'".format(super().place_in_sql(table).replace("'", "''"))
        return [
            _column(name, dtype, int(modifier), element)
            for name, dtype, modifier, element in self.ask(_COLUMNS.format(place=place))
        ]

    def taken_at(self) -> str:
        """Returns when the transaction began, by the server's clock."""
        return self._started


def _column(name: str, dtype: str, modifier: int, element: str) -> SqlColumn:
    if dtype in _KEPT:
        return plain_column(name)
    if dtype in _TIMES:
        return time_column(name)
    if dtype in ("numeric", "money"):
        return _numeric_column(name, quoted(name) if dtype == "numeric" else f"{quoted(name)}::numeric", modifier)
    if element:
        return _array_column(name, element)
    # Texts for all else: uuid, json, enums, intervals in ISO 8601, addresses, ranges.
    return cast_column(name, "int8" if dtype == "oid" else "text")


def _numeric_column(name: str, column: str, modifier: int) -> SqlColumn:
    """Selects decimals as texts, from which they become decimals again."""
    # Both NaN and infinity have no scale.
    is_number = f"scale({column}) IS NOT NULL"

    def select(num_special: int, scale: int | None, digits: int | None) -> Selected:
        scale = int(scale or 0)
        if modifier >= 0:
            declared = (modifier - 4) >> 16 & 0xFFFF
            # Eleven bits with a sign.
            scale = ((modifier - 4 & 0x7FF) ^ 1024) - 1024
            dtype = decimal_type(declared, max(scale, 0)) if scale >= 0 else decimal_type(declared - scale, 0)
        else:
            # As many as there can be, so that the type does not change with the largest value.
            dtype = decimal_type(max(int(digits or 0) + scale, MAX_DIGITS), scale)
        notes = [f"values that are no finite number, and empty here: {num_special:,}"] if num_special else []
        if dtype is None:
            notes.append(f"numbers of more than {MAX_DIGITS} digits are kept as texts")
        return Selected(
            expression=f"CASE WHEN {is_number} THEN {column} END::text" if num_special else f"{column}::text",
            dtype=dtype,
            note="; ".join(notes),
        )

    return SqlColumn(
        name=name,
        measures=(
            f"count(*) FILTER (WHERE {column} IS NOT NULL AND scale({column}) IS NULL)",
            f"max(scale({column}))",
            f"max(length(trunc(abs({column}))::text)) FILTER (WHERE {is_number})",
        ),
        select=select,
    )


def _array_column(name: str, element: str) -> SqlColumn:
    column = quoted(name)

    def select(num_deep: int) -> Selected:
        if num_deep:
            return Selected(expression=f"{column}::text", note="arrays of several dimensions are kept as texts")
        if element in _KEPT_IN_ARRAYS:
            return Selected(expression=column)
        if element == "numeric":
            return Selected(expression=f"{column}::float8[]", note="decimals in arrays are rounded to 64-bit floats")
        return Selected(expression=f"{column}::text[]")

    return SqlColumn(name=name, measures=(f"count(*) FILTER (WHERE array_ndims({column}) > 1)",), select=select)
