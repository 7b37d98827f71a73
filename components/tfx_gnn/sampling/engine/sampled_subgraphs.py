"""A batch of sampled subgraphs as flat arrays, independent of the sampler."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledNodes:
    """The nodes of one node set in each subgraph of a batch.

    Attributes:
        rows: int64 array, shape [total_nodes]: rows of the node table, subgraph after
            subgraph. In each subgraph no row repeats and rows ascend, but for the
            roots, which come first: the seed; or sources, then targets, in the order
            in which they are read out.
        splits: int64 array, shape [num_subgraphs + 1]: where each subgraph starts in `rows`.
    """

    rows: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledEdges:
    """The edges of one edge set in each subgraph of a batch.

    Attributes:
        rows: int64 array, shape [total_edges]: positions among the rows of the edge table,
            subgraph after subgraph, ascending in each. A row that was drawn several
            times repeats.
        sources: int64 array, shape [total_edges]: position of the source among its
            subgraph's nodes of the source set.
        targets: int64 array, shape [total_edges]: the same for the target.
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
        seed_rows: int64 array, shape [num_subgraphs]: row of the seed in the table that it
            is from: position among the rows of the node table, edge table or seed table.
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
    """A node of which a hop took some edges only.

    Attributes:
        node_id: original id.
        degree: edges that it has in the whole graph.
        times_truncated: in how many subgraphs.
    """

    node_id: str | int
    degree: int
    times_truncated: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HopCounts:
    """What one hop did, summed over subgraphs.

    Attributes:
        num_inputs: nodes that the hop started from.
        num_truncated: those of them with more eligible edges than the fan-out.
        num_edges: edges sampled.
        num_candidates: edges that the input nodes have in the whole graph.
        num_eligible: those of them that the plan does not hide and that weigh something.
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
        num_subgraphs: how many there are.
        node_sets: by node set, for every node set that the plan reaches.
        edge_sets: by edge set, for every edge set that the plan has.
        readouts: what is read out of each subgraph; None if nothing is.
        hop_counts: by hop.
        truncated_hubs: by hop, the nodes of most edges that it cut.
    """

    num_subgraphs: int
    node_sets: Mapping[str, SampledNodes]
    edge_sets: Mapping[str, SampledEdges]
    readouts: SampledReadouts | None = None
    hop_counts: Mapping[str, HopCounts] = dataclasses.field(default_factory=dict)
    truncated_hubs: Mapping[str, tuple[TruncatedHub, ...]] = dataclasses.field(default_factory=dict)
