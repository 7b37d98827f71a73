"""An append-only log in one file: what was appended is on disk before `append` returns, and survives a kill.

An entry is a head of 20 bytes, little-endian, and its content: the length of the content, the CRC-32 of the content,
and the CRC-32 of these two numbers and of a mark. The first entry is the header, which tells the log from other files.
Only the last entry may be unfinished: each is on disk before the next one begins.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator

from tfx_gnn.io.disk_sync import sync_path

_HEAD = struct.Struct("<QIQ")
_NUMBERS = struct.Struct("<QI")
_MARK = b"tfx-gnn overlay"
_NUM_SHOWN = 16
_CHUNK = 2**20


class LogReader:
    """The whole entries that a log has when it is opened; another process may append more meanwhile.

    Attributes:
        path: the file.
        header: content of the first entry; empty if a kill left none.
        num_bytes: size of the whole entries, the header included.
        num_entries: number of whole entries behind the header.
    """

    def __init__(self, path: str) -> None:
        """Opens a log that exists.

        Raises:
            ValueError: if an entry in the middle is damaged.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        size = self._size()
        found = self._entry_at(0, size)
        self.header, self.num_bytes, self.num_entries = found or b"", 0, 0
        if found is None:
            return
        self.num_bytes = self.first = _HEAD.size + len(found)
        while (content := self._entry_at(self.num_bytes, size)) is not None:
            self.num_bytes += _HEAD.size + len(content)
            self.num_entries += 1
        self._check_is_unfinished(self.num_bytes, size)

    def entries(self, start: int | None = None) -> Iterator[bytes]:
        """Yields the contents of all whole entries behind the header, or from a position on, in their order."""
        start = self.first if start is None else start
        while start < self.num_bytes:
            content = self._entry_at(start, self.num_bytes)
            assert content is not None  # All were whole when the log was opened, or were appended since.
            yield content
            start += _HEAD.size + len(content)

    def digest(self, num_bytes: int) -> str:
        """Returns the SHA-256 of the first bytes of the file, as hexadecimal digits."""
        found = hashlib.sha256()
        for start in range(0, num_bytes, _CHUNK):
            found.update(os.pread(self._descriptor, min(_CHUNK, num_bytes - start), start))
        return found.hexdigest()

    def write_rest(self, path: str, header: bytes, start: int) -> None:
        """Writes another log, which must not exist, with another header and the entries from a position on."""
        with open(path, "xb") as file:
            file.write(_to_entry(header))
            file.writelines(_to_entry(content) for content in self.entries(start))
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _entry_at(self, start: int, size: int) -> bytes | None:
        """Returns the content of an entry; None if there is no whole one in so many bytes of the file."""
        head = os.pread(self._descriptor, _HEAD.size, start)
        if len(head) < _HEAD.size:
            return None
        length, checksum, check = _HEAD.unpack(head)
        start += _HEAD.size
        if check != _check(length, checksum) or start + length > size:
            return None
        content = os.pread(self._descriptor, length, start)
        return content if zlib.crc32(content) == checksum else None

    def _check_is_unfinished(self, start: int, size: int) -> None:
        """Refuses damage: what follows the whole entries must be what a kill or a power failure left of one."""
        head = os.pread(self._descriptor, _HEAD.size, start)
        if len(head) < _HEAD.size:
            return
        length, checksum, check = _HEAD.unpack(head)
        is_last = check == _check(length, checksum) and start + _HEAD.size + length >= size
        # A file may have grown before its bytes were written.
        if not is_last and any(os.pread(self._descriptor, max(size - start, 0), start)):
            raise ValueError(
                f"`path` must hold whole entries but for the last one; got {self.path!r}, with damage at byte {start} "
                f"of {size}. Restore a copy of the file: entries after that place may be lost."
            )


class OverlayLog(LogReader):
    """A log that is open for appending, by one process.

    Attributes:
        num_cut: bytes of an unfinished entry that were cut off when the log was opened.
    """

    def __init__(self, path: str, header: bytes) -> None:
        """Opens or creates a log, and cuts off an entry that a kill or a power failure left unfinished.

        Args:
            path: the file.
            header: the first entry of a new log. A log that exists may have another one.

        Raises:
            ValueError: if the file exists and is no log, or an entry in the middle is damaged. It stays as it is.
        """
        self.path = path
        is_new = not os.path.exists(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if is_new:
                sync_path(os.path.dirname(os.path.abspath(path)))
            self._open(header)
        except BaseException:
            self.close()
            raise

    def _open(self, header: bytes) -> None:
        self._read()
        self.num_cut = self._size() - self.num_bytes
        if not self.num_bytes:
            self._check_is_unfinished_header(_to_entry(header))
            os.ftruncate(self._descriptor, 0)
            self.append(header)
            self.header, self.first, self.num_entries = header, self.num_bytes, 0
        elif self.num_cut:
            os.ftruncate(self._descriptor, self.num_bytes)
            os.fsync(self._descriptor)

    def append(self, content: bytes) -> None:
        """Appends an entry; once this returns, it is on disk.

        Raises:
            OSError: if it could not be written, or the file was removed or replaced, so that nobody would read it
                again; the log is then as before.
        """
        if not os.path.samestat(os.stat(self.path), os.fstat(self._descriptor)):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self.path)
        entry = _to_entry(content)
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
        self.num_entries += 1

    def _check_is_unfinished_header(self, entry: bytes) -> None:
        """Refuses a file that is not what a kill or a power failure left of a new log."""
        size = self._size()
        begin = os.pread(self._descriptor, len(entry), 0)
        # A file may have grown before its bytes were written.
        if size > len(entry) or not entry.startswith(begin.rstrip(b"\0")):
            raise ValueError(
                f"`path` must be an overlay of a graph index, which begins with its header; got {self.path!r}, whose "
                f"{size} bytes begin with {begin[:_NUM_SHOWN]!r}. Name another file, or one that does not exist yet; "
                "if this was an overlay, restore a copy of it."
            )


def _to_entry(content: bytes) -> bytes:
    checksum = zlib.crc32(content)
    return _HEAD.pack(len(content), checksum, _check(len(content), checksum)) + content


def _check(length: int, checksum: int) -> int:
    return zlib.crc32(_MARK + _NUMBERS.pack(length, checksum))
