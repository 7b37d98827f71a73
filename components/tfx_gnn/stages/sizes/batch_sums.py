"""Random batches of graphs, and the sums of their sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tfx_gnn.stages.sizes.size_summary import Integers, SplitSummary

MAX_GRAPHS = 1 << 19
"""Graphs that stand for a split, at most."""
NUM_BATCHES = 1 << 18
"""Batches that are drawn; the standard error of a share of 0.99 is below 0.02 points."""
_MAX_DRAWN = 1 << 25
_MIN_BATCHES = 1 << 14
#: Of few graphs not so many batches are drawn: what they say of other graphs is vague anyway.
_DRAWS_OF_A_GRAPH = 64
_BLOCK = 1 << 15


@dataclasses.dataclass(frozen=True, eq=False)
class SampledGraphs:
    """Graphs that stand for those of a split.

    Attributes:
        sizes: int32 [num_graphs, num_sets].
        labels: int32 [num_graphs], label classes.
        degrees: int32 [num_graphs], degree buckets.
        weight: how many graphs of the split each of these stands for.
    """

    sizes: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    degrees: npt.NDArray[np.int32]
    weight: float = 1.0


def sampled_graphs(summary: SplitSummary, half: int | None = None) -> SampledGraphs:
    """Takes graphs from a summary.

    Args:
        summary: sizes of a split.
        half: 0 or 1 for the graphs of one half of the split, which the hashes of records tell; None for all.

    Returns:
        All graphs while there are few, else some in proportion. There may be none.
    """
    if summary.rows is not None and summary.counts is not None:
        counts = summary.counts.sum(axis=1) if half is None else summary.counts[:, half]
        total = int(counts.sum())
        num_taken = min(total, MAX_GRAPHS)
        # Every n-th graph: of each row as many as its share is, but for one.
        taken = (np.arange(num_taken) * total + total // 2) // max(num_taken, 1)
        rows = summary.rows[np.searchsorted(np.cumsum(counts), taken, side="right")]
        weight = total / max(num_taken, 1)
    else:
        rows = summary.sample_rows
        weight = summary.num_graphs / len(rows)
        if half is not None:
            rows = rows[(summary.sample_hashes & np.uint64(1)) == half]
    return SampledGraphs(
        sizes=np.ascontiguousarray(rows[:, :-2]), labels=rows[:, -2], degrees=rows[:, -1], weight=weight
    )


@dataclasses.dataclass(frozen=True, eq=False)
class BatchDraws:
    """Random batches as training makes them: the graphs are shuffled, and cut into batches, again and again.

    Each graph is thus drawn equally often, but for one time, which makes shares of batches more exact than
    independent draws do.

    Attributes:
        sizes: int32 [num_graphs, num_sets], at least one graph.
        batch_size: graphs of a batch.
        num_batches: how many to draw.
        seed: the same seed gives the same batches.
    """

    sizes: npt.NDArray[np.int32]
    batch_size: int
    num_batches: int
    seed: int

    @staticmethod
    def enough(sizes: npt.NDArray[np.int32], batch_size: int, seed: int) -> BatchDraws:
        """Draws so many batches that shares of them are exact to a few hundredths of a point."""
        num_batches = min(NUM_BATCHES, _MAX_DRAWN // batch_size, _DRAWS_OF_A_GRAPH * len(sizes))
        num_batches = max(num_batches, _MIN_BATCHES)
        return BatchDraws(sizes, batch_size, num_batches, seed)

    def members(self) -> Iterator[npt.NDArray[np.int32]]:
        """Yields the batches, int32 [some, batch_size]: positions of their graphs."""
        random = np.random.default_rng([self.seed, self.batch_size])
        num_graphs = len(self.sizes)
        orders = np.tile(np.arange(num_graphs, dtype=np.int32), (-(-_BLOCK // num_graphs), 1))
        left = np.zeros(0, np.int32)
        num_left = self.num_batches
        while num_left:
            block = min(num_left, max(_BLOCK * 32 // self.batch_size, 1))
            parts, length = [left], len(left)
            while length < block * self.batch_size:
                parts.append(random.permuted(orders, axis=1).ravel())
                length += orders.size
            drawn = np.concatenate(parts)
            left = drawn[block * self.batch_size :]
            yield drawn[: block * self.batch_size].reshape(block, self.batch_size)
            num_left -= block

    def sums(self) -> Integers:
        """Adds up the sizes of each batch: int64 [num_batches, num_sets]."""
        blocks = []
        for members in self.members():
            total = np.zeros([len(members), self.sizes.shape[1]], np.int64)
            for column in members.T:
                total += self.sizes[column]
            blocks.append(total)
        return np.concatenate(blocks)
