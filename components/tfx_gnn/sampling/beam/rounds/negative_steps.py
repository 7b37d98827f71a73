"""The Beam rounds that draw negatives, before those that sample.

Draws fall on nodes: which, the nodes' partitions tell. Candidates may be true
neighbors: the sources' partitions tell, and for hubs those of their buckets. Where
negatives share a value with the true target, it comes first to find the value and
how many nodes each partition has of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import pvalue

from tfx_gnn.sampling.beam.index.files import IndexInfo, hub_table, node_table
from tfx_gnn.sampling.beam.messages import ToPartition, group_by_partition, pack, read_state, unpack
from tfx_gnn.sampling.beam.rounds.block_state import BlockRun, read_block_seeds, start_block
from tfx_gnn.sampling.beam.rounds.negative_answers import (
    DrawablePartition,
    EdgePairs,
    GroupTotals,
    answer_totals,
    forward_groups,
    forward_pairs_of_hubs,
    join_totals,
    partition_of_groups,
)
from tfx_gnn.sampling.beam.rounds.negative_state import NegativeState
from tfx_gnn.sampling.beam.rounds.round_steps import ANSWERS, FORWARDED, REQUESTS, STATES, IndexStep
from tfx_gnn.sampling.plan.hop import SOURCE, TARGET
from tfx_gnn.sampling.plan.plan import SamplingPlan, root_node_sets


class StartNegatives(IndexStep):
    """Runs of blocks to their states and what they ask first."""

    def __init__(self, index_dir: str, plan: SamplingPlan, sampling_seed: int) -> None:
        super().__init__(index_dir, plan)
        self._sampling_seed = sampling_seed

    def process(self, element: BlockRun) -> Iterator[Any]:
        """Begins blocks."""
        negatives, info = self._plan.negatives, self._index.info
        assert negatives is not None
        for seeds in read_block_seeds(self._index, self._plan, element.blocks()):
            state = NegativeState(seeds=seeds, negatives=negatives, sampling_seed=self._sampling_seed)
            if negatives.same_feature:
                yield from _ask(state, state.ask_groups(info.num_partitions))
            else:
                yield from _ask(state, state.ask_draws(self._totals_of_all()))

    def _totals_of_all(self) -> GroupTotals:
        info = self._index.info
        target_set = root_node_sets(self._plan, self._index.schema)[TARGET]
        counts = info.tables[node_table(target_set)].num_rows
        if self._plan.negatives and self._plan.negatives.distribution == "in_degree":
            counts = info.in_degree_totals[self._plan.seed_edge_set]
        return GroupTotals(
            groups=np.zeros(len(counts), np.uint64),
            partitions=np.arange(len(counts)),
            totals=np.array(counts, np.int64),
        )


class TellTotals(IndexStep):
    """Partitions of nodes to (partition of groups, totals of groups)."""

    def process(self, element: int) -> Iterator[tuple[int, bytes]]:
        """Sums up a partition; sends the totals to where its groups are gathered."""
        totals = DrawablePartition(self._index, self._plan, element).totals(element)
        for partition, at in group_by_partition(partition_of_groups(totals.groups, self._index.info.num_partitions)):
            yield partition, pack(totals if at is None else totals.take(at))


class ForwardGroups(IndexStep):
    """(partition of nodes, messages of blocks) to (partition of groups, messages)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Finds the groups of true targets, and asks about them on behalf of blocks."""
        partition, messages = element
        drawable = DrawablePartition(self._index, self._plan, partition)
        for data in messages:
            message: ToPartition = unpack(data)
            for part in message.parts:
                forwarded = forward_groups(drawable, part, self._index.info.num_partitions)
                for group_partition, asked in forwarded.items():
                    yield group_partition, pack(ToPartition(block=message.block, parts=(asked,)))


class AnswerTotals(beam.DoFn):
    """(partition of groups, totals and messages) to (block, answers)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Answers blocks what may be drawn."""
        # Either kind may come first, and there may be many questions: a second pass answers them.
        totals = join_totals([message for message in map(unpack, element[1]) if isinstance(message, GroupTotals)])
        for question in map(unpack, element[1]):
            if isinstance(question, ToPartition):
                yield question.block, pack(tuple(answer_totals(totals, part) for part in question.parts))


class AcceptTotals(beam.DoFn):
    """(block, totals and its state) to its next state and its draws."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Draws from the totals."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        yield from _ask(state, state.ask_draws(state.accept_totals(answers)))


class AnswerDraws(IndexStep):
    """(partition of nodes, messages of blocks) to (block, answers)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        """Finds the nodes that draws fall on."""
        partition, messages = element
        drawable = DrawablePartition(self._index, self._plan, partition)
        for data in messages:
            message: ToPartition = unpack(data)
            yield message.block, pack(tuple(drawable.answer(part) for part in message.parts))


class AcceptDraws(IndexStep):
    """(block, candidates and its state) to its next state and what it asks about them."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Stores the candidates and asks which are true neighbors."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        state.accept_draws(answers)
        is_asked = state.negatives.excludes_neighbors
        yield from _ask(state, state.ask_pairs(self._index.info.num_partitions) if is_asked else {})


class AnswerPairs(IndexStep):
    """(partition, messages of blocks) to (block, answers), and questions about hubs."""

    def __init__(self, index_dir: str, plan: SamplingPlan, *, of_buckets: bool = False) -> None:
        super().__init__(index_dir, plan)
        self._of_buckets = of_buckets

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Answers which pairs are edges; forwards pairs of hubs to the partitions of their buckets."""
        partition, messages = element
        edge_set = self._plan.seed_edge_set
        load = self._index.load_buckets if self._of_buckets else self._index.load_edges
        edges = EdgePairs(load(edge_set, "forward", partition))
        for data in messages:
            message: ToPartition = unpack(data)
            yield message.block, pack(tuple(edges.answer(part) for part in message.parts))
            if self._of_buckets:
                continue
            for part in message.parts:
                for bucket_partition, asked in forward_pairs_of_hubs(self._index, edge_set, partition, part).items():
                    forwarded = pack(ToPartition(block=message.block, parts=(asked,)))
                    yield pvalue.TaggedOutput(FORWARDED, (bucket_partition, forwarded))


class AcceptPairs(IndexStep):
    """(block, answers and its state) to a block that is ready to be sampled, and its first requests."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Takes the first good candidates and begins to sample."""
        answers: list[Any] = []
        state = read_state(element[1], answers.append, NegativeState)
        state.accept_pairs(answers)
        schema = self._index.schema
        roots = root_node_sets(self._plan, schema)
        seeds = state.finish(has_one_node_set=roots[SOURCE] == roots[TARGET])
        yield from self.ask_of(start_block(seeds, self._plan, schema, state.sampling_seed))


def draw_negatives(runs: Any, index_dir: str, plan: SamplingPlan, sampling_seed: int, info: IndexInfo) -> Any:
    """Adds the rounds that draw negatives to a PCollection of `BlockRun`; returns outputs as `StartBlocks` has them."""
    assert plan.negatives is not None
    asked = runs | "StartNegatives" >> beam.ParDo(StartNegatives(index_dir, plan, sampling_seed)).with_outputs(
        REQUESTS, main=STATES
    )
    if plan.negatives.same_feature:
        questions = (
            asked[REQUESTS]
            | "ByPartitionOfTargets" >> beam.GroupByKey()
            | "ForwardGroups" >> beam.ParDo(ForwardGroups(index_dir, plan))
        )
        totals = (
            runs.pipeline
            | "Partitions" >> beam.Create(range(info.num_partitions))
            | "TellTotals" >> beam.ParDo(TellTotals(index_dir, plan))
        )
        answers = (
            (questions, totals)
            | "QuestionsAndTotals" >> beam.Flatten()
            | "ByPartitionOfGroups" >> beam.GroupByKey()
            | "AnswerTotals" >> beam.ParDo(AnswerTotals())
        )
        asked = _accept("Totals", (asked[STATES], answers), AcceptTotals())
    drawn = (
        asked[REQUESTS]
        | "ByPartitionOfDraws" >> beam.GroupByKey()
        | "AnswerDraws" >> beam.ParDo(AnswerDraws(index_dir, plan))
    )
    asked = _accept("Draws", (asked[STATES], drawn), AcceptDraws(index_dir, plan))
    streams = [asked[STATES]]
    if plan.negatives.excludes_neighbors:
        answered = (
            asked[REQUESTS]
            | "ByPartitionOfSources" >> beam.GroupByKey()
            | "AnswerPairs" >> beam.ParDo(AnswerPairs(index_dir, plan)).with_outputs(FORWARDED, main=ANSWERS)
        )
        streams.append(answered[ANSWERS])
        if info.tables[hub_table(plan.seed_edge_set, "forward")].total:
            streams.append(
                answered[FORWARDED]
                | "ByBucketsOfSources" >> beam.GroupByKey()
                | "AnswerPairsOfHubs" >> beam.ParDo(AnswerPairs(index_dir, plan, of_buckets=True))
            )
    return _accept("Pairs", streams, AcceptPairs(index_dir, plan))


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
