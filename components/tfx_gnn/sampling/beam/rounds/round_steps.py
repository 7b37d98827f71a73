"""The Beam steps of one round: blocks send requests, partitions answer, blocks take the answers in.

Between two steps there is a shuffle: messages to partitions are grouped by the
number of the partition, so that each is loaded once a round; answers, with the
block's own state among them, by the number of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import pvalue

from tfx_gnn.sampling.beam.index.reader import GraphIndex
from tfx_gnn.sampling.beam.messages import BucketRequests, ToPartition, pack, read_state, route_requests, unpack
from tfx_gnn.sampling.beam.rounds.block_state import AnswerMerger, BlockRun, BlockState, read_block_seeds, start_block
from tfx_gnn.sampling.beam.rounds.partition_answers import (
    MAX_BUCKET_REQUESTS,
    PartitionAnswers,
    answer_nodes,
    route_nodes,
)
from tfx_gnn.sampling.engine.block_sampling import rounds_of_plan
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

Message = tuple[int, bytes]


def read_answers(messages: Iterable[bytes], add: Callable[[Any], None]) -> BlockState:
    """Returns a block's own state from among its messages; passes each answer to `add`."""
    return read_state(messages, add, BlockState)


class IndexStep(beam.DoFn):
    """A step that looks into the index, which every worker opens for itself."""

    def __init__(self, index_dir: str, plan: SamplingPlan) -> None:
        self._index_dir = index_dir
        self._plan = plan

    def setup(self) -> None:
        """Opens the index."""
        # Steps keep what they use; the index need not keep it a second time.
        self._index = GraphIndex(self._index_dir, num_cached=1)

    def ask_of(self, state: BlockState) -> Iterator[Any]:
        """Yields a block's state and what it asks for; at the end, for its nodes."""
        number, num_partitions = state.block.number, self._index.info.num_partitions
        routed: dict[int, Any]
        if requests := state.ask():
            routed = route_requests(requests, num_partitions)
        else:
            routed = route_nodes(state.finish(), num_partitions)
        for partition, parts in routed.items():
            yield pvalue.TaggedOutput(REQUESTS, (partition, pack(ToPartition(block=number, parts=parts))))
        yield number, pack(state)


class StartBlocks(IndexStep):
    """Runs of blocks to their states and their first requests."""

    def __init__(self, index_dir: str, plan: SamplingPlan, sampling_seed: int) -> None:
        super().__init__(index_dir, plan)
        self._sampling_seed = sampling_seed

    def process(self, element: BlockRun) -> Iterator[Any]:
        """Begins blocks."""
        for seeds in read_block_seeds(self._index, self._plan, element.blocks()):
            yield from self.ask_of(start_block(seeds, self._plan, self._index.schema, self._sampling_seed))


class AnswerRequests(IndexStep):
    """(partition, messages of blocks) to (block, answers)."""

    def __init__(self, index_dir: str, plan: SamplingPlan, number: int, *, of_buckets: bool = False) -> None:
        super().__init__(index_dir, plan)
        self._round = number
        self._of_buckets = of_buckets

    def setup(self) -> None:
        """Opens the index."""
        super().setup()
        schema = make_subgraph_schema(self._index.schema, self._plan)
        self._answers = PartitionAnswers(self._index, self._plan, schema, rounds_of_plan(self._plan)[self._round])

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
    """Puts requests to one partition into one message, unless they are many."""
    waiting: dict[int, list[BucketRequests]] = {}
    num_waiting = 0
    for partition, asked in forwarded:
        waiting.setdefault(partition, []).append(asked)
        num_waiting += len(asked.positions)
        if num_waiting >= MAX_BUCKET_REQUESTS:
            yield from ((of_partition, tuple(parts)) for of_partition, parts in waiting.items())
            waiting, num_waiting = {}, 0
    yield from ((of_partition, tuple(parts)) for of_partition, parts in waiting.items())


class AcceptAnswers(IndexStep):
    """(block, answers and its state) to its next state and its next requests."""

    def __init__(self, index_dir: str, plan: SamplingPlan, number: int) -> None:
        super().__init__(index_dir, plan)
        self._round = number

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        """Ends a round of one block and begins the next."""
        merger = AnswerMerger(rounds_of_plan(self._plan)[self._round])
        state = read_answers(element[1], merger.add)
        state.accept(merger)
        yield from self.ask_of(state)


class AnswerNodes(IndexStep):
    """(partition, messages of blocks) to (block, ids and features of nodes)."""

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Message]:
        """Answers messages one by one."""
        partition, messages = element
        for data in messages:
            message: Any = unpack(data)
            yield message.block, pack(answer_nodes(self._index, partition, message.parts))
