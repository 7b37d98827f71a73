"""Streams CSV files, with errors that name the line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from tfx_gnn.tables import row_rules
from tfx_gnn.tables.data_files import open_table_bytes
from tfx_gnn.tables.row_rules import show_value
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, RawBlock, TableFormat, too_large_record
from tfx_gnn.tables.table_layout import CellProblem, TableLayout

_QUOTE = b'"'
_LINE_ENDS = b"\r\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 24  # of text at once; a larger record gets a block of its own size
_CHUNK_BYTES = 1 << 20
_MAX_TEXT_AFTER_QUOTE = 40  # bytes that are shown
_MAX_SHOWN_CELL = 80  # bytes; only both ends of a longer cell are shown
_TEXT_AFTER_QUOTE = "must have a delimiter or a line end after the closing quote of a cell"
_MEND_QUOTES = "Write a quote inside of a quoted cell twice, and close every cell that a quote opens."
_TOO_LARGE = "a larger one, or a quote that is not closed,"
_HEADER_RECORDS = 1
_FIRST_NUMBER = 1  # of a record, as Arrow counts them

# An invalid UTF-8 byte maps to this code point plus the byte, in the last private-use area of Unicode.
# If a text contains these characters itself, each of their bytes is marked too, so that marking can be undone.
_MARK = 0x10FF00
_MARK_START = b"\xf4\x8f"
_MARKS = re.compile(rb"\xf4\x8f[\xbe\xbf][\x80-\xbf]")
_TO_BE_MARKED = re.compile("[\udc80-\udcff\U0010ff80-\U0010ffff]")


class CsvFormat(TableFormat):
    """UTF-8 text with a header line, cells separated by a comma or another character, gzipped or not.

    An empty cell is a missing value; `""`, with its quotes, is the empty text. Quoted
    cells may contain line ends. Blank lines are not records. The unit is a file, and
    positions are line numbers.
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
        with open_table_bytes(path) as file, self._long_cells():
            header = next((record for _, record in self._records(path, file, strict=True)), None)
        if header is None:
            raise ValueError(
                f"`{path}` must start with a header line; got an empty file. Write the column names first."
            )
        if any("\N{REPLACEMENT CHARACTER}" in name for name in header):
            _check_header_encoding(path)
        return header

    def place_of_names(self, path: str) -> str:
        """Describes the place of the header line; see `TableFormat`."""
        return self.place(path, 0, -_HEADER_RECORDS)

    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Reads a file; see `TableFormat`."""
        header = self.column_names(path)
        wanted = list(column_names) or header[:1]  # Arrow takes an empty list for all columns
        next_row = 0
        with open_table_bytes(path) as file:
            stream = MarkedStream(file)
            try:
                for data in record_blocks(stream, self._delimiter, self.layout.max_record_bytes):
                    uneven = _UnevenRecords(len(header), next_row)
                    batch = self._parse(data, header, wanted, uneven)
                    for block in _blocks(restore_batch(batch) if stream.has_marks else batch, uneven, next_row):
                        next_row += block.num_rows_read
                        yield block
            except TooLargeRecordError as error:
                raise self._too_large(path, next_row) from error
            except TextAfterQuoteError as error:
                first_line = self.locate(path, 0, [next_row])[0]
                # A file without declared columns may not be a table at all, but a secret.
                shown = _show_bad_cell(error) if self.layout.columns else "other text"
                place = _place_of_bad_cell(error, first_line)
                raise ValueError(
                    f"`{path}` {_TEXT_AFTER_QUOTE}; got {shown} in {path}, {place}. {_MEND_QUOTES}"
                ) from error
            except OpenQuoteError as error:
                raise ValueError(
                    f"`{path}` must close every quote; got one that is open at the end of the file, in the record that "
                    f"begins in line {self.locate(path, 0, [next_row])[0]}. Close it, or write a quote inside of a "
                    "quoted cell twice."
                ) from error

    def _parse(
        self, records: memoryview, header: Sequence[str], wanted: Sequence[str], uneven: _UnevenRecords
    ) -> pa.RecordBatch:
        # A thread of Arrow may outlive the parsing. Nothing that it holds may be Python's: if Python ends meanwhile,
        # the thread aborts the process. So the text is Arrow's memory, and the stream gets no handler of ours.
        text = pa.allocate_buffer(1 + len(records))
        # A blank line is not a record, and text after it is not taken for a byte order mark.
        memoryview(text).cast("B")[:1] = b"\n"
        memoryview(text).cast("B")[1:] = records
        reading = pa_csv.ReadOptions(block_size=text.size + 1, use_threads=False, column_names=header)
        cells = pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        conversion = pa_csv.ConvertOptions(
            check_utf8=False,  # each cell is checked later, so that an error can name its place
            include_columns=wanted,
            column_types={name: pa.large_binary() for name in wanted},
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        )
        try:
            reader = pa_csv.open_csv(pa.BufferReader(text), reading, cells, conversion)
            return next(iter(reader), pa.RecordBatch.from_pylist([], schema=reader.schema))
        except pa.ArrowInvalid:
            # Not at first: because of a bug in Python 3.10, `read_csv` looks through all objects of the process at each
            # call, which takes 50 ms once TensorFlow is loaded. It parses in this thread alone.
            cells.invalid_row_handler = uneven
            table = pa_csv.read_csv(pa.BufferReader(text), reading, cells, conversion).combine_chunks()
            return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema=table.schema)

    def locate(self, path: str, unit: int, rows: Sequence[int]) -> list[int]:
        """Finds the lines in which records start; see `TableFormat`."""
        del unit
        scan = self._scan
        if rows and (scan is None or scan.path != path or rows[0] < scan.next_row):
            scan = self._scan = _Scan(path, self._records(path, open_table_bytes(path)))
        with self._long_cells():
            return [scan.line_of(int(row)) for row in rows] if scan else []

    def _records(self, path: str, file: io.BufferedReader, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yields the line where each record starts, from 1, and its cells; blank lines are not records.

        With `strict`, as for the header, misplaced quotes are refused.
        """
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        start, size, limit = 1, 0, self.layout.max_record_bytes

        def lines() -> Iterator[str]:
            nonlocal size
            # At most `limit` characters are read, so a line that is too long is never read whole.
            while line := text.readline(limit - size + 1):
                size += len(line)
                if size > limit:
                    raise ValueError(too_large_record(path, self.layout, f"line {start}", _TOO_LARGE))
                # Before Python 3.11, Python's reader refuses zero bytes; Arrow accepts them.
                yield line.replace("\0", "?")

        reader = csv.reader(lines(), delimiter=self._delimiter, strict=strict)
        try:
            for record in reader:
                if record:
                    yield start, record
                start, size = reader.line_num + 1, 0
        except csv.Error as error:
            # The line is not shown: if it has none of the declared columns, it may be a secret.
            raise ValueError(
                f"`{path}` {_TEXT_AFTER_QUOTE}, and close every quote; got a header that does not in {path}, "
                f"line {start}. {_MEND_QUOTES}"
            ) from error

    def _too_large(self, path: str, num_records: int) -> ValueError:
        """Finds the line of the record that was too large."""
        try:
            with open_table_bytes(path) as file, self._long_cells():
                for number, (line, _) in enumerate(self._records(path, file)):
                    if number > num_records:
                        return ValueError(too_large_record(path, self.layout, f"line {line}", _TOO_LARGE))
        except ValueError as error:
            return error
        return ValueError(too_large_record(path, self.layout, "its last line", _TOO_LARGE))

    @contextlib.contextmanager
    def _long_cells(self) -> Iterator[None]:
        """Lets Python's reader accept cells of the same length as Arrow."""
        limit = csv.field_size_limit(self.layout.max_record_bytes)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


class _UnevenRecords:
    """Records whose cell count differs from the header's; Arrow calls this object while it parses."""

    def __init__(self, num_cells: int, start: int) -> None:
        self._num_cells = num_cells
        self._start = start
        self.problems: list[CellProblem] = []

    def __call__(self, record: Any) -> str:
        problem = CellProblem(
            row=self._start + record.number - _FIRST_NUMBER,
            rule=row_rules.CELLS,
            column="",
            requirement=f"have {self._num_cells} cells in every record",
            value=f"{record.actual_columns} cells",
            advice=f"Correct or quote the cells of {show_value(restore_text(record.text))}.",
        )
        self.problems.append(problem)
        return "skip"

    def take(self, stop: int) -> list[CellProblem]:
        """Removes and returns the problems of records before `stop`."""
        taken = [problem for problem in self.problems if problem.row < stop]
        self.problems = self.problems[len(taken) :]
        return taken


def _blocks(batch: pa.RecordBatch, uneven: _UnevenRecords, next_row: int) -> Iterator[RawBlock]:
    """Numbers the records of a batch, which lacks the uneven ones, and cuts it into blocks."""
    for start in range(0, batch.num_rows, MAX_BLOCK_ROWS) or (0,):
        part = batch.slice(start, MAX_BLOCK_ROWS)
        bad_rows = np.array([problem.row for problem in uneven.problems], np.int64)
        rows = _rows_of_good_records(next_row, part.num_rows, bad_rows)
        is_last = start + MAX_BLOCK_ROWS >= batch.num_rows
        problems = tuple(uneven.take(sys.maxsize if is_last else int(rows[-1]) + 1))
        yield RawBlock(columns=part, rows=rows, num_rows_read=part.num_rows + len(problems), problems=problems)
        next_row += part.num_rows + len(problems)


def _rows_of_good_records(start: int, count: int, bad_rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the first `count` numbers, counted from `start`, that are not in `bad_rows`."""
    candidates = np.arange(start, start + count + len(bad_rows), dtype=np.int64)
    return candidates[~np.isin(candidates, bad_rows)][:count]


class _Scan:
    """Reads a file once to find the lines of ascending records."""

    def __init__(self, path: str, records: Iterator[tuple[int, list[str]]]) -> None:
        self.path = path
        self.next_row = -_HEADER_RECORDS
        self._records = records

    def line_of(self, row: int) -> int:
        for line, _ in self._records:
            self.next_row += 1
            if self.next_row > row:
                return line
        raise ValueError(
            f"`row` must be a record of the file; got {row} in {self.path}, which has fewer. Has the file been changed?"
        )


def _place_of_bad_cell(error: TextAfterQuoteError, line: int) -> str:
    """Describes the lines of a cell whose record begins in `line`."""
    line += len(_LINE_END.findall(error.before))
    last_line = line + len(_LINE_END.findall(error.cell))
    return f"line {line}" if line == last_line else f"lines {line} to {last_line}"


def _show_bad_cell(error: TextAfterQuoteError) -> str:
    """Shows both ends of a cell and the text after it, because a missing quote may be far away."""
    cell, half = error.cell, _MAX_SHOWN_CELL // 2
    if len(cell) > _MAX_SHOWN_CELL:
        cell = cell[:half] + b" ... " + cell[-half:]
    # Bytes of a character that was cut are left out.
    return show_value(restore_text((cell + error.after).decode(errors="ignore")))


def _check_header_encoding(path: str) -> None:
    with open_table_bytes(path) as file:
        data = file.readline()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{path}` must be a UTF-8 CSV file; got byte 0x{data[error.start]:02x} in {path}, line 1, which is "
            "not valid UTF-8. Save the table as UTF-8."
        ) from error


class MarkedStream(io.RawIOBase):
    """A stream that replaces every byte that is not valid UTF-8 by a mark.

    Attributes:
        has_marks: whether any byte has been marked so far.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        """Reads from a file; does not close it."""
        super().__init__()
        self.has_marks = False
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready = memoryview(b"")
        self._has_ended = False

    def readable(self) -> bool:
        """Returns True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the next bytes, fewer at the end."""
        while not self._ready and not self._has_ended:
            data = self._file.read(_CHUNK_BYTES)
            self._has_ended = not data
            self._ready = memoryview(self._mark(self._decoder.decode(data, final=self._has_ended)))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _mark(self, text: str) -> bytes:
        try:
            encoded = text.encode()
            if _MARK_START not in encoded:
                return encoded
        except UnicodeEncodeError:
            pass  # Invalid bytes are lone surrogates here.
        marked, count = _TO_BE_MARKED.subn(_marks_of, text)
        self.has_marks = self.has_marks or count > 0
        return marked.encode()


def restore_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Restores the marked bytes in large_binary columns parsed from a `MarkedStream`."""
    return pa.RecordBatch.from_arrays([_restore(column) for column in batch.columns], names=batch.schema.names)


def restore_text(text: str) -> str:
    """Replaces marks with readable escapes."""
    return _restore_bytes(text.encode()).decode(errors="backslashreplace")


def _restore(cells: pa.Array) -> pa.Array:
    is_marked = pc.fill_null(pc.match_substring(cells, _MARK_START), fill_value=False)
    positions = np.flatnonzero(is_marked.to_numpy(zero_copy_only=False))
    if not len(positions):
        return cells
    restored = [_restore_bytes(cell) for cell in cells.take(pa.array(positions)).to_pylist()]
    return pc.replace_with_mask(cells, is_marked, pa.array(restored, cells.type))


def _marks_of(match: re.Match[str]) -> str:
    return "".join(chr(_MARK + byte) for byte in match[0].encode("utf-8", "surrogateescape"))


def _restore_bytes(data: bytes) -> bytes:
    return _MARKS.sub(lambda match: bytes([ord(match[0].decode()) - _MARK]), data)


class TooLargeRecordError(ValueError):
    """The record after the last yielded block is larger than allowed."""


class OpenQuoteError(ValueError):
    """The record after the last yielded block has an unclosed quote."""


class TextAfterQuoteError(ValueError):
    """In the record after the last yielded block, text follows a cell's closing quote.

    Attributes:
        before: the record up to that cell.
        cell: the cell, from quote to quote.
        after: the text, up to the next delimiter, quote or line end; a long text is cut.
    """

    def __init__(self, before: bytes, cell: bytes, after: bytes) -> None:
        """Stores what was read; see the attributes."""
        super().__init__(cell + after)
        self.before = before
        self.cell = cell
        self.after = after


def record_blocks(stream: io.RawIOBase, delimiter: str, max_record_bytes: int) -> Iterator[memoryview]:
    """Cuts a CSV file between records.

    As in Arrow and Python, a quote opens a quoted cell only at the beginning of a cell, and a
    doubled quote in a quoted cell is a literal quote. Only a delimiter or a line end may follow
    the quote that closes a cell (RFC 4180): other text indicates a quote that is missing or not
    doubled, which may have joined records.

    Yields whole records, each with its line end, without the header and a byte order mark. Blank
    lines are kept, and a block may consist of them alone. The three errors above are about the
    record after the last yielded block.
    """
    reader = io.BufferedReader(stream, io.DEFAULT_BUFFER_SIZE)
    size = least = min(max_record_bytes, _BLOCK_BYTES)
    data = reader.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    has_header = has_ended = False
    while not has_ended:
        data += reader.read(size - len(data))
        has_ended = len(data) < size
        if not has_header:  # blank lines may come before the header
            data = data.lstrip(_LINE_ENDS)
        if has_ended:
            data += b"\n"
        end, bad_cell = _last_record_end(data, delimiter)
        if end:
            start = 0 if has_header else _first_record_end(data, delimiter)
            has_header = True
            yield memoryview(data)[start:end]
            data, size = data[end:], least
        if bad_cell is not None:
            raise _text_after_quote(data, bad_cell - end, delimiter)
        if not (end or has_ended) and len(data) == size:
            if size == max_record_bytes:
                raise TooLargeRecordError
            size = min(2 * size, max_record_bytes)
    if data:
        raise OpenQuoteError


def _last_record_end(data: bytes, delimiter: str) -> tuple[int, int | None]:
    """Finds the position after the last complete record; a record begins at 0.

    It is 0 if no record is complete. If a cell has text after its closing quote, that cell's position is
    returned too, and only records before the cell count.
    """
    if _QUOTE not in data:
        return max(map(data.rfind, (b"\r", b"\n"))) + 1, None
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord(_QUOTE))
    openings, closings = quotes[::2], quotes[1::2]
    may_be_beside = np.zeros(256, np.bool_)
    may_be_beside[list(_QUOTE + _LINE_ENDS + delimiter.encode())] = True
    # Fast path: quotes alternately open and close if each opening quote is at the beginning of a cell, or is the
    # second one of a doubled quote. The text after the last byte is checked with the next block.
    if (
        may_be_beside[codes[openings[openings > 0] - 1]].all()
        and may_be_beside[codes[closings[closings + 1 < len(data)] + 1]].all()
    ):
        is_line_end = codes == ord("\n")
        if b"\r" in data:
            is_line_end |= codes == ord("\r")
        line_ends = np.flatnonzero(is_line_end)
        line_ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0]
        return (int(line_ends[-1]) + 1 if len(line_ends) else 0), None
    parts = list(_unquoted_parts(data, delimiter))
    last_stop = parts[-1][1]
    ends = (max(data.rfind(byte, *part) for byte in (b"\r", b"\n")) for part in reversed(parts))
    end = next((end + 1 for end in ends if end >= 0), 0)
    return end, last_stop if last_stop < len(data) and _cell_end(data, last_stop) else None


def _first_record_end(data: bytes, delimiter: str) -> int:
    """Returns the position after the first record."""
    found = (_LINE_END.search(data, start, stop) for start, stop in _unquoted_parts(data, delimiter))
    return next(match.end() for match in found if match)


def _unquoted_parts(data: bytes, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yields start and stop of each part that is not in quotes.

    The last part ends with the data, or where a cell begins that is not closed or has text
    after its closing quote.
    """
    beside_cells = frozenset(_LINE_ENDS + delimiter.encode())
    start = 0
    while True:
        opening = data.find(_QUOTE, start)
        while opening > 0 and data[opening - 1] not in beside_cells:
            opening = data.find(_QUOTE, opening + 1)
        yield start, opening if opening >= 0 else len(data)
        start = _cell_end(data, opening) if opening >= 0 else 0
        if not start or (start < len(data) and data[start] not in beside_cells):
            return


def _cell_end(data: bytes, opening: int) -> int:
    """Returns the position after the quote that closes a cell, or 0 if the cell is not closed."""
    end = data.find(_QUOTE, opening + 1) + 1
    while end and data[end : end + 1] == _QUOTE:
        end = data.find(_QUOTE, end + 1) + 1
    return end


def _text_after_quote(data: bytes, opening: int, delimiter: str) -> TextAfterQuoteError:
    """Describes a cell with text after its closing quote, in a record that begins at 0."""
    end = _cell_end(data, opening)
    after = re.split(b'["\r\n' + re.escape(delimiter.encode()) + b"]", data[end : end + _MAX_TEXT_AFTER_QUOTE])[0]
    return TextAfterQuoteError(data[:opening], data[opening:end], after)
