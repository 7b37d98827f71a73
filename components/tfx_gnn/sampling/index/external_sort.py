"""Sorts edges that do not fit into memory, through buckets in temporary files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.index.column_files import FileRecord, ValuesWriter
from tfx_gnn.sampling.random_choice import edge_hash, mix

_Integers = npt.NDArray[np.int64]

CHUNK = 1 << 19  # edges that are handled at once
_BUCKET = 1 << 21  # edges that are sorted at once, unless this takes more buckets than files can be open
_MAX_BUCKETS = 512
_CODE_BITS = 64


def row_dtype(bound: int) -> np.dtype[Any]:
    """Returns the type in which numbers below a bound are written."""
    return np.dtype(np.uint32 if bound <= 1 << 32 else np.int64)


class _Buckets:
    """Records that are spread over temporary files by the number of their bucket."""

    def __init__(self, folder: str, num_buckets: int, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._paths = [os.path.join(folder, f"bucket-{number}") for number in range(num_buckets)]
        for path in self._paths:
            with open(path, "wb"):
                pass

    def add(self, buckets: _Integers, **columns: npt.NDArray[Any]) -> None:
        """Appends records to their buckets; records of a bucket keep their order."""
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        records = np.empty(len(buckets), self._dtype)
        for name, values in columns.items():
            records[name] = values[order]
        splits = np.searchsorted(buckets[order], np.arange(len(self._paths) + 1))
        for number, path in enumerate(self._paths):
            if splits[number] < splits[number + 1]:
                with open(path, "ab") as file:
                    file.write(records[splits[number] : splits[number + 1]].data)

    def take(self) -> Iterator[npt.NDArray[Any]]:
        """Yields the records of one bucket after the other, and removes its file."""
        for path in self._paths:
            records = np.fromfile(path, self._dtype)
            os.remove(path)
            yield records


def _num_buckets(num_edges: int) -> int:
    return min(max(-(-num_edges // _BUCKET), 1), _MAX_BUCKETS)


def write_adjacency(
    folder: str,
    name: str,
    *,
    starts: npt.NDArray[Any],
    ends: npt.NDArray[Any],
    rows: _Integers | None,
    num_nodes: int,
    end_bound: int,
    scratch: str,
) -> dict[str, FileRecord]:
    """Writes edges by start, sorted by `edge_hash`, as `build_adjacency` orders them in memory.

    Takes 16 bytes per node, and memory for the edges of a chunk and of a bucket.

    Args:
        folder: where to write `<name>.offsets`, `<name>.neighbors` and `<name>.rows`.
        name: first part of the file names.
        starts: integers, shape [num_edges], in [0, num_nodes).
        ends: integers, shape [num_edges], in [0, end_bound).
        rows: ascending rows of the edges in their table as written; None for 0, 1, ...
        num_nodes: number of nodes where edges may start.
        end_bound: number of nodes where edges may end.
        scratch: folder for temporary files.

    Returns:
        The records of the files.
    """
    num_edges = len(starts)
    offsets = np.zeros(num_nodes + 1, np.int64)
    step = max(CHUNK, num_nodes // 4)
    for first in range(0, num_edges, step):
        offsets[1:] += np.bincount(starts[first : first + step], minlength=num_nodes)
    np.cumsum(offsets, out=offsets)
    writer = ValuesWriter(folder, f"{name}.offsets", np.int64)
    writer.append(offsets)
    files = writer.finish()
    end_dtype = row_dtype(end_bound)
    edge_dtype = row_dtype(num_edges if rows is None else int(rows[-1]) + 1 if num_edges else 0)
    dtype = np.dtype([("start", row_dtype(num_nodes)), ("end", end_dtype), ("row", edge_dtype)])
    buckets = _Buckets(scratch, _num_buckets(num_edges), dtype)
    for first in range(0, num_edges, CHUNK):
        last = min(first + CHUNK, num_edges)
        chunk = starts[first:last].astype(np.int64)
        edge_rows = np.arange(first, last) if rows is None else rows[first:last]
        # Where an edge would lie if the hashes of each node's edges were evenly spread. It ascends with (start, hash),
        # so buckets by it are sorted among each other, and even a hub's edges are spread over several.
        share = (edge_hash(edge_rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        of_start = offsets[chunk + 1] - offsets[chunk]
        places = offsets[chunk] + np.minimum((share * of_start).astype(np.int64), of_start - 1)
        buckets.add(_bucket_of(places, num_edges), start=chunk, end=ends[first:last], row=edge_rows)
    neighbors = ValuesWriter(folder, f"{name}.neighbors", end_dtype)
    of_rows = ValuesWriter(folder, f"{name}.rows", edge_dtype)
    for records in buckets.take():
        order = adjacency_order(records["start"].astype(np.uint64), edge_hash(records["row"].astype(np.int64)))
        neighbors.append(records["end"][order])
        of_rows.append(records["row"][order])
    return files | neighbors.finish() | of_rows.finish()


def _bucket_of(places: _Integers, num_places: int) -> _Integers:
    size = -(-num_places // _num_buckets(num_places))
    return places // size


def adjacency_order(starts: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> _Integers:
    """Sorts edges by (start, hash), by one number that has the start in its upper bits wherever these decide it."""
    if not len(starts):
        return np.zeros(0, np.int64)
    starts = starts - starts.min()
    bits = int(starts.max()).bit_length()
    keys = (starts << np.uint64(_CODE_BITS - bits)) | (hashes >> np.uint64(bits)) if bits else hashes
    order = np.argsort(keys)
    in_order = keys[order]
    if (in_order[1:] == in_order[:-1]).any():
        return np.lexsort((hashes, starts))
    return order


def find_repeated_edges(
    sources: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    *,
    num_targets: int,
    scratch: str,
    times: _Integers | None = None,
) -> Iterator[_Integers]:
    """Finds edges with the ends (and time) of an earlier one.

    Yields their positions, int64, piece by piece in any order.
    """
    num_edges = len(sources)
    fields = [("pair", np.int64), ("position", row_dtype(num_edges))] + ([] if times is None else [("time", np.int64)])
    num_buckets = _num_buckets(num_edges)
    buckets = _Buckets(scratch, num_buckets, np.dtype(fields))
    for first in range(0, num_edges, CHUNK):
        last = min(first + CHUNK, num_edges)
        columns: dict[str, npt.NDArray[Any]] = {
            "pair": sources[first:last].astype(np.int64) * num_targets + targets[first:last],
            "position": np.arange(first, last),
        }
        if times is not None:
            columns["time"] = times[first:last]
        numbers = (mix(columns["pair"].astype(np.uint64)) % np.uint64(num_buckets)).astype(np.int64)
        buckets.add(numbers, **columns)
    for records in buckets.take():
        # Records of a bucket are in the order of their positions.
        again = find_repeats(records["pair"], None if times is None else records["time"])
        yield records["position"][again].astype(np.int64)


def find_repeats(pairs: npt.NDArray[np.int64], times: npt.NDArray[np.int64] | None) -> _Integers:
    """Returns the positions, in any order, of those that have the pair (and time) of an earlier one."""
    # Stable sorting keeps the order of equal ones.
    if times is None:
        order = np.argsort(pairs, kind="stable")
        in_order = pairs[order]
        is_same = in_order[1:] == in_order[:-1]
    else:
        order = np.lexsort((times, pairs))
        in_order, ordered = pairs[order], times[order]
        is_same = (in_order[1:] == in_order[:-1]) & (ordered[1:] == ordered[:-1])
    return order[1:][is_same]
