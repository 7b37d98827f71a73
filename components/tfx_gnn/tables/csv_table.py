"""CSV files, read as a stream, with problems that name the line."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from tfx_gnn.tables import row_rules
from tfx_gnn.tables.marked_stream import MarkedStream, restore_batch, restore_text
from tfx_gnn.tables.row_rules import show_value
from tfx_gnn.tables.table_bytes import open_table_bytes
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, RawBlock, TableFormat
from tfx_gnn.tables.table_layout import CellProblem, TableLayout

_BLOCK_BYTES = 1 << 24  # Arrow refuses a record that does not fit into one block
_PROBE = "end of table"
_HEADER_RECORDS = 1
_FIRST_NUMBER = 2  # Arrow counts records from 1, and the header is one


class CsvFormat(TableFormat):
    """UTF-8 text with a header line, cells parted by a comma or another character, gzipped or not.

    A cell without any character is a missing value; `""` with its quotes is the empty
    text. Cells in quotes may hold line ends. Blank lines are no records. A unit is a
    file, and places are lines.
    """

    row_word: ClassVar[str] = "line"
    missing_value: ClassVar[str] = "an empty cell"

    def __init__(self, layout: TableLayout) -> None:
        """Takes the delimiter; see `TableFormat`."""
        super().__init__(layout)
        self._delimiter = layout.delimiter
        self._scan: _Scan | None = None

    def column_names(self, path: str) -> Sequence[str]:
        """Reads the header line; see `TableFormat`."""
        with open_table_bytes(path) as file, _long_cells():
            header = next((record for _, record in _records(file, self._delimiter)), None)
        if header is None:
            raise ValueError(
                f"`{path}` must start with a header line; got an empty file. Write the column names first."
            )
        if any("\N{REPLACEMENT CHARACTER}" in name for name in header):
            _check_header_encoding(path)
        return header

    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Reads a file; see `TableFormat`."""
        header = self.column_names(path)
        wanted = list(column_names) or header[:1]  # Arrow takes no names for all names
        uneven = _UnevenRecords(len(header))
        last: pa.RecordBatch | None = None
        next_row = 0
        # Arrow takes a quote that is never closed for one long last cell, and the records in it for text. So
        # a record is put behind the last one; where it is not found, a quote is open.
        probe = f"\n{self._delimiter.join([_PROBE] * len(header))}\n".encode()
        with open_table_bytes(path) as file:
            stream = MarkedStream(file, probe)
            try:
                reader = pa_csv.open_csv(
                    io.BufferedReader(stream, _BLOCK_BYTES),
                    read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                    parse_options=pa_csv.ParseOptions(
                        delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=uneven
                    ),
                    convert_options=pa_csv.ConvertOptions(
                        check_utf8=False,  # each cell is checked later, so that a problem can be placed
                        include_columns=wanted,
                        column_types={name: pa.large_binary() for name in wanted},
                        strings_can_be_null=True,
                        null_values=[""],
                        quoted_strings_can_be_null=False,
                    ),
                )
                for batch in reader:
                    if batch.num_rows:
                        if stream.has_marks:
                            batch = restore_batch(batch)
                        for block in _blocks(last, uneven, next_row):
                            next_row += block.num_rows_read
                            yield block
                        last = batch
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"`{path}` must be a CSV file with records of at most {_BLOCK_BYTES >> 20} MiB; got {error} after "
                    f"{self.place(path, unit, max(next_row - 1, 0))}. Is a quote open there?"
                ) from error
        last = self._without_probe(path, last, uneven, next_row)
        yield from _blocks(last, uneven, next_row, is_last=True)

    def locate(self, path: str, unit: int, rows: Sequence[int]) -> list[int]:
        """Finds the lines in which records start; see `TableFormat`."""
        del unit
        scan = self._scan
        if rows and (scan is None or scan.path != path or rows[0] < scan.next_row):
            scan = self._scan = _Scan(path, self._delimiter)
        with _long_cells():
            return [scan.line_of(int(row)) for row in rows] if scan else []

    def _without_probe(
        self, path: str, last: pa.RecordBatch | None, uneven: _UnevenRecords, next_row: int
    ) -> pa.RecordBatch | None:
        """Removes the record that was put behind the last one, which is not there if a quote is open."""
        if last is not None and all(column[-1].as_py() == _PROBE.encode() for column in last.columns):
            return last.slice(0, last.num_rows - 1)
        num_records = next_row + (0 if last is None else last.num_rows) + len(uneven.problems)
        raise ValueError(
            f"`{path}` must close every quote; got one that is open at the end of the file, in the record that begins "
            f"in line {self.locate(path, 0, [num_records - 1])[0]}. Close it, or write a quote inside of a quoted "
            "cell twice."
        )


class _UnevenRecords:
    """Records that have not as many cells as the header; Arrow calls this while it parses."""

    def __init__(self, num_cells: int) -> None:
        self._num_cells = num_cells
        self.problems: list[CellProblem] = []

    def __call__(self, record: Any) -> str:
        problem = CellProblem(
            row=record.number - _FIRST_NUMBER,
            rule=row_rules.CELLS,
            column="",
            requirement=f"have {self._num_cells} cells in every record",
            value=f"{record.actual_columns} cells",
            advice=f"Correct or quote the cells of {show_value(restore_text(record.text))}.",
        )
        self.problems.append(problem)
        return "skip"

    def take(self, stop: int) -> list[CellProblem]:
        """Hands over those of records before `stop`."""
        taken = [problem for problem in self.problems if problem.row < stop]
        self.problems = self.problems[len(taken) :]
        return taken


def _blocks(
    batch: pa.RecordBatch | None, uneven: _UnevenRecords, next_row: int, *, is_last: bool = False
) -> Iterator[RawBlock]:
    """Numbers the records of a batch, of which the uneven ones are missing, and cuts it."""
    if batch is None:
        return
    for start in range(0, batch.num_rows, MAX_BLOCK_ROWS) or (0,):
        part = batch.slice(start, MAX_BLOCK_ROWS)
        bad_rows = np.array([problem.row for problem in uneven.problems], np.int64)
        rows = _rows_of_good_records(next_row, part.num_rows, bad_rows)
        stop = int(rows[-1]) + 1 if len(rows) else next_row
        if is_last and start + MAX_BLOCK_ROWS >= batch.num_rows:
            stop += sys.maxsize // 2
        problems = tuple(uneven.take(stop))
        yield RawBlock(columns=part, rows=rows, num_rows_read=part.num_rows + len(problems), problems=problems)
        next_row += part.num_rows + len(problems)


def _rows_of_good_records(start: int, count: int, bad_rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the first `count` numbers from `start` on that are not in `bad_rows`."""
    candidates = np.arange(start, start + count + len(bad_rows), dtype=np.int64)
    return candidates[~np.isin(candidates, bad_rows)][:count]


class _Scan:
    """Goes through a file once to find lines of ascending records."""

    def __init__(self, path: str, delimiter: str) -> None:
        self.path = path
        self.next_row = -_HEADER_RECORDS
        self._records = _records(open_table_bytes(path), delimiter)

    def line_of(self, row: int) -> int:
        for line, _ in self._records:
            self.next_row += 1
            if self.next_row > row:
                return line
        raise ValueError(
            f"`row` must be a record of the file; got {row} in {self.path}, which has fewer. Has the file been changed?"
        )


def _records(file: io.BufferedReader, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the line where each record starts, from 1, and its cells; blank lines are no records."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
    # Python's reader refuses what Arrow takes: before Python 3.11 zero bytes.
    reader = csv.reader((line.replace("\0", "?") for line in text), delimiter=delimiter)
    start = 1
    for record in reader:
        if record:
            yield start, record
        start = reader.line_num + 1


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    """Lets Python's reader take cells as long as Arrow does."""
    limit = csv.field_size_limit(_BLOCK_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _check_header_encoding(path: str) -> None:
    with open_table_bytes(path) as file:
        data = file.readline()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{path}` must be a UTF-8 CSV file; got byte 0x{data[error.start]:02x} in {path}, line 1, which is "
            "no UTF-8. Save the table as UTF-8."
        ) from error
