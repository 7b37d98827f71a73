"""The partitions of a graph: which rows they hold, in which order, and the buckets of hubs.

These are pure functions of arrays and tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.random_choice import edge_hash, mix

_Codes = npt.NDArray[np.uint64]
_Integers = npt.NDArray[np.int64]


def partition_of_codes(codes: npt.NDArray[Any], num_partitions: int) -> _Integers:
    """Returns the partition of codes or keys, uint64 or viewed as int64: the number in their first bits."""
    bits = num_partitions.bit_length() - 1
    if not bits:
        return np.zeros(codes.shape, np.int64)
    return (codes.view(np.uint64) >> np.uint64(64 - bits)).astype(np.int64)


def bucket_partition_of(nodes: _Codes, buckets: npt.NDArray[np.int32], num_partitions: int) -> _Integers:
    """Returns the partition of each bucket of a hub: the buckets of a hub are spread over all partitions."""
    # Mixed, because the first bits of the code alone are the same for all buckets of a hub.
    return partition_of_codes(mix(nodes ^ buckets.astype(np.uint64)), num_partitions)


def group_by_partition(
    partitions: _Integers,
) -> Iterator[tuple[int, _Integers | None]]:
    """Yields each partition that occurs, ascending, with its positions, ascending.

    If only one partition occurs, None stands for all positions.
    """
    if not len(partitions):
        return
    if (partitions == partitions[0]).all():
        yield int(partitions[0]), None
        return
    # NumPy sorts two-byte integers by counting, in a third of the time.
    narrow: npt.NDArray[Any] = partitions.astype(np.uint16) if partitions.max() < 2**16 else partitions
    order = np.argsort(narrow, kind="stable").astype(np.int64)
    in_order = partitions[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]])).tolist()
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(in_order[start]), order[start:stop]


def ranges_by_partition(codes: _Codes, num_partitions: int) -> list[tuple[int, slice]]:
    """Returns each partition that occurs among ascending codes, and the slice of its codes."""
    partitions = partition_of_codes(codes, num_partitions)
    starts = group_starts(partitions).tolist()
    return [(int(partitions[start]), slice(start, stop)) for start, stop in itertools.pairwise(starts)]


def split_by_partition(rows: pa.Table, partitions: _Integers) -> list[tuple[int, pa.Table]]:
    """Splits rows by partition, ascending; rows keep their order, and partitions without rows are left out."""
    return [(p, rows if at is None else rows.take(pa.array(at))) for p, at in group_by_partition(partitions)]


def concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """Joins tables of one schema, each column in one chunk."""
    return pa.concat_tables(tables).combine_chunks()


def sort_edges(rows: pa.Table) -> pa.Table:
    """Sorts edges by (node, hash of the row), which also sorts the edges of a hub by bucket."""
    hashes = edge_hash(rows.column(files.ROW).to_numpy())
    return rows.take(pa.array(np.lexsort((hashes, files.as_codes(rows.column(files.NODE))))))


def sort_seeds(rows: pa.Table) -> pa.Table:
    """Sorts seeds by (key, row)."""
    return rows.take(pa.array(np.lexsort((rows.column(files.ROW).to_numpy(), files.as_codes(rows.column(files.KEY))))))


def bucket_bits(degrees: _Integers, hub_degree: int) -> _Integers:
    """Returns base-2 logarithms, at least 1, of the numbers of buckets of hubs with these degrees.

    A bucket holds between a quarter and a half of `hub_degree` edges on average.
    """
    return np.ceil(np.log2(degrees * 2 / hub_degree)).astype(np.int64)


def buckets_of_edges(edge_rows: _Integers, bits: _Integers) -> npt.NDArray[np.int32]:
    """Returns the bucket of each edge of a hub; `bits` is `bucket_bits` of the hub of each edge."""
    return (edge_hash(edge_rows) >> (64 - bits).astype(np.uint64)).astype(np.int32)


def hub_rows(nodes: _Codes, bits: _Integers, buckets: pa.Table) -> pa.Table:
    """Lists all buckets of some hubs, including empty ones, with the number of edges, ascending by (node, bucket).

    `nodes` ascend; `bits` is `bucket_bits` of each node. `buckets` is the output of `count_buckets`, in any order.
    """
    sizes = 1 << bits
    starts = np.cumsum(sizes) - sizes
    counts = np.zeros(int(sizes.sum()), np.int64)
    hubs = np.searchsorted(nodes, files.as_codes(buckets.column(files.NODE)))
    places = starts[hubs] + buckets.column(files.BUCKET).to_numpy()
    counts[places] = buckets.column(files.BUCKET_COUNT).to_numpy()
    numbers = np.arange(len(counts)) - np.repeat(starts, sizes)
    return pa.table(
        {
            files.NODE: np.repeat(nodes, sizes).view(np.int64),
            files.BUCKET: numbers.astype(np.int32),
            files.BUCKET_COUNT: counts,
        }
    )


def count_buckets(rows: pa.Table) -> pa.Table:
    """Counts the edges of each bucket, as `#node`, `#bucket` and `#bucket_count`; `rows` are sorted by bucket."""
    nodes = files.as_codes(rows.column(files.NODE))
    buckets = rows.column(files.BUCKET).to_numpy()
    starts = group_starts(nodes, buckets)
    return pa.table(
        {
            files.NODE: nodes[starts[:-1]].view(np.int64),
            files.BUCKET: buckets[starts[:-1]],
            files.BUCKET_COUNT: np.diff(starts),
        }
    )


def group_starts(*keys: npt.NDArray[Any]) -> _Integers:
    """Returns where groups of equal keys begin, and the number of rows; the rows are sorted by the keys."""
    size = len(keys[0])
    if not size:
        return np.zeros(1, np.int64)
    changes = np.zeros(size - 1, np.bool_)
    for key in keys:
        changes |= key[1:] != key[:-1]
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [size]]).astype(np.int64)


def positions_in(known: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> _Integers:
    """Returns the positions of values in `known`, which is ascending; -1 for values that are not in it."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[found] == wanted, found, -1).astype(np.int64)
