"""Encodes columns of tables as serialized tf.Examples.

Subgraphs repeat nodes: a feature value that a table holds once is written many
times. So every value is encoded once, up front, and records are assembled from
slices of these bytes. This is ten times as fast as `tf.train.Example`, and byte
for byte the same as its deterministic form with keys in ascending order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Wire types of protobuf for fields 1, 2 and 3, each holding bytes.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
# tf.train.Feature's fields.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIELD_1, _FIELD_2, _FIELD_3

_ONE_BYTE = 128  # smaller integers are encoded as themselves
_MAX_KEYS = 1024
_MAX_HEADERS = 1 << 14

_Rows = npt.NDArray[np.int64]

Slices = tuple[_Rows, _Rows]
"""Rows (or values) of all records, record after record, shape [total]; and where each
record starts among them, shape [num_records + 1]."""


class RecordEncoder:
    """Writes records whose values are rows of columns, or integers.

    The rows of a column are written as one list of values: one value per row, or the
    values of all lists in order. For lists of any size, their sizes are written under
    `<key>.d1`.
    """

    def __init__(self, columns: Mapping[str, pa.Array], *, ahead: bool = True) -> None:
        """Encodes the values of all columns, or, unless `ahead`, those of each call when it comes.

        `columns` has, by key of the records, arrays without nulls: booleans, numbers, large_string, large_binary, or
        (large or fixed-size) lists of these.
        """
        self._columns: dict[str, _EncodedColumn | _UnencodedColumn] = {}
        self._sizes: dict[str, _Sizes] = {}
        for key, column in columns.items():
            if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
                self._sizes[key] = _Sizes(column, ahead=ahead)
            self._columns[key] = _encode_column(column) if ahead else _UnencodedColumn(column)
        self._integers = _EncodedIntegers()

    def encode(self, num_records: int, columns: Mapping[str, Slices], integers: Mapping[str, Slices]) -> list[bytes]:
        """Returns one serialized tf.Example per record, each with all the keys of both mappings.

        `columns` has rows of the encoded columns; `integers` has values of further keys, at least -1.
        """
        entries: dict[str, Iterator[bytes]] = {}
        for key, (rows, splits) in columns.items():
            column = self._columns[key]
            entries[key] = self._entries(key, column.kind, column.take(rows), splits)
            if key in self._sizes:
                sizes = self._integers.take(self._sizes[key].take(rows))
                entries[f"{key}.d1"] = self._entries(f"{key}.d1", _INT64_LIST, sizes, splits)
        for key, (values, splits) in integers.items():
            entries[key] = self._entries(key, _INT64_LIST, self._integers.take(values), splits)
        in_key_order = [entries[key] for key in sorted(entries)]
        if not in_key_order:
            return [b""] * num_records
        return [_with_length(_FIELD_1, b"".join(parts)) for parts in zip(*in_key_order, strict=True)]

    def _entries(self, key: str, kind: bytes, values: _EncodedValues, splits: _Rows) -> Iterator[bytes]:
        """Yields `features { feature { key: ... value: ... } }` for one key, record after record."""
        headers = _headers(key, kind)
        data = values.data
        bounds = values.offsets[splits].tolist()
        for start, stop in itertools.pairwise(bounds):
            yield headers[stop - start] + data[start:stop]


class RecordSlices:
    """The column rows and integers of each subgraph's record, by key."""

    def __init__(self, num_records: int) -> None:
        self.one_each = np.arange(num_records + 1)
        self.columns: dict[str, Slices] = {}
        self.integers: dict[str, Slices] = {}

    def add_nodes(self, name: str, splits: _Rows) -> None:
        """Adds the sizes of a node set."""
        self.integers[f"nodes/{name}.#size"] = np.diff(splits), self.one_each

    def add_edges(self, name: str, sources: _Rows, targets: _Rows, splits: _Rows) -> None:
        """Adds the sizes and ends of an edge set."""
        self.integers[f"edges/{name}.#size"] = np.diff(splits), self.one_each
        self.integers[f"edges/{name}.#source"] = sources, splits
        self.integers[f"edges/{name}.#target"] = targets, splits


class _HeaderCache(dict[int, bytes]):
    """The bytes that come before a list of values, by the length of the list in bytes."""

    def __init__(self, key: str, kind: bytes) -> None:
        super().__init__()
        self._key = _with_length(_FIELD_1, key.encode())
        self._kind = kind

    def __missing__(self, num_bytes: int) -> bytes:
        # Numbers are packed into one field, byte strings are fields of their own.
        packed = b"" if self._kind == _BYTES_LIST or num_bytes == 0 else _FIELD_1 + _varint(num_bytes)
        value = self._kind + _varint(len(packed) + num_bytes) + packed
        entry = self._key + _FIELD_2 + _varint(len(value) + num_bytes) + value
        header = _FIELD_1 + _varint(len(entry) + num_bytes) + entry
        if len(self) >= _MAX_HEADERS:
            self.clear()
        self[num_bytes] = header
        return header


@functools.lru_cache(maxsize=_MAX_KEYS)
def _headers(key: str, kind: bytes) -> _HeaderCache:
    # Shared by all encoders of a process, so that an encoder for a small part of a graph computes few headers.
    return _HeaderCache(key, kind)


class _EncodedValues:
    """Concatenated encoded values, and where each begins."""

    def __init__(self, data: bytes, offsets: _Rows) -> None:
        self.data = data
        self.offsets = offsets


class _Sizes:
    """Numbers of values in the rows of a column of lists."""

    def __init__(self, column: pa.Array, *, ahead: bool) -> None:
        self._sizes = _list_sizes(column) if ahead else None
        self._column = column

    def take(self, rows: _Rows) -> _Rows:
        return _list_sizes(self._column.take(pa.array(rows))) if self._sizes is None else self._sizes[rows]


def _list_sizes(column: pa.Array) -> _Rows:
    sizes: _Rows = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


class _UnencodedColumn:
    """Rows of a table column that are encoded when they are taken, for columns that are too large to encode."""

    def __init__(self, column: pa.Array) -> None:
        self.kind = _encode_column(column.slice(0, 0)).kind
        self._column = column

    def take(self, rows: _Rows) -> _EncodedValues:
        """Returns the encoded values of some rows, in that order."""
        return _encode_column(self._column.take(pa.array(rows))).all()


class _EncodedColumn:
    """Rows of a table column in their encoded form.

    `kind` is the field of tf.train.Feature that they belong to.
    """

    def __init__(self, kind: bytes, pieces: pa.LargeBinaryArray | npt.NDArray[np.float32]) -> None:
        self.kind = kind
        self._pieces = pieces

    def take(self, rows: _Rows) -> _EncodedValues:
        """Returns the encoded values of some rows, in that order."""
        if isinstance(self._pieces, np.ndarray):
            num_bytes = self._pieces.itemsize * int(np.prod(self._pieces.shape[1:]))
            return _EncodedValues(self._pieces[rows].tobytes(), np.arange(len(rows) + 1) * num_bytes)
        taken = self._pieces.take(pa.array(rows))
        return _EncodedValues(*_bytes_and_offsets(taken))

    def all(self) -> _EncodedValues:
        """Returns the encoded values of all rows."""
        if isinstance(self._pieces, np.ndarray):
            num_bytes = self._pieces.itemsize * int(np.prod(self._pieces.shape[1:]))
            return _EncodedValues(self._pieces.tobytes(), np.arange(len(self._pieces) + 1) * num_bytes)
        return _EncodedValues(*_bytes_and_offsets(self._pieces))


class _EncodedIntegers:
    """Small integers from -1 (sizes, positions, no position) in their encoded form; grows as needed."""

    def __init__(self) -> None:
        # Both at once, because several threads may use an encoder.
        self._known = (1024, _encode_column(pa.array(np.arange(-1, 1024))))

    def take(self, values: _Rows) -> _EncodedValues:
        """Returns the encoded values, in that order."""
        largest = int(values.max(initial=0))
        if largest < _ONE_BYTE and values.min(initial=0) >= 0:
            return _EncodedValues(values.astype(np.uint8).tobytes(), np.arange(len(values) + 1))
        num_known, column = self._known
        if largest >= num_known:
            column = _encode_column(pa.array(np.arange(-1, 2 * largest)))
            self._known = (2 * largest, column)
        return column.take(values + 1)


def _encode_column(column: pa.Array) -> _EncodedColumn:
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        values = column.flatten()
        if pa.types.is_floating(values.type):
            return _EncodedColumn(_FLOAT_LIST, _floats(values).reshape(len(column), size))
        kind, pieces = _encode_values(values)
        return _EncodedColumn(kind, _joined(pieces, np.arange(len(column) + 1) * size))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = column.flatten()
        sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        splits = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if pa.types.is_floating(values.type):
            data = pa.py_buffer(_floats(values).tobytes())
            return _EncodedColumn(_FLOAT_LIST, _large_binary(splits * np.dtype(np.float32).itemsize, data))
        kind, pieces = _encode_values(values)
        return _EncodedColumn(kind, _joined(pieces, splits))
    if pa.types.is_floating(column.type):
        return _EncodedColumn(_FLOAT_LIST, _floats(column))
    return _EncodedColumn(*_encode_values(column))


def _encode_values(column: pa.Array) -> tuple[bytes, pa.LargeBinaryArray]:
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type) or column.type == pa.large_binary():
        texts = column.cast(pa.large_binary())
        sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        field = pa.scalar(_FIELD_1, pa.large_binary())
        separator = pa.scalar(b"", pa.large_binary())
        return _BYTES_LIST, pc.binary_join_element_wise(field, _varints(sizes.astype(np.uint64)), texts, separator)
    values = column.to_numpy(zero_copy_only=False)
    # Negative numbers take all 64 bits.
    return _INT64_LIST, _varints(values if values.dtype == np.uint64 else values.astype(np.int64).view(np.uint64))


def _varints(values: npt.NDArray[np.uint64]) -> pa.LargeBinaryArray:
    """Encodes integers as `_varint` does: seven bits per byte, low bits first."""
    if values.max(initial=0) < _ONE_BYTE:
        return _large_binary(np.arange(len(values) + 1), pa.py_buffer(values.astype(np.uint8).tobytes()))
    num_bytes = np.ones(len(values), np.int64)
    bound = 7
    while bound < 64 and (longer := values >> np.uint64(bound) > 0).any():
        num_bytes += longer
        bound += 7
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_bytes)])
    data = np.empty(int(offsets[-1]), np.uint8)
    for place in range(int(num_bytes.max(initial=0))):
        some = np.flatnonzero(num_bytes > place) if place else slice(None)
        low_bits = (values[some] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        is_continued = (num_bytes[some] > place + 1).astype(np.uint8) << np.uint8(7)
        data[offsets[:-1][some] + place] = low_bits | is_continued
    return _large_binary(offsets, pa.py_buffer(data.tobytes()))


def _floats(column: pa.Array) -> npt.NDArray[np.float32]:
    return column.to_numpy(zero_copy_only=False).astype("<f4")


def _joined(pieces: pa.LargeBinaryArray, splits: _Rows) -> pa.LargeBinaryArray:
    """Joins the consecutive encoded values of each row into one piece."""
    data, offsets = _bytes_and_offsets(pieces)
    return _large_binary(offsets[splits], pa.py_buffer(data))


def _large_binary(offsets: _Rows, data: pa.Buffer) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64).tobytes()), data]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _bytes_and_offsets(pieces: pa.LargeBinaryArray) -> tuple[bytes, _Rows]:
    if not len(pieces):
        return b"", np.zeros(1, np.int64)
    _, offsets, data = pieces.buffers()
    starts = np.frombuffer(offsets, np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]
    return b"" if data is None else data.to_pybytes(), starts


def _varint(value: int) -> bytes:
    """Encodes a value in [0, 2**64): seven bits per byte, low bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _with_length(field: bytes, data: bytes) -> bytes:
    return field + _varint(len(data)) + data
