"""What sampling produced, in figures."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.sampled_subgraphs import HopCounts, SampledSubgraphs


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeStatistics:
    """How many nodes or edges of one set the subgraphs have.

    Attributes:
        total: sum over all subgraphs.
        mean: average of a subgraph.
        max: most in one subgraph.
    """

    total: int
    mean: float
    max: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphStatistics:
    """What a run of SubgraphExampleGen wrote.

    Attributes:
        num_subgraphs: by split.
        node_sets: sizes by node set.
        edge_sets: sizes by edge set.
        all_nodes: sizes over all node sets together.
        all_edges: sizes over all edge sets together.
        hops: by hop, what was followed and where the fan-out cut a node's edges.
    """

    num_subgraphs: Mapping[str, int]
    node_sets: Mapping[str, SizeStatistics]
    edge_sets: Mapping[str, SizeStatistics]
    all_nodes: SizeStatistics
    all_edges: SizeStatistics
    hops: Mapping[str, HopCounts]


class SubgraphStatisticsBuilder:
    """Collects statistics batch after batch, in memory that does not grow."""

    def __init__(self) -> None:
        """Starts with nothing counted."""
        self._num_subgraphs: dict[str, int] = defaultdict(int)
        self._node_sizes: dict[str, _SizeSums] = defaultdict(_SizeSums)
        self._edge_sizes: dict[str, _SizeSums] = defaultdict(_SizeSums)
        self._all_nodes = _SizeSums()
        self._all_edges = _SizeSums()
        self._hops: dict[str, HopCounts] = defaultdict(HopCounts)

    def add(self, split: str, subgraphs: SampledSubgraphs) -> None:
        """Counts a batch.

        Args:
            split: the split that all of the batch belongs to.
            subgraphs: the batch.
        """
        num_subgraphs = subgraphs.num_subgraphs
        self._num_subgraphs[split] += num_subgraphs
        num_nodes = np.zeros(num_subgraphs, np.int64)
        for name, nodes in subgraphs.node_sets.items():
            self._node_sizes[name].add(np.diff(nodes.splits))
            num_nodes += np.diff(nodes.splits)
        self._all_nodes.add(num_nodes)
        num_edges = np.zeros(num_subgraphs, np.int64)
        for name, edges in subgraphs.edge_sets.items():
            self._edge_sizes[name].add(np.diff(edges.splits))
            num_edges += np.diff(edges.splits)
        self._all_edges.add(num_edges)
        for name, counts in subgraphs.hop_counts.items():
            self._hops[name] += counts

    def build(self) -> SubgraphStatistics:
        """Sums up.

        Returns:
            The statistics of all batches so far.
        """
        count = sum(self._num_subgraphs.values())
        return SubgraphStatistics(
            num_subgraphs=dict(self._num_subgraphs),
            node_sets={name: sums.summary(count) for name, sums in self._node_sizes.items()},
            edge_sets={name: sums.summary(count) for name, sums in self._edge_sizes.items()},
            all_nodes=self._all_nodes.summary(count),
            all_edges=self._all_edges.summary(count),
            hops=dict(self._hops),
        )


class _SizeSums:
    def __init__(self) -> None:
        self._total = 0
        self._max = 0

    def add(self, sizes: npt.NDArray[np.int64]) -> None:
        self._total += int(sizes.sum())
        self._max = max(self._max, int(sizes.max(initial=0)))

    def summary(self, num_subgraphs: int) -> SizeStatistics:
        return SizeStatistics(total=self._total, mean=self._total / max(num_subgraphs, 1), max=self._max)
