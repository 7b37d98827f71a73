"""Reads Debian's control files: stanzas of fields, version numbers, and relations between packages."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

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
    # apt may store its lists in these two formats; Python 3.10 has no built-in reader for them.
    "lz4": lambda path: pa.input_stream(path, compression="lz4"),
    "zstd": lambda path: pa.input_stream(path, compression="zstd"),
}


def read_stanzas(path: str, fields: Collection[str], *, required: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Yields the stanzas of an index file in order.

    The file is plain text or compressed by gzip, bzip2, xz, lz4 or zstd, which is detected from its first bytes.
    Stanzas end with an empty line; a line that begins with a blank continues the value before it. The
    lines of a value are joined by newlines. Only `fields` are kept; `required` fields must be in every stanza.
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
                    raise _malformed(path, number, line, "a continuation line without a field")
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
            f"`{path}` must be UTF-8 text; got byte 0x{error.object[error.start]:02x} after line {number}. "
            "Give the path of a Packages or Sources file."
        ) from error
    except (EOFError, OSError, lzma.LZMAError, pa.ArrowInvalid, zlib.error) as error:
        raise ValueError(
            f"`{path}` must be a complete file; got damaged data after line {number} ({error}). "
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


_PIECES = re.compile(r"(\D*)(\d*)")
_OTHER = 1 << 8  # characters other than letters sort after all letters
_END = 0
_TILDE = -1  # sorts before even the end of a part: 1.0~rc1 is older than 1.0

PartKey = tuple[tuple[tuple[int, ...], int], ...]
"""Key of one part of a version."""


def version_key(version: str) -> tuple[int, PartKey, PartKey]:
    """Returns a key that sorts versions `[epoch:]upstream[-revision]` like dpkg (Debian Policy, section 5.6.12).

    Example:
        >>> sorted(["1:0.9", "1.10", "1.9", "1.10~rc1", "1.10-1"], key=version_key)
        ['1.9', '1.10~rc1', '1.10', '1.10-1', '1:0.9']
    """
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    if not epoch.isdecimal():
        raise ValueError(
            f"`version` must begin with a number if it has a colon; got {version!r}. Is the index file complete?"
        )
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _part_key(upstream), _part_key(revision)


def _part_key(part: str) -> PartKey:
    # The pattern has an additional empty match at the end. An empty part is equal to 0.
    pieces = _PIECES.findall(part)[:-1] or [("", "0")]
    return (*((_text_key(text), int(number or 0)) for text, number in pieces), ((_END,), 0))


def _text_key(text: str) -> tuple[int, ...]:
    return (*(_TILDE if sign == "~" else ord(sign) + _OTHER * (not sign.isalpha()) for sign in text), _END)


_ALTERNATIVE = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9+.\-]*)"  # name
    r"(?::[a-z0-9\-]+)?"  # architecture of the target
    r"\s*(\([^()]*\))?"  # version
    r"\s*(?:\[[^\[\]]*\])?"  # architectures that the relation holds on
    r"\s*(?:<[^<>]*>\s*)*$"  # build profiles
)


class Relation(NamedTuple):
    """One alternative of one clause.

    Attributes:
        target: name of the package that the relation refers to.
        alternative: position among the alternatives of the clause, from 0.
        n_alternatives: number of alternatives of the clause, at least 1.
        versioned: whether the relation refers to some versions only.
    """

    target: str
    alternative: int
    n_alternatives: int
    versioned: bool


def split_clauses(text: str) -> list[str]:
    """Splits a field at commas and drops empty entries."""
    return [entry for entry in map(str.strip, text.split(",")) if entry]


def parse_relations(text: str) -> Iterator[Relation]:
    """Yields all alternatives of a field such as Depends: `a (>= 1) | b:any [amd64] <!nocheck>, c`.

    Conditions on architectures and build profiles are ignored: a relation counts even if it is conditional.
    """
    for clause in split_clauses(text):
        alternatives = clause.split("|")
        for position, alternative in enumerate(alternatives):
            match = _ALTERNATIVE.match(alternative)
            if match is None:
                raise ValueError(
                    "`text` must be relations like 'a (>= 1) | b:any, c'; got "
                    f"{alternative.strip()!r} in {clause!r}. Is the index file complete?"
                )
            yield Relation(match[1], position, len(alternatives), match[2] is not None)
