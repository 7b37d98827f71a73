"""Labels of nodes by their place in the subgraph of a pair, as SEAL gives them (arXiv:1802.09691).

All edges of a subgraph join its nodes, of whatever set and in either direction. Edges between the two roots do not
count, so that a label does not tell whether they are linked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.sampled_subgraphs import SampledEdges, SampledNodes

MAX_DISTANCE = 10
"""Largest distance that labels tell apart; farther nodes are labelled as if they were this far away."""

NUM_STRUCTURE_LABELS = 2 + MAX_DISTANCE**2
"""Number of values of the labels, of whatever kind: they are in [0, NUM_STRUCTURE_LABELS)."""

_NO_PATH = -1

_Integers = npt.NDArray[np.int64]


def label_structure(
    kind: str,
    node_sets: Mapping[str, SampledNodes],
    edge_sets: Mapping[str, SampledEdges],
    edge_ends: Mapping[str, tuple[str, str]],
    roots: tuple[tuple[str, _Integers], tuple[str, _Integers]],
) -> dict[str, _Integers]:
    """Labels all nodes of a block of subgraphs that are about one pair each.

    "common_neighbor": 0 for both roots, 1 for nodes with an edge to each of them, 2 for others.

    "distance": the distances to the source and to the target, both at most `MAX_DISTANCE`; `MAX_DISTANCE` + 1 if there
    is no path.

    "drnl", double radius node labeling: 1 for both roots; for nodes at distances (1, 1), (1, 2), (1, 3), (2, 2)... from
    them the next numbers 2, 3, 4, 5...; 0 for nodes without a path to one of them. Paths to one root do not go through
    the other.

    Args:
        kind: one of the three.
        node_sets: the nodes of the subgraphs.
        edge_sets: the edges of the subgraphs.
        edge_ends: by edge set, the node sets of its sources and targets.
        roots: node set of the source, and its position in each subgraph, int64 [num_subgraphs]; the same of the target.

    Returns:
        By node set, int64 array of shape [total_nodes], for "distance" [total_nodes, 2].
    """
    graph = _JoinedGraph(node_sets, edge_sets, edge_ends)
    source, target = (graph.number(name, positions) for name, positions in roots)
    neighbors = graph.neighbors_without_edges_between(source, target)
    if kind == "distance":
        to_each = [_distances(neighbors, root, None) for root in (source, target)]
        capped = np.minimum(np.stack(to_each, axis=1), MAX_DISTANCE)
        labels = np.where(capped == _NO_PATH, MAX_DISTANCE + 1, capped)
    elif kind == "common_neighbor":
        is_near = [neighbors.are_next_to(root) for root in (source, target)]
        labels = np.where(is_near[0] & is_near[1], 1, 2)
        labels[source] = labels[target] = 0
    else:
        labels = _double_radius(_distances(neighbors, source, target), _distances(neighbors, target, source))
        labels[source] = labels[target] = 1
    return graph.by_node_set(labels)


def _double_radius(one: _Integers, other: _Integers) -> _Integers:
    near = np.minimum(np.minimum(one, other), MAX_DISTANCE)
    total = near + np.minimum(np.maximum(one, other), MAX_DISTANCE)
    half, rest = total // 2, total % 2
    labels: _Integers = 1 + near + half * (half + rest - 1)
    return np.where((one == _NO_PATH) | (other == _NO_PATH), 0, labels)


class _JoinedGraph:
    """The nodes of all sets and subgraphs of a block, numbered set after set, and the edges between them."""

    def __init__(
        self,
        node_sets: Mapping[str, SampledNodes],
        edge_sets: Mapping[str, SampledEdges],
        edge_ends: Mapping[str, tuple[str, str]],
    ) -> None:
        self._starts: dict[str, _Integers] = {}
        self._ranges: dict[str, slice] = {}
        self._num_nodes = 0
        for name, nodes in node_sets.items():
            self._starts[name] = self._num_nodes + nodes.splits[:-1]
            self._ranges[name] = slice(self._num_nodes, self._num_nodes + len(nodes.rows))
            self._num_nodes += len(nodes.rows)
        ends: list[_Integers] = [np.zeros([2, 0], np.int64)]
        for name, edges in edge_sets.items():
            sizes = np.diff(edges.splits)
            starts = [np.repeat(self._starts[node_set], sizes) for node_set in edge_ends[name]]
            ends.append(np.stack([starts[0] + edges.sources, starts[1] + edges.targets]))
        self._ends: _Integers = np.concatenate(ends, axis=1)

    def number(self, node_set: str, positions: _Integers) -> _Integers:
        """Returns the numbers of nodes, one of each subgraph."""
        return self._starts[node_set] + positions

    def neighbors_without_edges_between(self, source: _Integers, target: _Integers) -> _Neighbors:
        is_source, is_target = np.zeros([2, self._num_nodes], np.bool_)
        is_source[source] = is_target[target] = True
        one, other = self._ends
        is_between = (is_source[one] & is_target[other]) | (is_target[one] & is_source[other])
        one, other = one[~is_between], other[~is_between]
        return _Neighbors(np.concatenate([one, other]), np.concatenate([other, one]), self._num_nodes)

    def by_node_set(self, values: _Integers) -> dict[str, _Integers]:
        return {name: values[where] for name, where in self._ranges.items()}


class _Neighbors:
    """The neighbors of each node, as the concatenation of all their lists."""

    def __init__(self, nodes: _Integers, neighbors: _Integers, num_nodes: int) -> None:
        order = np.argsort(nodes, kind="stable")
        self.num_nodes = num_nodes
        self._neighbors = neighbors[order]
        self._starts = np.searchsorted(nodes[order], np.arange(num_nodes + 1))

    def of(self, nodes: _Integers) -> _Integers:
        """Returns the neighbors of several nodes, with repetitions."""
        sizes = self._starts[nodes + 1] - self._starts[nodes]
        ends = np.cumsum(sizes)
        return self._neighbors[np.repeat(self._starts[nodes] - ends + sizes, sizes) + np.arange(int(sizes.sum()))]

    def are_next_to(self, nodes: _Integers) -> npt.NDArray[np.bool_]:
        """Returns which nodes are a neighbor of one of some nodes."""
        are_next = np.zeros(self.num_nodes, np.bool_)
        are_next[self.of(nodes)] = True
        return are_next


def _distances(neighbors: _Neighbors, roots: _Integers, blocked: _Integers | None) -> _Integers:
    """Returns each node's distance to the root of its subgraph, along paths around the blocked node of the subgraph.

    The distance is -1 where there is no path. A root is not blocked, even if a pair names one node twice.
    """
    distances = np.full(neighbors.num_nodes, _NO_PATH, np.int64)
    is_open = np.ones(neighbors.num_nodes, np.bool_)
    if blocked is not None:
        is_open[blocked] = False
    distances[roots], is_open[roots] = 0, False
    reached, distance = roots, 0
    while len(reached):
        distance += 1
        found = neighbors.of(reached)
        reached = np.unique(found[is_open[found]])
        distances[reached], is_open[reached] = distance, False
    return distances
