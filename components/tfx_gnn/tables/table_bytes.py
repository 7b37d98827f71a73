"""Files as byte streams on any file system that TensorFlow reads; gzip is detected by content."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

import tensorflow as tf

from tfx_gnn.io.text_files import check_regular_file

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1 << 20


class TableBytes(io.RawIOBase):
    """A file of TensorFlow's file system as a seekable Python file."""

    def __init__(self, path: str) -> None:
        """Opens a file; refuses a folder, a named pipe and a device."""
        super().__init__()
        if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
            raise ValueError(
                f"`path` must be a file; got {path!r}, which is none. Correct the name or put the file there."
            )
        check_regular_file(path)
        self._file = tf.io.gfile.GFile(path, "rb")
        self._size: int = self._file.size()

    def readable(self) -> bool:
        """A table can be read."""
        return True

    def seekable(self) -> bool:
        """A table can be read from any position."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the bytes that come next, fewer at the end."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position and returns it, counted from the beginning."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._size}[whence]
        self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        """Returns the position."""
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        """Closes the file."""
        # What has been refused was never opened, but is closed all the same.
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()


class _UnzippedBytes(io.RawIOBase):
    """What a gzip file holds, with errors that name it."""

    def __init__(self, path: str, zipped: io.BufferedReader) -> None:
        super().__init__()
        self._path = path
        self._file = gzip.GzipFile(fileobj=zipped)
        self._zipped = zipped

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"`{self._path}` must be a whole gzip file; got {error}. Compress or copy the file again."
            ) from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._zipped.close()
        super().close()


def open_table_bytes(path: str) -> io.BufferedReader:
    """Opens a file to be read from its beginning, unzipped if it is a gzip file.

    Reading raises a ValueError where a gzip file is damaged.
    """
    file: io.BufferedReader = io.BufferedReader(TableBytes(path), _BUFFER_BYTES)
    if not is_gzip(file.peek(len(_GZIP_MAGIC))):
        return file
    return io.BufferedReader(_UnzippedBytes(path, file), _BUFFER_BYTES)


def is_gzip(start: bytes) -> bool:
    """Tells a gzip file by its first bytes, at least two."""
    return start.startswith(_GZIP_MAGIC)
