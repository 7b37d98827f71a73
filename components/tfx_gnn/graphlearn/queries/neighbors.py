"""Chooses the neighbors of the nodes of a batch by GraphLearn's strategies."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, find_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.random_choice import mix

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore, Weighting

_Integers = npt.NDArray[np.int64]
_HopStrategy = Literal[
    "uniform",
    "uniform_with_replacement",
    "top_k",
    "weighted_with_replacement",
    "in_degree_with_replacement",
    "full",
]

HOP_STRATEGIES: dict[str, _HopStrategy] = {
    "random": "uniform_with_replacement",
    "random_without_replacement": "uniform",
    "edge_weight": "weighted_with_replacement",
    "topk": "top_k",
    "in_degree": "in_degree_with_replacement",
    "full": "full",
}
"""The strategies of hops that GraphLearn's names stand for."""

_WEIGHTINGS: dict[str, Weighting] = {"edge_weight": "edge_weight", "topk": "edge_rank", "in_degree": "in_degree"}
_NUM_DRAWS = 8  # before all edges of a node are looked at
_WITH_REPLACEMENT = ("random", "edge_weight", "in_degree")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeighborRequests:
    """Nodes whose neighbors are asked for.

    Attributes:
        edge_type: edge type to follow.
        is_backward: whether from target to source.
        strategy: one of GraphLearn's strategies.
        count: number of samples; with "full", the most samples, 0 for all.
        nodes: int64 array, shape [num_nodes]: rows of the node table, -1 for no node.
        keys: uint64 array, shape [num_nodes]: keys of the random choices.
        time_limits: int64 array, shape [num_nodes]: edges must be earlier than this; None: any edge.
        excluded: positions of requests, ascending, and rows of nodes that their edges must not lead to.
    """

    edge_type: str
    is_backward: bool
    strategy: str
    count: int
    nodes: _Integers
    keys: npt.NDArray[np.uint64]
    time_limits: _Integers | None = None
    excluded: tuple[_Integers, _Integers] | None = None

    def take(self, indices: _Integers) -> NeighborRequests:
        """Selects the requests at some positions, ascending."""
        excluded = self.excluded
        if excluded is not None:
            kept = np.isin(excluded[0], indices)
            excluded = np.searchsorted(indices, excluded[0][kept]), excluded[1][kept]
        return dataclasses.replace(
            self,
            nodes=self.nodes[indices],
            keys=self.keys[indices],
            time_limits=None if self.time_limits is None else self.time_limits[indices],
            excluded=excluded,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChosenNeighbors:
    """Edges and neighbors of all requests, one after another.

    Attributes:
        edge_rows: int64 array: positions in the edge table, -1 for none.
        neighbors: int64 array: rows of the node table, -1 for none.
        offsets: number of edges of each request; None if each has `count`.
    """

    edge_rows: _Integers
    neighbors: _Integers
    offsets: _Integers | None = None


def choose_neighbors(store: GraphStore, requests: NeighborRequests) -> ChosenNeighbors:
    """Chooses edges for each request; a request without edges gets `count` times -1."""
    weighting = _WEIGHTINGS.get(requests.strategy, "")
    adjacency = store.adjacency(requests.edge_type, backward=requests.is_backward, weighting=weighting)
    if adjacency.times is None:
        requests = dataclasses.replace(requests, time_limits=None)
    if requests.strategy in _WITH_REPLACEMENT:
        return _draw(store, requests)
    return _search(store, requests)


def _draw(store: GraphStore, requests: NeighborRequests) -> ChosenNeighbors:
    """Draws with replacement, and again where a draw falls on an excluded node."""
    edges = store.drawable_edges(
        requests.edge_type,
        backward=requests.is_backward,
        weighting=_WEIGHTINGS.get(requests.strategy, ""),
        is_timed=requests.time_limits is not None,
    )
    nodes, count, limits = requests.nodes, requests.count, requests.time_limits
    sizes = None if limits is None else edges.count_earlier(nodes, limits)
    drawing = np.flatnonzero(edges.choice.can_draw(nodes, sizes))
    chosen = np.full((len(nodes), count), -1, np.int64)
    for number in range(_NUM_DRAWS if requests.excluded is not None else 1):
        numbers = np.uint64(number * count) + np.arange(count, dtype=np.uint64)
        bits = mix(requests.keys[drawing, np.newaxis] + numbers)
        shape = bits.shape
        drawn = edges.choice.draw(
            np.broadcast_to(nodes[drawing, np.newaxis], shape),
            bits,
            None if sizes is None else np.broadcast_to(sizes[drawing, np.newaxis], shape),
        )
        if requests.excluded is None:
            chosen[drawing] = drawn
            break
        is_kept = (chosen[drawing] < 0) & ~_is_excluded(requests.excluded, drawing, edges.neighbors[drawn])
        chosen[drawing] = np.where(is_kept, drawn, chosen[drawing])
        drawing = drawing[(chosen[drawing] < 0).any(axis=1)]
    found = ChosenNeighbors(edge_rows=_take(edges.edge_rows, chosen), neighbors=_take(edges.neighbors, chosen))
    if requests.excluded is None or not len(drawing):
        return found
    # Where nearly all edges lead to excluded nodes, the others are looked for one by one.
    rest = _search(store, requests.take(drawing))
    is_open = chosen[drawing] < 0
    for all_rows, rest_rows in ((found.edge_rows, rest.edge_rows), (found.neighbors, rest.neighbors)):
        table = all_rows.reshape(len(nodes), count)
        table[drawing] = np.where(is_open, rest_rows.reshape(-1, count), table[drawing])
    return found


def _take(values: _Integers, positions: _Integers) -> _Integers:
    """Takes values at positions, -1 where a position is -1; flat."""
    flat = positions.ravel()
    if not len(values):
        return flat.copy()
    taken = values[flat]
    taken[flat < 0] = -1
    return taken


def _is_excluded(
    excluded: tuple[_Integers, _Integers], which: _Integers, neighbors: _Integers
) -> npt.NDArray[np.bool_]:
    """Returns which neighbors, shape [len(which), count], are excluded for their request."""
    requests, nodes = excluded
    firsts, ends = np.searchsorted(requests, which), np.searchsorted(requests, which, side="right")
    found = np.zeros(neighbors.shape, np.bool_)
    for number in range(int((ends - firsts).max(initial=0))):
        has = firsts + number < ends
        node = np.where(has, nodes[np.minimum(firsts + number, len(nodes) - 1)], -1)
        found |= neighbors == node[:, np.newaxis]
    return found


def _search(store: GraphStore, requests: NeighborRequests) -> ChosenNeighbors:
    """Chooses by the sampling engine, which knows times and excluded nodes."""
    strategy, count, num_requests = requests.strategy, requests.count, len(requests.nodes)
    weighting = _WEIGHTINGS.get(strategy, "")
    adjacency = store.adjacency(requests.edge_type, backward=requests.is_backward, weighting=weighting)
    hop_strategy = HOP_STRATEGIES[strategy]
    hop = Hop(
        edge_set=requests.edge_type,
        fan_out=count,
        strategy=hop_strategy,
        weight_feature="weight" if hop_strategy in ("weighted_with_replacement", "top_k") else "",
    )
    splits = excluded = None
    if requests.excluded is not None:
        splits = np.searchsorted(requests.excluded[0], np.arange(num_requests + 1)).astype(np.int64)
        excluded = requests.excluded[1]
    asked = EdgeRequests(
        hop=requests.edge_type,
        subgraphs=np.arange(num_requests),
        nodes=requests.nodes,
        keys=requests.keys,
        time_limits=requests.time_limits,
        excluded_splits=splits,
        excluded_neighbors=excluded,
    )
    found = find_edges(hop, adjacency, requests.nodes, asked)
    if strategy == "full":
        order = np.lexsort((found.edge_rows, found.requests))
    elif strategy == "topk":
        order = np.argsort(found.requests, kind="stable")
    else:
        # Edges come in the order of their hashes; each place of a sample must be equally likely for all.
        scores = mix(requests.keys[found.requests] ^ mix(found.edge_rows.astype(np.uint64) + np.uint64(1)))
        order = np.lexsort((found.draws, scores, found.requests))
        if strategy in _WITH_REPLACEMENT:
            order = np.lexsort((found.draws, found.requests))
    rows, edge_rows, neighbors = found.requests[order], found.edge_rows[order], found.neighbors[order]
    counts = np.bincount(rows, minlength=num_requests)
    firsts = np.cumsum(counts) - counts
    if strategy == "full":
        return ChosenNeighbors(edge_rows=edge_rows, neighbors=neighbors, offsets=counts)
    places = np.broadcast_to(np.arange(count), (num_requests, count))
    is_filled = places < counts[:, np.newaxis]
    if store.padding_mode == "circular":
        places = places % np.maximum(counts, 1)[:, np.newaxis]
        is_filled = np.broadcast_to(counts[:, np.newaxis] > 0, places.shape)
    where = firsts[:, np.newaxis] + np.where(is_filled, places, 0)
    edge_rows, neighbors = np.append(edge_rows, -1), np.append(neighbors, -1)
    where = np.where(is_filled, where, len(edge_rows) - 1).ravel()
    return ChosenNeighbors(edge_rows=edge_rows[where], neighbors=neighbors[where])
