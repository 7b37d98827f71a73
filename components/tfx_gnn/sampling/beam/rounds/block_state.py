"""The state of a block of seeds during the rounds of sampling.

A block is a range of keys whose seeds are sampled together. The seeds are read from the partitioned graph, and the
answers of partitions are merged as they arrive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.messages import PartAnswer, pack_table
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.partitions import partition_of_codes
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.engine.block_result import BlockResult
from tfx_gnn.sampling.engine.block_sampling import BlockSampling
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, FoundEdges, merge_scored
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.plan import edge_ranks
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan

_MAX_RANGES = 2**31
_SPLIT_SHIFT = 40  # above `_MAX_RANGES`, so that no two blocks share a number
_RUNS_OF_SHARD = 16  # so that many workers can start at once
_MAX_RUN = 64
_MAX_SCORED_EDGES = 1 << 20
_ROOT_COLUMNS = {SEED: files.CODE, ROOT_SOURCE: files.SOURCE, ROOT_TARGET: files.TARGET}

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class BlockRange:
    """The seeds of one split whose keys are in one range.

    The 64-bit keys of a split are divided into `num_blocks` equal ranges. Keys are hashes, so blocks are of about
    equal size. The number of blocks is a multiple of the number of shards, so each block is in one shard.

    Attributes:
        split: position of the split among the splits of the partitioned graph.
        block: position of the range among the ranges of the split.
        num_blocks: number of ranges of the split.
    """

    split: int
    block: int
    num_blocks: int

    @property
    def first_key(self) -> int:
        """Smallest key of the range."""
        # Rounded up, like the end of the previous range, so that each key is in exactly one range.
        return -(-(self.block << 64) // self.num_blocks)

    @property
    def last_key(self) -> int:
        """Largest key of the range."""
        return -(-((self.block + 1) << 64) // self.num_blocks) - 1

    @property
    def number(self) -> int:
        """Number of the block in messages, unique over all splits."""
        return self.split << _SPLIT_SHIFT | self.block

    def shard(self, num_shards: int) -> int:
        """Returns the output shard that the block belongs to; `num_shards` divides `num_blocks`."""
        return self.block // (self.num_blocks // num_shards)


def count_blocks(num_seeds: int, num_shards: int, seeds_per_block: int) -> int:
    """Returns the smallest multiple of `num_shards` for which blocks have at most `seeds_per_block` seeds on average.

    `num_seeds` counts the whole split, whichever of its shards are made.
    """
    num_blocks = num_shards * max(1, -(-num_seeds // (num_shards * seeds_per_block)))
    if num_blocks > _MAX_RANGES:
        raise ValueError(
            f"`seeds_per_block` must be so large that a split has at most {_MAX_RANGES} blocks; got {seeds_per_block} "
            f"for {num_seeds} seeds in {num_shards} shards. Make blocks larger or shards fewer."
        )
    return num_blocks


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockRun:
    """Consecutive blocks of one shard, read by one worker.

    Attributes:
        split: position of the split among the splits of the partitioned graph.
        start: position of the first block.
        stop: position after the last block.
        num_blocks: number of blocks of the split.
    """

    split: int
    start: int
    stop: int
    num_blocks: int

    def blocks(self) -> Iterator[BlockRange]:
        """Yields the blocks, ascending."""
        for block in range(self.start, self.stop):
            yield BlockRange(split=self.split, block=block, num_blocks=self.num_blocks)


def list_runs(
    shards: Iterable[tuple[int, int]], seed_counts: Mapping[int, int], num_shards: int, seeds_per_block: int
) -> Iterator[BlockRun]:
    """Yields the blocks of output shards, given as (position of the split, shard), in runs.

    A shard has at most 16 runs, or more if they would exceed 64 blocks each. `seed_counts` is keyed by the position of
    the split.
    """
    for split, shard in shards:
        num_blocks = count_blocks(seed_counts[split], num_shards, seeds_per_block)
        per_shard = num_blocks // num_shards
        size = min(_MAX_RUN, -(-per_shard // _RUNS_OF_SHARD))
        end = (shard + 1) * per_shard
        for start in range(shard * per_shard, end, size):
            yield BlockRun(split=split, start=start, stop=min(start + size, end), num_blocks=num_blocks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSeeds:
    """The seeds of one block.

    Attributes:
        block: the block's range.
        seeds: the block's seeds; their nodes are codes.
        features: features of seed edges or of the seed table, as the partitioned graph stores them with
            the seeds; a table without columns if there are none.
    """

    block: BlockRange
    seeds: Seeds
    features: pa.Table


def read_block_seeds(graph: PartitionedGraph, plan: SamplingPlan, blocks: Iterable[BlockRange]) -> Iterator[BlockSeeds]:
    """Yields the blocks that have seeds, with one partition of the seeds in memory at a time.

    If blocks are in the order of their keys, each partition is read once.
    """
    loaded: tuple[int, pa.Table | None] = -1, None
    num_partitions = graph.info.num_partitions
    for block in blocks:
        bounds = partition_of_codes(np.array([block.first_key, block.last_key], np.uint64), num_partitions)
        parts = []
        for partition in range(int(bounds[0]), int(bounds[1]) + 1):
            if partition != loaded[0] or loaded[1] is None:
                loaded = partition, graph.load_seeds(partition)
            parts.append(_rows_of_block(loaded[1], block))
        rows = pa.concat_tables(parts)
        if rows.num_rows:
            yield _block_seeds(plan, block, rows)


def _rows_of_block(rows: pa.Table | None, block: BlockRange) -> pa.Table:
    assert rows is not None
    keys = files.as_codes(rows.column(files.KEY))
    start = np.searchsorted(keys, np.uint64(block.first_key), side="left")
    stop = np.searchsorted(keys, np.uint64(block.last_key), side="right")
    of_keys = rows.slice(int(start), int(stop - start))
    return of_keys.filter(pa.array(of_keys.column(files.SPLIT).to_numpy() == block.split))


def _block_seeds(plan: SamplingPlan, block: BlockRange, rows: pa.Table) -> BlockSeeds:
    count = rows.num_rows
    has_ranks = plan.is_link_plan or plan.splits.visibility == "inductive"
    seeds = Seeds(
        keys=files.as_codes(rows.column(files.KEY)),
        rows=np.asarray(rows.column(files.ROW).to_numpy(), np.int64),
        readout_splits=np.arange(count + 1, dtype=np.int64),
        readout_nodes={
            root: np.asarray(rows.column(_ROOT_COLUMNS[root]).to_numpy(), np.int64) for root in plan.root_names
        },
        time_limits=np.asarray(rows.column(files.TIME).to_numpy(), np.int64) if plan.temporal else None,
        rank_limits=np.full(count, edge_ranks.rank_limit(block.split), np.int8) if has_ranks else None,
    )
    names = [name for name in rows.column_names if name not in files.RESERVED]
    return BlockSeeds(block=block, seeds=seeds, features=rows.select(names).combine_chunks())


class AnswerMerger:
    """Collects the answers to a block's requests of one round.

    The best edges of a hub come from many partitions. They are merged whenever many
    have arrived, so that memory does not grow with the number of a hub's edges.
    """

    def __init__(self, hops: Sequence[Hop]) -> None:
        self._hops = tuple(hops)
        self._parts: list[list[tuple[FoundEdges, _Integers]]] = [[] for _ in self._hops]
        self._scored: list[list[tuple[FoundEdges, _Integers]]] = [[] for _ in self._hops]
        self._features: dict[str, list[bytes]] = {}

    def add(self, answer: PartAnswer) -> None:
        """Adds an answer to requests of this round, in any order."""
        edge_set = self._hops[answer.hop].edge_set
        if answer.features:
            self._features.setdefault(edge_set, []).append(answer.features)
        if answer.found.scores is None:
            self._parts[answer.hop].append((answer.found, answer.positions))
            return
        scored = self._scored[answer.hop]
        scored.append((answer.found, answer.positions))
        if len(scored) > 1 and sum(found.num_edges for found, _ in scored) > _MAX_SCORED_EDGES:
            positions = np.unique(np.concatenate([where for _, where in scored]))
            merged = merge_scored(
                self._hops[answer.hop],
                [found for found, _ in scored],
                [np.searchsorted(positions, where) for _, where in scored],
                len(positions),
                keeps_scores=True,
            )
            self._scored[answer.hop] = [(merged, positions)]

    def merge(self, num_requests: Sequence[int]) -> list[FoundEdges]:
        """Merges all answers, hop by hop; `num_requests` has one number per hop of the round."""
        merged = []
        for hop, parts, scored, count in zip(self._hops, self._parts, self._scored, num_requests, strict=True):
            together = parts + scored
            if together:
                merged.append(
                    merge_scored(hop, [found for found, _ in together], [where for _, where in together], count)
                )
            else:
                merged.append(no_edges(hop.name, np.zeros(count, np.int64)))
        return merged

    @property
    def features(self) -> dict[str, list[bytes]]:
        """By edge set, tables of features in order of arrival; rows may be repeated."""
        return self._features


def no_edges(hop: str, num_candidates: _Integers) -> FoundEdges:
    """Returns an answer that only counts the candidates of each request and has no edges."""
    none = np.zeros(0, np.int64)
    return FoundEdges(
        hop=hop,
        requests=none,
        edge_rows=none,
        neighbors=none,
        draws=np.zeros(0, np.int16),
        scores=None,
        num_candidates=num_candidates,
        num_eligible=num_candidates,
    )


@dataclasses.dataclass(kw_only=True)
class BlockState:
    """The state of a block between two rounds. It is sent from step to step.

    Attributes:
        block: the block's range.
        seeds: the block's seeds.
        sampling: the sampling in progress; None once all rounds are over.
        seed_features: features of the seeds, as written by `pack_table`.
        edge_features: by edge set, features of found edges in order of arrival; rows may be
            repeated.
        num_requests: by hop, number of requests in the current round.
        result: the result of sampling; None until all rounds are over.
    """

    block: BlockRange
    seeds: Seeds
    sampling: BlockSampling | None
    seed_features: bytes
    edge_features: dict[str, list[bytes]] = dataclasses.field(default_factory=dict)
    num_requests: tuple[int, ...] = ()
    result: BlockResult | None = None

    def ask(self) -> list[EdgeRequests]:
        """Begins the next round and returns its requests, hop by hop; an empty list when all rounds are over."""
        assert self.sampling is not None
        requests = self.sampling.next_requests()
        self.num_requests = tuple(of_hop.num_requests for of_hop in requests)
        return requests

    def accept(self, answers: AnswerMerger) -> None:
        """Ends a round with the answers to all its requests."""
        assert self.sampling is not None
        self.sampling.accept(answers.merge(self.num_requests))
        for edge_set, tables in answers.features.items():
            self.edge_features.setdefault(edge_set, []).extend(tables)

    def finish(self) -> dict[str, npt.NDArray[np.uint64]]:
        """Ends the last round and returns the codes of the block's nodes by node set, ascending."""
        assert self.sampling is not None
        self.result, self.sampling = self.sampling.finish(), None
        return {
            name: np.sort(handles.view(np.uint64))
            for name, handles in self.result.node_handles.items()
            if handles is not None
        }


def start_block(seeds: BlockSeeds, plan: SamplingPlan, schema: GraphSchema, sampling_seed: int) -> BlockState:
    """Returns a block's state before the first round; `schema` is the schema of the whole graph."""
    return BlockState(
        block=seeds.block,
        seeds=seeds.seeds,
        sampling=BlockSampling(plan, schema, seeds.seeds, sampling_seed=sampling_seed),
        seed_features=pack_table(seeds.features),
    )
