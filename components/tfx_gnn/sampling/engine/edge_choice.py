"""Chooses which edges of a node a hop takes: by position, or by a score per edge.

Edges are stored by node as compressed sparse rows. If all edges of a node are equally likely, positions
among them are drawn, at a cost that does not depend on their number. Otherwise each edge gets a score that
is a pure function of the request and the edge, and the edges with the smallest scores are chosen. So the
edges of one node may be in several places: each place answers with its best edges, and `merge_scored` finds
the best overall.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.adjacency import EdgesByNode
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.random_choice import (
    bound_smallest,
    choose_positions,
    draw_positions,
    exponential_scores,
    find_smallest,
    uniform_scores,
)

_MAX_CANDIDATES = 1 << 18  # edges that are scored at once, so that memory does not grow with a hub's degree
_MAX_REQUESTS = 1 << 16  # so that `find_smallest` sorts the groups of a batch as 16-bit integers

_Integers = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllowedNodes:
    """Sets of nodes, one per subgraph.

    Attributes:
        subgraphs: int64 array, shape [num_nodes]: position of the subgraph in its block.
        nodes: int64 array, shape [num_nodes]: handle of the node; (subgraph, node) pairs
            are unique.
    """

    subgraphs: _Integers
    nodes: _Integers

    def of_subgraphs(self, subgraphs: _Integers) -> AllowedNodes:
        """Selects the sets of some subgraphs."""
        kept = np.isin(self.subgraphs, subgraphs)
        return AllowedNodes(subgraphs=self.subgraphs[kept], nodes=self.nodes[kept])

    def contains(self, subgraphs: _Integers, nodes: _Integers) -> npt.NDArray[np.bool_]:
        """Returns which pairs of (subgraph, node) are in the sets."""
        distinct, numbers = np.unique(self.nodes, return_inverse=True)
        if not len(distinct):
            return np.zeros(len(nodes), np.bool_)
        found = np.minimum(np.searchsorted(distinct, nodes), len(distinct) - 1)
        is_pair = np.isin(subgraphs * len(distinct) + found, self.subgraphs * len(distinct) + numbers)
        return is_pair & (distinct[found] == nodes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeRequests:
    """Nodes that a hop starts from, each on behalf of one subgraph.

    A node is given by its handle: in memory, its row in the node table; where the graph
    is divided into partitions, its code (viewed as int64).

    Attributes:
        hop: name of the hop.
        subgraphs: int64 array, shape [num_requests]: position of the subgraph in its block.
        nodes: int64 array, shape [num_requests]: handle of the node.
        keys: uint64 array, shape [num_requests]: key of the request's random choice.
        time_limits: int64 array, shape [num_requests]: edges must be older than this (or
            equally old, if the plan is inclusive); None if the hop's edges are not filtered
            by time.
        rank_limits: int8 array, shape [num_requests]: highest rank of edges; None if the
            hop's edges have no ranks.
        excluded_splits: int64 array, shape [num_requests + 1]: where the excluded
            neighbors of each request start; None if no request has any.
        excluded_neighbors: int64 array: handles of nodes that no edge may lead to.
        allowed: the nodes that edges may lead to, by subgraph; None: any node.
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

        It depends on the plan and the request, never on the edges.
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
            replacement; 0 with other strategies.
        scores: float64 array, shape [num_edges]: score of each edge, for a merge that
            chooses the smallest; None if the answer is complete.
        num_candidates: int64 array, shape [num_requests]: edges of the node, chosen or not.
        num_eligible: int64 array, shape [num_requests]: candidates that the filters and
            weights allow to be chosen.
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
    """Concatenates ranges: starts [5, 2] and counts [2, 3] give [5, 6, 2, 3, 4]."""
    ends = counts.cumsum()
    return (starts - (ends - counts)).repeat(counts) + np.arange(int(ends[-1]) if len(ends) else 0)


def visits_all_edges(hop: Hop, requests: EdgeRequests) -> npt.NDArray[np.bool_]:
    """Returns which requests inspect every edge of their node rather than draw positions."""
    if hop.strategy in ("uniform", "uniform_with_replacement"):
        return requests.is_filtered
    return np.ones(requests.num_requests, np.bool_)


def positions_of_requests(
    hop: Hop, keys: npt.NDArray[np.uint64], degrees: _Integers
) -> tuple[_Integers, _Integers, npt.NDArray[np.int16]]:
    """Draws positions among the edges of nodes, all equally likely.

    Returns for each drawn edge the request, ascending; the position in [0, degree) among the node's edges, sorted by
    hash; and the number of the draw.
    """
    if hop.strategy == "uniform_with_replacement":
        drawn = np.flatnonzero(degrees)
        positions = draw_positions(keys[drawn], degrees[drawn], hop.fan_out)
        draws = np.tile(np.arange(hop.fan_out, dtype=np.int16), len(drawn))
        return np.repeat(drawn, hop.fan_out), positions.ravel(), draws
    taken = np.minimum(degrees, hop.fan_out)
    which = np.arange(len(taken)).repeat(taken)
    begins = taken.cumsum() - taken
    positions = np.arange(len(which)) - begins[which]
    (truncated,) = (degrees > hop.fan_out).nonzero()
    if len(truncated):
        where = begins[truncated, np.newaxis] + np.arange(hop.fan_out)
        positions[where] = choose_positions(keys[truncated], degrees[truncated], hop.fan_out)
    return which, positions, np.zeros(len(positions), np.int16)


def find_edges(
    hop: Hop,
    adjacency: EdgesByNode,
    local_nodes: _Integers,
    requests: EdgeRequests,
    *,
    inclusive: bool = False,
    keeps_scores: bool = False,
) -> FoundEdges:
    """Answers the requests of a hop from an adjacency of its edge set in its direction.

    `local_nodes` are the positions of the requests' nodes in the adjacency, -1 for a node without edges.
    With `inclusive`, edges whose time is exactly a request's limit may be chosen. `keeps_scores` is for an adjacency
    that holds only some of a node's edges, whose answers are merged by score.
    Edges found by position come before edges found by score. Within each kind the requests ascend; with replacement,
    they ascend within each draw.
    """
    firsts = adjacency.offsets[local_nodes]
    # For -1, these are the first offset and the last one.
    counts = np.maximum(adjacency.offsets[local_nodes + 1] - firsts, 0)
    visiting = visits_all_edges(hop, requests)
    (visited,) = visiting.nonzero()
    eligible = counts
    parts: list[_Chosen] = []
    if not len(visited) or len(visited) < len(visiting):
        if keeps_scores and len(visiting):
            raise ValueError(
                "`keeps_scores` must be False for requests that draw positions; got True in hop "
                f"{hop.name!r}. Send them to the edges at the drawn positions."
            )
        (drawing,) = (~visiting).nonzero()
        which, positions, draws = positions_of_requests(hop, requests.keys[drawing], counts[drawing])
        asked = drawing[which]
        parts.append(_Chosen(asked, firsts[asked] + positions, draws, np.zeros(len(asked))))
    if len(visited):
        search = _Search(hop, adjacency, requests, inclusive=inclusive)
        eligible = counts.copy()
        chosen, eligible[visited] = search.find(visited, firsts[visited], counts[visited])
        parts.append(chosen)
    chosen = parts[0] if len(parts) == 1 else _Chosen.join(parts)
    return FoundEdges(
        hop=hop.name,
        requests=chosen.requests,
        edge_rows=adjacency.rows_at(chosen.positions),
        neighbors=adjacency.neighbors_at(chosen.positions),
        draws=chosen.draws,
        scores=chosen.scores if keeps_scores and not hop.takes_all else None,
        num_candidates=counts,
        num_eligible=eligible,
    )


def merge_scored(
    hop: Hop,
    parts: Sequence[FoundEdges],
    positions: Sequence[_Integers],
    num_requests: int,
    *,
    keeps_scores: bool = False,
) -> FoundEdges:
    """Merges answers about different nodes, or about different edges of the same node.

    `positions` holds, for each part, the positions of its requests among all requests; a position may be repeated
    if the edges of its node are in several places. Parts without scores are complete for their requests.
    `keeps_scores` is for a merge whose result is merged again; then either all parts or none have scores.
    """
    num_candidates = np.zeros(num_requests, np.int64)
    num_eligible = np.zeros(num_requests, np.int64)
    for part, where in zip(parts, positions, strict=True):
        # Plain indexing would count a repeated position in `where` only once.
        np.add.at(num_candidates, where, part.num_candidates)
        np.add.at(num_eligible, where, part.num_eligible)
    requests = np.concatenate([where[part.requests] for part, where in zip(parts, positions, strict=True)])
    edge_rows = np.concatenate([part.edge_rows for part in parts])
    neighbors = np.concatenate([part.neighbors for part in parts])
    draws = np.concatenate([part.draws for part in parts])
    scored = np.concatenate([np.full(part.num_edges, part.scores is not None) for part in parts])
    merged_scores: _Scores | None = None
    if scored.any():
        scores = np.concatenate([np.zeros(part.num_edges) if part.scores is None else part.scores for part in parts])
        again = np.flatnonzero(scored)
        best = _best_of(hop, requests[again], draws[again], scores[again], edge_rows[again])
        kept = np.concatenate([np.flatnonzero(~scored), again[best]])
        merged_scores = scores[kept] if keeps_scores else None
        requests, edge_rows, neighbors, draws = requests[kept], edge_rows[kept], neighbors[kept], draws[kept]
    return FoundEdges(
        hop=hop.name,
        requests=requests,
        edge_rows=edge_rows,
        neighbors=neighbors,
        draws=draws,
        scores=merged_scores,
        num_candidates=num_candidates,
        num_eligible=num_eligible,
    )


class _Chosen:
    """Chosen edges by their position in an adjacency."""

    def __init__(
        self, requests: _Integers, positions: _Integers, draws: npt.NDArray[np.int16], scores: _Scores
    ) -> None:
        self.requests = requests
        self.positions = positions
        self.draws = draws
        self.scores = scores

    @classmethod
    def join(cls, parts: Sequence[_Chosen]) -> _Chosen:
        return cls(
            np.concatenate([part.requests for part in parts]),
            np.concatenate([part.positions for part in parts]),
            np.concatenate([part.draws for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )


class _Search:
    """Inspects every edge of nodes, a bounded number at a time."""

    def __init__(self, hop: Hop, adjacency: EdgesByNode, requests: EdgeRequests, *, inclusive: bool) -> None:
        self._hop = hop
        self._inclusive = inclusive
        self._adjacency = adjacency
        self._requests = requests

    def find(self, visited: _Integers, firsts: _Integers, counts: _Integers) -> tuple[_Chosen, _Integers]:
        """Returns the chosen edges and how many were eligible, for the requests `visited`."""
        # A hub is inspected piece by piece; its best edges are then chosen from the best of the pieces.
        num_pieces = np.maximum(-(-counts // _MAX_CANDIDATES), 1)
        request = np.repeat(np.arange(len(visited)), num_pieces)
        number = expand_ranges(np.zeros(len(visited), np.int64), num_pieces)
        starts = firsts[request] + number * _MAX_CANDIDATES
        sizes = np.minimum(counts[request] - number * _MAX_CANDIDATES, _MAX_CANDIDATES)
        is_cut = num_pieces > 1
        eligible = np.zeros(len(visited), np.int64)
        batch = np.maximum(np.cumsum(sizes) // _MAX_CANDIDATES, np.arange(len(sizes)) // _MAX_REQUESTS)
        bounds = np.flatnonzero(np.diff(batch, prepend=-1, append=batch[-1] + 1))
        parts = []
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            pieces = slice(start, stop)
            which = request[pieces]
            candidates = expand_ranges(starts[pieces], sizes[pieces])
            group = np.repeat(np.arange(stop - start), sizes[pieces])
            allowed = self._allowed(visited[which], group, candidates)
            if allowed is not None:
                candidates, group = candidates[allowed], group[allowed]
            num_eligible = np.bincount(group, minlength=stop - start)
            np.add.at(eligible, which, num_eligible)
            chosen = self._choose(visited[which], group, candidates, num_eligible)
            parts.append(chosen)
        joined = parts[0] if len(parts) == 1 else _Chosen.join(parts)
        if is_cut.any() and not self._hop.takes_all:
            rows = self._adjacency.rows_at(joined.positions)
            best = _best_of(self._hop, joined.requests, joined.draws, joined.scores, rows)
            joined = _Chosen(joined.requests[best], joined.positions[best], joined.draws[best], joined.scores[best])
        return joined, eligible

    def _allowed(self, requests: _Integers, group: _Integers, candidates: _Integers) -> npt.NDArray[np.bool_] | None:
        """Returns which candidates the filters and weights allow; None: all of them."""
        asked, adjacency = self._requests, self._adjacency
        masks = []
        if asked.time_limits is not None:
            times, limits = adjacency.times_at(candidates), asked.time_limits[requests][group]
            masks.append(times <= limits if self._inclusive else times < limits)
        if asked.rank_limits is not None:
            masks.append(adjacency.ranks_at(candidates) <= asked.rank_limits[requests][group])
        if asked.excluded_splits is not None and asked.excluded_neighbors is not None:
            first = asked.excluded_splits[requests]
            num_excluded = asked.excluded_splits[requests + 1] - first
            for number in range(int(num_excluded.max(initial=0))):
                has = num_excluded > number
                excluded = np.zeros(len(requests), np.int64)
                excluded[has] = asked.excluded_neighbors[first[has] + number]
                masks.append((adjacency.neighbors_at(candidates) != excluded[group]) | ~has[group])
        if asked.allowed is not None:
            masks.append(asked.allowed.contains(asked.subgraphs[requests][group], adjacency.neighbors_at(candidates)))
        if self._hop.draws_by_weight:
            masks.append(adjacency.weights_at(candidates) > 0)
        return np.logical_and.reduce(masks) if masks else None

    def _choose(self, requests: _Integers, group: _Integers, candidates: _Integers, sizes: _Integers) -> _Chosen:
        """Returns the best candidates of each group; candidates are sorted by group, with `sizes` per group."""
        hop = self._hop
        if hop.takes_all:
            none = np.zeros(len(candidates), np.int16)
            return _Chosen(requests[group], candidates, none, np.zeros(len(candidates)))
        if hop.draws_with_replacement:
            parts = [self._best(requests, group, candidates, sizes, draw=draw, count=1) for draw in range(hop.fan_out)]
            return _Chosen.join(parts)
        return self._best(requests, group, candidates, sizes, draw=0, count=hop.fan_out)

    def _best(
        self, requests: _Integers, group: _Integers, candidates: _Integers, sizes: _Integers, *, draw: int, count: int
    ) -> _Chosen:
        adjacency, strategy = self._adjacency, self._hop.strategy
        is_weighted = self._hop.draws_by_weight
        uniforms: _Scores | None = None
        if strategy == "top_k":
            scores = -adjacency.weights_at(candidates)
        elif strategy == "full":
            scores = adjacency.rows_at(candidates).astype(np.float64)
        else:
            keys = np.repeat(self._requests.keys[requests], sizes)
            scores = uniforms = uniform_scores(keys, adjacency.hashes_at(candidates), draw)
        if is_weighted:
            # Fast logarithms differ in the last bits from machine to machine. They only discard candidates far from
            # the best; the few that remain get scores that are the same on every machine.
            scores = -np.log(scores) / adjacency.weights_at(candidates)
        bounds = bound_smallest(scores, sizes, count)
        near = np.flatnonzero(scores <= np.repeat(bounds * (1 + 1e-9) if is_weighted else bounds, sizes))
        group, candidates, scores = group[near], candidates[near], scores[near]
        if is_weighted and uniforms is not None:
            scores = exponential_scores(uniforms[near], adjacency.weights_at(candidates))
        kept = find_smallest(group, scores, adjacency.rows_at(candidates), count)
        draws = np.full(len(kept), draw, np.int16)
        return _Chosen(requests[group[kept]], candidates[kept], draws, scores[kept])


def _best_of(
    hop: Hop, requests: _Integers, draws: npt.NDArray[np.int16], scores: _Scores, edge_rows: _Integers
) -> _Integers:
    """Returns the positions of the best edges per request, or per draw of a request."""
    if hop.draws_with_replacement:
        return find_smallest(requests * hop.fan_out + draws, scores, edge_rows, 1)
    return find_smallest(requests, scores, edge_rows, hop.fan_out)
