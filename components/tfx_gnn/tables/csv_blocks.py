"""CSV text cut into blocks of whole records, with line ends in quotes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np

_BLOCK_BYTES = 1 << 24  # of text at once; a block of a larger record has as many as that needs
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"
_LINE_END = re.compile(rb"[\r\n]")
_QUOTE = b'"'


class TooLargeRecordError(ValueError):
    """A record is larger than allowed: the one behind the blocks so far."""


class OpenQuoteError(ValueError):
    """A quote is open at the end: in the record behind the blocks so far."""


def record_blocks(stream: io.RawIOBase, delimiter: str, max_record_bytes: int) -> Iterator[memoryview]:
    """Cuts a CSV file where records end.

    A quote opens at the beginning of a cell only, and stands for itself where it is doubled in
    a quoted cell, as Arrow and Python have it.

    Args:
        stream: the file from its beginning, with a header.
        delimiter: one ASCII character.
        max_record_bytes: most that a record may have with its line end.

    Yields:
        Whole records, each with its line end, without the header and a byte order mark. Blank
        lines stay, and there may be nothing else.

    Raises:
        TooLargeRecordError: if a record is larger.
        OpenQuoteError: if a quote is not closed.
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
        end = _last_record_end(data, delimiter)
        if end:
            start = 0 if has_header else _first_record_end(data, delimiter)
            has_header = True
            yield memoryview(data)[start:end]
            data, size = data[end:], least
        elif not has_ended and len(data) == size:
            if size == max_record_bytes:
                raise TooLargeRecordError
            size = min(2 * size, max_record_bytes)
    if data:
        raise OpenQuoteError


def _last_record_end(data: bytes, delimiter: str) -> int:
    """Returns the position behind the last record that ends, 0 if none does; a record begins at 0."""
    if _QUOTE not in data:
        return max(map(data.rfind, (b"\r", b"\n"))) + 1
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord(_QUOTE))
    openings = quotes[::2]
    may_be_before = np.zeros(256, np.bool_)
    may_be_before[list(_QUOTE + _LINE_ENDS + delimiter.encode())] = True
    # Every second quote opens if it is at the beginning of a cell, or is the second one of a doubled quote.
    if may_be_before[codes[openings[openings > 0] - 1]].all():
        is_line_end = codes == ord("\n")
        if b"\r" in data:
            is_line_end |= codes == ord("\r")
        line_ends = np.flatnonzero(is_line_end)
        line_ends = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0]
        return int(line_ends[-1]) + 1 if len(line_ends) else 0
    parts = reversed(list(_unquoted_parts(data, delimiter)))
    ends = (max(data.rfind(byte, *part) for byte in (b"\r", b"\n")) for part in parts)
    return next((end + 1 for end in ends if end >= 0), 0)


def _first_record_end(data: bytes, delimiter: str) -> int:
    """Returns the position behind the first record."""
    found = (_LINE_END.search(data, start, stop) for start, stop in _unquoted_parts(data, delimiter))
    return next(match.end() for match in found if match)


def _unquoted_parts(data: bytes, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yields start and stop of each part that is not in quotes, up to a quote that is not closed."""
    before_opening = frozenset(_LINE_ENDS + delimiter.encode())
    start = 0
    while True:
        opening = data.find(_QUOTE, start)
        while opening > 0 and data[opening - 1] not in before_opening:
            opening = data.find(_QUOTE, opening + 1)
        yield start, opening if opening >= 0 else len(data)
        start = data.find(_QUOTE, opening + 1) + 1
        while start and data[start : start + 1] == _QUOTE:
            start = data.find(_QUOTE, start + 1) + 1
        if opening < 0 or not start:
            return
