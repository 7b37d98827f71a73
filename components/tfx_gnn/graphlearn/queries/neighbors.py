"""Chooses the neighbors of the nodes of a batch by GraphLearn's strategies."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, find_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.random_choice import draw_positions, mix

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

_WEIGHTINGS: dict[str, Weighting] = {"edge_weight": "edge_weight", "topk": "edge_weight", "in_degree": "in_degree"}
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
    adjacency = store.adjacency(
        requests.edge_type, backward=requests.is_backward, weighting=_WEIGHTINGS.get(requests.strategy, "")
    )
    limits = requests.time_limits if adjacency.times is not None else None
    if requests.strategy in _WITH_REPLACEMENT and limits is None and requests.excluded is None:
        return _draw(store, requests)
    return _search(store, requests, limits)


def _draw(store: GraphStore, requests: NeighborRequests) -> ChosenNeighbors:
    """Draws with replacement from all edges of each node."""
    weighting = _WEIGHTINGS.get(requests.strategy, "")
    adjacency = store.adjacency(requests.edge_type, backward=requests.is_backward, weighting=weighting)
    choice = store.weighted_edges(requests.edge_type, backward=requests.is_backward, weighting=weighting)
    nodes, count = requests.nodes, requests.count
    has_edges = (nodes >= 0) & choice.has_items[np.maximum(nodes, 0)] if len(choice.has_items) else nodes < -1
    everywhere = bool(has_edges.all())
    drawing = nodes if everywhere else nodes[has_edges]
    keys = requests.keys if everywhere else requests.keys[has_edges]
    if weighting:
        numbers = np.arange(count, dtype=np.uint64)
        bits = mix(keys[:, np.newaxis] + numbers)
        positions = choice.draw(np.broadcast_to(drawing[:, np.newaxis], bits.shape), bits)
    else:
        firsts = adjacency.offsets[drawing]
        positions = firsts[:, np.newaxis] + draw_positions(keys, adjacency.offsets[drawing + 1] - firsts, count)
    edge_rows, neighbors = adjacency.edge_rows[positions], adjacency.neighbors[positions]
    if everywhere:
        return ChosenNeighbors(edge_rows=edge_rows.ravel(), neighbors=neighbors.ravel())
    chosen = np.full((2, len(nodes), count), -1, np.int64)
    chosen[0, has_edges], chosen[1, has_edges] = edge_rows, neighbors
    return ChosenNeighbors(edge_rows=chosen[0].ravel(), neighbors=chosen[1].ravel())


def _search(store: GraphStore, requests: NeighborRequests, limits: _Integers | None) -> ChosenNeighbors:
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
        time_limits=limits,
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
