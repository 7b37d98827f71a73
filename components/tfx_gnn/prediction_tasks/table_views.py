"""DuckDB's views of the files of tables: ids and features under their names and in their types."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout

KEYS = (ID_FEATURE, SOURCE_KEY, TARGET_KEY)
"""Columns of views that hold ids of nodes: of a node table the first, of an edge table the others."""


def quoted(name: str) -> str:
    """Quotes a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quotes a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def scan_table(layout: TableLayout) -> str:
    """Writes the query that reads a table.

    Its columns are `KEYS` in the type of ids; the declared features; and the other columns of the files, those of CSV
    as texts. Empty cells are nulls.

    Args:
        layout: a table of CSV or Parquet files.

    Raises:
        ValueError: if the table is of another format, or its first file lacks a column.
    """
    if layout.format not in ("csv", "parquet"):
        raise ValueError(
            f"`tables_dir` must hold CSV or Parquet files for prediction tasks; got {layout.format!r} for "
            f"{layout.label}. Convert the table."
        )
    reader, path = table_format(layout), layout.files[0]
    names = list(reader.column_names(path))
    keys = key_names(layout)
    features = {
        key: column
        for key, column in layout.columns.items()
        if key not in keys and not column.packed_in and not key.startswith("#")
    }
    selected = [f"{_cast(quoted(name), layout.columns[key])} AS {quoted(key)}" for key, name in keys.items()]
    selected += list(_features(features, is_csv=layout.format == "csv"))
    declared = {*keys.values(), *(column.name for column in features.values()), *features}
    selected += [quoted(name) for name in names if name not in declared]
    files = f"[{', '.join(map(literal, layout.files))}]"
    if layout.format == "parquet":
        return f"SELECT {', '.join(selected)} FROM read_parquet({files})"
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    options = f"auto_detect = false, header = true, delim = {literal(layout.delimiter)}, quote = '\"', escape = '\"'"
    return f"SELECT {', '.join(selected)} FROM read_csv({files}, columns = {{{columns}}}, {options}, nullstr = '')"


def key_names(layout: TableLayout) -> dict[str, str]:
    """Finds the names that the columns of ids have in the files, by `KEYS`."""
    reader, path = table_format(layout), layout.files[0]
    return {key: reader.resolve_column(path, layout.columns[key]) for key in KEYS if key in layout.columns}


def _features(features: dict[str, TableColumn], *, is_csv: bool) -> Iterator[str]:
    for name, column in features.items():
        source = quoted(column.name)
        if is_csv and not column.shape:
            source = _cast(source, column)
        yield source if source == quoted(name) else f"{source} AS {quoted(name)}"


def _cast(source: str, column: TableColumn) -> str:
    if pa.types.is_boolean(column.dtype):
        return f"CAST({source} AS BOOLEAN)"
    if pa.types.is_integer(column.dtype):
        return f"CAST({source} AS BIGINT)"
    return f"CAST({source} AS {'DOUBLE' if pa.types.is_floating(column.dtype) else 'VARCHAR'})"
