"""Text that may not be UTF-8, made UTF-8 for a parser that stops otherwise, and back."""

from __future__ import annotations

import codecs
import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# A byte that is no UTF-8 becomes the character of this number plus the byte: the last there are, for private use.
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
        """Reads from a file.

        Args:
            file: where the bytes come from; it is not closed.
        """
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
    """Takes marks back.

    Args:
        batch: large_binary columns of text that a `MarkedStream` made.

    Returns:
        The same with the bytes that were marked.
    """
    return pa.RecordBatch.from_arrays([_restore(column) for column in batch.columns], names=batch.schema.names)


def restore_text(text: str) -> str:
    """Takes marks back, for people to read.

    Args:
        text: what a `MarkedStream` made.

    Returns:
        The text with an escape for each byte that was marked.
    """
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
