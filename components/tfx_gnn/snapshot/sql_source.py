"""A source that is asked in SQL."""

from __future__ import annotations

import abc
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tfx_gnn.snapshot.source import Source, SourceForeignKey, SourceTable, TableReading
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected, SqlColumn, as_type, quoted

BATCH_ROWS = 8_192
"""Rows that are asked for at a time, where a driver lets one choose."""


class SqlSource(Source):
    """Reads a table by two queries: one that counts and measures, and one that selects all rows by the primary key."""

    is_ordered = True
    """Whether rows are selected in the order of the primary key, so that equal rows give equal files."""
    _ADVICE: tuple[tuple[str, str], ...] = ()
    """What to do about an error, by a pattern in its message."""

    def __init__(self, address: SourceAddress, errors: tuple[type[Exception], ...]) -> None:
        """Notes where the source is, and which errors its driver raises."""
        self.address = address.shown
        self._address = address
        self._errors = errors
        self._connection: Any = None
        self._opened = contextlib.ExitStack()

    @abc.abstractmethod
    def connect(self) -> Any:
        """Makes a connection of the driver."""

    @abc.abstractmethod
    def begin(self) -> None:
        """Begins, on the connection, the reading of all tables as of one moment."""

    def open(self) -> None:
        """Connects, and begins to read; see `Source`."""
        with self.explained():
            self._connection = self.closed_at_end(self.connect())
        self.begin()

    def close(self) -> None:
        """Closes what is open, the last first."""
        self._opened.close()

    def closed_at_end(self, opened: Any) -> Any:
        """Returns something that is open, which will be closed with the source."""

        def close() -> None:
            # A server that has gone away has closed it already.
            with contextlib.suppress(*self._errors):
                opened.close()

        self._opened.callback(close)
        return opened

    @abc.abstractmethod
    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns of a table, in their order."""

    @abc.abstractmethod
    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a small answer."""

    @abc.abstractmethod
    def stream(self, query: str, selected: Sequence[Selected]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Starts a query with a large answer."""

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turns errors of the driver into those of this library, without passwords."""
        try:
            yield
        except self._errors as error:
            message = self._address.hide_secrets(str(error)).partition(" Query was:")[0].rstrip(".")
            advice = next((advice for pattern, advice in self._ADVICE if re.search(pattern, message)), "Correct it.")
        else:
            return
        # The driver's own error is no cause of this one: a traceback would show what it holds.
        raise ValueError(f"`source` must be a source that can be read; got {message} from {self.address}. {advice}")

    def explained_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a large answer, with errors as `explained` turns them."""
        with self.explained():
            yield from batches

    def quoted(self, name: str) -> str:
        """Quotes a name."""
        return quoted(name)

    def place_in_sql(self, table: SourceTable) -> str:
        """Names a table in SQL."""
        return f"{quoted(table.schema)}.{quoted(table.name)}" if table.schema else quoted(table.name)

    def read_table(self, table: SourceTable) -> TableReading:
        """Starts to read a table; see `Source`."""
        columns = self.list_columns(table)
        if not columns:
            raise ValueError(
                f"`source` must have columns in each table; got none in {table.place}. Leave it out by `exclude`."
            )
        place = self.place_in_sql(table)
        measures = [one for column in columns for one in column.measures]
        ((num_rows, *measured),) = self.ask(f"SELECT {', '.join(['count(*)', *measures])} FROM {place}")
        values = iter(measured)
        selected = [column.select(*(next(values) for _ in column.measures)) for column in columns]
        chosen = list(zip(columns, selected, strict=True))
        named = ", ".join(f"{one.expression} AS {self.quoted(column.name)}" for column, one in chosen)
        keys = table.primary_key if self.is_ordered else ()
        order = f" ORDER BY {', '.join(map(self.quoted, keys))}" if keys else ""
        query = f"SELECT {named} FROM {place}{order}"
        found, batches = self.stream(query, selected)
        schema = pa.schema(
            [pa.field(column.name, one.dtype or given.type) for (column, one), given in zip(chosen, found, strict=True)]
        )
        notes = tuple(f"{table.place}.{column.name}: {one.note}" for column, one in chosen if one.note)
        return TableReading(
            query=query, schema=schema, batches=_typed(batches, schema), num_rows=int(num_rows), notes=notes
        )


def tables_with_keys(
    tables: Iterable[tuple[str, str, bool, bool]], keys: Iterable[tuple[str, str, bool, Any, str, str, Any]]
) -> tuple[SourceTable, ...]:
    """Gives each table the keys that a catalog lists.

    Args:
        tables: schema, name, whether it is a view, and whether it may be read.
        keys: schema and name of the table, whether it is its primary key, and the columns; of a foreign key then schema
            and name of the other table, and its columns.
    """
    primary: dict[tuple[str, str], tuple[str, ...]] = {}
    foreign: dict[tuple[str, str], list[SourceForeignKey]] = {}
    for schema, name, is_primary, columns, other_schema, other, referenced in keys:
        if is_primary:
            primary[schema, name] = tuple(columns)
            continue
        foreign.setdefault((schema, name), []).append(
            SourceForeignKey(columns=tuple(columns), schema=other_schema, table=other, referenced=tuple(referenced))
        )
    return tuple(
        SourceTable(
            schema=schema,
            name=name,
            primary_key=primary.get((schema, name), ()),
            foreign_keys=tuple(foreign.get((schema, name), ())),
            is_view=is_view,
            is_readable=is_readable,
        )
        for schema, name, is_view, is_readable in tables
    )


def _typed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [as_type(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
