"""64-bit hashes of values, to compare values across files without storing them.

Among a billion different values, the chance that any two share a hash is about one in forty.

Beam brings rows with equal hashes together in one bucket, whatever file they come from. Larger data have more buckets,
so buckets stay small. Rows are sent as arrays, not one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.records.example_batches import ExampleBatch, item_splits, splits_of
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.records.graph_layout import FeatureColumn
from tfx_gnn.sampling.random_choice import hash_ids, hash_integers, mix

Hashes = npt.NDArray[np.uint64]
_MAX_EXACT = 2.0**53  # Above this, a float64 cannot represent every integer.


def hash_values(values: pa.Array) -> Hashes:
    """Hashes a large_binary, int64 or float32 array; a whole float has the same hash as the equal integer."""
    if pa.types.is_large_binary(values.type):
        return hash_ids(values.view(pa.large_string()))
    numbers = values.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(values.type):
        return hash_integers(numbers)
    wide = numbers.astype(np.float64)
    is_whole = np.isfinite(wide) & (np.abs(wide) < _MAX_EXACT) & (wide == np.floor(wide))
    whole = hash_integers(np.where(is_whole, wide, 0.0).astype(np.int64))
    # Inverted, so that a fraction never has the bits of an integer.
    return np.where(is_whole, whole, mix(~wide.view(np.uint64)))


def hash_pairs(sources: Hashes, targets: Hashes) -> Hashes:
    """Hashes ordered pairs, element by element."""
    return mix(mix(sources) ^ targets)


def hash_items(batch: ExampleBatch, feature: FeatureColumn, prefix: str) -> Hashes:
    """Hashes the feature of each item in a set: uint64 [num_items]; a scalar has the hash of its value."""
    hashes = hash_values(batch.column(feature.key).values)
    if not feature.shape:
        return hashes
    splits = _value_splits(batch, feature, prefix)
    starts, lengths = splits[:-1], np.diff(splits)
    positions = (np.arange(len(hashes)) - np.repeat(starts, lengths)).astype(np.uint64)
    # Sums of unsigned integers wrap around, and so do their differences: no information is lost.
    sums = np.zeros(len(hashes) + 1, np.uint64)
    np.cumsum(mix(hashes ^ mix(positions)), out=sums[1:])
    return mix((sums[splits[1:]] - sums[starts]) ^ lengths.astype(np.uint64))


def _value_splits(batch: ExampleBatch, feature: FeatureColumn, prefix: str) -> npt.NDArray[np.int64]:
    """Computes where the values of each item begin, with inner dimensions flattened: int64 [num_items + 1]."""
    splits = np.arange(int(item_splits(batch, prefix)[-1]) + 1)
    for axis, size in enumerate(feature.shape):
        if size is None:
            splits = splits_of(batch.column(feature.row_length_keys[axis]).numbers)[splits]
        else:
            splits = splits * size
    return splits


Rows = npt.NDArray[np.void]
"""Structured array."""


_BYTES_PER_BUCKET = 4 << 20  # of compressed records
_MAX_BUCKETS = 1 << 16
_MAX_PENDING = 1 << 19


def num_buckets_for(files: Sequence[RecordFile]) -> int:
    """Chooses a sufficient number of buckets: a power of two, at least 1."""
    num_bytes = sum(tf.io.gfile.stat(file.path).length for file in files)
    return min(1 << max(0, (num_bytes // _BYTES_PER_BUCKET).bit_length()), _MAX_BUCKETS)


def by_bucket(hashes: Hashes, num_buckets: int) -> dict[int, npt.NDArray[np.int64]]:
    """Groups hashes by their highest bits: ascending positions by bucket; `num_buckets` is a power of two."""
    if not len(hashes):
        return {}
    # A shift by all 64 bits would shift by none.
    shift = np.uint64(64 - (num_buckets - 1).bit_length())
    buckets = hashes >> shift if num_buckets > 1 else np.zeros(len(hashes), np.uint64)
    order = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


class RowCollector:
    """Collects rows, and returns them by bucket when there are many."""

    def __init__(
        self, key: Callable[[Rows], npt.NDArray[np.uint64]], reduce: Callable[[Rows], Rows], num_buckets: int
    ) -> None:
        """Takes functions that hash rows, and that merge equal ones; `num_buckets` is a power of two."""
        self._key = key
        self._reduce = reduce
        self._num_buckets = num_buckets
        self._pending: list[Rows] = []
        self._num_pending = 0

    def add(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Adds rows; yields buckets with rows once there are many."""
        if len(rows):
            self._pending.append(rows)
            self._num_pending += len(rows)
        if self._num_pending > _MAX_PENDING:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[int, Rows]]:
        """Yields all remaining rows by bucket."""
        if not self._pending:
            return
        rows = self._reduce(np.concatenate(self._pending))
        self._pending, self._num_pending = [], 0
        for bucket, positions in by_bucket(self._key(rows), self._num_buckets).items():
            yield bucket, rows[positions]


def fold_rows(chunks: Iterable[Rows], reduce: Callable[[Rows], Rows], dtype: Any) -> Rows:
    """Reduces the rows of a bucket without ever holding many more rows than remain."""
    kept: Rows = np.zeros(0, dtype)
    pending: list[Rows] = []
    num_pending = 0
    for chunk in chunks:
        pending.append(chunk)
        num_pending += len(chunk)
        if num_pending > max(_MAX_PENDING, len(kept)):
            kept, pending, num_pending = reduce(np.concatenate([kept, *pending])), [], 0
    return reduce(np.concatenate([kept, *pending]))


def first_of_equal(rows: Rows, names: Sequence[str], order_by: Sequence[str] = ()) -> Rows:
    """Keeps the first row, by `order_by`, of each group with equal `names`; the result is ordered by `names`."""
    ordered, starts = group_equal(rows, names, order_by)
    return ordered[starts]


def group_equal(rows: Rows, names: Sequence[str], order_by: Sequence[str] = ()) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Sorts rows by `names`, then `order_by`; returns them, and the positions where groups of equal `names` begin."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    ordered = rows[np.lexsort([rows[name] for name in (*reversed(order_by), *reversed(names))])]
    is_first = np.zeros(len(rows), bool)
    is_first[0] = True
    for name in names:
        is_first[1:] |= ordered[name][1:] != ordered[name][:-1]
    return ordered, np.flatnonzero(is_first)
