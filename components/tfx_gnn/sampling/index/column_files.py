"""Columns as raw files, written piece by piece and mapped into memory as whole arrays.

A file holds the little-endian values of one NumPy array, without a header. A column of a table is one to three such
files: the buffers of an Arrow array without nulls.
"""

from __future__ import annotations

import dataclasses
import hashlib
import mmap
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_BITS = 8
_CHUNK_BYTES = 1 << 22


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileRecord:
    """What a manifest says of a file.

    Attributes:
        dtype: NumPy's name of the type of the values.
        length: number of values.
        sha256: checksum of the bytes, 64 hexadecimal digits.
    """

    dtype: str
    length: int
    sha256: str

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self.length * np.dtype(self.dtype).itemsize


class ValuesWriter:
    """Appends values of one type to a file."""

    def __init__(self, folder: str, name: str, dtype: npt.DTypeLike) -> None:
        self.name = name
        self._dtype = np.dtype(dtype)
        # Opened anew for each piece, so that an error elsewhere leaves no file open.
        self._path = os.path.join(folder, name)
        with open(self._path, "wb"):
            pass
        self._digest = hashlib.sha256()
        self._length = 0

    def append(self, values: npt.NDArray[Any]) -> None:
        """Appends values, converted to the type of the file."""
        data = np.ascontiguousarray(values, self._dtype.newbyteorder("<")).data.cast("B") if len(values) else b""
        with open(self._path, "ab") as file:
            file.write(data)
        self._digest.update(data)
        self._length += len(values)

    def finish(self) -> dict[str, FileRecord]:
        """Returns the record of the file, by its name."""
        record = FileRecord(dtype=self._dtype.name, length=self._length, sha256=self._digest.hexdigest())
        return {self.name: record}


class ColumnWriter:
    """Appends pieces of a column, without nulls, to the files of its buffers."""

    def __init__(self, folder: str, name: str, dtype: pa.DataType) -> None:
        self._dtype = dtype
        self._offsets: ValuesWriter | None = None
        self._items: ColumnWriter | None = None
        self._values: ValuesWriter | None = None
        self._num_values = 0
        self._bits: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        if pa.types.is_large_string(dtype) or pa.types.is_large_list(dtype):
            self._offsets = ValuesWriter(folder, f"{name}.offsets", np.int64)
            self._offsets.append(np.zeros(1, np.int64))
        if pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype):
            self._items = ColumnWriter(folder, f"{name}.items", dtype.value_type)
        else:
            self._values = ValuesWriter(folder, f"{name}.values", _values_dtype(dtype))

    def append(self, array: pa.Array) -> None:
        """Appends a piece of the column's type."""
        if self._offsets is not None:
            lengths = pc.binary_length(array) if self._items is None else pc.list_value_length(array)
            ends = self._num_values + np.cumsum(lengths.to_numpy(zero_copy_only=False).astype(np.int64))
            self._offsets.append(ends)
            self._num_values = int(ends[-1]) if len(ends) else self._num_values
        if self._items is not None:
            self._items.append(array.flatten())
        elif self._values is not None:
            self._values.append(self._raw(array))

    def finish(self) -> dict[str, FileRecord]:
        """Writes what is left, and returns the records of the files by their names."""
        records: dict[str, FileRecord] = {}
        if self._values is not None:
            self._values.append(np.packbits(self._bits, bitorder="little"))
        for writer in (self._offsets, self._items, self._values):
            records.update({} if writer is None else writer.finish())
        return records

    def _raw(self, array: pa.Array) -> npt.NDArray[Any]:
        if pa.types.is_large_string(self._dtype):
            return text_bytes(array)
        values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if not pa.types.is_boolean(self._dtype):
            return values
        # Eight to a byte: what does not fill the last byte waits for the next piece.
        bits = np.concatenate([self._bits, values])
        whole = len(bits) // _BITS * _BITS
        self._bits = bits[whole:]
        return np.packbits(bits[:whole], bitorder="little")


def record_file(folder: str, name: str) -> dict[str, FileRecord]:
    """Returns the record of a file that something else wrote, as bytes, by its name."""
    path = os.path.join(folder, name)
    return {name: FileRecord(dtype="uint8", length=os.path.getsize(path), sha256=_checksum(path))}


def _checksum(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def text_bytes(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Returns the concatenated bytes of a large_string array, without a copy."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[1]]


def _values_dtype(dtype: pa.DataType) -> npt.DTypeLike:
    if pa.types.is_large_string(dtype) or pa.types.is_boolean(dtype):
        return np.uint8
    kind: npt.DTypeLike = dtype.to_pandas_dtype()
    return kind


class MappedFiles:
    """The files of a folder, mapped into memory when they are first asked for.

    Mapped pages are shared with other processes that map the same files, and the system drops them when it needs
    memory for others.
    """

    def __init__(self, folder: str, records: Mapping[str, FileRecord]) -> None:
        self.folder = folder
        self.records = records
        self._known: dict[str, npt.NDArray[Any]] = {}

    def check_sizes(self) -> None:
        """Refuses a folder that lacks a file, or in which one has another size; reading it could end the process."""
        for name, record in self.records.items():
            path = os.path.join(self.folder, name)
            try:
                found = f"{os.stat(path).st_size} bytes"
            except FileNotFoundError:
                found = "no file"
            if found != f"{record.num_bytes} bytes":
                raise ValueError(
                    f"`{path}` must have {record.num_bytes} bytes; got {found}. The graph index is damaged or was "
                    "copied in part: copy or build it again."
                )

    def check_contents(self) -> None:
        """Reads all files and refuses a folder in which one differs from its checksum."""
        for name, record in self.records.items():
            path = os.path.join(self.folder, name)
            found = _checksum(path)
            if found != record.sha256:
                raise ValueError(
                    f"`{path}` must have the checksum {record.sha256[:12]}; got {found[:12]}. The graph index is "
                    "damaged: copy or build it again."
                )

    def map_all(self) -> None:
        """Maps all files now: the folder may be removed or replaced while they are read."""
        for name in self.records:
            self.values(name)

    def values(self, name: str) -> npt.NDArray[Any]:
        """Maps the values of a file, once; the array cannot be written."""
        if name not in self._known:
            self._known[name] = self._map(name)
        return self._known[name]

    def _map(self, name: str) -> npt.NDArray[Any]:
        record = self.records[name]
        dtype = np.dtype(record.dtype).newbyteorder("<")
        if not record.length:
            return np.zeros(0, dtype)
        with open(os.path.join(self.folder, name), "rb") as file:
            mapped = mmap.mmap(file.fileno(), record.num_bytes, access=mmap.ACCESS_READ)
        # On little-endian machines this is the native type.
        return np.frombuffer(mapped, dtype if sys.byteorder == "big" else dtype.newbyteorder("="))

    def column(self, name: str, dtype: pa.DataType, length: int) -> pa.Array:
        """Maps a column that `ColumnWriter` wrote, of `length` rows."""
        if pa.types.is_large_list(dtype):
            offsets = self.values(f"{name}.offsets")
            items = self.column(f"{name}.items", dtype.value_type, int(offsets[-1]))
            return pa.Array.from_buffers(dtype, length, [None, pa.py_buffer(offsets)], children=[items])
        if pa.types.is_fixed_size_list(dtype):
            items = self.column(f"{name}.items", dtype.value_type, length * dtype.list_size)
            return pa.Array.from_buffers(dtype, length, [None], children=[items])
        buffers = [None, pa.py_buffer(self.values(f"{name}.values"))]
        if pa.types.is_large_string(dtype):
            buffers.insert(1, pa.py_buffer(self.values(f"{name}.offsets")))
        return pa.Array.from_buffers(dtype, length, buffers)
