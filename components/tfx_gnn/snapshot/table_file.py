"""Writes the rows of a table to a Parquet file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tfx_gnn.snapshot.source import TableReading
from tfx_gnn.tables.keys.declared_keys import DeclaredKeys

_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20


def write_table_file(path: str, reading: TableReading, keys: DeclaredKeys) -> int:
    """Writes a table; memory holds a row group, of at most 131,072 rows or 64 MiB and a batch, whatever its size.

    Args:
        path: the file.
        reading: the rows.
        keys: what is kept in the metadata of the file's schema.

    Returns:
        Number of rows.
    """
    schema = reading.schema.with_metadata(keys.to_metadata())
    num_rows = 0
    # The newest form of the format that readers of all releases know, which keeps nanoseconds.
    with pq.ParquetWriter(path, schema, version="2.6") as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in reading.batches:
            num_rows += batch.num_rows
            waiting.append(batch)
            num_bytes = sum(one.nbytes for one in waiting)
            if sum(one.num_rows for one in waiting) >= _GROUP_ROWS or num_bytes >= _GROUP_BYTES:
                rows = _joined(waiting, schema)
                writer.write_table(rows.slice(0, _GROUP_ROWS), row_group_size=_GROUP_ROWS)
                waiting = rows.slice(_GROUP_ROWS).to_batches()
        if waiting:
            writer.write_table(_joined(waiting, schema), row_group_size=_GROUP_ROWS)
    return num_rows


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).replace_schema_metadata(schema.metadata)
