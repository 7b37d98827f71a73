"""Subgraphs around nodes or edges: sampled nodes, all edges among them, and distances to the roots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.neighbors import NeighborRequests, choose_neighbors
from tfx_gnn.graphlearn.queries.results import Edges, Nodes
from tfx_gnn.sampling.engine.edge_choice import AllowedNodes, EdgeRequests, find_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.random_choice import mix

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledSubGraph:
    """The subgraph around one node or edge.

    Attributes:
        nodes: `Nodes`, shape [num_nodes], none twice: the root, or source and target of the root
            edge (once if they are the same), then the others, hop by hop.
        edges: `Edges`, shape [num_edges]: all edges of the type among the nodes, without those
            that join source and target of the root edge.
        edge_index: int32 array, shape [2, num_edges]: positions in `nodes` of the sources and
            targets of `edges`.
        dist_to_src: int32 array, shape [num_nodes]: number of edges, in any direction, on the
            shortest path to the root or its source; -1 if there is none. None if not asked for.
        dist_to_dst: the same to the target of the root edge; None if the root is a node.
    """

    nodes: Nodes
    edges: Edges
    edge_index: npt.NDArray[np.int32]
    dist_to_src: npt.NDArray[np.int32] | None = None
    dist_to_dst: npt.NDArray[np.int32] | None = None


class SampledSubGraphs(Sequence[SampledSubGraph]):
    """The subgraphs of a batch, one for each item of the step before: a sequence of `SampledSubGraph`."""

    def __init__(
        self, store: GraphStore, edge_type: str, found: FoundSubgraphs, distances: Sequence[npt.NDArray[np.int32]]
    ) -> None:
        """Keeps the rows.

        Args:
            store: the graph.
            edge_type: type of the edges.
            found: nodes and edges of all subgraphs.
            distances: distances of all nodes to the source and to the target; any of them may lack.
        """
        self._nodes = store.node_ids(store.ends(edge_type)[0])
        self._attributes = store.edge_attributes(edge_type)
        self._edge_type = edge_type
        self._found = found
        self._distances = distances

    def __len__(self) -> int:
        return len(self._found.node_starts) - 1

    def __getitem__(self, index: int) -> SampledSubGraph:  # type: ignore[override]
        if isinstance(index, slice):
            raise TypeError(f"`index` must be the position of a subgraph; got {index!r}. Slice list(subgraphs).")
        position = range(len(self))[index]
        found = self._found
        first, last = found.node_starts[position : position + 2].tolist()
        edges = slice(*found.edge_starts[position : position + 2].tolist())
        rows = found.nodes[first:last]
        index_rows = found.edge_index[:, edges] - first
        source, target = (Nodes(self._nodes, rows[ends]) for ends in index_rows)
        parts = [distances[first:last] for distances in self._distances]
        return SampledSubGraph(
            nodes=Nodes(self._nodes, rows),
            edges=Edges(self._edge_type, self._attributes, found.edge_rows[edges], source, target),
            edge_index=index_rows.astype(np.int32),
            dist_to_src=parts[0] if parts else None,
            dist_to_dst=parts[1] if len(parts) > 1 else None,
        )

    def __iter__(self) -> Iterator[SampledSubGraph]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._edge_type!r}, {len(self)} subgraphs)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundSubgraphs:
    """Nodes and edges of subgraphs, one subgraph after another.

    Attributes:
        nodes: int64 array: rows of the node table.
        node_starts: int64 array, shape [num_subgraphs + 1]: where the nodes of each begin.
        edge_rows: int64 array: positions in the edge table.
        edge_starts: int64 array, shape [num_subgraphs + 1]: where the edges of each begin.
        edge_index: int64 array, shape [2, num_edges]: positions in `nodes` of sources and targets.
    """

    nodes: _Integers
    node_starts: _Integers
    edge_rows: _Integers
    edge_starts: _Integers
    edge_index: _Integers


def sample_subgraphs(
    store: GraphStore,
    edge_type: str,
    roots: Sequence[_Integers],
    keys: npt.NDArray[np.uint64],
    *,
    fan_outs: Sequence[int],
    time_limits: _Integers | None,
    needs_distances: bool,
) -> SampledSubGraphs:
    """Samples the subgraphs of a batch; `roots` are the rows of one or two roots of each, -1 for no node."""
    num_subgraphs = len(keys)
    subgraphs, nodes = _sample_nodes(store, edge_type, roots, keys, fan_outs=fan_outs, time_limits=time_limits)
    limits = None if time_limits is None else time_limits[subgraphs]
    edge_rows, sources, targets = _induce(store, edge_type, subgraphs, nodes, limits)
    places = [_positions(subgraphs, nodes, np.arange(num_subgraphs), ends) for ends in roots]
    if len(roots) == 2:
        first, second = (places[0][subgraphs[sources]], places[1][subgraphs[sources]])
        is_root = ((sources == first) & (targets == second)) | ((sources == second) & (targets == first))
        edge_rows, sources, targets = edge_rows[~is_root], sources[~is_root], targets[~is_root]
    starts = np.arange(num_subgraphs + 1)
    found = FoundSubgraphs(
        nodes=nodes,
        node_starts=np.searchsorted(subgraphs, starts).astype(np.int64),
        edge_rows=edge_rows,
        edge_starts=np.searchsorted(subgraphs[sources], starts).astype(np.int64),
        edge_index=np.stack([sources, targets]),
    )
    distances = [_distances(len(nodes), place, sources, targets) for place in places] if needs_distances else []
    return SampledSubGraphs(store, edge_type, found, distances)


def _sample_nodes(
    store: GraphStore,
    edge_type: str,
    roots: Sequence[_Integers],
    keys: npt.NDArray[np.uint64],
    *,
    fan_outs: Sequence[int],
    time_limits: _Integers | None,
) -> tuple[_Integers, _Integers]:
    """Returns subgraph and row of each node: by subgraph, roots first, then hop by hop."""
    codes = store.node_codes(store.ends(edge_type)[0])
    subgraphs, nodes = _once(np.tile(np.arange(len(keys)), len(roots)), np.concatenate(roots))
    frontier = subgraphs, nodes
    for number, fan_out in enumerate(fan_outs):
        which, starts = frontier
        chosen = choose_neighbors(
            store,
            NeighborRequests(
                edge_type=edge_type,
                is_backward=False,
                strategy="random_without_replacement" if fan_out else "full",
                count=fan_out,
                nodes=starts,
                keys=mix(mix(keys[which] + np.uint64(number)) ^ codes[starts]),
                time_limits=None if time_limits is None else time_limits[which],
            ),
        )
        counts = np.full(len(starts), fan_out) if chosen.offsets is None else chosen.offsets
        added = _once(np.repeat(which, counts), chosen.neighbors)
        is_new = _positions(subgraphs, nodes, *added) < 0
        frontier = added[0][is_new], added[1][is_new]
        subgraphs, nodes = np.concatenate([subgraphs, frontier[0]]), np.concatenate([nodes, frontier[1]])
    order = np.argsort(subgraphs, kind="stable")
    return subgraphs[order], nodes[order]


def _induce(
    store: GraphStore, edge_type: str, subgraphs: _Integers, nodes: _Integers, limits: _Integers | None
) -> tuple[_Integers, _Integers, _Integers]:
    """Returns the edges among the nodes of each subgraph: rows, and positions of sources and targets."""
    adjacency = store.adjacency(edge_type)
    requests = EdgeRequests(
        hop=edge_type,
        subgraphs=subgraphs,
        nodes=nodes,
        keys=np.zeros(len(nodes), np.uint64),
        time_limits=limits if adjacency.times is not None else None,
        allowed=AllowedNodes(subgraphs=subgraphs, nodes=nodes),
    )
    if not len(nodes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    edges = find_edges(Hop(edge_set=edge_type, strategy="full"), adjacency, nodes, requests)
    order = np.lexsort((edges.edge_rows, edges.requests))
    sources = edges.requests[order]
    targets = _positions(subgraphs, nodes, subgraphs[sources], edges.neighbors[order])
    return edges.edge_rows[order], sources, targets


def _once(subgraphs: _Integers, nodes: _Integers) -> tuple[_Integers, _Integers]:
    """Keeps each node once a subgraph, where it comes first; drops missing nodes."""
    there = nodes >= 0
    subgraphs, nodes = subgraphs[there], nodes[there]
    _, firsts = np.unique(subgraphs * (int(nodes.max(initial=0)) + 1) + nodes, return_index=True)
    firsts.sort()
    return subgraphs[firsts], nodes[firsts]


def _positions(subgraphs: _Integers, nodes: _Integers, of_subgraphs: _Integers, of_nodes: _Integers) -> _Integers:
    """Returns where (subgraph, node) pairs are among others, -1 if nowhere."""
    size = int(max(nodes.max(initial=0), of_nodes.max(initial=0))) + 1
    pairs, wanted = subgraphs * size + nodes, of_subgraphs * size + of_nodes
    if not len(pairs):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(pairs)
    where = order[np.minimum(np.searchsorted(pairs, wanted, sorter=order), len(pairs) - 1)]
    return np.where((pairs[where] == wanted) & (of_nodes >= 0), where, -1)


def _distances(num_nodes: int, roots: _Integers, sources: _Integers, targets: _Integers) -> npt.NDArray[np.int32]:
    """Returns the distance of each node to the root of its subgraph, -1 if there is no path."""
    distances = np.full(num_nodes, -1, np.int32)
    distances[roots[roots >= 0]] = 0
    starts, ends = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    reached, distance = roots[roots >= 0], 0
    while len(reached):
        is_next = (distances[starts] == distance) & (distances[ends] < 0)
        reached, distance = ends[is_next], distance + 1
        distances[reached] = distance
    return distances
