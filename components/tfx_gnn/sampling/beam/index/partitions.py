"""Pure functions that sort rows into the order of the index files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.beam.index.reader import group_starts
from tfx_gnn.sampling.random_choice import edge_hash

_Codes = npt.NDArray[np.uint64]
_Counts = npt.NDArray[np.int64]


def sort_nodes(rows: pa.Table) -> pa.Table:
    """Sorts nodes by code as uint64; equal codes keep their order."""
    return rows.take(pa.array(np.argsort(files.as_codes(rows.column(files.CODE)), kind="stable")))


def sort_edges(rows: pa.Table) -> pa.Table:
    """Sorts edges by (node, hash of the row): a node's buckets then follow each other."""
    hashes = edge_hash(rows.column(files.ROW).to_numpy())
    return rows.take(pa.array(np.lexsort((hashes, files.as_codes(rows.column(files.NODE))))))


def sort_seeds(rows: pa.Table) -> pa.Table:
    """Sorts seeds by (key, row)."""
    return rows.take(pa.array(np.lexsort((rows.column(files.ROW).to_numpy(), files.as_codes(rows.column(files.KEY))))))


def bucket_bits(degrees: _Counts, hub_degree: int) -> npt.NDArray[np.int64]:
    """Returns base-2 logarithms, at least 1, of the numbers of buckets that hubs of these degrees are cut in.

    A bucket holds between a quarter and a half of `hub_degree` edges on average.
    """
    return np.ceil(np.log2(degrees * 2 / hub_degree)).astype(np.int64)


def buckets_of_edges(edge_rows: _Counts, bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Returns the bucket of each edge of a hub; `bits` is `bucket_bits` of the hub of each edge."""
    return (edge_hash(edge_rows) >> (64 - bits).astype(np.uint64)).astype(np.int32)


def hub_rows(nodes: _Codes, bits: npt.NDArray[np.int64], buckets: pa.Table) -> pa.Table:
    """Lists every bucket of some hubs with the number of its edges, empty ones too, ascending by (node, bucket).

    `nodes` ascend; `bits` is `bucket_bits` of each. `buckets` is what `count_buckets` returned, in any order.
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
    """Counts the edges of each bucket as `#node`, `#bucket` and `#bucket_count`; `rows` are sorted by bucket."""
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


def split_by_partition(rows: pa.Table, partitions: npt.NDArray[np.int64]) -> list[tuple[int, pa.Table]]:
    """Splits rows by partition, ascending; rows keep their order and partitions without rows are left out."""
    order = np.argsort(partitions, kind="stable")
    ordered = partitions[order]
    starts = group_starts(ordered)
    taken = rows.take(pa.array(order))
    return [
        (int(ordered[start]), taken.slice(start, stop - start))
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]


def concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """Joins tables of one schema, each column in one chunk."""
    return pa.concat_tables(tables).combine_chunks()
