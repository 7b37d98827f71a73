"""The rounds that draw negatives for blocks of link seeds, before the rounds that sample.

One round finds the nodes that draws fall on, from the nodes' partitions. The next finds which of these candidates are
true neighbors, from the partitions of the sources and, for hubs, of their buckets. If negatives must share values with
the true node that they replace, or are drawn by weight, two rounds come first: they find the values, and the total
weight of the nodes with them in each partition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue

from tfx_gnn.sampling.beam.messages import ToPartition, pack, read_state, unpack
from tfx_gnn.sampling.beam.partitioned_graph.files import PartitionInfo, hub_table, node_table
from tfx_gnn.sampling.beam.partitioned_graph.partitions import group_by_partition, partition_of_codes
from tfx_gnn.sampling.beam.rounds.block_state import BlockRun, BlockSeeds, read_block_seeds, start_block
from tfx_gnn.sampling.beam.rounds.negative_answers import (
    DrawablePartition,
    DrawAnswer,
    DrawRequests,
    EdgePairs,
    GroupRequests,
    GroupTotals,
    PairAnswer,
    PairRequests,
    TotalAnswer,
    answer_totals,
    forward_groups,
    forward_pairs_of_hubs,
    join_totals,
    partition_of_groups,
)
from tfx_gnn.sampling.beam.rounds.round_steps import ANSWERS, FORWARDED, REQUESTS, STATES, GraphStep
from tfx_gnn.sampling.engine.negatives import accept_candidates, draw_numbers
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.plan import SamplingPlan, root_node_sets

_Integers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(kw_only=True)
class NegativeState:
    """The state of a block's negatives between two rounds. It is sent from step to step.

    Draws are numbered by pair, negative and draw: `num_per_positive * num_draws` for each pair.

    Attributes:
        seeds: the block's true pairs.
        negatives: what to draw.
        sampling_seed: seed of all random choices.
        groups: uint64 array, shape [num_pairs * num_parts]: group that each part of a pair's negatives draws from;
            None if all nodes are in one group.
        can_draw: bool array, shape [num_pairs, num_per_positive]: whether the group has drawable nodes.
        nodes: uint64 array, shape [num_pairs * draws]: codes of the nodes that draws fell on.
        is_refused: bool array, shape [num_pairs * draws]: whether the source and the node are joined by an edge, or the
            node is not there yet.
    """

    seeds: BlockSeeds
    negatives: Negatives
    sampling_seed: int
    groups: _Codes | None = None
    can_draw: npt.NDArray[np.bool_] | None = None
    nodes: _Codes | None = None
    is_refused: npt.NDArray[np.bool_] | None = None

    @property
    def number(self) -> int:
        """Number of the block in messages."""
        return self.seeds.block.number

    def ask_groups(self, num_partitions: int) -> dict[int, GroupRequests]:
        """Returns requests for the groups of the true nodes that are replaced, by partition of these nodes."""
        nodes = self.seeds.seeds.readout_nodes[self.negatives.side].view(np.uint64)
        return {
            partition: GroupRequests(positions=at, nodes=nodes[at])
            for partition, at in _by_partition(partition_of_codes(nodes, num_partitions))
        }

    def accept_totals(self, answers: Sequence[TotalAnswer]) -> GroupTotals:
        """Stores the groups of the pairs; returns the groups' totals, sorted by group, then partition."""
        num_parts = len(self.negatives.parts)
        self.groups = np.zeros(self.seeds.seeds.num_subgraphs * num_parts, np.uint64)
        for answer in answers:
            self.groups[answer.positions] = answer.groups
        return _without_repetition(join_totals([answer.totals for answer in answers]))

    def ask_draws(self, totals: GroupTotals) -> dict[int, DrawRequests]:
        """Draws, and returns requests for the nodes that the draws fall on, by partition of the nodes.

        `totals` is sorted by group, then partition; without groups, everything is in group 0.
        """
        keys = self.seeds.seeds.keys
        numbers = draw_numbers(keys, sampling_seed=self.sampling_seed, negatives=self.negatives)
        num_parts = len(self.negatives.parts)
        groups = np.zeros(len(keys) * num_parts, np.uint64) if self.groups is None else self.groups
        groups = groups.reshape(len(keys), num_parts)
        # Totals are sorted by group, so each group draws from one range of the cumulative weights.
        ends = np.cumsum(totals.totals)
        before = np.concatenate([[0], ends])
        first = before[np.searchsorted(totals.groups, groups, side="left")]
        total = before[np.searchsorted(totals.groups, groups, side="right")] - first
        part_of_negative = np.array(self.negatives.part_of_negative)
        self.can_draw = total[:, part_of_negative] > 0
        part_of_draw = np.repeat(part_of_negative, self.negatives.num_draws)
        first, total = first[:, part_of_draw], total[:, part_of_draw]
        size = self.negatives.num_per_positive * self.negatives.num_draws
        self.nodes = np.zeros(len(keys) * size, np.uint64)
        self.is_refused = np.zeros(len(keys) * size, np.bool_)
        offsets = (numbers.reshape(len(keys), size) % np.maximum(total, 1).astype(np.uint64)).astype(np.int64)
        positions = np.flatnonzero(total > 0)
        places = (first + offsets).ravel()[positions]
        item = np.searchsorted(ends, places, side="right")
        local = places - before[item]
        return {
            partition: DrawRequests(
                positions=positions[at],
                offsets=local[at],
                groups=None
                if self.groups is None
                else groups[positions[at] // size, part_of_draw[positions[at] % size]],
            )
            for partition, at in _by_partition(totals.partitions[item])
        }

    def accept_draws(self, answers: Sequence[DrawAnswer]) -> None:
        """Stores the nodes that the draws fell on."""
        assert self.nodes is not None
        assert self.is_refused is not None
        size = self.negatives.num_per_positive * self.negatives.num_draws
        for answer in answers:
            self.nodes[answer.positions] = answer.nodes
            if answer.since is not None:
                limits = self.seeds.seeds.time_limits
                assert limits is not None
                self.is_refused[answer.positions] = answer.since > limits[answer.positions // size]

    def ask_pairs(self, num_partitions: int) -> dict[int, PairRequests]:
        """Returns requests for which candidates are true neighbors, by partition of the sources."""
        assert self.nodes is not None
        assert self.can_draw is not None
        size = self.negatives.num_per_positive * self.negatives.num_draws
        positions = np.flatnonzero(np.repeat(self.can_draw, self.negatives.num_draws, axis=1))
        ends = {
            self.negatives.kept_side: self.seeds.seeds.readout_nodes[self.negatives.kept_side].view(np.uint64)[
                positions // size
            ],
            self.negatives.side: self.nodes[positions],
        }
        sources = ends[ROOT_SOURCE]
        asked = PairRequests(positions=positions, sources=sources, targets=ends[ROOT_TARGET])
        return {
            partition: asked.take(at) for partition, at in _by_partition(partition_of_codes(sources, num_partitions))
        }

    def accept_pairs(self, answers: Sequence[PairAnswer]) -> None:
        """Stores which candidates are true neighbors."""
        assert self.is_refused is not None
        for answer in answers:
            self.is_refused[answer.positions] = True

    def finish(self, *, has_one_node_set: bool) -> BlockSeeds:
        """Accepts the first good candidates; returns seeds with a readout for each true pair and each negative.

        Each readout has a subgraph of its own if the plan says so.
        """
        assert self.nodes is not None
        assert self.can_draw is not None
        assert self.is_refused is not None
        seeds = self.seeds.seeds
        shape = seeds.num_subgraphs, self.negatives.num_per_positive, self.negatives.num_draws
        candidates, is_refused = self.nodes.view(np.int64).reshape(shape), self.is_refused.reshape(shape)
        side, kept_side = self.negatives.side, self.negatives.kept_side
        replaced, kept = seeds.readout_nodes[side], seeds.readout_nodes[kept_side]
        accepted = accept_candidates(
            candidates,
            can_draw=self.can_draw,
            replaced=replaced,
            kept=kept if has_one_node_set else None,
            is_refused=lambda rows, number, draw: is_refused[rows, number, draw],
            unique=self.negatives.unique,
        )
        chosen = np.take_along_axis(candidates, np.maximum(accepted, 0).astype(np.int64)[:, :, np.newaxis], axis=2)
        is_readout = np.insert(accepted >= 0, 0, values=True, axis=1)
        counts = is_readout.sum(axis=1)
        labels = np.zeros(is_readout.shape, np.int8)
        labels[:, 0] = 1
        of_root = {
            kept_side: np.repeat(kept, counts),
            side: np.insert(chosen[:, :, 0], 0, replaced, axis=1)[is_readout],
        }
        with_negatives = dataclasses.replace(
            seeds,
            readout_splits=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            readout_nodes={root: of_root[root] for root in (ROOT_SOURCE, ROOT_TARGET)},
            readout_labels=labels[is_readout],
        )
        if not self.negatives.own_subgraphs:
            return dataclasses.replace(self.seeds, seeds=with_negatives)
        of_each, origins = with_negatives.with_own_subgraphs()
        features = (
            self.seeds.features.take(pa.array(origins)) if self.seeds.features.num_columns else self.seeds.features
        )
        return dataclasses.replace(self.seeds, seeds=of_each, features=features)


def _without_repetition(totals: GroupTotals) -> GroupTotals:
    """Removes repeated totals: several pairs of a block may have requested the same group."""
    is_first = np.ones(len(totals.groups), np.bool_)
    is_first[1:] = (totals.groups[1:] != totals.groups[:-1]) | (totals.partitions[1:] != totals.partitions[:-1])
    return totals.take(np.flatnonzero(is_first))


def _by_partition(partitions: _Integers) -> list[tuple[int, _Integers]]:
    everything = np.arange(len(partitions))
    return [(partition, everything if at is None else at) for partition, at in group_by_partition(partitions)]


class StartNegatives(GraphStep):
    """Converts runs of blocks to the blocks' states and first requests."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan, sampling_seed: int) -> None:
        super().__init__(partitions_dir, plan)
        self._sampling_seed = sampling_seed

    def process(self, element: BlockRun) -> Iterator[Any]:
        """Starts the blocks of a run."""
        negatives, info = self._plan.negatives, self._graph.info
        assert negatives is not None
        for seeds in read_block_seeds(self._graph, self._plan, element.blocks()):
            state = NegativeState(seeds=seeds, negatives=negatives, sampling_seed=self._sampling_seed)
            if negatives.sums_weights:
                yield from _ask(state, state.ask_groups(info.num_partitions))
            else:
                yield from _ask(state, state.ask_draws(self._totals_of_all()))

    def _totals_of_all(self) -> GroupTotals:
        info, negatives = self._graph.info, self._plan.negatives
        assert negatives is not None
        counts = info.tables[node_table(root_node_sets(self._plan, self._graph.schema)[negatives.side])].num_rows
        if negatives.distribution == "in_degree":
            counts = info.in_degree_totals[self._plan.seed_edge_set]
        return GroupTotals(
            groups=np.zeros(len(counts), np.uint64),
            partitions=np.arange(len(counts)),
            totals=np.array(counts, np.int64),
        )


class TellTotals(GraphStep):
    """Converts partitions of nodes to (partition of groups, totals of groups)."""

    def process(self, element: int) -> Iterator[tuple[int, bytes]]:
        """Sums the weights of a partition, and sends the totals to the partitions of their groups."""
        totals = DrawablePartition(self._graph, self._plan, element).totals(element)
        for partition, at in group_by_partition(partition_of_groups(totals.groups, self._graph.info.num_partitions)):
            yield partition, pack(totals if at is None else totals.take(at))


class ForwardGroups(GraphStep):
    """Converts (partition of nodes, messages of blocks) to (partition of groups, messages)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Finds the groups of true nodes, and requests the groups' totals for the blocks."""
        partition, messages = element
        drawable = DrawablePartition(self._graph, self._plan, partition)
        for data in messages:
            message: ToPartition = unpack(data)
            for part in message.parts:
                forwarded = forward_groups(drawable, part, self._graph.info.num_partitions)
                for group_partition, asked in forwarded.items():
                    yield group_partition, pack(ToPartition(block=message.block, parts=(asked,)))


class AnswerTotals(beam.DoFn):
    """Answers (partition of groups, totals and messages) with pairs (block, answers)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Sends the totals of groups to the blocks."""
        # Totals may come after requests, and there may be many requests, so a second pass answers them.
        totals = join_totals([message for message in map(unpack, element[1]) if isinstance(message, GroupTotals)])
        for request in map(unpack, element[1]):
            if isinstance(request, ToPartition):
                yield request.block, pack(tuple(answer_totals(totals, part) for part in request.parts))


class AcceptTotals(beam.DoFn):
    """Converts (block, totals and its state) to its next state and its draws."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Draws from the totals."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        yield from _ask(state, state.ask_draws(state.accept_totals(answers)))


class AnswerDraws(GraphStep):
    """Answers (partition of nodes, messages of blocks) with pairs (block, answers)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Finds the nodes that draws fall on."""
        partition, messages = element
        drawable = DrawablePartition(self._graph, self._plan, partition)
        for data in messages:
            message: ToPartition = unpack(data)
            yield message.block, pack(tuple(drawable.answer(part) for part in message.parts))


class AcceptDraws(GraphStep):
    """Converts (block, candidates and its state) to its next state and its requests about the candidates."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Stores the candidates and requests which of them are true neighbors."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        state.accept_draws(answers)
        is_asked = state.negatives.excludes_neighbors
        yield from _ask(state, state.ask_pairs(self._graph.info.num_partitions) if is_asked else {})


class AnswerPairs(GraphStep):
    """Answers (partition, messages of blocks) with pairs (block, answers), and forwards requests about hubs."""

    def __init__(self, partitions_dir: str, plan: SamplingPlan, *, of_buckets: bool = False) -> None:
        super().__init__(partitions_dir, plan)
        self._of_buckets = of_buckets

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Answers which pairs are edges; forwards pairs of hubs to the partitions of their buckets."""
        partition, messages = element
        edge_set = self._plan.seed_edge_set
        load = self._graph.load_buckets if self._of_buckets else self._graph.load_edges
        edges = EdgePairs(load(edge_set, "forward", partition))
        for data in messages:
            message: ToPartition = unpack(data)
            yield message.block, pack(tuple(edges.answer(part) for part in message.parts))
            if self._of_buckets:
                continue
            for part in message.parts:
                for bucket_partition, asked in forward_pairs_of_hubs(self._graph, edge_set, partition, part).items():
                    forwarded = pack(ToPartition(block=message.block, parts=(asked,)))
                    yield pvalue.TaggedOutput(FORWARDED, (bucket_partition, forwarded))


class AcceptPairs(GraphStep):
    """Converts (block, answers and its state) to a block that is ready for sampling, and its first requests."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Accepts the first good candidates and begins to sample."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        state.accept_pairs(answers)
        schema = self._graph.schema
        roots = root_node_sets(self._plan, schema)
        seeds = state.finish(has_one_node_set=roots[ROOT_SOURCE] == roots[ROOT_TARGET])
        yield from self.ask_of(start_block(seeds, self._plan, schema, state.sampling_seed))


def draw_negatives(runs: Any, partitions_dir: str, plan: SamplingPlan, sampling_seed: int, info: PartitionInfo) -> Any:
    """Adds the rounds that draw negatives to a PCollection of `BlockRun`; returns the same outputs as `StartBlocks`."""
    assert plan.negatives is not None
    asked = runs | "StartNegatives" >> beam.ParDo(StartNegatives(partitions_dir, plan, sampling_seed)).with_outputs(
        REQUESTS, main=STATES
    )
    if plan.negatives.sums_weights:
        requests = (
            asked[REQUESTS]
            | "ByPartitionOfTrueNodes" >> beam.GroupByKey()
            | "ForwardGroups" >> beam.ParDo(ForwardGroups(partitions_dir, plan))
        )
        totals = (
            runs.pipeline
            | "Partitions" >> beam.Create(range(info.num_partitions))
            | "TellTotals" >> beam.ParDo(TellTotals(partitions_dir, plan))
        )
        answers = (
            (requests, totals)
            | "RequestsAndTotals" >> beam.Flatten()
            | "ByPartitionOfGroups" >> beam.GroupByKey()
            | "AnswerTotals" >> beam.ParDo(AnswerTotals())
        )
        asked = _accept("Totals", (asked[STATES], answers), AcceptTotals())
    drawn = (
        asked[REQUESTS]
        | "ByPartitionOfDraws" >> beam.GroupByKey()
        | "AnswerDraws" >> beam.ParDo(AnswerDraws(partitions_dir, plan))
    )
    asked = _accept("Draws", (asked[STATES], drawn), AcceptDraws(partitions_dir, plan))
    streams = [asked[STATES]]
    if plan.negatives.excludes_neighbors:
        answered = (
            asked[REQUESTS]
            | "ByPartitionOfSources" >> beam.GroupByKey()
            | "AnswerPairs" >> beam.ParDo(AnswerPairs(partitions_dir, plan)).with_outputs(FORWARDED, main=ANSWERS)
        )
        streams.append(answered[ANSWERS])
        if info.tables[hub_table(plan.seed_edge_set, "forward")].total:
            streams.append(
                answered[FORWARDED]
                | "ByBucketsOfSources" >> beam.GroupByKey()
                | "AnswerPairsOfHubs" >> beam.ParDo(AnswerPairs(partitions_dir, plan, of_buckets=True))
            )
    return _accept("Pairs", streams, AcceptPairs(partitions_dir, plan))


def _accept(name: str, streams: Iterable[Any], step: beam.DoFn) -> Any:
    return (
        tuple(streams)
        | f"With{name}" >> beam.Flatten()
        | f"ByBlockOf{name}" >> beam.GroupByKey()
        | f"Accept{name}" >> beam.ParDo(step).with_outputs(REQUESTS, main=STATES)
    )


def _ask(state: NegativeState, asked: Mapping[int, Any]) -> Iterator[Any]:
    for partition, part in asked.items():
        message = pack(ToPartition(block=state.number, parts=(part,)))
        yield pvalue.TaggedOutput(REQUESTS, (partition, message))
    yield state.number, pack(state)
