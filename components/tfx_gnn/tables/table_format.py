"""The interface of a table format, and the registry of formats."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.tables.row_rules import show_value
from tfx_gnn.tables.table_layout import CellProblem, TableColumn, TableLayout

MAX_BLOCK_ROWS = 65_536
"""Maximum number of rows in a block."""

_MAX_SHOWN_COLUMNS = 50

_FORMATS = {
    "csv": "tfx_gnn.tables.csv_table:CsvFormat",
    "parquet": "tfx_gnn.tables.parquet_table:ParquetFormat",
    "tfrecord": "tfx_gnn.tables.tfrecord_table:TFRecordFormat",
    "bigquery": "tfx_gnn.tables.bigquery_table:BigQueryFormat",
}

FORMAT_NAMES = tuple(_FORMATS)
"""Formats that `metadata.extra` may name under the key "format"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawBlock:
    """Some rows of one unit as the format stores them, before conversion to declared types.

    Attributes:
        columns: the requested columns under their names in the file. Text may be of a
            string or a binary type; conversion checks that it is UTF-8. Null is a missing value.
        rows: int64 array, shape [columns.num_rows]: positions in the unit, ascending,
            from 0. Records that are only in `problems` count too.
        num_rows_read: records of this block: those in `columns` and those in `problems`.
        problems: records that could not be parsed; their rows are positions in the unit,
            not in `rows`.
    """

    columns: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    num_rows_read: int
    problems: tuple[CellProblem, ...] = ()


class TableFormat(abc.ABC):
    """Reads tables of one format. To add a format, register its class in `_FORMATS` of this module.

    A *unit* is the part of a table that one worker reads alone: a row group of a Parquet
    file, or a whole file if the format can only be read from the beginning.
    """

    row_word: ClassVar[str] = "row"
    """Unit of the numbers that `locate` returns: "row" or "record" from 0, or "line" from 1."""

    missing_value: ClassVar[str] = "no value"
    """How messages show a missing value."""

    def __init__(self, layout: TableLayout) -> None:
        """Prepares to read a table of this format."""
        self.layout = layout

    def list_units(self, path: str) -> tuple[int, ...]:
        """Numbers the units of a file in the order of their rows; by default the file is one unit, 0."""
        del path
        return (0,)

    @abc.abstractmethod
    def column_names(self, path: str) -> Sequence[str]:
        """Lists the columns of a file in file order, including repeated names."""

    def column_types(self, path: str) -> Mapping[str, pa.DataType]:
        """Lists the types that a file declares for columns with one value per row; formats without types list none."""
        del path
        return {}

    @abc.abstractmethod
    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Reads a unit from beginning to end, in blocks of at most `MAX_BLOCK_ROWS` rows.

        If the file is broken so that the following records cannot be separated, the ValueError names the file and
        the place in it. Each of the columns is in the file exactly once.
        """

    def locate(self, path: str, unit: int, rows: Sequence[int]) -> list[int]:
        """Converts ascending rows of a unit to numbers in the whole file, in `row_word`s; by default unchanged."""
        del path, unit
        return [int(row) for row in rows]

    def place(self, path: str, unit: int, row: int) -> str:
        """Describes the place of a row of a unit, as in "/data/nodes.csv, line 12"."""
        return f"{path}, {self.row_word} {self.locate(path, unit, [row])[0]}"

    def place_of_names(self, path: str) -> str:
        """Describes where a file names its columns, as in "/data/nodes.csv, line 1"; by default the file."""
        return path

    def resolve_column(self, path: str, column: TableColumn) -> str:
        """Finds the name in a file of a column that no decoder makes; it must be in the file exactly once."""
        names = list(self.column_names(path))
        for name in (column.name, *column.alternatives):
            if names.count(name) == 1:
                return name
            if name in names:
                break
        count = f"{names.count(column.name)} of that name" if column.name in names else "none"
        declared = {name for known in self.layout.columns.values() for name in (known.name, *known.alternatives)}
        raise ValueError(
            f"`{column.name}` must be one column of the table; got {count} among "
            f"{show_columns(names, declared | set(self.layout.decoders))} in {self.place_of_names(path)}. "
            f"Correct the names in the file, or in the graph schema.{_alike(column.name, names, declared)}"
        )


def _alike(name: str, names: Collection[str], declared: Collection[str]) -> str:
    """Suggests a column that is not declared as another one."""
    advice = did_you_mean(name, set(names) - (set(declared) - {name}), otherwise="")
    return f" {advice}" if advice else ""


def too_large_record(path: str, layout: TableLayout, place: str, cause: str = "a larger one") -> str:
    """Returns the error message for a record that is too large, at a place such as "line 12"."""
    return (
        f"`{path}` must have records of at most {layout.max_record_bytes >> 20} MiB; got {cause} in {path}, {place}. "
        "Split the record, or raise `max_record_mib`."
    )


def show_columns(names: Sequence[str], declared: Collection[str]) -> str:
    """Formats the columns of a file for error messages.

    A file without any of the declared columns may not be a table at all, so its first line
    is not shown: it could be a secret.
    """
    if set(declared).isdisjoint(names):
        return f"{len(names)} column{'s' if len(names) != 1 else ''}, of which none is declared,"
    shown = [show_value(name) for name in names[:_MAX_SHOWN_COLUMNS]]
    more = len(names) - len(shown)
    return f"[{', '.join(shown)}{f', and {more} more' if more else ''}]"


def table_format(layout: TableLayout) -> TableFormat:
    """Makes the reader of a table's format."""
    if layout.format not in _FORMATS:
        raise ValueError(
            f"`format` must be one of {sorted(_FORMATS)}; got {layout.format!r} for {layout.label}. "
            'Correct it in metadata { extra { key: "format" } }.'
        )
    module, _, name = _FORMATS[layout.format].partition(":")
    made: TableFormat = getattr(importlib.import_module(module), name)(layout)
    return made
