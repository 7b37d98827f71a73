"""SQLite files, read in one transaction.

In SQLite a value has a type, not a column. So the types that occur are counted first, and decide the column's.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tfx_gnn.snapshot.source import SourceForeignKey, SourceTable
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected, SqlColumn, quoted
from tfx_gnn.snapshot.sql_source import BATCH_ROWS, SqlSource

_TABLES = """
SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
ORDER BY name
"""
_EXACT_FLOAT = 2**53
_FIRST_BATCH_ROWS = 64
_BATCH_BYTES = 16 << 20


class SqliteSource(SqlSource):
    """A SQLite file; rows are read in batches."""

    _ADVICE = (
        (r"UTF-8", "Store it as a blob, or convert it to UTF-8."),
        (r"locked|busy", "Wait until nobody writes the file."),
        (r"malformed|not a database|disk I/O", "Restore the file, or copy it again."),
    )

    def __init__(self, address: SourceAddress) -> None:
        """Notes which file it is."""
        super().__init__(address, (sqlite3.Error,))
        self._started = ""

    def connect(self) -> sqlite3.Connection:
        """Opens the file for reading."""
        path = urllib.parse.quote(os.path.abspath(self._address.text))
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def begin(self) -> None:
        """Begins the transaction."""
        self._started = dt.datetime.now(dt.timezone.utc).isoformat()
        self.ask("BEGIN")
        # What is read first decides the moment.
        self.ask("SELECT count(*) FROM sqlite_master")

    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists tables and views but for those of SQLite itself."""
        found = self.ask(_TABLES)
        primary = {name: self._primary_key(name) for name, _ in found}
        return tuple(
            SourceTable(
                schema="",
                name=name,
                primary_key=primary[name],
                foreign_keys=self._foreign_keys(name, primary),
                is_view=kind == "view",
            )
            for name, kind in found
        )

    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns; see `SqlSource`."""
        return [
            _column(name, declared)
            # The hidden ones of virtual tables are arguments, no data.
            for name, declared, hidden in self.ask(
                f"SELECT name, type, hidden FROM pragma_table_xinfo({_text(table.name)})"
            )
            if hidden != 1
        ]

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a small answer."""
        with self.explained():
            return list(self._connection.execute(query).fetchall())

    def stream(self, query: str, selected: Sequence[Selected]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Starts a query with a large answer."""
        dtypes = [pa.int64() if one.dtype == pa.bool_() else one.dtype for one in selected]
        schema = pa.schema([pa.field(str(number), dtype) for number, dtype in enumerate(dtypes)])
        with self.explained():
            cursor = self._connection.execute(query)
        return schema, self._batches(cursor, schema)

    def taken_at(self) -> str:
        """Returns when the transaction began."""
        return self._started

    def _batches(self, cursor: sqlite3.Cursor, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wanted = _FIRST_BATCH_ROWS
        while True:
            with self.explained():
                rows = cursor.fetchmany(wanted)
            if not rows:
                return
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            yield batch
            # Rows may be large: as many as those of before let expect for a batch.
            wanted = min(max(_BATCH_BYTES * len(rows) // max(batch.nbytes, 1), 1), BATCH_ROWS)

    def _primary_key(self, name: str) -> tuple[str, ...]:
        rows = self.ask(f"SELECT name FROM pragma_table_info({_text(name)}) WHERE pk > 0 ORDER BY pk")
        return tuple(column for (column,) in rows)

    def _foreign_keys(self, name: str, primary: dict[str, tuple[str, ...]]) -> tuple[SourceForeignKey, ...]:
        found: dict[int, list[tuple[str, str, str | None]]] = {}
        for number, other, column, referenced in self.ask(
            f'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list({_text(name)}) ORDER BY id DESC, seq'
        ):
            found.setdefault(number, []).append((other, column, referenced))
        spelled = {one.lower(): one for one in primary}
        keys = []
        for columns in found.values():
            # Names of tables have no case in SQLite.
            other = spelled.get(columns[0][0].lower(), columns[0][0])
            # Without columns, the primary key is meant.
            referenced = [to for *_, to in columns if to is not None] or primary.get(other, ())
            keys.append(
                SourceForeignKey(
                    columns=tuple(column for _, column, _ in columns),
                    schema="",
                    table=other,
                    referenced=tuple(referenced),
                )
            )
        return tuple(keys)


def _text(name: str) -> str:
    return "'{}'".format(name.replace("'", "''"))


def _column(name: str, declared: str) -> SqlColumn:
    column = quoted(name)

    def select(*counts: int) -> Selected:
        integers, reals, texts, blobs, large, others = counts
        found = [one for one in (integers + reals, texts, blobs) if one]
        if len(found) > 1 and blobs:
            return Selected(
                expression=f"CAST({column} AS BLOB)",
                dtype=pa.binary(),
                note="values of several types are kept as bytes",
            )
        if len(found) > 1:
            return Selected(
                expression=f"CAST({column} AS TEXT)", dtype=pa.string(), note="numbers among texts are kept as texts"
            )
        if blobs:
            return Selected(expression=column, dtype=pa.binary())
        if reals:
            note = f"integers among floats, rounded to 64-bit floats: {large:,}" if large else ""
            return Selected(expression=f"CAST({column} AS REAL)", dtype=pa.float64(), note=note)
        if integers:
            is_truth = declared.upper().startswith("BOOL") and not others
            return Selected(expression=column, dtype=pa.bool_() if is_truth else pa.int64())
        return Selected(expression=column, dtype=pa.string())

    is_integer = f"typeof({column}) = 'integer'"
    conditions = (
        *(f"typeof({column}) = '{kind}'" for kind in ("integer", "real", "text", "blob")),
        f"{is_integer} AND {column} NOT BETWEEN -{_EXACT_FLOAT} AND {_EXACT_FLOAT}",
        f"{is_integer} AND {column} NOT IN (0, 1)",
    )
    return SqlColumn(name=name, measures=tuple(f"count(*) FILTER (WHERE {one})" for one in conditions), select=select)
