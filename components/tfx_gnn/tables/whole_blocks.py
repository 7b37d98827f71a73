"""Reads a table without a schema block by block, with nulls where its values stand for none."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tfx_gnn.tables.amounts import read_amounts
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.keys.table_roles import FoundTable
from tfx_gnn.tables.list_values import without_missing
from tfx_gnn.tables.null_spellings import drop_null_spellings
from tfx_gnn.tables.schema_inference import read_all_columns, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess


def whole_blocks(table: FoundTable, tables_dir: str, access: TableAccess) -> Iterator[dict[str, pa.Array]]:
    """Reads a table block by block, all columns by name, and refuses it if a record is broken."""
    for block in read_all_columns(undeclared_layout("node", table.name, tables_dir, table.filename, access)):
        if block.problems:
            raise ValueError(
                f"`{table.filename}` must have as many cells in each record as its header, as UTF-8; got "
                f"{len(block.problems)} others. Correct them: `tfx-gnn tables infer-schema` counts them by table."
            )
        if block.columns.num_rows:
            yield {
                name: _present(block.columns.column(name), column, f"{table.filename}, column {name!r}")
                for name, column in table.columns.items()
            }


def _present(array: pa.Array, column: ColumnValues, place: str) -> pa.Array:
    """Makes null what stands for no value, and plain numbers of amounts."""
    if column.num_incomplete:
        return without_missing(array, has_one_length=column.has_one_length)
    array = drop_null_spellings(array, column.null_spellings)
    return array if column.amounts is None else read_amounts(array, column.amounts, place)
