"""The edges of each node, ready to be looked up: compressed sparse rows."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.random_choice import edge_hash

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adjacency:
    """Edges of one edge set by the node at one of their ends.

    Node `i` has the edges at positions `offsets[i]` to `offsets[i + 1]`, in the
    order of their hashes (`random_choice.edge_hash`), so that it does not matter in
    which order edges were read.

    Attributes:
        offsets: int64 array, shape [num_nodes + 1], from 0 to num_edges.
        edge_rows: int64 array, shape [num_edges]: row of each edge in its table as written.
        neighbors: int64 array, shape [num_edges]: handle of the node at the other end.
        times: int64 array, shape [num_edges]: time of each edge; None if nothing filters by it.
        ranks: int8 array, shape [num_edges]: rank of each edge; None if nothing filters by it.
        weights: float64 array, shape [num_edges]: what the strategy of a hop weighs edges
            by; None if it does not.
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
    """Groups edges by the node that they start from.

    Args:
        starts: int64 array, shape [num_edges], values in [0, num_nodes): the end to look up by.
        ends: int64 array, shape [num_edges]: the other end.
        num_nodes: number of nodes to look up.
        edge_rows: int64 array, shape [num_edges], all different: row of each edge in its
            table as written; 0, 1, ... if left out.
        times: int64 array, shape [num_edges]: time of each edge.
        ranks: int8 array, shape [num_edges]: rank of each edge.
        weights: float64 array, shape [num_edges]: weight of each edge.

    Returns:
        The adjacency, which costs 16 bytes an edge and 8 bytes a node, and what times,
        ranks and weights take.

    Example:
        >>> build_adjacency(np.array([1, 0, 1]), np.array([5, 6, 7]), 3).offsets.tolist()
        [0, 1, 3, 3]
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
