"""The state of a block of link seeds while its negatives are drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.beam.index.files import partition_of_codes
from tfx_gnn.sampling.beam.messages import group_by_partition
from tfx_gnn.sampling.beam.rounds.block_state import BlockSeeds
from tfx_gnn.sampling.beam.rounds.negative_answers import (
    DrawAnswer,
    DrawRequests,
    GroupRequests,
    GroupTotals,
    PairAnswer,
    PairRequests,
    TotalAnswer,
    join_totals,
)
from tfx_gnn.sampling.engine.negatives import accept_candidates, draw_numbers
from tfx_gnn.sampling.plan.hop import SOURCE, TARGET
from tfx_gnn.sampling.plan.plan import Negatives

_Integers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(kw_only=True)
class NegativeState:
    """What is known of a block's negatives between two rounds. It travels from worker to worker.

    Draws are counted by pair, negative and draw: `num_per_positive * num_draws` for each pair.

    Attributes:
        seeds: the block's true pairs.
        negatives: what to draw.
        sampling_seed: seed of all random choices.
        groups: uint64 array, shape [num_pairs]: group that each pair draws from; None if
            there is one group of all nodes.
        can_draw: bool array, shape [num_pairs]: whether there is something to draw.
        nodes: uint64 array, shape [num_pairs * draws]: codes of the nodes that draws fell on.
        is_edge: bool array, shape [num_pairs * draws]: whether source and node are an edge.
    """

    seeds: BlockSeeds
    negatives: Negatives
    sampling_seed: int
    groups: _Codes | None = None
    can_draw: npt.NDArray[np.bool_] | None = None
    nodes: _Codes | None = None
    is_edge: npt.NDArray[np.bool_] | None = None

    @property
    def number(self) -> int:
        """The block's name in messages."""
        return self.seeds.block.number

    def ask_groups(self, num_partitions: int) -> dict[int, GroupRequests]:
        """Asks which groups the true targets are in, by partition of the targets."""
        targets = self.seeds.seeds.readout_nodes[TARGET].view(np.uint64)
        return {
            partition: GroupRequests(positions=at, nodes=targets[at])
            for partition, at in _by_partition(partition_of_codes(targets, num_partitions))
        }

    def ask_draws(self, totals: GroupTotals) -> dict[int, DrawRequests]:
        """Draws, and asks which nodes the draws fall on, by partition of nodes.

        `totals` are sorted by group, then partition; without groups, all of it is group 0.
        """
        keys = self.seeds.seeds.keys
        numbers = draw_numbers(keys, sampling_seed=self.sampling_seed, negatives=self.negatives)
        groups = np.zeros(len(keys), np.uint64) if self.groups is None else self.groups
        # The groups of a partition after the other, laid end to end.
        ends = np.cumsum(totals.totals)
        before = np.concatenate([[0], ends])
        first = before[np.searchsorted(totals.groups, groups, side="left")]
        total = before[np.searchsorted(totals.groups, groups, side="right")] - first
        self.can_draw = total > 0
        size = self.negatives.num_per_positive * self.negatives.num_draws
        self.nodes = np.zeros(len(keys) * size, np.uint64)
        self.is_edge = np.zeros(len(keys) * size, np.bool_)
        offsets = (numbers.reshape(len(keys), size) % np.maximum(total, 1).astype(np.uint64)[:, np.newaxis]).astype(
            np.int64
        )
        positions = np.flatnonzero(np.repeat(self.can_draw, size))
        places = (first[:, np.newaxis] + offsets).ravel()[positions]
        item = np.searchsorted(ends, places, side="right")
        local = places - before[item]
        return {
            partition: DrawRequests(
                positions=positions[at],
                offsets=local[at],
                groups=None if self.groups is None else groups[positions[at] // size],
            )
            for partition, at in _by_partition(totals.partitions[item])
        }

    def accept_draws(self, answers: Sequence[DrawAnswer]) -> None:
        """Stores which nodes the draws fell on."""
        assert self.nodes is not None
        for answer in answers:
            self.nodes[answer.positions] = answer.nodes

    def ask_pairs(self, num_partitions: int) -> dict[int, PairRequests]:
        """Asks which candidates are true neighbors, by partition of the sources."""
        assert self.nodes is not None
        assert self.can_draw is not None
        size = self.negatives.num_per_positive * self.negatives.num_draws
        positions = np.flatnonzero(np.repeat(self.can_draw, size))
        sources = self.seeds.seeds.readout_nodes[SOURCE].view(np.uint64)[positions // size]
        asked = PairRequests(positions=positions, sources=sources, targets=self.nodes[positions])
        return {
            partition: asked.take(at) for partition, at in _by_partition(partition_of_codes(sources, num_partitions))
        }

    def accept_pairs(self, answers: Sequence[PairAnswer]) -> None:
        """Stores which candidates are true neighbors."""
        assert self.is_edge is not None
        for answer in answers:
            self.is_edge[answer.positions] = True

    def finish(self, *, has_one_node_set: bool) -> BlockSeeds:
        """Takes the first good candidates; returns seeds with a readout for each true pair and each negative."""
        assert self.nodes is not None
        assert self.can_draw is not None
        assert self.is_edge is not None
        seeds = self.seeds.seeds
        shape = seeds.num_subgraphs, self.negatives.num_per_positive, self.negatives.num_draws
        candidates, is_edge = self.nodes.view(np.int64).reshape(shape), self.is_edge.reshape(shape)
        sources, targets = seeds.readout_nodes[SOURCE], seeds.readout_nodes[TARGET]
        accepted = accept_candidates(
            candidates,
            can_draw=self.can_draw,
            positives=targets,
            sources=sources if has_one_node_set else None,
            is_neighbor=(lambda rows, number, draw: is_edge[rows, number, draw])
            if self.negatives.excludes_neighbors
            else None,
        )
        chosen = np.take_along_axis(candidates, np.maximum(accepted, 0).astype(np.int64)[:, :, np.newaxis], axis=2)
        is_readout = np.insert(accepted >= 0, 0, values=True, axis=1)
        counts = is_readout.sum(axis=1)
        labels = np.zeros(is_readout.shape, np.int8)
        labels[:, 0] = 1
        with_negatives = dataclasses.replace(
            seeds,
            readout_splits=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            readout_nodes={
                SOURCE: np.repeat(sources, counts),
                TARGET: np.insert(chosen[:, :, 0], 0, targets, axis=1)[is_readout],
            },
            readout_labels=labels[is_readout],
        )
        return dataclasses.replace(self.seeds, seeds=with_negatives)

    def accept_totals(self, answers: Sequence[TotalAnswer]) -> GroupTotals:
        """Stores the groups of the pairs; returns what may be drawn, sorted by group, then partition."""
        self.groups = np.zeros(self.seeds.seeds.num_subgraphs, np.uint64)
        for answer in answers:
            self.groups[answer.positions] = answer.groups
        return _without_repetition(join_totals([answer.totals for answer in answers]))


def _without_repetition(totals: GroupTotals) -> GroupTotals:
    """Keeps each group's totals once: several pairs of a block may have asked about one group."""
    is_first = np.ones(len(totals.groups), np.bool_)
    is_first[1:] = (totals.groups[1:] != totals.groups[:-1]) | (totals.partitions[1:] != totals.partitions[:-1])
    return totals.take(np.flatnonzero(is_first))


def _by_partition(partitions: _Integers) -> list[tuple[int, _Integers]]:
    everything = np.arange(len(partitions))
    return [(partition, everything if at is None else at) for partition, at in group_by_partition(partitions)]
