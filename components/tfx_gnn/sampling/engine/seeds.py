"""The seeds of subgraphs, in the order in which they are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seeds:
    """The seeds of some subgraphs of one split, ascending by (key, row).

    A readout is the part of a subgraph that a task predicts from: the seed node; or a
    pair of source and target. With negatives, a subgraph has several pairs.

    Attributes:
        keys: uint64 array, shape [num_subgraphs]: identity of each subgraph in random
            choices and in the order of records. For a node, the hash of its id; for an
            edge or a pair, `seed_splits.pair_keys` of both ends; for a negative with a
            subgraph of its own, the key of its true pair.
        rows: int64 array, shape [num_subgraphs]: row of the seed table if the plan has
            one, else of the seed node table, or of the seed edge table as written
            (`EdgeTable.rows`).
        readout_splits: int64 array, shape [num_subgraphs + 1]: where the readouts of
            each subgraph start.
        readout_nodes: by root ("seed"; or "source" and "target"), int64 array, shape
            [num_readouts]: the node, as its row in the node table or as its code.
        readout_labels: int8 array, shape [num_readouts]: 1 for the true pair, which
            comes first in its subgraph, and 0 for negatives; None without negatives.
        time_limits: int64 array, shape [num_subgraphs]: time of each seed; None if the
            plan is not temporal.
        rank_limits: int8 array, shape [num_subgraphs]: highest rank of edges that each
            subgraph may hold (see `edge_ranks`); None if edges have no ranks.
        true_nodes: by root, int64 array, shape [num_subgraphs]: the node of the true pair
            that is hidden beside the pairs that are read out; None unless negatives
            have subgraphs of their own.
    """

    keys: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]
    readout_splits: npt.NDArray[np.int64]
    readout_nodes: Mapping[str, npt.NDArray[np.int64]]
    readout_labels: npt.NDArray[np.int8] | None = None
    time_limits: npt.NDArray[np.int64] | None = None
    rank_limits: npt.NDArray[np.int8] | None = None
    true_nodes: Mapping[str, npt.NDArray[np.int64]] | None = None

    @property
    def num_subgraphs(self) -> int:
        """Number of subgraphs."""
        return len(self.keys)

    def slice(self, start: int, stop: int) -> Seeds:
        """Takes a range of the subgraphs.

        Args:
            start: first subgraph.
            stop: the one after the last; at most `num_subgraphs`.

        Returns:
            Seeds whose arrays, except `readout_splits`, are views.
        """
        first, last = int(self.readout_splits[start]), int(self.readout_splits[stop])
        return Seeds(
            keys=self.keys[start:stop],
            rows=self.rows[start:stop],
            readout_splits=self.readout_splits[start : stop + 1] - first,
            readout_nodes={root: nodes[first:last] for root, nodes in self.readout_nodes.items()},
            readout_labels=None if self.readout_labels is None else self.readout_labels[first:last],
            time_limits=None if self.time_limits is None else self.time_limits[start:stop],
            rank_limits=None if self.rank_limits is None else self.rank_limits[start:stop],
            true_nodes=_selected(self.true_nodes, slice(start, stop)),
        )

    def take(self, indices: npt.NDArray[np.int64]) -> Seeds:
        """Selects subgraphs.

        Args:
            indices: int64 array, shape [n], positions of subgraphs.

        Returns:
            The seeds at these positions, in the order of `indices`, not of keys.
        """
        counts = np.diff(self.readout_splits)[indices]
        splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        readouts = np.repeat(self.readout_splits[indices] - splits[:-1], counts) + np.arange(int(splits[-1]))
        return Seeds(
            keys=self.keys[indices],
            rows=self.rows[indices],
            readout_splits=splits,
            readout_nodes={root: nodes[readouts] for root, nodes in self.readout_nodes.items()},
            readout_labels=None if self.readout_labels is None else self.readout_labels[readouts],
            time_limits=None if self.time_limits is None else self.time_limits[indices],
            rank_limits=None if self.rank_limits is None else self.rank_limits[indices],
            true_nodes=_selected(self.true_nodes, indices),
        )

    def with_own_subgraphs(self) -> tuple[Seeds, npt.NDArray[np.int64]]:
        """Gives each readout a subgraph of its own.

        Returns:
            The seeds: those of each subgraph one after the other, in the order of its readouts, with its key, row and
            limits. Its first pair is hidden from all of them. And, int64 array, the subgraph that each was part of.
        """
        origins = np.repeat(np.arange(self.num_subgraphs), np.diff(self.readout_splits))
        firsts = self.readout_splits[:-1][origins]
        seeds = dataclasses.replace(
            self,
            keys=self.keys[origins],
            rows=self.rows[origins],
            readout_splits=np.arange(len(origins) + 1),
            time_limits=None if self.time_limits is None else self.time_limits[origins],
            rank_limits=None if self.rank_limits is None else self.rank_limits[origins],
            true_nodes={root: nodes[firsts] for root, nodes in self.readout_nodes.items()},
        )
        return seeds, origins


def _selected(
    nodes: Mapping[str, npt.NDArray[np.int64]] | None, where: slice | npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int64]] | None:
    return None if nodes is None else {root: of_root[where] for root, of_root in nodes.items()}


def shard_starts(num_shards: int) -> npt.NDArray[np.uint64]:
    """Returns the smallest key of each output shard, ascending from 0.

    A key belongs to shard (key * num_shards) >> 64: equal ranges of the 64-bit keys.
    """
    return np.array([-(-(shard << 64) // num_shards) for shard in range(num_shards)], np.uint64)


def shard_bounds(keys: npt.NDArray[np.uint64], num_shards: int) -> npt.NDArray[np.int64]:
    """Returns the position where each output shard starts in ascending keys, and the end. A shard may be empty."""
    starts = np.searchsorted(keys, shard_starts(num_shards))
    return np.append(starts, len(keys)).astype(np.int64)
