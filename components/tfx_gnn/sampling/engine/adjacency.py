"""Edges by node, as compressed sparse rows: what choices among the edges of a node read."""

from __future__ import annotations

import dataclasses
import functools
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.random_choice import edge_hash

_Integers = npt.NDArray[np.int64]


class EdgesByNode(Protocol):
    """Edges of one edge set, grouped by the node at one end, as `find_edges` reads them.

    Node `i` has the edges at positions `offsets[i]` to `offsets[i + 1]`, sorted by `edge_hash`. `Adjacency` has them in
    memory; a `GraphIndex` reads them from its files.
    """

    @property
    def offsets(self) -> _Integers:
        """int64 array, shape [num_nodes + 1], from 0 to num_edges."""
        ...

    def rows_at(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges in their table as written, int64."""
        ...

    def neighbors_at(self, positions: _Integers) -> _Integers:
        """Returns the handles of the nodes at the other end, int64."""
        ...

    def hashes_at(self, positions: _Integers) -> npt.NDArray[np.uint64]:
        """Returns the hashes of edges."""
        ...

    def times_at(self, positions: _Integers) -> _Integers:
        """Returns the times of edges, int64, for a hop that filters by them."""
        ...

    def ranks_at(self, positions: _Integers) -> npt.NDArray[np.int8]:
        """Returns the ranks of edges, for requests that filter by them."""
        ...

    def weights_at(self, positions: _Integers) -> npt.NDArray[np.float64]:
        """Returns the weights of edges, for a hop that uses them."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adjacency:
    """Edges of one edge set, grouped by the node at one end, in memory: `EdgesByNode`.

    Node `i` has the edges at positions `offsets[i]` to `offsets[i + 1]`, sorted by
    `edge_hash`, so that the order in which edges were read does not matter.

    Attributes:
        offsets: int64 array, shape [num_nodes + 1], from 0 to num_edges.
        edge_rows: int64 array, shape [num_edges]: row of each edge in its table as written.
        neighbors: int64 array, shape [num_edges]: handle of the node at the other end.
        times: int64 array, shape [num_edges]: time of each edge; None if nothing filters by it.
        ranks: int8 array, shape [num_edges]: rank of each edge; None if nothing filters by it.
        weights: float64 array, shape [num_edges]: weights for the strategy of a hop; None
            if the strategy does not use any.
    """

    offsets: _Integers
    edge_rows: _Integers
    neighbors: _Integers
    times: _Integers | None = None
    ranks: npt.NDArray[np.int8] | None = None
    weights: npt.NDArray[np.float64] | None = None

    @functools.cached_property
    def edge_hashes(self) -> npt.NDArray[np.uint64]:
        """uint64 array, shape [num_edges]: hash of each edge, computed once."""
        return edge_hash(self.edge_rows)

    @property
    def degrees(self) -> _Integers:
        """int64 array, shape [num_nodes]: number of edges of each node."""
        return np.diff(self.offsets)

    def rows_at(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges; see `EdgesByNode`."""
        return self.edge_rows[positions]

    def neighbors_at(self, positions: _Integers) -> _Integers:
        """Returns the nodes at the other end; see `EdgesByNode`."""
        return self.neighbors[positions]

    def hashes_at(self, positions: _Integers) -> npt.NDArray[np.uint64]:
        """Returns the hashes of edges; see `EdgesByNode`."""
        return self.edge_hashes[positions]

    def times_at(self, positions: _Integers) -> _Integers:
        """Returns the times of edges; see `EdgesByNode`."""
        assert self.times is not None
        return self.times[positions]

    def ranks_at(self, positions: _Integers) -> npt.NDArray[np.int8]:
        """Returns the ranks of edges; see `EdgesByNode`."""
        assert self.ranks is not None
        return self.ranks[positions]

    def weights_at(self, positions: _Integers) -> npt.NDArray[np.float64]:
        """Returns the weights of edges; see `EdgesByNode`."""
        assert self.weights is not None
        return self.weights[positions]


def build_adjacency(
    starts: _Integers,
    ends: _Integers,
    num_nodes: int,
    *,
    edge_rows: _Integers | None = None,
    times: _Integers | None = None,
    ranks: npt.NDArray[np.int8] | None = None,
    weights: npt.NDArray[np.float64] | None = None,
) -> Adjacency:
    """Groups edges by their start, in [0, num_nodes); `edge_rows`, all different, are 0, 1, ... by default.

    It takes 16 bytes per edge and 8 bytes per node, plus the memory of times, ranks and weights.
    """
    rows = np.arange(len(starts), dtype=np.int64) if edge_rows is None else edge_rows
    order = np.lexsort((edge_hash(rows), starts))
    offsets = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(starts, minlength=num_nodes), out=offsets[1:])
    return Adjacency(
        offsets=offsets,
        edge_rows=rows[order],
        neighbors=np.asarray(ends, np.int64)[order],
        times=None if times is None else np.asarray(times, np.int64)[order],
        ranks=None if ranks is None else np.asarray(ranks, np.int8)[order],
        weights=None if weights is None else np.asarray(weights, np.float64)[order],
    )
