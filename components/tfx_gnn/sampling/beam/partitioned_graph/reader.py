"""Reads a partitioned graph, one partition at a time."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.partitions import group_starts, positions_in

_Codes = npt.NDArray[np.uint64]
_Positions = npt.NDArray[np.int64]
_Loaded = TypeVar("_Loaded")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodePartition:
    """Nodes of one set in one partition.

    Attributes:
        codes: uint64 array, shape [num_nodes], ascending.
        ids: Arrow array of large_string or int64, shape [num_nodes].
        features: Arrow arrays, shape [num_nodes].
    """

    codes: _Codes
    ids: pa.Array
    features: Mapping[str, pa.Array]

    def positions_of(self, codes: _Codes) -> _Positions:
        """Returns the positions of nodes in this partition; -1 for codes that it does not have."""
        return positions_in(self.codes, codes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgePartition:
    """Edges, grouped by the node that they are looked up by, as compressed sparse rows.

    Node `i` has the edges at `offsets[i]` to `offsets[i + 1]`, sorted by (hash of the
    row, row).

    Attributes:
        nodes: uint64 array, shape [num_nodes], ascending: codes of the nodes with edges here.
        buckets: int32 array, shape [num_nodes], in a partition of hubs' buckets: entry `i` is
            a bucket of `nodes[i]`, and (node, bucket) pairs ascend. None otherwise.
        offsets: int64 array, shape [num_nodes + 1], from 0 to num_edges.
        edge_rows: int64 array, shape [num_edges]: rows in the edge table as written.
        neighbors: int64 array, shape [num_edges]: codes of the nodes at the other end, viewed as int64.
        ranks: int8 array, shape [num_edges]; None if the plan does not need ranks.
        in_degrees: int64 array, shape [num_edges]: number of edges of the set at each neighbor;
            None if no hop chooses by in-degree.
        features: Arrow arrays, shape [num_edges], including times and weights.
    """

    nodes: _Codes
    buckets: npt.NDArray[np.int32] | None
    offsets: _Positions
    edge_rows: _Positions
    neighbors: _Positions
    ranks: npt.NDArray[np.int8] | None
    in_degrees: _Positions | None
    features: Mapping[str, pa.Array]

    def positions_of(self, nodes: _Codes, buckets: npt.NDArray[np.int32] | None = None) -> _Positions:
        """Returns the positions of nodes, or of their buckets; -1 for nodes or buckets without edges here."""
        if self.buckets is None or buckets is None:
            return positions_in(self.nodes, nodes)
        hubs = positions_in(self._hubs, nodes)
        return np.where(hubs < 0, -1, positions_in(self._pairs, hubs << 32 | buckets.astype(np.int64)))

    def numbers(self, feature: str) -> npt.NDArray[np.float64]:
        """Returns a scalar feature as float64, for weights."""
        return np.asarray(self.features[feature].to_numpy(zero_copy_only=False), np.float64)

    def integers(self, feature: str) -> npt.NDArray[np.int64]:
        """Returns a scalar feature as int64, for times."""
        return np.asarray(self.features[feature].to_numpy(zero_copy_only=False), np.int64)

    @functools.cached_property
    def _hubs(self) -> _Codes:
        return np.unique(self.nodes)

    @functools.cached_property
    def _pairs(self) -> _Positions:
        assert self.buckets is not None
        return np.searchsorted(self._hubs, self.nodes).astype(np.int64) << 32 | self.buckets.astype(np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HubPartition:
    """Numbers of edges in the buckets of hubs.

    The number of buckets of a hub is a power of two. Buckets are equal ranges of the
    hash of the row, in ascending order: bucket = hash >> (64 - log2(number of buckets)).

    Attributes:
        nodes: uint64 array, shape [num_hubs], ascending: codes of the hubs.
        offsets: int64 array, shape [num_hubs + 1]: hub `i` has the buckets
            `bucket_counts[offsets[i]:offsets[i + 1]]`.
        bucket_counts: int64 array: number of edges in each bucket.
    """

    nodes: _Codes
    offsets: _Positions
    bucket_counts: _Positions

    @property
    def degrees(self) -> _Positions:
        """Number of edges of each hub: int64 array, shape [num_hubs]."""
        ends = np.concatenate([[0], np.cumsum(self.bucket_counts)])
        return np.diff(ends[self.offsets])

    def positions_of(self, codes: _Codes) -> _Positions:
        """Returns the positions of hubs in `nodes`; -1 for nodes that are not hubs."""
        return positions_in(self.nodes, codes)


class PartitionedGraph:
    """A partitioned graph on disk; the `num_cached` partitions that were used last stay in memory."""

    def __init__(self, partitions_dir: str, *, num_cached: int = 4) -> None:
        if num_cached < 1:
            raise ValueError(f"`num_cached` must be at least 1; got {num_cached}. Keep the partition in use.")
        self.partitions_dir = partitions_dir
        self.info = files.read_info(partitions_dir)
        self._num_cached = num_cached
        self._cache: collections.OrderedDict[tuple[str, int], object] = collections.OrderedDict()

    @functools.cached_property
    def schema(self) -> GraphSchema:
        """Graph schema of the tables that the partitioned graph was built from."""
        return graph_schema.read_schema(files.schema_file(self.partitions_dir))

    def load_nodes(self, node_set: str, partition: int) -> NodePartition:
        """Loads the nodes of one partition."""
        return self._load(files.node_table(node_set), partition, _to_nodes)

    def load_edges(self, edge_set: str, direction: str, partition: int) -> EdgePartition:
        """Loads the edges of nodes that are not hubs, by source ("forward") or by target ("backward")."""
        return self._load(files.edge_table(edge_set, direction), partition, _to_edges)

    def load_hubs(self, edge_set: str, direction: str, partition: int) -> HubPartition:
        """Loads the sizes of hubs' buckets; `partition` is the partition of the hubs' codes."""
        return self._load(files.hub_table(edge_set, direction), partition, _to_hubs)

    def load_buckets(self, edge_set: str, direction: str, partition: int) -> EdgePartition:
        """Loads edges of hubs; `partition` is a partition that `bucket_partition_of` returns."""
        return self._load(files.bucket_table(edge_set, direction), partition, _to_edges)

    def load_in_degrees(self, edge_set: str, partition: int) -> npt.NDArray[np.int64]:
        """Loads numbers of edges of the nodes that negatives are drawn from, in the order of `load_nodes`."""
        return self._load(files.in_degree_table(edge_set), partition, _to_in_degrees)

    def load_seeds(self, partition: int) -> pa.Table:
        """Loads seeds, ascending by (key, row); they are not cached, because each partition is read once.

        The columns are `#key`, `#row`, `#code` (node plans) or `#source` and `#target` (link plans), `#split`,
        `#time` in temporal plans, and features.
        """
        return files.read_partition(self.partitions_dir, self.info, files.SEED_TABLE, partition)

    def load_context(self) -> pa.Table:
        """Loads the context features of the plan, in one row."""
        return files.read_partition(self.partitions_dir, self.info, files.CONTEXT_TABLE, 0)

    def _load(self, table: str, partition: int, convert: Callable[[pa.Table], _Loaded]) -> _Loaded:
        key = table, partition
        if key in self._cache:
            self._cache.move_to_end(key)
            return cast(_Loaded, self._cache[key])
        rows = files.read_partition(self.partitions_dir, self.info, table, partition)
        loaded = convert(rows)
        while len(self._cache) >= self._num_cached:
            self._cache.popitem(last=False)
        self._cache[key] = loaded
        return loaded


def _to_nodes(rows: pa.Table) -> NodePartition:
    return NodePartition(
        codes=files.as_codes(rows.column(files.CODE)), ids=files.one_array(rows, files.ID), features=_features(rows)
    )


def _to_edges(rows: pa.Table) -> EdgePartition:
    nodes = files.as_codes(rows.column(files.NODE))
    buckets = _numbers(rows, files.BUCKET)
    offsets = group_starts(nodes) if buckets is None else group_starts(nodes, buckets)
    edge_rows, neighbors = _numbers(rows, files.ROW), _numbers(rows, files.NEIGHBOR)
    assert edge_rows is not None
    assert neighbors is not None
    return EdgePartition(
        nodes=nodes[offsets[:-1]],
        buckets=None if buckets is None else buckets[offsets[:-1]],
        offsets=offsets,
        edge_rows=edge_rows,
        neighbors=neighbors,
        ranks=_numbers(rows, files.RANK),
        in_degrees=_numbers(rows, files.IN_DEGREE),
        features=_features(rows),
    )


def _to_hubs(rows: pa.Table) -> HubPartition:
    nodes = files.as_codes(rows.column(files.NODE))
    offsets = group_starts(nodes)
    counts = _numbers(rows, files.BUCKET_COUNT)
    assert counts is not None
    return HubPartition(nodes=nodes[offsets[:-1]], offsets=offsets, bucket_counts=counts)


def _to_in_degrees(rows: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(rows.column(files.IN_DEGREE).to_numpy(), np.int64)


def _features(rows: pa.Table) -> dict[str, pa.Array]:
    return {name: files.one_array(rows, name) for name in rows.column_names if name not in files.RESERVED}


def _numbers(rows: pa.Table, name: str) -> npt.NDArray[Any] | None:
    return rows.column(name).to_numpy() if name in rows.column_names else None
