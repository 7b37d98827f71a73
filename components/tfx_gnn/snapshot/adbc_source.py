"""A source whose driver speaks ADBC, which gives rows as batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tfx_gnn.snapshot.drivers import import_driver
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected
from tfx_gnn.snapshot.sql_source import SqlSource


class AdbcSource(SqlSource):
    """Asks by one cursor, so that all queries are of one transaction."""

    def __init__(self, address: SourceAddress) -> None:
        """Notes where the source is."""
        super().__init__(address, (import_driver("adbc_driver_manager", "snapshot").Error, pa.ArrowException, OSError))
        self._cursor: Any = None

    def begin(self) -> None:
        """Makes the cursor."""
        with self.explained():
            self._cursor = self.closed_at_end(self._connection.cursor())

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a small answer."""
        with self.explained():
            self._cursor.execute(query)
            return list(self._cursor.fetchall())

    def stream(self, query: str, selected: Sequence[Selected]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Starts a query with a large answer."""
        with self.explained():
            self._cursor.execute(query)
            reader = self._cursor.fetch_record_batch()
        return reader.schema, self.explained_batches(reader)
