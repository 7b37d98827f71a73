"""Folders of CSV and JSON lines files, read by DuckDB, and of Parquet files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq

from tfx_gnn.snapshot.duckdb_source import DuckdbSource, text_in_sql
from tfx_gnn.snapshot.source import SourceForeignKey, SourceTable, TableReading
from tfx_gnn.snapshot.source_address import SourceAddress
from tfx_gnn.snapshot.sql_columns import Selected, SqlColumn, quoted
from tfx_gnn.snapshot.sql_source import BATCH_ROWS
from tfx_gnn.tables.data_files import resolve_files
from tfx_gnn.tables.keys.declared_keys import DeclaredKeys, read_declared_keys
from tfx_gnn.tables.schema_inference import undeclared_layout
from tfx_gnn.tables.stable_tables import StableTables
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_format import table_format

_FILE = re.compile(r"(?P<name>[^.].*?)(?P<shard>-\d{5}-of-\d{5})?\.(?P<format>csv|tsv|parquet|jsonl|ndjson)(\.gz)?")
_DELIMITERS = {"csv": ",", "tsv": "\t"}
# What is written otherwise, as 007 is, stays text: it would not come back as it was.
_INTEGER = r"-?(0|[1-9]\d{0,17})"
_FLOAT = r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"


class TableFolder(DuckdbSource):
    """A folder whose files are tables, named after them; a table may be in shards.

    Parquet and JSON say what type a value has. In CSV files a column is of integers, floats or truth values if all of
    its cells are, and an empty cell is null.
    """

    _ADVICE = ((r"", "Correct the file, or move it away."),)

    def __init__(self, address: SourceAddress) -> None:
        """Looks for the files."""
        super().__init__(address)
        self._files = _find_files(address.text)
        self._stable = StableTables(self._files_of_tables)

    def connect(self) -> Any:
        """Opens an empty database, which will have the files as views."""
        return self._duckdb.connect(":memory:")

    def begin(self) -> None:
        """Begins the transaction, with a view of the files of each table that DuckDB reads."""
        super().begin()
        for name, files in self._files.items():
            if _format(files[0]) != "parquet":
                self.ask(f"CREATE VIEW {quoted(name)} AS SELECT * FROM {self._reader(name, files)}")

    def list_tables(self) -> tuple[SourceTable, ...]:
        """Lists the tables, with the keys that Parquet files keep of an earlier snapshot."""
        declared = {
            name: read_declared_keys(files[0]) if _format(files[0]) == "parquet" else DeclaredKeys()
            for name, files in self._files.items()
        }
        return tuple(
            SourceTable(
                schema="",
                name=name,
                primary_key=keys.primary_key,
                foreign_keys=tuple(
                    SourceForeignKey(
                        columns=one.columns,
                        schema="",
                        table=one.table,
                        referenced=declared[one.table].primary_key if one.table in declared else (),
                    )
                    for one in keys.foreign_keys
                ),
                time_column=keys.time_column,
            )
            for name, keys in declared.items()
        )

    def list_columns(self, table: SourceTable) -> Sequence[SqlColumn]:
        """Lists the columns; see `SqlSource`."""
        if _format(self._files[table.name][0]) not in _DELIMITERS:
            return super().list_columns(table)
        return [_cells(name) for name, _ in self.describe(table)]

    def read_table(self, table: SourceTable) -> TableReading:
        """Starts to read a table; Parquet files are copied, since DuckDB does not know all of their types."""
        files = self._files[table.name]
        if _format(files[0]) != "parquet":
            return super().read_table(table)
        with self.explained():
            opened = [pq.ParquetFile(file) for file in files]
        schema = opened[0].schema_arrow.remove_metadata()
        for path, file in zip(files, opened, strict=True):
            if not file.schema_arrow.equals(schema):
                raise ValueError(
                    f"`source` must have one schema in all shards of a table; got another in {path!r} than in "
                    f"{files[0]!r}. Write the shards again."
                )
        return TableReading(
            query=", ".join(map(os.path.basename, files)),
            schema=schema,
            batches=self.explained_batches(batch for file in opened for batch in file.iter_batches(BATCH_ROWS)),
            num_rows=sum(file.metadata.num_rows for file in opened),
        )

    def place_in_sql(self, table: SourceTable) -> str:
        """Names a table in SQL."""
        return quoted(table.name)

    def check_unchanged(self) -> None:
        """Raises a ValueError if a file has changed, is gone, or was added."""
        self._stable.check()

    def _reader(self, name: str, files: Sequence[str]) -> str:
        """Returns the function of DuckDB that reads the files of a table."""
        kind, listed = _format(files[0]), f"[{', '.join(map(text_in_sql, files))}]"
        if kind not in _DELIMITERS:
            return f"read_json({listed}, format = 'newline_delimited', sample_size = -1)"
        filename = ",".join(map(os.path.basename, files))
        layout = undeclared_layout("node", name, self._address.text, filename, TableAccess(allow_outside_files=True))
        # SQL has no column without a name: pandas, which writes such, reads it by this one.
        names = [one or f"Unnamed: {at}" for at, one in enumerate(table_format(layout).column_names(files[0]))]
        columns = ", ".join(f"{text_in_sql(one)}: 'VARCHAR'" for one in names)
        # Nothing is guessed: a file that does not begin as others do would lose lines.
        return (
            f"read_csv({listed}, auto_detect = false, header = true, delim = '{_DELIMITERS[kind]}', quote = '\"', "
            f"escape = '\"', columns = {{{columns}}})"
        )

    def _files_of_tables(self) -> list[str]:
        return [file for files in _find_files(self._address.text).values() for file in files]


def _find_files(folder: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    entries = sorted(os.listdir(folder))
    for entry in entries:
        match = _FILE.fullmatch(entry)
        if match is None or os.path.isdir(os.path.join(folder, entry)):
            continue
        name = match["name"]
        pattern = re.sub(r"-\d{5}-of-", "-?????-of-", entry, count=1) if match["shard"] else entry
        files = resolve_files(os.path.join(folder, pattern))
        if found.setdefault(name, files) != files:
            raise ValueError(
                f"`source` must hold tables of different names; got {os.path.basename(found[name][0])!r} and {entry!r} "
                f"in {folder!r}. Rename one, or move it away."
            )
    if not found:
        raise ValueError(
            "`source` must hold tables as .csv, .tsv, .parquet, .jsonl or .ndjson files; got "
            f"{entries[:10]} in {folder!r}. Name the folder that holds them."
        )
    return found


def _format(path: str) -> str:
    match = _FILE.fullmatch(os.path.basename(path))
    assert match is not None, path
    return match["format"]


def _cells(name: str) -> SqlColumn:
    column = quoted(name)

    def select(filled: int, integers: int, floats: int, truths: int) -> Selected:
        kinds = (("BIGINT", integers), ("DOUBLE", floats), ("BOOLEAN", truths))
        dtype = next((dtype for dtype, number in kinds if number == filled > 0), "")
        return Selected(expression=f"CAST({column} AS {dtype})" if dtype else column)

    patterns = (_INTEGER, _FLOAT, "(?i)true|false")
    counts = tuple(
        f"count(*) FILTER (WHERE regexp_full_match({column}, {text_in_sql(pattern)}))" for pattern in patterns
    )
    return SqlColumn(name=name, measures=(f"count({column})", *counts), select=select)
