"""What a hop asks of the edges of a graph, and what it gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


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
    """

    hop: str
    subgraphs: _Integers
    nodes: _Integers
    keys: npt.NDArray[np.uint64]
    time_limits: _Integers | None = None
    rank_limits: npt.NDArray[np.int8] | None = None
    excluded_splits: _Integers | None = None
    excluded_neighbors: _Integers | None = None

    @property
    def num_requests(self) -> int:
        """Number of requests."""
        return len(self.nodes)

    @property
    def is_filtered(self) -> npt.NDArray[np.bool_]:
        """Bool array, shape [num_requests]: whether some edges may not be chosen.

        It depends on the plan and the request, never on the edges that there are.
        """
        if self.time_limits is not None or self.rank_limits is not None:
            return np.ones(self.num_requests, np.bool_)
        if self.excluded_splits is None:
            return np.zeros(self.num_requests, np.bool_)
        return np.diff(self.excluded_splits) > 0

    def take(self, indices: _Integers) -> EdgeRequests:
        """Selects requests.

        Args:
            indices: int64 array, shape [n], positions of requests.

        Returns:
            The requests at these positions, in that order.
        """
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
        scores: float64 array, shape [num_edges]: score of each edge, smaller is better; None
            if edges were found by position or all of a node's edges were taken.
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


def concatenate_found(parts: Sequence[FoundEdges], positions: Sequence[_Integers], num_requests: int) -> FoundEdges:
    """Puts answers to different requests of one hop together.

    Args:
        parts: answers, at least one; of different requests, each complete.
        positions: by part, int64 array with the position among all requests of each of
            the part's requests.
        num_requests: number of all requests.

    Returns:
        The answers to all requests. Scores are left out unless all parts have them.
    """
    num_candidates = np.zeros(num_requests, np.int64)
    num_eligible = np.zeros(num_requests, np.int64)
    for part, where in zip(parts, positions, strict=True):
        num_candidates[where] = part.num_candidates
        num_eligible[where] = part.num_eligible
    scores = [part.scores for part in parts if part.scores is not None]
    return FoundEdges(
        hop=parts[0].hop,
        requests=np.concatenate([where[part.requests] for part, where in zip(parts, positions, strict=True)]),
        edge_rows=np.concatenate([part.edge_rows for part in parts]),
        neighbors=np.concatenate([part.neighbors for part in parts]),
        draws=np.concatenate([part.draws for part in parts]),
        scores=np.concatenate(scores) if len(scores) == len(parts) else None,
        num_candidates=num_candidates,
        num_eligible=num_eligible,
    )


def expand_ranges(starts: _Integers, counts: _Integers) -> _Integers:
    """Lists the members of ranges, range after range.

    Args:
        starts: int64 array, shape [n]: first member of each range.
        counts: int64 array, shape [n]: members of each range, not negative.

    Returns:
        int64 array, shape [sum of counts].

    Example:
        >>> expand_ranges(np.array([5, 9, 2]), np.array([2, 0, 3])).tolist()
        [5, 6, 2, 3, 4]
    """
    firsts = starts - (np.cumsum(counts) - counts)
    return np.repeat(firsts, counts) + np.arange(int(counts.sum()))
