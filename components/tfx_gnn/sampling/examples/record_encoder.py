"""Encodes columns of tables as serialized tf.Examples.

Subgraphs repeat nodes: a feature value that a table holds once is written many
times. So every value is encoded once, up front, and records are assembled from
slices of these bytes. This is ten times as fast as `tf.train.Example`, and byte
for byte the same as its deterministic form with keys in ascending order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.index.graph_index import RowColumn

# Wire types of protobuf for fields 1, 2 and 3, each holding bytes.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
# tf.train.Feature's fields.
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIELD_1, _FIELD_2, _FIELD_3

_ONE_BYTE = np.uint64(128)  # smaller integers are encoded as themselves
_CONTINUED, _SEVEN_BITS = np.uint64(0x80), np.uint64(7)
_VARINT_BOUNDS = np.uint64(1) << np.arange(7, 64, 7, dtype=np.uint64)  # integers from these on take one byte more
_FLOAT_BYTES = 4
_FEW = 256  # values
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
        self._encoded = {key: _EncodedColumn(_values_of(column)) for key, column in columns.items()} if ahead else {}
        self._unencoded = {} if ahead else {key: _UnencodedColumn(column) for key, column in columns.items()}

    def encode(
        self,
        num_records: int,
        columns: Mapping[str, Slices],
        integers: Mapping[str, Slices],
        one_each: Mapping[str, pa.Array] | None = None,
    ) -> list[bytes]:
        """Returns one serialized tf.Example per record, each with all the keys of the mappings.

        `columns` has rows of the encoded columns; `integers` has values of further keys, and `one_each` those of keys
        with one value per record.
        """
        lists: dict[str, _Lists] = {}
        values = {key: (_numbers(numbers), splits) for key, (numbers, splits) in integers.items()}
        values |= {key: (_values_of(column), np.arange(num_records + 1)) for key, column in (one_each or {}).items()}
        for key, (rows, splits) in columns.items():
            if key in self._encoded:
                column = self._encoded[key]
                lists[key], sizes = column.take(rows, splits), column.sizes_of(rows)
            else:
                taken = self._unencoded[key].take(rows)
                values[key], sizes = (taken, splits), taken.sizes
            if sizes is not None:
                values[f"{key}.d1"] = _numbers(sizes), splits
        lists.update(_encode_lists(values))
        in_key_order = [lists[key].entries(key) for key in sorted(lists)]
        if not in_key_order:
            return [b""] * num_records
        return [_with_length(_FIELD_1, b"".join(parts)) for parts in zip(*in_key_order, strict=True)]


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


class _Lists:
    """The encoded values of one key, and where the list of each record begins among them."""

    def __init__(self, kind: bytes, data: bytes, bounds: _Rows) -> None:
        self._kind = kind
        self._data = data
        self._bounds = bounds

    def entries(self, key: str) -> Iterator[bytes]:
        """Yields `features { feature { key: ... value: ... } }`, record after record."""
        headers = _headers(key, self._kind)
        data = self._data
        for start, stop in itertools.pairwise(self._bounds.tolist()):
            yield headers[stop - start] + data[start:stop]


class _Values:
    """The values of rows that are not encoded yet, row after row.

    Attributes:
        kind: the field of tf.train.Feature that they belong to.
        data: integers (int64, or uint64), float32 numbers or large_binary.
        splits: where the values of each row begin, shape [num_rows + 1]; None if each row has one value.
        sizes: numbers of values in lists of any size; None for other rows.
    """

    def __init__(
        self,
        kind: bytes,
        data: npt.NDArray[Any] | pa.LargeBinaryArray,
        splits: _Rows | None = None,
        sizes: _Rows | None = None,
    ) -> None:
        self.kind = kind
        self.data = data
        self.splits = splits
        self.sizes = sizes

    def bounds(self, rows: _Rows) -> _Rows:
        """Returns where the values of rows begin."""
        return rows if self.splits is None else self.splits[rows]


def _values_of(column: pa.Array) -> _Values:
    """Reads the values of all rows of a column."""
    dtype = column.type
    if pa.types.is_large_string(dtype) or dtype == pa.large_binary():
        return _Values(_BYTES_LIST, column.view(pa.large_binary()))
    if pa.types.is_fixed_size_list(dtype):
        items = _values_of(column.flatten())
        return _Values(items.kind, items.data, np.arange(len(column) + 1) * dtype.list_size)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        items = _values_of(column.flatten())
        sizes: _Rows = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
        return _Values(items.kind, items.data, np.concatenate([[0], np.cumsum(sizes)]), sizes)
    if pa.types.is_string(dtype):
        return _Values(_BYTES_LIST, column.cast(pa.large_binary()))
    return _numbers(column.to_numpy(zero_copy_only=False))


def _numbers(values: npt.NDArray[Any]) -> _Values:
    """Reads integers, booleans or floats, shape [num_rows] or [num_rows, size]."""
    splits = None if values.ndim == 1 else np.arange(len(values) + 1) * values.shape[1]
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        return _Values(_FLOAT_LIST, flat.astype("<f4"), splits)
    return _Values(_INT64_LIST, flat if flat.dtype == np.uint64 else flat.astype(np.int64, copy=False), splits)


class _UnencodedColumn:
    """Rows of a table column that are encoded when they are taken, for columns that are too large to encode."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column
        # An index has plain numbers in Arrow's layout, of which NumPy takes a few in a tenth of the time.
        self._numbers = column if isinstance(column, RowColumn) else _numbers_in_place(column)

    def take(self, rows: _Rows) -> _Values:
        """Returns the values of some rows, in that order."""
        if self._numbers is None:
            return _values_of(self._column.take(pa.array(rows)))
        return _numbers(self._numbers[rows])


def _numbers_in_place(column: pa.Array) -> npt.NDArray[Any] | None:
    """Returns the numbers of an array without a copy, shape [num_rows] or [num_rows, size]; None for other values."""
    if not isinstance(column, pa.Array):
        return None
    is_fixed = pa.types.is_fixed_size_list(column.type)
    items = column.flatten() if is_fixed else column
    if not (pa.types.is_integer(items.type) or pa.types.is_floating(items.type)):
        return None
    numbers: npt.NDArray[Any] = items.to_numpy()
    return numbers.reshape(len(column), column.type.list_size) if is_fixed else numbers


class _EncodedColumn:
    """Rows of a table column in their encoded form."""

    def __init__(self, values: _Values) -> None:
        self._kind, self._sizes = values.kind, values.sizes
        self._pieces: pa.LargeBinaryArray | npt.NDArray[np.float32]
        num_values = len(values.data)
        if values.kind != _FLOAT_LIST:
            pieces = _encode(values.kind, [values.data])
            self._pieces = pieces if values.splits is None else _joined(pieces, values.splits)
        elif values.sizes is None:
            num_rows = num_values if values.splits is None else len(values.splits) - 1
            self._pieces = values.data.reshape(num_rows, num_values // max(num_rows, 1))
        else:
            data = pa.py_buffer(values.data.tobytes())
            self._pieces = _large_binary(values.bounds(np.arange(len(values.sizes) + 1)) * _FLOAT_BYTES, data)

    def take(self, rows: _Rows, splits: _Rows) -> _Lists:
        """Returns the encoded values of some rows, in that order."""
        if isinstance(self._pieces, np.ndarray):
            return _Lists(self._kind, self._pieces[rows].tobytes(), splits * self._pieces.shape[1] * _FLOAT_BYTES)
        data, offsets = _bytes_and_offsets(self._pieces.take(pa.array(rows)))
        return _Lists(self._kind, data, offsets[splits])

    def sizes_of(self, rows: _Rows) -> _Rows | None:
        """Returns the numbers of values in some rows; None unless they are lists of any size."""
        return None if self._sizes is None else self._sizes[rows]


def _encode_lists(values: Mapping[str, tuple[_Values, _Rows]]) -> dict[str, _Lists]:
    """Encodes the values of rows, and where the rows of each record begin, by key."""
    lists: dict[str, _Lists] = {}
    # Where a key has few values, the time is that of the calls: such keys are encoded together.
    groups: dict[tuple[bytes, str], list[str]] = {}
    for key, (taken, _) in values.items():
        groups.setdefault((taken.kind, "" if len(taken.data) <= _FEW else key), []).append(key)
    for (kind, _), keys in groups.items():
        if kind == _FLOAT_LIST:
            for key in keys:
                taken, splits = values[key]
                lists[key] = _Lists(kind, taken.data.tobytes(), taken.bounds(splits) * _FLOAT_BYTES)
            continue
        data, offsets = _bytes_and_offsets(_encode(kind, [values[key][0].data for key in keys]))
        first = 0
        for key in keys:
            taken, splits = values[key]
            lists[key] = _Lists(kind, data, offsets[first + taken.bounds(splits)])
            first += len(taken.data)
    return lists


def _encode(kind: bytes, parts: Sequence[Any]) -> pa.LargeBinaryArray:
    """Encodes texts or integers one by one."""
    if kind == _INT64_LIST:
        # Negative numbers take all 64 bits.
        return _varints(np.concatenate([part.view(np.uint64) for part in parts]))
    texts = pa.concat_arrays(parts)
    sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    field = pa.scalar(_FIELD_1, pa.large_binary())
    separator = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(field, _varints(sizes.astype(np.uint64)), texts, separator)


def _varints(values: npt.NDArray[np.uint64]) -> pa.LargeBinaryArray:
    """Encodes integers as `_varint` does: seven bits per byte, low bits first."""
    longer = np.flatnonzero(values >= _ONE_BYTE)
    if not len(longer):
        return _large_binary(np.arange(len(values) + 1), pa.py_buffer(values.astype(np.uint8).tobytes()))
    num_bytes = np.ones(len(values), np.int64)
    num_bytes[longer] += np.searchsorted(_VARINT_BOUNDS, values[longer], side="right")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_bytes)])
    data = np.empty(int(offsets[-1]), np.uint8)
    data[offsets[:-1]] = values
    place, rest = offsets[longer], values[longer]
    while len(rest):
        data[place] = rest | _CONTINUED
        rest, place = rest >> _SEVEN_BITS, place + 1
        is_last = rest < _ONE_BYTE
        data[place[is_last]] = rest[is_last]
        rest, place = rest[~is_last], place[~is_last]
    return _large_binary(offsets, pa.py_buffer(data.tobytes()))


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
