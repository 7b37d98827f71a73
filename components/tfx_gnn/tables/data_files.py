"""Finds and opens the files of a table, on any file system that TensorFlow reads."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from typing import Any

import tensorflow as tf

from tfx_gnn.io.text_files import check_regular_file

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1 << 20
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")
_SHARD_PATTERN = re.compile(r"-\?{5}-of-(\d{5}|\?{5})")
_SHARD_COUNT = re.compile(r"@(\d+|\*)(?=\.|$)")
_LOCAL_SCHEME = "file://"
_WILDCARDS = frozenset("*?[")
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".tfrecord": "tfrecord", ".tfrecords": "tfrecord"}


def resolve_files(path: str) -> tuple[str, ...]:
    """Lists the files of a table in ascending order; none if there is no such file.

    The path is a file; a glob such as "nodes-*.csv"; or shards, as in "nodes.csv@4", "nodes@4.csv",
    "nodes.csv@*" or "nodes-?????-of-00004.csv". Shards must be complete and all have the same total.
    """
    if tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path):
        files = [path]
    else:
        folder, name = os.path.split(path)
        name = _SHARD_COUNT.sub(_shard_pattern, name)
        if not _WILDCARDS & set(name):
            return ()
        found = tf.io.gfile.glob(os.path.join(folder, name))
        files = sorted(file for file in found if not tf.io.gfile.isdir(file))
        declared = re.search(r"-of-(\d{5})", name)
        if declared and files:
            _check_shards(path, files, int(declared[1]))
    if len(files) > 1 or path not in files:
        totals = {match[2] for match in map(_last_shard, files) if match}
        if len(totals) > 1:
            raise ValueError(
                f"`metadata.filename` must name shards of one number; got shards of {sorted(map(int, totals))} for "
                f"{path!r}. Remove the files that are left from another run."
            )
        if totals and all(map(_last_shard, files)):
            _check_shards(path, files, int(totals.pop()))
    for file in files:
        check_regular_file(file)
    return tuple(files)


def resolve_table_files(
    folder: str, filename: str, *, allow_outside_files: bool = True, place: str = ""
) -> tuple[str, ...]:
    """Lists the files of a table that a schema declares, in the order of their names; none if there is no such file.

    The name is anything that `resolve_files` accepts, or several such names joined by commas, without repeated
    files. `place` tells in messages what declares the name, as in "node set 'user' in schema.pbtxt".
    """
    if "\0" in filename:
        raise ValueError(
            f"`metadata.filename` must be a name without zero bytes; got {filename!r}"
            f"{f' for {place}' if place else ''}. Correct the name."
        )
    if allow_outside_files:
        return _resolve_names(folder, filename)
    # A path that leads out by its name or by a link is not even looked up: that would reveal whether it exists.
    paths = [os.path.join(folder, name) for name in (filename, *filename.split(","))]
    if not all(_is_below(folder, path) and _links_stay_below(folder, path) for path in paths):
        raise _outside(folder, filename, place)
    files = _resolve_names(folder, filename)
    if not all(_links_stay_below(folder, file) for file in files):
        raise _outside(folder, filename, place)
    return files


def _resolve_names(folder: str, filename: str) -> tuple[str, ...]:
    whole = resolve_files(os.path.join(folder, filename))
    if whole or "," not in filename:
        return whole
    files: list[str] = []
    for name in filename.split(","):
        found = resolve_files(os.path.join(folder, name)) if name else ()
        if not found or set(found) & set(files):
            raise ValueError(
                f"`filename` must join names of files by commas, each file once; got {name!r}, which names "
                f"{'a file again' if found else 'no file'}, in {filename!r}. Correct the name or remove it."
            )
        files += found
    return tuple(files)


def _links_stay_below(folder: str, path: str) -> bool:
    """Returns whether a path stays inside a folder after following links; only local files have links."""
    start, end = (text.removeprefix(_LOCAL_SCHEME) for text in (folder, path))
    return "://" in start or _is_below(os.path.realpath(start), os.path.realpath(end))


def _is_below(folder: str, path: str) -> bool:
    """Returns whether a path stays inside a folder, judged by the names alone."""
    start, end = (text if "://" in text else os.path.abspath(text or ".") for text in (folder, path))
    if "://" in start:
        scheme, _, rest = start.partition("://")
        other, _, below = end.partition("://")
        if other != scheme:
            return False
        start, end = os.path.normpath(f"/{rest}"), os.path.normpath(f"/{below}")
    elif "://" in end:
        return False
    return end == start or end.startswith(start.rstrip("/") + "/")


def _outside(folder: str, filename: str, place: str) -> ValueError:
    return ValueError(
        f"`metadata.filename` must name a file inside of the tables folder; got {filename!r}"
        f"{f' for {place}' if place else ''}, which leads out of {folder or '.'!r} by its path or by a symbolic link. "
        "Copy the file there, or set `allow_outside_files`."
    )


def format_of_name(name: str) -> tuple[str, str] | None:
    """Infers a table's format and delimiter ("" if it has none) from its declared name; None if the name is unclear.

    Shards without another suffix are TFRecord files.
    """
    base = os.path.basename(name)
    is_sharded = bool(_SHARD.search(base) or _SHARD_PATTERN.search(base) or _SHARD_COUNT.search(base))
    for pattern in (_SHARD, _SHARD_PATTERN, _SHARD_COUNT):
        base = pattern.sub("", base)
    base = re.sub(r"\*$", "", base)
    suffix = os.path.splitext(base.removesuffix(".gz"))[1]
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix], {".csv": ",", ".tsv": "\t"}.get(suffix, "")
    return ("tfrecord", "") if is_sharded and not suffix else None


def _shard_pattern(match: re.Match[str]) -> str:
    return "-?????-of-?????" if match[1] == "*" else f"-?????-of-{int(match[1]):05d}"


def _last_shard(path: str) -> re.Match[str] | None:
    matches = list(_SHARD.finditer(os.path.basename(path)))
    return matches[-1] if matches else None


def _check_shards(path: str, files: list[str], total: int) -> None:
    present = [int(match[1]) for match in map(_last_shard, files) if match]
    missing = sorted(set(range(total)) - set(present))
    if missing or len(present) != total:
        raise ValueError(
            f"`metadata.filename` must name every shard once; got {len(present)} of {total} files for {path!r}, "
            f"without {missing[:10]}. Wait for the table to be written, or put the missing files there."
        )


class TableBytes(io.RawIOBase):
    """A file of TensorFlow's file system as a seekable Python file."""

    def __init__(self, path: str) -> None:
        """Opens a file; refuses a folder, a named pipe and a device."""
        super().__init__()
        if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
            raise ValueError(
                f"`path` must be a file; got {path!r}, which is not. Correct the name or put the file there."
            )
        check_regular_file(path)
        self._file = tf.io.gfile.GFile(path, "rb")
        self._size: int = self._file.size()

    def readable(self) -> bool:
        """Returns True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Returns True: the file can be read from any position."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the next bytes, fewer at the end."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position and returns it, relative to the beginning."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._size}[whence]
        self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        """Returns the position."""
        position: int = self._file.tell()
        return position

    def close(self) -> None:
        """Closes the file."""
        # close() also runs for a refused path, which was never opened.
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()


class _UnzippedBytes(io.RawIOBase):
    """The unzipped content of a gzip file, with errors that name the file."""

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
    """Opens a file for reading from its beginning, decompressed if it is a gzip file.

    Reading a damaged gzip file raises a ValueError.
    """
    file: io.BufferedReader = io.BufferedReader(TableBytes(path), _BUFFER_BYTES)
    if not is_gzip(file.peek(len(_GZIP_MAGIC))):
        return file
    return io.BufferedReader(_UnzippedBytes(path, file), _BUFFER_BYTES)


def is_gzip(start: bytes) -> bool:
    """Returns whether the first bytes of a file, at least two, are those of a gzip file."""
    return start.startswith(_GZIP_MAGIC)
