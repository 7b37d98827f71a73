"""Answers requests from one partition of the graph: edges, and ids and features of sampled nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.beam.index.reader import EdgePartition, GraphIndex, HubPartition, bucket_partition_of
from tfx_gnn.sampling.beam.messages import (
    BucketRequests,
    NodeAnswer,
    NodeRequests,
    PartAnswer,
    PartRequests,
    group_by_partition,
    pack_table,
)
from tfx_gnn.sampling.engine.edge_choice import (
    Adjacency,
    EdgeRequests,
    FoundEdges,
    expand_ranges,
    find_edges,
    merge_scored,
    positions_of_requests,
    visits_all_edges,
)
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan


def route_nodes(
    codes: Mapping[str, npt.NDArray[np.uint64]], num_partitions: int
) -> dict[int, tuple[NodeRequests, ...]]:
    """Divides the nodes of a block among the partitions that hold them.

    Args:
        codes: by node set, uint64 array, shape [n], ascending, no two equal.
        num_partitions: number of partitions, a power of two.

    Returns:
        By partition, what it is asked for; partitions that are asked for nothing are left out.
    """
    routed: dict[int, list[NodeRequests]] = {}
    for node_set, of_set in codes.items():
        for partition, at in group_by_partition(files.partition_of_codes(of_set, num_partitions)):
            part = NodeRequests(node_set=node_set, codes=of_set if at is None else of_set[at])
            routed.setdefault(partition, []).append(part)
    return {partition: tuple(parts) for partition, parts in sorted(routed.items())}


def answer_nodes(index: GraphIndex, partition: int, parts: Sequence[NodeRequests]) -> tuple[NodeAnswer, ...]:
    """Looks nodes up.

    Args:
        index: the graph.
        partition: number of the partition.
        parts: nodes of that partition.

    Returns:
        The nodes, set by set.

    Raises:
        ValueError: if an edge of the index led to a node that the index lacks.
    """
    answers = []
    for part in parts:
        nodes = index.load_nodes(part.node_set, partition)
        positions = nodes.positions_of(part.codes)
        if (positions < 0).any():
            missing = part.codes[positions < 0]
            raise ValueError(
                f"`index_dir` must hold the nodes that its edges lead to; got {index.index_dir!r}, which lacks "
                f"{len(missing)} of node set {part.node_set!r}, the first with code {int(missing[0]):#x}. "
                "Build the index again."
            )
        at = pa.array(positions)
        rows = {
            files.CODE: part.codes.view(np.int64),
            files.ID: nodes.ids.take(at),
            **{name: values.take(at) for name, values in nodes.features.items()},
        }
        answers.append(NodeAnswer(node_set=part.node_set, rows=pack_table(pa.table(rows))))
    return tuple(answers)


MAX_BUCKET_REQUESTS = 1 << 16
"""About how many questions about buckets wait to be sent: a hub of a billion edges has a million buckets."""


_Integers = npt.NDArray[np.int64]


class PartitionAnswers:
    """Looks up edges for any caller, one partition at a time.

    What it holds in memory is the partition that it was asked about last.
    """

    def __init__(self, index: GraphIndex, plan: SamplingPlan, schema: GraphSchema, hops: Sequence[Hop]) -> None:
        """Gets ready to answer.

        Args:
            index: the graph.
            plan: what is sampled.
            schema: schema of the subgraphs: its edge features travel with the edges.
            hops: the hops that are asked about; `PartRequests.hop` counts in this order.
        """
        self._index = index
        self._plan = plan
        self._hops = tuple(hops)
        self._features = {
            name: tuple(sorted(set(edge_set.features) - files.RESERVED)) for name, edge_set in schema.edge_sets.items()
        }
        self._partition = -1
        self._loaded: dict[tuple[str, str, bool], _EdgesByRow] = {}
        self._ready: dict[tuple[int, bool], _Edges] = {}
        self._hubs: dict[int, HubPartition] = {}

    def answer(
        self, partition: int, parts: Sequence[PartRequests]
    ) -> tuple[tuple[PartAnswer, ...], Iterator[tuple[int, BucketRequests]]]:
        """Answers requests about nodes of a partition.

        Args:
            partition: number of the partition.
            parts: requests of one block.

        Returns:
            The answers; and pairs of another partition and what is asked of it, as it
            holds edges of this partition's hubs. These are made one after the other,
            as there may be many: to be used up before the next call.
        """
        self._turn_to(partition)
        answers: list[PartAnswer] = []
        forwarded: list[Iterable[BucketRequests]] = []
        for part in parts:
            hop = self._hops[part.hop]
            hubs = self._hubs_of(hop, part.hop)
            at_hub = hubs.positions_of(part.requests.nodes.view(np.uint64))
            if (at_hub < 0).all():
                answers.append(self._answer_nodes(part))
                continue
            others = np.flatnonzero(at_hub < 0)
            if len(others):
                answers.append(self._answer_nodes(_take(part, others)))
            is_scored = visits_all_edges(hop, part.requests)
            positional = np.flatnonzero((at_hub >= 0) & ~is_scored)
            if len(positional):
                counts, asked = self._choose_positions(_take(part, positional), hubs, at_hub[positional])
                answers.append(counts)
                forwarded.append((asked,))
            scored = np.flatnonzero((at_hub >= 0) & is_scored)
            if len(scored):
                forwarded.append(_ask_all_buckets(_take(part, scored), hubs, at_hub[scored]))
        return tuple(answers), self._forward(itertools.chain.from_iterable(forwarded))

    def answer_buckets(self, partition: int, parts: Sequence[BucketRequests]) -> tuple[PartAnswer, ...]:
        """Answers requests about hubs' edges in the buckets of a partition.

        Args:
            partition: number of the partition.
            parts: requests of one block.

        Returns:
            The answers, each a part of what a hub's requests get.

        Raises:
            ValueError: if the index lacks a bucket that its hub files tell of.
        """
        self._turn_to(partition)
        answers = []
        for part in parts:
            edges = self._edges(part.hop, of_hubs=True)
            at_bucket = edges.partition.positions_of(part.nodes, part.buckets)
            if (at_bucket < 0).any():
                missing = int(np.flatnonzero(at_bucket < 0)[0])
                raise ValueError(
                    f"`index_dir` must hold bucket {part.buckets[missing]} of node {part.nodes[missing]:#x} of "
                    f"edge set {self._hops[part.hop].edge_set!r} in partition {partition}; got "
                    f"{self._index.index_dir!r}, which lacks it. Build the index again."
                )
            if part.offsets is None:
                found = edges.find(
                    self._hops[part.hop], at_bucket, part.requests, inclusive=self._inclusive, keeps_scores=True
                )
            else:
                found = edges.at(part.requests.hop, edges.partition.offsets[at_bucket] + part.offsets, part.draws)
            # Several buckets of one hub make one answer to each request.
            positions, asked = np.unique(part.positions, return_inverse=True)
            found = merge_scored(self._hops[part.hop], [found], [asked], len(positions), keeps_scores=True)
            answers.append(
                PartAnswer(hop=part.hop, positions=positions, found=found, features=edges.features_of(found.edge_rows))
            )
        return tuple(answers)

    @property
    def _inclusive(self) -> bool:
        return self._plan.temporal is not None and self._plan.temporal.inclusive

    def _turn_to(self, partition: int) -> None:
        if partition != self._partition:
            self._loaded.clear()
            self._ready.clear()
            self._hubs.clear()
            self._partition = partition

    def _hubs_of(self, hop: Hop, position: int) -> HubPartition:
        if position not in self._hubs:
            self._hubs[position] = self._index.load_hubs(hop.edge_set, hop.direction, self._partition)
        return self._hubs[position]

    def _edges(self, position: int, *, of_hubs: bool = False) -> _Edges:
        if (position, of_hubs) not in self._ready:
            hop = self._hops[position]
            key = hop.edge_set, hop.direction, of_hubs
            if key not in self._loaded:
                load = self._index.load_buckets if of_hubs else self._index.load_edges
                loaded = load(hop.edge_set, hop.direction, self._partition)
                self._loaded[key] = _EdgesByRow(loaded, self._features[hop.edge_set])
            times = self._plan.temporal.edge_times.get(hop.edge_set) if self._plan.temporal else None
            self._ready[position, of_hubs] = _Edges(self._loaded[key], hop, times)
        return self._ready[position, of_hubs]

    def _answer_nodes(self, part: PartRequests) -> PartAnswer:
        edges = self._edges(part.hop)
        local = edges.partition.positions_of(part.requests.nodes.view(np.uint64))
        found = edges.find(self._hops[part.hop], local, part.requests, inclusive=self._inclusive)
        return PartAnswer(
            hop=part.hop, positions=part.positions, found=found, features=edges.features_of(found.edge_rows)
        )

    def _choose_positions(
        self, part: PartRequests, hubs: HubPartition, at_hub: _Integers
    ) -> tuple[PartAnswer, BucketRequests]:
        """Counts what hubs have to choose from, and asks for the chosen edges."""
        degrees = hubs.degrees[at_hub]
        requests, positions, draws = positions_of_requests(self._hops[part.hop], part.requests.keys, degrees)
        ends = np.cumsum(hubs.bucket_counts)
        starts = ends - hubs.bucket_counts
        # Over the edges of all hubs of the partition, one hub after the other.
        overall = starts[hubs.offsets[at_hub]][requests] + positions
        bucket = np.searchsorted(ends, overall, side="right")
        buckets = (bucket - hubs.offsets[at_hub][requests]).astype(np.int32)
        asked = BucketRequests(
            hop=part.hop,
            positions=part.positions[requests],
            nodes=part.requests.nodes.view(np.uint64)[requests],
            buckets=buckets,
            requests=part.requests.take(np.zeros(0, np.int64)),
            offsets=overall - starts[bucket],
            draws=draws,
        )
        nothing = np.zeros(0, np.int64)
        counts = FoundEdges(
            hop=part.requests.hop,
            requests=nothing,
            edge_rows=nothing,
            neighbors=nothing,
            draws=np.zeros(0, np.int16),
            scores=None,
            num_candidates=degrees,
            num_eligible=degrees,
        )
        return PartAnswer(hop=part.hop, positions=part.positions, found=counts), asked

    def _forward(self, asked: Iterable[BucketRequests]) -> Iterator[tuple[int, BucketRequests]]:
        num_partitions = self._index.info.num_partitions
        for part in asked:
            for partition, at in group_by_partition(bucket_partition_of(part.nodes, part.buckets, num_partitions)):
                yield partition, part if at is None else _take_buckets(part, at)


def _ask_all_buckets(part: PartRequests, hubs: HubPartition, at_hub: _Integers) -> Iterator[BucketRequests]:
    """Asks all buckets of hubs for their best edges, a bounded number at a time."""
    num_buckets = np.diff(hubs.offsets)[at_hub]
    batch = (np.cumsum(num_buckets) - num_buckets) // MAX_BUCKET_REQUESTS
    bounds = np.flatnonzero(np.diff(batch, prepend=-1, append=batch[-1] + 1)).tolist()
    for start, stop in itertools.pairwise(bounds):
        of_batch = num_buckets[start:stop]
        requests = start + np.repeat(np.arange(stop - start), of_batch)
        buckets = expand_ranges(np.zeros(stop - start, np.int64), of_batch)
        # Buckets without edges have no place in the files.
        filled = hubs.bucket_counts[hubs.offsets[at_hub][requests] + buckets] > 0
        requests = requests[filled]
        yield BucketRequests(
            hop=part.hop,
            positions=part.positions[requests],
            nodes=part.requests.nodes.view(np.uint64)[requests],
            buckets=buckets[filled].astype(np.int32),
            requests=part.requests.take(requests),
        )


class _EdgesByRow:
    """One partition's edges, whose features are looked up by the row in their table."""

    def __init__(self, partition: EdgePartition, features: Sequence[str]) -> None:
        self.partition = partition
        self._features: Mapping[str, pa.Array] = {name: partition.features[name] for name in features}
        self._by_row: tuple[_Integers, _Integers] | None = None

    def features_of(self, edge_rows: _Integers) -> bytes:
        """Features of edges, each edge once; nothing if there are none to tell of."""
        if not self._features or not len(edge_rows):
            return b""
        if self._by_row is None:
            order = np.argsort(self.partition.edge_rows)
            self._by_row = self.partition.edge_rows[order], order
        rows = np.unique(edge_rows)
        positions = pa.array(self._by_row[1][np.searchsorted(self._by_row[0], rows)])
        columns = {name: values.take(positions) for name, values in self._features.items()}
        return pack_table(pa.table({files.ROW: rows, **columns}))


class _Edges:
    """One partition's edges as a hop looks at them."""

    def __init__(self, loaded: _EdgesByRow, hop: Hop, times: str | None) -> None:
        self.partition = partition = loaded.partition
        self.features_of = loaded.features_of
        weights = None
        if hop.strategy == "in_degree":
            assert partition.in_degrees is not None
            weights = partition.in_degrees.astype(np.float64)
        elif hop.weight_feature:
            weights = partition.numbers(hop.weight_feature)
        self._adjacency = Adjacency(
            offsets=partition.offsets,
            edge_rows=partition.edge_rows,
            neighbors=partition.neighbors,
            times=partition.integers(times) if times else None,
            ranks=partition.ranks,
            weights=weights,
        )

    def find(
        self,
        hop: Hop,
        local: _Integers,
        requests: EdgeRequests,
        *,
        inclusive: bool,
        keeps_scores: bool = False,
    ) -> FoundEdges:
        return find_edges(hop, self._adjacency, local, requests, inclusive=inclusive, keeps_scores=keeps_scores)

    def at(self, hop: str, positions: _Integers, draws: npt.NDArray[np.int16] | None) -> FoundEdges:
        """The edges at some positions, one a request, which somebody else has counted."""
        nothing = np.zeros(len(positions), np.int64)
        return FoundEdges(
            hop=hop,
            requests=np.arange(len(positions)),
            edge_rows=self.partition.edge_rows[positions],
            neighbors=self.partition.neighbors[positions],
            draws=np.zeros(len(positions), np.int16) if draws is None else draws,
            scores=None,
            num_candidates=nothing,
            num_eligible=nothing,
        )


def _take(part: PartRequests, at: _Integers) -> PartRequests:
    return PartRequests(hop=part.hop, positions=part.positions[at], requests=part.requests.take(at))


def _take_buckets(part: BucketRequests, at: _Integers) -> BucketRequests:
    return BucketRequests(
        hop=part.hop,
        positions=part.positions[at],
        nodes=part.nodes[at],
        buckets=part.buckets[at],
        requests=part.requests if part.offsets is not None else part.requests.take(at),
        offsets=None if part.offsets is None else part.offsets[at],
        draws=None if part.draws is None else part.draws[at],
    )
