"""DuckDB files, read in one transaction."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tfx_gnn.snapshot.drivers import import_driver
from tfx_gnn.snapshot.source import SourceTable
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected, SqlColumn, cast_column, plain_column, time_column
from tfx_gnn.snapshot.sql_source import BATCH_ROWS, SqlSource, tables_with_keys

_TABLES = """
SELECT schema_name, table_name, false FROM duckdb_tables() WHERE database_name = current_database() AND NOT internal
UNION ALL
SELECT schema_name, view_name, true FROM duckdb_views() WHERE database_name = current_database() AND NOT internal
ORDER BY 1, 2
"""
_KEYS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints()
WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY schema_name, table_name, constraint_index
"""
_TIMES = re.compile(r"DATE|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE")
_AS_TEXT = re.compile(r"UUID|ENUM\(.*|JSON|INTERVAL|TIME WITH TIME ZONE|TIME_NS|BIT|UNION\(.*|UHUGEINT|BIGNUM|VARINT")


class DuckdbSource(SqlSource):
    """A DuckDB file; rows come in batches, and DuckDB itself bounds what it holds in memory."""

    _ADVICE: tuple[tuple[str, str], ...] = (
        (r"lock", "Wait until no other process has the file open for writing."),
        (r"version|serializ", "Write it by the installed release of DuckDB, or install the one that wrote it."),
    )

    def __init__(self, address: SourceAddress) -> None:
        """Notes which file it is."""
        self._duckdb = import_driver("duckdb", "snapshot")
        super().__init__(address, (self._duckdb.Error, pa.ArrowException))
        self._started = ""

    def connect(self) -> Any:
        """Opens the file for reading."""
        return self._duckdb.connect(self._address.text, read_only=True)

    def begin(self) -> None:
        """Begins the transaction."""
        self.ask("SET TimeZone = 'UTC'")
        self.ask("BEGIN TRANSACTION")
        self._started = dt.datetime.now(dt.timezone.utc).isoformat()

    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists tables and views of all schemas."""
        # Foreign keys do not leave their schema.
        return tables_with_keys(
            ((schema, name, bool(is_view), True) for schema, name, is_view in self.ask(_TABLES)),
            (
                (schema, name, kind == "PRIMARY KEY", columns, schema, other, referenced)
                for schema, name, kind, columns, other, referenced in self.ask(_KEYS)
            ),
        )

    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns; see `SqlSource`."""
        return [_column(name, dtype) for name, dtype in self.describe(table)]

    def describe(self, table: SourceTable) -> list[tuple[str, str]]:
        """Lists the names and types of columns."""
        return [(name, dtype) for name, dtype, *_ in self.ask(f"DESCRIBE {self.place_in_sql(table)}")]

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a small answer."""
        with self.explained():
            return list(self._connection.execute(query).fetchall())

    def stream(self, query: str, selected: Sequence[Selected]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Starts a query with a large answer."""
        with self.explained():
            found = self._connection.sql(query)
            # The second name is that of earlier releases.
            read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
            reader = read(BATCH_ROWS)
        return reader.schema, self.explained_batches(reader)

    def taken_at(self) -> str:
        """Returns when the transaction began."""
        return self._started


def text_in_sql(text: str) -> str:
    """Writes a text in SQL."""
    return "'{}'".format(text.replace("'", "''"))


def _column(name: str, dtype: str) -> SqlColumn:
    if dtype.endswith("[]") or dtype.startswith(("STRUCT", "MAP")):
        return plain_column(name)
    if _TIMES.fullmatch(dtype):
        return time_column(name)
    return cast_column(name, "VARCHAR") if _AS_TEXT.fullmatch(dtype) else plain_column(name)
