"""The Beam steps of one round: blocks send requests, partitions answer, blocks accept the answers.

Between two steps there is a shuffle. Messages to partitions are grouped by the number of the partition, so that each
partition is loaded once per round. Answers are grouped by the number of the block, together with the block's state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.messages import (
    BucketRequests,
    NodeAnswer,
    NodeRequests,
    PartAnswer,
    PartRequests,
    ToPartition,
    pack,
    pack_table,
    read_state,
    route_requests,
    unpack,
)
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    bucket_partition_of,
    group_by_partition,
    partition_of_codes,
)
from tfx_gnn.sampling.beam.partitioned_graph.reader import EdgePartition, HubPartition, PartitionedGraph
from tfx_gnn.sampling.beam.rounds.block_state import (
    AnswerMerger,
    BlockRun,
    BlockState,
    no_edges,
    read_block_seeds,
    start_block,
)
from tfx_gnn.sampling.engine.adjacency import Adjacency
from tfx_gnn.sampling.engine.block_sampling import rounds_of_plan
from tfx_gnn.sampling.engine.edge_choice import (
    EdgeRequests,
    FoundEdges,
    expand_ranges,
    find_edges,
    merge_scored,
    positions_of_requests,
    visits_all_edges,
)
from tfx_gnn.sampling.plan.drawing_weights import check_hop_weights
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema

STATES = "states"
"""Output with (number of a block, its state)."""
REQUESTS = "requests"
"""Output with (partition, message from a block)."""
ANSWERS = "answers"
"""Output with (number of a block, answers to it)."""
FORWARDED = "forwarded"
"""Output with (partition of buckets, message from a block)."""

MAX_BUCKET_REQUESTS = 1 << 16
"""Approximate number of buffered requests about buckets: a hub with a billion edges has a million buckets."""

_Integers = npt.NDArray[np.int64]


class GraphStep(beam.DoFn):
    """A step that reads the partitioned graph; every worker opens it itself."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan) -> None:
        self._partitions_dir = partitions_dir
        self._plan = plan

    def setup(self) -> None:
        """Opens the partitioned graph."""
        # Steps cache what they use, so it need not be cached again.
        self._graph = PartitionedGraph(self._partitions_dir, num_cached=1)

    def ask_of(self, state: BlockState) -> Iterator[Any]:
        """Yields a block's state and its next requests: for edges, or for its nodes after the last round."""
        number, num_partitions = state.block.number, self._graph.info.num_partitions
        routed: dict[int, Any]
        if requests := state.ask():
            routed = route_requests(requests, num_partitions)
        else:
            routed = route_nodes(state.finish(), num_partitions)
        for partition, parts in routed.items():
            yield pvalue.TaggedOutput(REQUESTS, (partition, pack(ToPartition(block=number, parts=parts))))
        yield number, pack(state)


class StartBlocks(GraphStep):
    """Converts runs of blocks to the blocks' states and first requests."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan, sampling_seed: int) -> None:
        super().__init__(partitions_dir, plan)
        self._sampling_seed = sampling_seed

    def process(self, element: BlockRun) -> Iterator[Any]:
        """Starts the blocks of a run."""
        for seeds in read_block_seeds(self._graph, self._plan, element.blocks()):
            yield from self.ask_of(start_block(seeds, self._plan, self._graph.schema, self._sampling_seed))


class AnswerRequests(GraphStep):
    """Answers (partition, messages of blocks) with pairs (block, answers)."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan, number: int, *, of_buckets: bool = False) -> None:
        super().__init__(partitions_dir, plan)
        self._round = number
        self._of_buckets = of_buckets

    def setup(self) -> None:
        """Opens the partitioned graph."""
        super().setup()
        schema = make_subgraph_schema(self._graph.schema, self._plan)
        self._answers = PartitionAnswers(self._graph, self._plan, schema, rounds_of_plan(self._plan)[self._round])

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Answers messages one by one; forwards requests about hubs to the partitions of their buckets."""
        partition, messages = element
        for data in messages:
            message: Any = unpack(data)
            if self._of_buckets:
                yield message.block, pack(self._answers.answer_buckets(partition, message.parts))
                continue
            answers, forwarded = self._answers.answer(partition, message.parts)
            yield message.block, pack(answers)
            for bucket_partition, parts in _gather(forwarded):
                asked = pack(ToPartition(block=message.block, parts=parts))
                yield pvalue.TaggedOutput(FORWARDED, (bucket_partition, asked))


def _gather(
    forwarded: Iterable[tuple[int, BucketRequests]],
) -> Iterator[tuple[int, tuple[BucketRequests, ...]]]:
    """Combines requests to the same partition into one message, unless there are many."""
    waiting: dict[int, list[BucketRequests]] = {}
    num_waiting = 0
    for partition, asked in forwarded:
        waiting.setdefault(partition, []).append(asked)
        num_waiting += len(asked.positions)
        if num_waiting >= MAX_BUCKET_REQUESTS:
            yield from ((of_partition, tuple(parts)) for of_partition, parts in waiting.items())
            waiting, num_waiting = {}, 0
    yield from ((of_partition, tuple(parts)) for of_partition, parts in waiting.items())


class PartitionAnswers:
    """Answers requests about edges; keeps the partition of the last request in memory.

    Edges of a hub are in buckets of all partitions. If edges are chosen by position alone, the hub's own partition
    draws positions and requests these edges from the buckets; otherwise every bucket answers with its best edges,
    which the block merges.
    """

    def __init__(self, graph: PartitionedGraph, plan: SamplingPlan, schema: GraphSchema, hops: Sequence[Hop]) -> None:
        """Prepares to answer: `schema` is the schema of subgraphs, whose edge features are sent with the edges.

        `PartRequests.hop` is a position in `hops`.
        """
        self._graph = graph
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
        """Answers requests of one block about nodes of a partition.

        Returns the answers, and pairs (other partition, requests to it) about edges of this partition's hubs that the
        other partition holds. There may be many pairs, so they are made one by one: exhaust the iterator before the
        next call.
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
                answers.append(self._answer_nodes(part.take(others)))
            is_scored = visits_all_edges(hop, part.requests)
            positional = np.flatnonzero((at_hub >= 0) & ~is_scored)
            if len(positional):
                counts, asked = self._choose_positions(part.take(positional), hubs, at_hub[positional])
                answers.append(counts)
                forwarded.append((asked,))
            scored = np.flatnonzero((at_hub >= 0) & is_scored)
            if len(scored):
                forwarded.append(_ask_all_buckets(part.take(scored), hubs, at_hub[scored]))
        return tuple(answers), self._forward(itertools.chain.from_iterable(forwarded))

    def answer_buckets(self, partition: int, parts: Sequence[BucketRequests]) -> tuple[PartAnswer, ...]:
        """Answers requests of one block about hubs' edges in the buckets of a partition.

        Each answer is only a part of the whole answer to a hub's requests.
        """
        self._turn_to(partition)
        answers = []
        for part in parts:
            edges = self._edges(part.hop, of_hubs=True)
            at_bucket = edges.partition.positions_of(part.nodes, part.buckets)
            if (at_bucket < 0).any():
                missing = int(np.flatnonzero(at_bucket < 0)[0])
                raise ValueError(
                    f"`partitions_dir` must hold bucket {part.buckets[missing]} of node {part.nodes[missing]:#x} of "
                    f"edge set {self._hops[part.hop].edge_set!r} in partition {partition}; got "
                    f"{self._graph.partitions_dir!r}, which lacks it. Partition the graph again."
                )
            if part.offsets is None:
                found = edges.find(
                    self._hops[part.hop], at_bucket, part.requests, inclusive=self._inclusive, keeps_scores=True
                )
            else:
                found = edges.at(part.requests.hop, edges.partition.offsets[at_bucket] + part.offsets, part.draws)
            # Several buckets of one hub are merged into one answer per request.
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
            self._hubs[position] = self._graph.load_hubs(hop.edge_set, hop.direction, self._partition)
        return self._hubs[position]

    def _edges(self, position: int, *, of_hubs: bool = False) -> _Edges:
        if (position, of_hubs) not in self._ready:
            hop = self._hops[position]
            key = hop.edge_set, hop.direction, of_hubs
            if key not in self._loaded:
                load = self._graph.load_buckets if of_hubs else self._graph.load_edges
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
        """Counts the candidates of hubs, and makes requests for the chosen edges."""
        degrees = hubs.degrees[at_hub]
        requests, positions, draws = positions_of_requests(self._hops[part.hop], part.requests.keys, degrees)
        ends = np.cumsum(hubs.bucket_counts)
        starts = ends - hubs.bucket_counts
        # One search finds the buckets of all hubs, because their edges are numbered one hub after the other.
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
        counts = no_edges(part.requests.hop, degrees)
        return PartAnswer(hop=part.hop, positions=part.positions, found=counts), asked

    def _forward(self, asked: Iterable[BucketRequests]) -> Iterator[tuple[int, BucketRequests]]:
        num_partitions = self._graph.info.num_partitions
        for part in asked:
            for partition, at in group_by_partition(bucket_partition_of(part.nodes, part.buckets, num_partitions)):
                yield partition, part if at is None else part.take(at)


def _ask_all_buckets(part: PartRequests, hubs: HubPartition, at_hub: _Integers) -> Iterator[BucketRequests]:
    """Requests the best edges of all buckets of hubs, a bounded number of requests at a time."""
    num_buckets = np.diff(hubs.offsets)[at_hub]
    batch = (np.cumsum(num_buckets) - num_buckets) // MAX_BUCKET_REQUESTS
    bounds = np.flatnonzero(np.diff(batch, prepend=-1, append=batch[-1] + 1)).tolist()
    for start, stop in itertools.pairwise(bounds):
        of_batch = num_buckets[start:stop]
        requests = start + np.repeat(np.arange(stop - start), of_batch)
        buckets = expand_ranges(np.zeros(stop - start, np.int64), of_batch)
        # Empty buckets are not in the files.
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
    """One partition's edges, with their features searchable by row in the edge table."""

    def __init__(self, partition: EdgePartition, features: Sequence[str]) -> None:
        self.partition = partition
        self._features: Mapping[str, pa.Array] = {name: partition.features[name] for name in features}
        self._by_row: tuple[_Integers, _Integers] | None = None

    def features_of(self, edge_rows: _Integers) -> bytes:
        """Packs the features of edges, each edge once; empty if the examples have none."""
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
    """One partition's edges, with the times and weights that a hop uses."""

    def __init__(self, loaded: _EdgesByRow, hop: Hop, times: str | None) -> None:
        self.partition = partition = loaded.partition
        self.features_of = loaded.features_of
        weights = None
        if hop.weighs_by_degree:
            assert partition.in_degrees is not None
            weights = partition.in_degrees.astype(np.float64)
        elif hop.weight_feature:
            weights = partition.numbers(hop.weight_feature)
            # The reader of the tables, which knows the file, has refused others; the partitions may be older.
            check_hop_weights(hop, weights, lambda number: f"row {partition.edge_rows[number]} of edges/{hop.edge_set}")
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
        """Returns the edges at some positions, one per request; candidates are counted by the hub's own partition."""
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


class AcceptAnswers(GraphStep):
    """Converts (block, answers and its state) to its next state and its next requests."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan, number: int) -> None:
        super().__init__(partitions_dir, plan)
        self._round = number

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Ends a round of one block and begins the next round."""
        merger = AnswerMerger(rounds_of_plan(self._plan)[self._round])
        state = read_state(element[1], merger.add, BlockState)
        state.accept(merger)
        yield from self.ask_of(state)


class AnswerNodes(GraphStep):
    """Answers (partition, messages of blocks) with pairs (block, ids and features of nodes)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Answers messages one by one."""
        partition, messages = element
        for data in messages:
            message: Any = unpack(data)
            yield message.block, pack(answer_nodes(self._graph, partition, message.parts))


def route_nodes(
    codes: Mapping[str, npt.NDArray[np.uint64]], num_partitions: int
) -> dict[int, tuple[NodeRequests, ...]]:
    """Divides the nodes of a block, ascending by set, among the partitions that hold them."""
    routed: dict[int, list[NodeRequests]] = {}
    for node_set, of_set in codes.items():
        for partition, at in group_by_partition(partition_of_codes(of_set, num_partitions)):
            part = NodeRequests(node_set=node_set, codes=of_set if at is None else of_set[at])
            routed.setdefault(partition, []).append(part)
    return {partition: tuple(parts) for partition, parts in sorted(routed.items())}


def answer_nodes(graph: PartitionedGraph, partition: int, parts: Sequence[NodeRequests]) -> tuple[NodeAnswer, ...]:
    """Looks up nodes of one partition, set by set; a node that is not in the partitioned graph is an error."""
    answers = []
    for part in parts:
        nodes = graph.load_nodes(part.node_set, partition)
        positions = nodes.positions_of(part.codes)
        if (positions < 0).any():
            missing = part.codes[positions < 0]
            raise ValueError(
                f"`partitions_dir` must hold the nodes that its edges lead to; got {graph.partitions_dir!r}, which "
                f"lacks {len(missing)} of node set {part.node_set!r}, the first with code {int(missing[0]):#x}. "
                "Partition the graph again."
            )
        at = pa.array(positions)
        rows = {
            files.CODE: part.codes.view(np.int64),
            files.ID: nodes.ids.take(at),
            **{name: values.take(at) for name, values in nodes.features.items()},
        }
        answers.append(NodeAnswer(node_set=part.node_set, rows=pack_table(pa.table(rows))))
    return tuple(answers)
