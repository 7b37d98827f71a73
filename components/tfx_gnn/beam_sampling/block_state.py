"""A block of seeds on its way through the rounds of sampling."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from tfx_gnn.beam_sampling.answer_merging import AnswerMerger
from tfx_gnn.beam_sampling.block_ranges import BlockRange
from tfx_gnn.beam_sampling.block_seeds import BlockSeeds
from tfx_gnn.beam_sampling.messages import pack_table
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.block_result import BlockResult
from tfx_gnn.sampling.block_sampling import BlockSampling
from tfx_gnn.sampling.edge_requests import EdgeRequests
from tfx_gnn.sampling.plan import SamplingPlan
from tfx_gnn.sampling.seeds import Seeds


@dataclasses.dataclass(kw_only=True)
class BlockState:
    """What is known of a block between two rounds. It travels from worker to worker.

    Attributes:
        block: which block.
        seeds: its seeds.
        sampling: what was found; None once all rounds are over.
        seed_features: features of the seeds as `pack_table` writes them.
        edge_features: by edge set, features of found edges as they came in; rows may repeat.
        num_requests: by hop, how much was asked in the round that is under way.
        result: all that was found, once all rounds are over.
    """

    block: BlockRange
    seeds: Seeds
    sampling: BlockSampling | None
    seed_features: bytes
    edge_features: dict[str, list[bytes]] = dataclasses.field(default_factory=dict)
    num_requests: tuple[int, ...] = ()
    result: BlockResult | None = None

    def ask(self) -> list[EdgeRequests]:
        """Begins the next round.

        Returns:
            Requests, hop by hop; none when all rounds are over.
        """
        assert self.sampling is not None
        requests = self.sampling.next_requests()
        self.num_requests = tuple(of_hop.num_requests for of_hop in requests)
        return requests

    def accept(self, answers: AnswerMerger) -> None:
        """Ends a round.

        Args:
            answers: all answers to what was asked.
        """
        assert self.sampling is not None
        self.sampling.accept(answers.merge(self.num_requests))
        for edge_set, tables in answers.features.items():
            self.edge_features.setdefault(edge_set, []).extend(tables)

    def finish(self) -> dict[str, npt.NDArray[np.uint64]]:
        """Ends the last round.

        Returns:
            By node set, uint64 array of the codes of the block's nodes, ascending.
        """
        assert self.sampling is not None
        self.result, self.sampling = self.sampling.finish(), None
        return {
            name: np.sort(handles.view(np.uint64))
            for name, handles in self.result.node_handles.items()
            if handles is not None
        }


def start_block(seeds: BlockSeeds, plan: SamplingPlan, schema: GraphSchema, sampling_seed: int) -> BlockState:
    """Begins to sample a block.

    Args:
        seeds: the seeds of the block.
        plan: what to sample.
        schema: schema of the whole graph.
        sampling_seed: seed of all random choices.

    Returns:
        The state before the first round.
    """
    return BlockState(
        block=seeds.block,
        seeds=seeds.seeds,
        sampling=BlockSampling(plan, schema, seeds.seeds, sampling_seed=sampling_seed),
        seed_features=pack_table(seeds.features),
    )
