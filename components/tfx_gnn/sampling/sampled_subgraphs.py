"""A batch of sampled subgraphs as flat arrays, whichever sampler made it."""

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
            seed, which comes first in its node set.
        splits: int64 array, shape [num_subgraphs + 1]: where each subgraph starts in `rows`.
    """

    rows: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledEdges:
    """The edges of one edge set in each subgraph of a batch.

    Attributes:
        rows: int64 array, shape [total_edges]: rows of the edge table, subgraph after
            subgraph, ascending in each.
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
class HopCounts:
    """What one hop did, summed over subgraphs.

    Attributes:
        num_inputs: nodes that the hop started from.
        num_truncated: those of them with more edges than the fan-out.
        num_edges: edges sampled.
        num_candidates: edges that the input nodes have in the whole graph.
    """

    num_inputs: int = 0
    num_truncated: int = 0
    num_edges: int = 0
    num_candidates: int = 0

    def __add__(self, other: HopCounts) -> HopCounts:
        """Sums two counts field by field."""
        return HopCounts(
            num_inputs=self.num_inputs + other.num_inputs,
            num_truncated=self.num_truncated + other.num_truncated,
            num_edges=self.num_edges + other.num_edges,
            num_candidates=self.num_candidates + other.num_candidates,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledSubgraphs:
    """Subgraphs around a batch of seeds.

    Attributes:
        seed_rows: int64 array, shape [num_subgraphs]: rows of the seeds in their node table.
        node_sets: by node set, for every node set that the plan reaches.
        edge_sets: by edge set, for every edge set that the plan follows.
        hop_counts: by hop.
    """

    seed_rows: npt.NDArray[np.int64]
    node_sets: Mapping[str, SampledNodes]
    edge_sets: Mapping[str, SampledEdges]
    hop_counts: Mapping[str, HopCounts]
