"""Frames of the records of a TFRecord file, without their data."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator

HEAD_BYTES = 12
"""Bytes before the data of a record: its length, and a checksum of the length."""

FRAME_BYTES = 16
"""Bytes of a record beside its data: head and checksum of the data."""

_READ_BYTES = 1 << 20  # of data that is passed over, where a stream cannot seek


def record_heads(stream: io.BufferedReader) -> Iterator[bytes]:
    """Goes through the records of a file without keeping their data.

    Args:
        stream: the file from its beginning, unzipped.

    Yields:
        The head of each record, up to the end of the file or to where it is damaged,
        which whoever reads the records will tell.
    """
    num_bytes = 0
    if stream.seekable():
        num_bytes = stream.seek(0, io.SEEK_END)
        stream.seek(0)
    position = 0
    try:
        while len(head := stream.read(HEAD_BYTES)) == HEAD_BYTES and is_record_head(head):
            yield head
            rest = int.from_bytes(head[:8], "little") + FRAME_BYTES - HEAD_BYTES
            position += HEAD_BYTES + rest
            if not num_bytes:
                _pass_over(stream, rest)
            elif position <= num_bytes:  # TensorFlow's files raise behind their end
                stream.seek(rest, io.SEEK_CUR)
            else:
                return
    except ValueError:
        return


def _pass_over(stream: io.BufferedReader, num_bytes: int) -> None:
    """Reads up to a number of bytes, fewer where the stream ends."""
    while num_bytes > 0 and (data := stream.read(min(num_bytes, _READ_BYTES))):
        num_bytes -= len(data)


def is_record_head(head: bytes) -> bool:
    """Tells the head of a record, by its checksum.

    Args:
        head: `HEAD_BYTES` bytes.

    Returns:
        Whether the checksum is that of the length.
    """
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in head[:8]:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return int.from_bytes(head[8:12], "little") == masked


@functools.lru_cache(maxsize=1)
def _crc_table() -> tuple[int, ...]:
    """Makes the table of CRC-32C (RFC 3720), reflected polynomial 0x82F63B78."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return tuple(table)
