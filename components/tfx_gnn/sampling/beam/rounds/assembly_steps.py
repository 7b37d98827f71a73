"""The last Beam steps: complete blocks become records, and records become shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam

from tfx_gnn.sampling.beam.index.reader import GraphIndex
from tfx_gnn.sampling.beam.messages import NodeAnswer
from tfx_gnn.sampling.beam.rounds.block_assembly import BlockAssembler
from tfx_gnn.sampling.beam.rounds.round_steps import read_answers
from tfx_gnn.sampling.beam.shard_files import write_block, write_shard
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatistics, SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.plan import SamplingPlan

WrittenBlock = tuple[int, str, SubgraphStatistics]
"""Position of the block, path of its records, and what is in them."""


class AssembleBlocks(beam.DoFn):
    """(block, answers about nodes and its state) to records in a file."""

    def __init__(
        self, index_dir: str, plan: SamplingPlan, examples_dir: str, splits: Sequence[str], num_shards: int
    ) -> None:
        """Sets what is written where.

        Args:
            index_dir: folder of the index.
            plan: the plan that it was built for.
            examples_dir: folder that all workers see.
            splits: names of the splits, by position.
            num_shards: files a split.
        """
        self._index_dir = index_dir
        self._plan = plan
        self._examples_dir = examples_dir
        self._splits = tuple(splits)
        self._num_shards = num_shards

    def setup(self) -> None:
        """Opens the index."""
        self._assembler = BlockAssembler(GraphIndex(self._index_dir, num_cached=1), self._plan)

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[tuple[int, int], WrittenBlock]]:
        """Writes a block.

        Args:
            element: number of the block; answers, with its state among them.

        Yields:
            The shard, as (position of the split, shard), and the written block.
        """
        nodes: dict[str, list[bytes]] = {}

        def add(answer: NodeAnswer) -> None:
            nodes.setdefault(answer.node_set, []).append(answer.rows)

        state = read_answers(element[1], add)
        block = self._assembler.assemble(state, nodes)
        records = SubgraphExampleEncoder(block.tables, self._plan, seed_features=block.seed_features).encode(
            block.subgraphs
        )
        statistics = SubgraphStatisticsBuilder()
        statistics.add(self._splits[state.block.split], block.subgraphs)
        key = state.block.split, state.block.shard(self._num_shards)
        yield key, (state.block.block, write_block(self._examples_dir, records), statistics.build())


class WriteShards(beam.DoFn):
    """((position of the split, shard), written blocks) to the file of the shard, and a note in the log."""

    def __init__(self, examples_dir: str, splits: Sequence[str], num_shards: int) -> None:
        """Sets what is written where.

        Args:
            examples_dir: folder with `Split-<name>` folders.
            splits: names of the splits, by position.
            num_shards: files a split.
        """
        self._examples_dir = examples_dir
        self._splits = tuple(splits)
        self._num_shards = num_shards

    def process(self, element: tuple[tuple[int, int], Iterable[WrittenBlock | None]]) -> list[None]:
        """Writes a shard.

        Args:
            element: the shard, and its blocks; None stands for no block.

        Returns:
            Nothing to go on with.
        """
        (split, shard), blocks = element
        paths: list[tuple[int, str]] = []
        statistics = SubgraphStatisticsBuilder()
        statistics.add_split(self._splits[split])
        for written in blocks:
            if written is not None:
                block, path, of_block = written
                paths.append((block, path))
                statistics.add_statistics(of_block)
        write_shard(self._examples_dir, self._splits[split], shard, self._num_shards, paths)
        ShardLog(self._examples_dir).note(self._splits[split], shard, statistics.build())
        return []
