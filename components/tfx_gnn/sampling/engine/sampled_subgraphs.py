"""Batches of sampled subgraphs as flat arrays, independent of the sampler, and their statistics."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledNodes:
    """The nodes of one node set in each subgraph of a batch.

    Attributes:
        rows: int64 array, shape [total_nodes]: rows of the node table, one subgraph after
            the other. In each subgraph rows are unique. The roots come first: the seed;
            or sources, then targets, in the order of the readouts. The other rows ascend.
        splits: int64 array, shape [num_subgraphs + 1]: where each subgraph starts in `rows`.
    """

    rows: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledEdges:
    """The edges of one edge set in each subgraph of a batch.

    Attributes:
        rows: int64 array, shape [total_edges]: positions in the edge table, one subgraph
            after the other, ascending in each. A row that was drawn several times is
            repeated.
        sources: int64 array, shape [total_edges]: position of the source among its
            subgraph's nodes of the source set.
        targets: int64 array, shape [total_edges]: position of the target among its
            subgraph's nodes of the target set.
        splits: int64 array, shape [num_subgraphs + 1]: where each subgraph starts in `rows`.
    """

    rows: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledReadouts:
    """What is read out of each subgraph of a batch.

    Attributes:
        splits: int64 array, shape [num_subgraphs + 1]: where the readouts of each subgraph start.
        positions: by root ("seed"; or "source" and "target"), int64 array, shape
            [num_readouts]: position of the root among its subgraph's nodes of its set.
        seed_rows: int64 array, shape [num_subgraphs]: position of the seed in the node
            table, edge table or seed table that it comes from.
        labels: int8 array, shape [num_readouts]: 1 for true pairs, 0 for negatives; None
            without negatives.
        seed_edges: int64 array, shape [num_subgraphs]: position of the seed edge among its
            subgraph's edges; None if the plan does not keep it.
    """

    splits: npt.NDArray[np.int64]
    positions: Mapping[str, npt.NDArray[np.int64]]
    seed_rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int8] | None = None
    seed_edges: npt.NDArray[np.int64] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TruncatedHub:
    """A node with more edges than a hop's fan-out.

    Attributes:
        node_id: original id.
        degree: number of its edges in the whole graph.
        times_truncated: number of subgraphs in which the hop truncated its edges.
    """

    node_id: str | int
    degree: int
    times_truncated: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HopCounts:
    """Counts of one hop, summed over subgraphs.

    Attributes:
        num_inputs: nodes that the hop started from.
        num_truncated: input nodes with more eligible edges than the fan-out.
        num_edges: edges sampled.
        num_candidates: edges of the input nodes in the whole graph.
        num_eligible: candidates that the plan does not hide and, with strategy "weighted",
            whose weight is positive.
    """

    num_inputs: int = 0
    num_truncated: int = 0
    num_edges: int = 0
    num_candidates: int = 0
    num_eligible: int = 0

    def __add__(self, other: HopCounts) -> HopCounts:
        """Sums two counts field by field."""
        return HopCounts(
            num_inputs=self.num_inputs + other.num_inputs,
            num_truncated=self.num_truncated + other.num_truncated,
            num_edges=self.num_edges + other.num_edges,
            num_candidates=self.num_candidates + other.num_candidates,
            num_eligible=self.num_eligible + other.num_eligible,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledSubgraphs:
    """Subgraphs around a batch of seeds.

    Attributes:
        num_subgraphs: number of subgraphs.
        node_sets: by node set, for every node set that the plan reaches.
        edge_sets: by edge set, for every edge set that the plan has.
        readouts: what is read out of each subgraph; None if nothing is.
        trees: by context feature, int64 array, shape [num_subgraphs, width]: positions of the nodes in the tree of a
            hop among their subgraph's nodes of their set, or -1; see `SamplingPlan.is_ego`.
        structure_labels: by node set, int64 array, shape [total_nodes] or [total_nodes, 2]: label of each node, in the
            order of `node_sets`; see `SamplingPlan.structure_labels`. Empty if there are none.
        hop_counts: by hop.
        truncated_hubs: by hop, the nodes with the most edges whose edges it truncated.
    """

    num_subgraphs: int
    node_sets: Mapping[str, SampledNodes]
    edge_sets: Mapping[str, SampledEdges]
    readouts: SampledReadouts | None = None
    trees: Mapping[str, npt.NDArray[np.int64]] = dataclasses.field(default_factory=dict)
    structure_labels: Mapping[str, npt.NDArray[np.int64]] = dataclasses.field(default_factory=dict)
    hop_counts: Mapping[str, HopCounts] = dataclasses.field(default_factory=dict)
    truncated_hubs: Mapping[str, tuple[TruncatedHub, ...]] = dataclasses.field(default_factory=dict)


MAX_TRUNCATED_HUBS = 20
"""Maximum number of truncated nodes that are named for each hop: those with the most edges."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeStatistics:
    """Numbers of nodes or edges of one set per subgraph.

    Attributes:
        total: sum over all subgraphs.
        mean: average per subgraph.
        max: maximum in one subgraph.
    """

    total: int
    mean: float
    max: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphStatistics:
    """Statistics of the subgraphs that SubgraphExampleGen wrote.

    Attributes:
        num_subgraphs: by split.
        num_negatives: by split, negative pairs that are read out; empty without negatives.
        node_sets: sizes by node set.
        edge_sets: sizes by edge set.
        all_nodes: sizes over all node sets together.
        all_edges: sizes over all edge sets together.
        hops: by hop, counts of input nodes, truncated nodes and edges.
        fan_out_saturation: by hop, the fraction of its input nodes that had more eligible
            edges than the fan-out, in [0, 1].
        truncated_hubs: by hop, the truncated nodes with the most edges, at most
            `MAX_TRUNCATED_HUBS`, in descending order of degree.
    """

    num_subgraphs: Mapping[str, int]
    num_negatives: Mapping[str, int]
    node_sets: Mapping[str, SizeStatistics]
    edge_sets: Mapping[str, SizeStatistics]
    all_nodes: SizeStatistics
    all_edges: SizeStatistics
    hops: Mapping[str, HopCounts]
    fan_out_saturation: Mapping[str, float]
    truncated_hubs: Mapping[str, tuple[TruncatedHub, ...]]


class SubgraphStatisticsBuilder:
    """Collects statistics batch by batch, in bounded memory.

    Builders can be pickled and merged. The statistics do not depend on how subgraphs are
    divided into batches and builders.
    """

    def __init__(self) -> None:
        """Starts with empty counts."""
        self._num_subgraphs: dict[str, int] = defaultdict(int)
        self._num_negatives: dict[str, int] = defaultdict(int)
        self._node_sizes: dict[str, _SizeSums] = defaultdict(_SizeSums)
        self._edge_sizes: dict[str, _SizeSums] = defaultdict(_SizeSums)
        self._all_nodes = _SizeSums()
        self._all_edges = _SizeSums()
        self._hops: dict[str, HopCounts] = defaultdict(HopCounts)
        self._hubs: dict[str, tuple[TruncatedHub, ...]] = defaultdict(tuple)

    def add_split(self, split: str) -> None:
        """Adds a split that may have no subgraphs."""
        self._num_subgraphs[split] += 0

    def add(self, split: str, subgraphs: SampledSubgraphs) -> None:
        """Counts a batch of subgraphs, all of one split."""
        num_subgraphs = subgraphs.num_subgraphs
        self._num_subgraphs[split] += num_subgraphs
        if subgraphs.readouts is not None and subgraphs.readouts.labels is not None:
            self._num_negatives[split] += int((subgraphs.readouts.labels == 0).sum())
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
        for name, hubs in subgraphs.truncated_hubs.items():
            self._hubs[name] = _merge_hubs(self._hubs[name], hubs)

    def merge(self, other: SubgraphStatisticsBuilder) -> None:
        """Adds the counts of another builder, for other subgraphs of the same plan."""
        for split, number in other._num_subgraphs.items():
            self._num_subgraphs[split] += number
        for split, number in other._num_negatives.items():
            self._num_negatives[split] += number
        for name, sums in other._node_sizes.items():
            self._node_sizes[name].merge(sums)
        for name, sums in other._edge_sizes.items():
            self._edge_sizes[name].merge(sums)
        self._all_nodes.merge(other._all_nodes)
        self._all_edges.merge(other._all_edges)
        for name, counts in other._hops.items():
            self._hops[name] += counts
        for name, hubs in other._hubs.items():
            self._hubs[name] = _merge_hubs(self._hubs[name], hubs)

    def add_statistics(self, statistics: SubgraphStatistics) -> None:
        """Adds the statistics that another builder built."""
        part = SubgraphStatisticsBuilder()
        part._num_subgraphs.update(statistics.num_subgraphs)
        part._num_negatives.update(statistics.num_negatives)
        part._node_sizes.update({name: _SizeSums.of(sizes) for name, sizes in statistics.node_sets.items()})
        part._edge_sizes.update({name: _SizeSums.of(sizes) for name, sizes in statistics.edge_sets.items()})
        part._all_nodes = _SizeSums.of(statistics.all_nodes)
        part._all_edges = _SizeSums.of(statistics.all_edges)
        part._hops.update(statistics.hops)
        part._hubs.update(statistics.truncated_hubs)
        self.merge(part)

    def build(self) -> SubgraphStatistics:
        """Returns the statistics of all batches so far."""
        count = sum(self._num_subgraphs.values())
        return SubgraphStatistics(
            num_subgraphs=dict(self._num_subgraphs),
            num_negatives=dict(self._num_negatives),
            node_sets={name: sums.summary(count) for name, sums in self._node_sizes.items()},
            edge_sets={name: sums.summary(count) for name, sums in self._edge_sizes.items()},
            all_nodes=self._all_nodes.summary(count),
            all_edges=self._all_edges.summary(count),
            hops=dict(self._hops),
            fan_out_saturation={
                name: counts.num_truncated / max(counts.num_inputs, 1) for name, counts in self._hops.items()
            },
            truncated_hubs=dict(self._hubs),
        )


def largest_hubs(hubs: Iterable[TruncatedHub]) -> tuple[TruncatedHub, ...]:
    """Keeps the `MAX_TRUNCATED_HUBS` nodes with the most edges; ties are broken by id.

    A node that is among the largest overall is among the largest of every part that
    contains it, so its `times_truncated` is complete however parts are merged.
    """
    return tuple(sorted(hubs, key=lambda hub: (-hub.degree, hub.node_id))[:MAX_TRUNCATED_HUBS])


def _merge_hubs(ones: Iterable[TruncatedHub], others: Iterable[TruncatedHub]) -> tuple[TruncatedHub, ...]:
    merged = {hub.node_id: hub for hub in ones}
    for hub in others:
        if hub.node_id in merged:
            times = merged[hub.node_id].times_truncated + hub.times_truncated
            merged[hub.node_id] = dataclasses.replace(hub, times_truncated=times)
        else:
            merged[hub.node_id] = hub
    return largest_hubs(merged.values())


class _SizeSums:
    def __init__(self) -> None:
        self._total = 0
        self._max = 0

    @classmethod
    def of(cls, sizes: SizeStatistics) -> _SizeSums:
        sums = cls()
        sums._total, sums._max = sizes.total, sizes.max
        return sums

    def add(self, sizes: npt.NDArray[np.int64]) -> None:
        self._total += int(sizes.sum())
        self._max = max(self._max, int(sizes.max(initial=0)))

    def merge(self, other: _SizeSums) -> None:
        self._total += other._total
        self._max = max(self._max, other._max)

    def summary(self, num_subgraphs: int) -> SizeStatistics:
        return SizeStatistics(total=self._total, mean=self._total / max(num_subgraphs, 1), max=self._max)
