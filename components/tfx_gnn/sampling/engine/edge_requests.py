"""A hop's requests for edges, and the answers."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllowedNodes:
    """Sets of nodes, one a subgraph.

    Attributes:
        subgraphs: int64 array, shape [num_nodes]: position of the subgraph among its block.
        nodes: int64 array, shape [num_nodes]: handle of the node; no pair repeats.
    """

    subgraphs: _Integers
    nodes: _Integers

    def of_subgraphs(self, subgraphs: _Integers) -> AllowedNodes:
        """Selects the sets of some subgraphs."""
        kept = np.isin(self.subgraphs, subgraphs)
        return AllowedNodes(subgraphs=self.subgraphs[kept], nodes=self.nodes[kept])

    def contains(self, subgraphs: _Integers, nodes: _Integers) -> npt.NDArray[np.bool_]:
        """Tells which pairs of (subgraph, node) are among these."""
        distinct, numbers = np.unique(self.nodes, return_inverse=True)
        if not len(distinct):
            return np.zeros(len(nodes), np.bool_)
        found = np.minimum(np.searchsorted(distinct, nodes), len(distinct) - 1)
        is_pair = np.isin(subgraphs * len(distinct) + found, self.subgraphs * len(distinct) + numbers)
        return is_pair & (distinct[found] == nodes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeRequests:
    """Nodes that a hop starts from, each on behalf of one subgraph.

    A node is given by its handle: its row in the node table in memory, its code
    (viewed as int64) where the graph is cut into partitions.

    Attributes:
        hop: name of the hop.
        subgraphs: int64 array, shape [num_requests]: position of the subgraph among its block.
        nodes: int64 array, shape [num_requests]: handle of the node.
        keys: uint64 array, shape [num_requests]: key of the request's random choice.
        time_limits: int64 array, shape [num_requests]: edges must be older than this (or
            as old, if the plan says inclusive); None if the hop's edges are not filtered by time.
        rank_limits: int8 array, shape [num_requests]: highest rank of edges; None if the
            hop's edges have no ranks.
        excluded_splits: int64 array, shape [num_requests + 1]: where the excluded
            neighbors of each request start; None if no request has any.
        excluded_neighbors: int64 array: handles of nodes that no edge may lead to.
        allowed: the nodes that edges may lead to, by subgraph; None: to any.
    """

    hop: str
    subgraphs: _Integers
    nodes: _Integers
    keys: npt.NDArray[np.uint64]
    time_limits: _Integers | None = None
    rank_limits: npt.NDArray[np.int8] | None = None
    excluded_splits: _Integers | None = None
    excluded_neighbors: _Integers | None = None
    allowed: AllowedNodes | None = None

    @property
    def num_requests(self) -> int:
        """Number of requests."""
        return len(self.nodes)

    @property
    def is_filtered(self) -> npt.NDArray[np.bool_]:
        """Bool array, shape [num_requests]: whether some edges may not be chosen.

        It depends on the plan and the request, never on the edges that there are.
        """
        if self.time_limits is not None or self.rank_limits is not None or self.allowed is not None:
            return np.ones(self.num_requests, np.bool_)
        if self.excluded_splits is None:
            return np.zeros(self.num_requests, np.bool_)
        return np.diff(self.excluded_splits) > 0

    def take(self, indices: _Integers) -> EdgeRequests:
        """Selects the requests at some positions, in that order."""
        splits, excluded = self.excluded_splits, self.excluded_neighbors
        if splits is not None and excluded is not None:
            counts = splits[indices + 1] - splits[indices]
            excluded = excluded[expand_ranges(splits[indices], counts)]
            splits = np.concatenate([[0], np.cumsum(counts)])
        return EdgeRequests(
            hop=self.hop,
            subgraphs=self.subgraphs[indices],
            nodes=self.nodes[indices],
            keys=self.keys[indices],
            time_limits=None if self.time_limits is None else self.time_limits[indices],
            rank_limits=None if self.rank_limits is None else self.rank_limits[indices],
            excluded_splits=splits,
            excluded_neighbors=excluded,
            allowed=None if self.allowed is None else self.allowed.of_subgraphs(self.subgraphs[indices]),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundEdges:
    """Edges that answer requests of one hop.

    Attributes:
        hop: name of the hop.
        requests: int64 array, shape [num_edges]: position of the request that each edge answers.
        edge_rows: int64 array, shape [num_edges]: row of the edge in its table as written.
        neighbors: int64 array, shape [num_edges]: handle of the node that the edge leads to.
        draws: int16 array, shape [num_edges]: number of the draw that found the edge, with
            strategy "uniform_with_replacement"; 0 with others.
        scores: float64 array, shape [num_edges]: score of each edge, of which the smallest
            are chosen; None if the answer is complete as it is.
        num_candidates: int64 array, shape [num_requests]: edges of the node, chosen or not.
        num_eligible: int64 array, shape [num_requests]: those of them that might be chosen.
    """

    hop: str
    requests: _Integers
    edge_rows: _Integers
    neighbors: _Integers
    draws: npt.NDArray[np.int16]
    scores: npt.NDArray[np.float64] | None
    num_candidates: _Integers
    num_eligible: _Integers

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.edge_rows)


def expand_ranges(starts: _Integers, counts: _Integers) -> _Integers:
    """Lists the members of ranges, range after range: starts [5, 2] and counts [2, 3] give [5, 6, 2, 3, 4]."""
    firsts = starts - (np.cumsum(counts) - counts)
    return np.repeat(firsts, counts) + np.arange(int(counts.sum()))
