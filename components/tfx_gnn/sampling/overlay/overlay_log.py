"""An append-only log in one file: what was appended is on disk before `append` returns, and survives a kill.

An entry is a head of 20 bytes, little-endian, and its content: the length of the content, the CRC-32 of the content,
and the CRC-32 of these two numbers and of a mark. Only the last entry may be unfinished: each is on disk before the
next one begins.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator

from tfx_gnn.io.disk_sync import sync_path

_HEAD = struct.Struct("<QIQ")
_NUMBERS = struct.Struct("<QI")
_MARK = b"tfx-gnn overlay"


class OverlayLog:
    """A log that is open for appending, by one process.

    Attributes:
        path: the file.
        num_bytes: size of the whole entries.
        num_cut: bytes of an unfinished entry that were cut off when the log was opened.
    """

    def __init__(self, path: str) -> None:
        """Opens or creates a log, and cuts off an entry that a kill or a power failure left unfinished.

        Raises:
            ValueError: if an entry in the middle is damaged.
        """
        self.path = path
        is_new = not os.path.exists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if is_new:
            sync_path(os.path.dirname(os.path.abspath(path)))
        self.num_bytes = sum(_HEAD.size + len(content) for content in self.entries())
        self.num_cut = os.fstat(self._descriptor).st_size - self.num_bytes
        if self.num_cut:
            os.ftruncate(self._descriptor, self.num_bytes)
            os.fsync(self._descriptor)

    def entries(self) -> Iterator[bytes]:
        """Yields the contents of all whole entries, in the order in which they were appended."""
        size, start = os.fstat(self._descriptor).st_size, 0
        while start < size:
            head = os.pread(self._descriptor, _HEAD.size, start)
            if len(head) < _HEAD.size:
                return
            length, checksum, check = _HEAD.unpack(head)
            if check != _check(length, checksum):
                # A file may have grown before its bytes were written.
                if not any(os.pread(self._descriptor, size - start, start)):
                    return
                raise self._damaged(start)
            start += _HEAD.size + length
            if start > size:
                return
            content = os.pread(self._descriptor, length, start - length)
            if zlib.crc32(content) != checksum:
                if start == size:
                    return
                raise self._damaged(start - length - _HEAD.size)
            yield content

    def append(self, content: bytes) -> None:
        """Appends an entry; once this returns, it is on disk.

        Raises:
            OSError: if it could not be written; the log is then as before.
        """
        checksum = zlib.crc32(content)
        entry = _HEAD.pack(len(content), checksum, _check(len(content), checksum)) + content
        try:
            written = 0
            while written < len(entry):
                written += os.pwrite(self._descriptor, entry[written:], self.num_bytes + written)
            os.fsync(self._descriptor)
        except BaseException as error:
            # The next entry may be shorter, and would leave the end of this one behind it.
            os.ftruncate(self._descriptor, self.num_bytes)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, self.path) from error
            raise
        self.num_bytes += len(entry)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _damaged(self, start: int) -> ValueError:
        return ValueError(
            f"`{self.path}` must hold whole entries but for the last one; got damage at byte {start} of "
            f"{os.fstat(self._descriptor).st_size}. Restore a copy of the file: entries after that place may be lost."
        )


def _check(length: int, checksum: int) -> int:
    return zlib.crc32(_MARK + _NUMBERS.pack(length, checksum))
