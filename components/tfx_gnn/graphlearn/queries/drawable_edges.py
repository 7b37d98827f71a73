"""Edges that draws with replacement fall on, all of a node's or those before a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.weighted_choice import WeightedGroups
from tfx_gnn.sampling.engine.adjacency import Adjacency

_Integers = npt.NDArray[np.int64]


class DrawableEdges:
    """The edges of each node, sorted by time if they have times.

    Attributes:
        choice: the edges in groups, one for each node, with their weights.
        edge_rows: int64 array: position of each edge in its table.
        neighbors: int64 array: row of the node that each edge leads to.
    """

    def __init__(self, adjacency: Adjacency, *, is_timed: bool) -> None:
        """Sorts the edges.

        Args:
            adjacency: the edges.
            is_timed: whether draws are limited by time.
        """
        weights = adjacency.weights
        self.edge_rows, self.neighbors = adjacency.edge_rows, adjacency.neighbors
        self._keys: _Integers | None = None
        if is_timed:
            assert adjacency.times is not None
            nodes = np.repeat(np.arange(len(adjacency.offsets) - 1), np.diff(adjacency.offsets))
            self._times, ranks = np.unique(adjacency.times, return_inverse=True)
            # One number tells node and time, so that one search finds where a time begins among a node's edges.
            keys = nodes * (len(self._times) + 1) + ranks.reshape(-1)
            order = np.argsort(keys, kind="stable")
            self._keys = keys[order]
            self.edge_rows, self.neighbors = self.edge_rows[order], self.neighbors[order]
            weights = None if weights is None else weights[order]
        self.choice = WeightedGroups(adjacency.offsets, weights)
        self._offsets = adjacency.offsets

    def count_earlier(self, nodes: _Integers, limits: _Integers) -> _Integers:
        """Counts the edges of each node that are earlier than its limit; 0 where the node is -1."""
        assert self._keys is not None
        there = np.maximum(nodes, 0)
        keys = there * (len(self._times) + 1) + np.searchsorted(self._times, limits)
        counts = np.searchsorted(self._keys, keys) - self._offsets[there]
        return np.where(nodes >= 0, counts, 0)
