"""Reads apt's index files: stanzas of `Field: value` lines, as a stream."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x28\xb5\x2f\xfd": "zstd",
}


_OPENERS: Mapping[str, Callable[[str], Any]] = {
    "": io.FileIO,
    "gzip": gzip.GzipFile,
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    # apt keeps its lists so; the Python of the first lane has no reader of these of its own.
    "lz4": lambda path: pa.input_stream(path, compression="lz4"),
    "zstd": lambda path: pa.input_stream(path, compression="zstd"),
}


def read_stanzas(path: str, fields: Collection[str], *, required: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Yields the stanzas of an index file one after the other.

    The file is plain text or compressed by gzip, bzip2, xz, lz4 or zstd; its first bytes tell.
    Stanzas end with an empty line; a line that begins with a blank continues the value before it.

    Args:
        path: the file.
        fields: fields to keep, spelled as in the file.
        required: those of `fields` that every stanza must have.

    Yields:
        Values by field, without blanks at either end; the lines of a value are joined by newlines.

    Raises:
        ValueError: if the file is missing, is no index file or is cut off. The message names file and line.
    """
    kept = frozenset(fields)
    stanza: dict[str, str] = {}
    field: str | None = None
    first_line = 0
    with _open_text(path) as lines:
        number = 0
        for number, line in _readable(path, lines):
            if not line.strip():
                if first_line:
                    yield _checked(stanza, required, path, first_line)
                stanza, field, first_line = {}, None, 0
            elif line[0] in " \t":
                if field is None:
                    raise _malformed(path, number, line, "a line that continues none")
                if field in kept:
                    stanza[field] += "\n" + line.strip()
            else:
                field, colon, value = line.partition(":")
                if not colon:
                    raise _malformed(path, number, line, "no colon")
                first_line = first_line or number
                if field in kept:
                    stanza[field] = value.strip()
    if first_line:
        yield _checked(stanza, required, path, first_line)


def _checked(stanza: dict[str, str], required: Collection[str], path: str, line: int) -> dict[str, str]:
    for field in required:
        if not stanza.get(field):
            raise ValueError(
                f"`{field}` must be given in every stanza; got none in {path}, in the stanza that begins in line "
                f"{line}. Is it an index file of apt, and of the right kind?"
            )
    return stanza


def _malformed(path: str, number: int, line: str, what: str) -> ValueError:
    return ValueError(
        f"`{path}` must be an index file of apt, of lines `Field: value`; got {what} in line {number}: {line[:60]!r}. "
        "Give the path of a Packages or Sources file."
    )


def _readable(path: str, lines: io.TextIOBase) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        for line in lines:
            number += 1
            yield number, line
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{path}` must be UTF-8 text; got byte 0x{error.object[error.start]:02x} behind line {number}. "
            "Give the path of a Packages or Sources file."
        ) from error
    except (EOFError, OSError, lzma.LZMAError, pa.ArrowInvalid, zlib.error) as error:
        raise ValueError(
            f"`{path}` must be a whole file; got damaged data behind line {number} ({error}). "
            "Fetch it again: apt-get update."
        ) from error


@contextlib.contextmanager
def _open_text(path: str) -> Iterator[io.TextIOBase]:
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError as error:
        raise ValueError(
            f"`path` must be a file that can be read; got {path!r} ({error.strerror}). Correct the path."
        ) from error
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "")
    with contextlib.ExitStack() as stack:
        binary = stack.enter_context(_OPENERS[compression](path))
        yield stack.enter_context(io.TextIOWrapper(io.BufferedReader(binary, 1 << 20), encoding="utf-8"))
