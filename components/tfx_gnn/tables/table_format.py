"""What a file format must offer to be read as a table, and the formats that there are."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.tables.table_layout import CellProblem, TableColumn, TableLayout

MAX_BLOCK_ROWS = 65_536
"""No block that is read has more rows."""

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
    """Some rows of one unit as the format has them, before types are given to them.

    Attributes:
        columns: the requested columns under their names in the file. Text that is not
            yet known to be UTF-8 comes as large_binary. Null is a missing value.
        rows: int64 array, shape [columns.num_rows]: positions in the unit, ascending,
            from 0. Every record counts, also one that is only in `problems`.
        num_rows_read: records that this block accounts for: those in `columns`, and those
            that `problems` names instead.
        problems: records that could not be taken apart; their rows are positions in the
            unit, not in `rows`.
    """

    columns: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    num_rows_read: int
    problems: tuple[CellProblem, ...] = ()


class TableFormat(abc.ABC):
    """How one format is read. To add a format, name its class in this module.

    A *unit* is what one worker reads alone: a whole file of a format that can only be
    read from its beginning, a row group of Parquet.
    """

    row_word: ClassVar[str] = "row"
    """What `locate` counts: "row" or "record" from 0, or "line" from 1."""

    missing_value: ClassVar[str] = "no value"
    """What a missing value is called in messages."""

    def __init__(self, layout: TableLayout) -> None:
        """Takes what the layout says about the format.

        Args:
            layout: a table of this format.
        """
        self.layout = layout

    def list_units(self, path: str) -> tuple[int, ...]:
        """Names the units of a file, in the order of their rows.

        Args:
            path: one of the table's files.

        Returns:
            Numbers that the other methods take; by default the file is one unit, 0.
        """
        del path
        return (0,)

    @abc.abstractmethod
    def column_names(self, path: str) -> Sequence[str]:
        """Lists the columns of a file, as often as they are there.

        Args:
            path: one of the table's files.

        Returns:
            Names in the order of the file.

        Raises:
            ValueError: if the file is not of this format.
        """

    @abc.abstractmethod
    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Reads a unit from beginning to end, in bounded memory.

        Args:
            path: one of the table's files.
            unit: one of its units.
            column_names: columns that it has exactly once.

        Yields:
            Blocks of at most `MAX_BLOCK_ROWS` rows.

        Raises:
            ValueError: if the file as a whole is broken, so that what follows cannot be
                told apart. The message names the file, and the place in it.
        """

    def locate(self, path: str, unit: int, rows: Sequence[int]) -> list[int]:
        """Finds rows of a unit again, so that a person finds them in the file.

        Args:
            path: one of the table's files.
            unit: one of its units.
            rows: positions in the unit, ascending.

        Returns:
            For each row its number in the whole file, in `row_word`s; by default the row itself.
        """
        del path, unit
        return [int(row) for row in rows]

    def place(self, path: str, unit: int, row: int) -> str:
        """Says where a row stands, for error messages.

        Args:
            path: one of the table's files.
            unit: one of its units.
            row: position in the unit.

        Returns:
            Text of the form "/data/nodes.csv, line 12".
        """
        return f"{path}, {self.row_word} {self.locate(path, unit, [row])[0]}"

    def resolve_column(self, path: str, column: TableColumn) -> str:
        """Finds the name under which a column is in a file.

        Args:
            path: one of the table's files.
            column: a column that is not made by a decoder.

        Returns:
            `column.name` or one of its alternatives.

        Raises:
            ValueError: if it is not there, or more than once.
        """
        names = list(self.column_names(path))
        for name in (column.name, *column.alternatives):
            if names.count(name) == 1:
                return name
            if name in names:
                break
        count = f"{names.count(column.name)} of that name" if column.name in names else "none"
        raise ValueError(
            f"`{column.name}` must be one column of the table; got {count} among {names} in {path}. "
            "Correct the names in the file, or in the graph schema."
        )


def table_format(layout: TableLayout) -> TableFormat:
    """Makes the reader of a table's format.

    Args:
        layout: the table.

    Returns:
        An instance of the format's class.

    Raises:
        ValueError: if there is no such format.
    """
    if layout.format not in _FORMATS:
        raise ValueError(
            f"`format` must be one of {sorted(_FORMATS)}; got {layout.format!r} for {layout.label}. "
            'Correct it in metadata { extra { key: "format" } }.'
        )
    module, _, name = _FORMATS[layout.format].partition(":")
    made: TableFormat = getattr(importlib.import_module(module), name)(layout)
    return made
