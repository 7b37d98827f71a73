"""Rows that carry a hash, brought together by Beam in buckets of hashes.

Equal hashes meet in one bucket, whatever file they come from, and a bucket is small however
large the data are, for there are more buckets then. Rows travel as arrays, not one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.stages.files.record_files import RecordFile

Rows = npt.NDArray[np.void]
"""Structured array."""

_BYTES_PER_BUCKET = 4 << 20  # of compressed records
_MAX_BUCKETS = 1 << 16
_MAX_PENDING = 1 << 19


def num_buckets_for(files: Sequence[RecordFile]) -> int:
    """Chooses how many buckets are enough.

    Args:
        files: the data.

    Returns:
        A power of two, at least 1.
    """
    num_bytes = sum(tf.io.gfile.stat(file.path).length for file in files)
    return min(1 << max(0, (num_bytes // _BYTES_PER_BUCKET).bit_length()), _MAX_BUCKETS)


class RowCollector:
    """Collects rows, and hands them out by bucket when there are many."""

    def __init__(
        self, key: Callable[[Rows], npt.NDArray[np.uint64]], reduce: Callable[[Rows], Rows], num_buckets: int
    ) -> None:
        """Makes an empty collector.

        Args:
            key: gives the hashes of rows.
            reduce: makes fewer rows that say the same.
            num_buckets: a power of two.
        """
        self._key = key
        self._reduce = reduce
        self._num_buckets = num_buckets
        self._pending: list[Rows] = []
        self._num_pending = 0

    def add(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Takes rows.

        Args:
            rows: structured array, shape [n].

        Yields:
            Buckets with rows, if there are many now.
        """
        if len(rows):
            self._pending.append(rows)
            self._num_pending += len(rows)
        if self._num_pending > _MAX_PENDING:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[int, Rows]]:
        """Hands out all rows that are left.

        Yields:
            Buckets with rows.
        """
        if not self._pending:
            return
        rows = self._reduce(np.concatenate(self._pending))
        self._pending, self._num_pending = [], 0
        shift = np.uint64(64 - (self._num_buckets - 1).bit_length())
        # A shift by all 64 bits would be none at all.
        keys = self._key(rows)
        buckets = keys >> shift if self._num_buckets > 1 else np.zeros(len(rows), np.uint64)
        order = np.argsort(buckets, kind="stable")
        found, starts = np.unique(buckets[order], return_index=True)
        for bucket, part in zip(found.tolist(), np.split(rows[order], starts[1:]), strict=True):
            yield int(bucket), part


def fold_rows(chunks: Iterable[Rows], reduce: Callable[[Rows], Rows], dtype: Any) -> Rows:
    """Puts the rows of a bucket together without ever holding many more than remain.

    Args:
        chunks: structured arrays.
        reduce: makes fewer rows that say the same.
        dtype: dtype of the rows.

    Returns:
        The reduced rows of all chunks.
    """
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
    """Keeps one of each group of rows that are equal in some fields.

    Args:
        rows: structured array, shape [n].
        names: fields that make rows equal.
        order_by: fields by which the first one is chosen.

    Returns:
        The rows that are kept, ordered by `names`.
    """
    ordered, starts = group_equal(rows, names, order_by)
    return ordered[starts]


def group_equal(rows: Rows, names: Sequence[str], order_by: Sequence[str] = ()) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Puts rows that are equal in some fields next to one another.

    Args:
        rows: structured array, shape [n].
        names: fields that make rows equal.
        order_by: fields that order equal rows.

    Returns:
        The ordered rows, and int64 [num_groups], where each group begins.
    """
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    ordered = rows[np.lexsort([rows[name] for name in (*reversed(order_by), *reversed(names))])]
    is_first = np.zeros(len(rows), bool)
    is_first[0] = True
    for name in names:
        is_first[1:] |= ordered[name][1:] != ordered[name][:-1]
    return ordered, np.flatnonzero(is_first)
