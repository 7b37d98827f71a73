"""Splits CSV text into blocks of whole records, and handles quoted line ends and broken UTF-8."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# An invalid UTF-8 byte maps to this code point plus the byte, in the last private-use area of Unicode.
# Where these characters stand in a text themselves, each of their bytes is marked too, so that marks can be taken back.
_MARK = 0x10FF00


_MARK_START = b"\xf4\x8f"


_MARKS = re.compile(rb"\xf4\x8f[\xbe\xbf][\x80-\xbf]")


_TO_BE_MARKED = re.compile("[\udc80-\udcff\U0010ff80-\U0010ffff]")


_CHUNK_BYTES = 1 << 20


class MarkedStream(io.RawIOBase):
    """A stream in which every byte that is no UTF-8 is marked.

    Attributes:
        has_marks: whether a byte was marked so far.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        """Reads from a file, which it does not close."""
        super().__init__()
        self.has_marks = False
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready = memoryview(b"")
        self._has_ended = False

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the bytes that come next, fewer at the end."""
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
            pass  # Bytes that are no UTF-8 are lone surrogates here.
        marked, count = _TO_BE_MARKED.subn(_marks_of, text)
        self.has_marks = self.has_marks or count > 0
        return marked.encode()


def restore_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Takes marks back from large_binary columns of text that a `MarkedStream` made."""
    return pa.RecordBatch.from_arrays([_restore(column) for column in batch.columns], names=batch.schema.names)


def restore_text(text: str) -> str:
    """Replaces marks by readable escapes."""
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


_BLOCK_BYTES = 1 << 24  # of text at once; a block of a larger record has as many as that needs


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


_LINE_ENDS = b"\r\n"


_LINE_END = re.compile(rb"[\r\n]")


_QUOTE = b'"'


_MAX_TEXT_AFTER_QUOTE = 40  # bytes that are told


class TooLargeRecordError(ValueError):
    """The record after the last yielded block is larger than allowed."""


class OpenQuoteError(ValueError):
    """The record after the last yielded block has an unclosed quote."""


class TextAfterQuoteError(ValueError):
    """In the record after the last yielded block, text follows a cell's closing quote.

    Attributes:
        before: the record up to that cell.
        cell: the cell, from quote to quote.
        after: the text, up to the next delimiter, quote or line end; a long one is cut.
    """

    def __init__(self, before: bytes, cell: bytes, after: bytes) -> None:
        """Takes what was read; see the attributes."""
        super().__init__(cell + after)
        self.before = before
        self.cell = cell
        self.after = after


def record_blocks(stream: io.RawIOBase, delimiter: str, max_record_bytes: int) -> Iterator[memoryview]:
    """Cuts a CSV file where records end.

    A quote opens at the beginning of a cell only, and stands for itself where it is doubled in
    a quoted cell, as Arrow and Python have it. Only a delimiter or a line end may follow the
    quote that closes a cell, as RFC 4180 says: other text tells of a quote that is missing or
    not doubled, which may have joined records.

    Yields whole records, each with its line end, without the header and a byte order mark. Blank
    lines stay, and there may be nothing else. The three errors above are about what follows the last
    yielded block.
    """
    reader = io.BufferedReader(stream, io.DEFAULT_BUFFER_SIZE)
    size = least = min(max_record_bytes, _BLOCK_BYTES)
    data = reader.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    has_header = has_ended = False
    while not has_ended:
        data += reader.read(size - len(data))
        has_ended = len(data) < size
        if not has_header:
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
    """Finds the position behind the last record that ends; a record begins at 0.

    It is 0 if none ends. Where a cell has text after its closing quote, that cell's position is returned
    too, and only records before it count.
    """
    if _QUOTE not in data:
        return max(map(data.rfind, (b"\r", b"\n"))) + 1, None
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord(_QUOTE))
    openings, closings = quotes[::2], quotes[1::2]
    may_be_beside = np.zeros(256, np.bool_)
    may_be_beside[list(_QUOTE + _LINE_ENDS + delimiter.encode())] = True
    # Every second quote opens if it is at the beginning of a cell, or is the second one of a doubled quote.
    # The others close. What follows the last byte is seen with the next block.
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
    """Returns the position behind the first record."""
    found = (_LINE_END.search(data, start, stop) for start, stop in _unquoted_parts(data, delimiter))
    return next(match.end() for match in found if match)


def _unquoted_parts(data: bytes, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yields start and stop of each part that is not in quotes.

    The last one ends with the data, or where a cell begins whose quote is not closed or has
    text after the one that closes it.
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
    """Returns the position behind the quote that closes a cell, 0 if none does."""
    end = data.find(_QUOTE, opening + 1) + 1
    while end and data[end : end + 1] == _QUOTE:
        end = data.find(_QUOTE, end + 1) + 1
    return end


def _text_after_quote(data: bytes, opening: int, delimiter: str) -> TextAfterQuoteError:
    """Describes a cell with text after its closing quote, in a record that begins at 0."""
    end = _cell_end(data, opening)
    after = re.split(b'["\r\n' + re.escape(delimiter.encode()) + b"]", data[end : end + _MAX_TEXT_AFTER_QUOTE])[0]
    return TextAfterQuoteError(data[:opening], data[opening:end], after)
