"""Random walks of first and second order, as in node2vec (Grover, Leskovec, 2016, arXiv:1607.00653)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.engine.adjacency import Adjacency
from tfx_gnn.sampling.engine.edge_choice import expand_ranges
from tfx_gnn.sampling.random_choice import exponential_scores, find_smallest, mix, uniform_scores

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore

_NUM_TRIES = 16  # before the weights of all edges of a node are computed
_MAX_EDGES = 1 << 20  # whose weights are computed at once

_Integers = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]


def walk(
    store: GraphStore,
    edge_type: str,
    starts: _Integers,
    keys: _Keys,
    *,
    length: int,
    return_p: float,
    in_out_q: float,
    time_limits: _Integers | None,
) -> _Integers:
    """Walks from each node; returns rows of nodes, shape [num_starts * length], -1 after a walk has ended."""
    walker = _Walker(store, edge_type, return_p, in_out_q, time_limits)
    path = np.full((length, len(starts)), -1, np.int64)
    before, here = np.full(len(starts), -1, np.int64), starts
    for number in range(length):
        path[number] = walker.step(before, here, mix(keys + np.uint64(number)))
        before, here = here, path[number]
    return path.T.ravel()


class _Walker:
    """Takes one step of many walks."""

    def __init__(
        self, store: GraphStore, edge_type: str, return_p: float, in_out_q: float, time_limits: _Integers | None
    ) -> None:
        self._adjacency: Adjacency = store.adjacency(edge_type)
        self._limits = time_limits if self._adjacency.times is not None else None
        self._weights = (1 / return_p, 1.0, 1 / in_out_q)
        self._is_second_order = return_p != 1 or in_out_q != 1
        self._pairs = store.pairs(edge_type) if self._is_second_order else None

    def step(self, before: _Integers, here: _Integers, keys: _Keys) -> _Integers:
        """Returns the next node of each walk, -1 where there is none; `before` is -1 at the first step."""
        offsets = self._adjacency.offsets
        places = np.maximum(here, 0)
        counts = np.where(here < 0, 0, offsets[np.minimum(places + 1, len(offsets) - 1)] - offsets[places])
        found = np.full(len(here), -1, np.int64)
        waiting = np.flatnonzero(counts)
        if self._limits is None:
            for number in range(_NUM_TRIES if self._is_second_order else 1):
                if not len(waiting):
                    return found
                # A neighbor that is drawn uniformly is accepted in proportion to its weight.
                bits = mix(keys[waiting] + np.uint64(2 * number))
                drawn = (bits % counts[waiting].astype(np.uint64)).astype(np.int64)
                neighbors = self._adjacency.neighbors[offsets[here[waiting]] + drawn]
                weights = self._weigh(before[waiting], neighbors)
                numbers = mix(keys[waiting] + np.uint64(2 * number + 1)) >> np.uint64(11)
                accepted = numbers.astype(np.float64) * 2.0**-53 * max(self._weights) < weights
                if not self._is_second_order:
                    accepted[:] = True
                found[waiting[accepted]] = neighbors[accepted]
                waiting = waiting[~accepted]
        batch = np.cumsum(counts[waiting]) // _MAX_EDGES
        for part in np.split(waiting, np.flatnonzero(np.diff(batch)) + 1):
            limits = None if self._limits is None else self._limits[part]
            found[part] = self._choose_among_all(before[part], here[part], keys[part], limits)
        return found

    def _weigh(self, before: _Integers, neighbors: _Integers) -> npt.NDArray[np.float64]:
        """Returns the weight of an edge to each neighbor."""
        if self._pairs is None:
            return np.ones(len(neighbors))
        back, near, far = self._weights
        weights = np.where(self._pairs.contains(before, neighbors), near, far)
        weights = np.where(neighbors == before, back, weights)
        return np.where(before < 0, max(self._weights), weights)

    def _choose_among_all(self, before: _Integers, here: _Integers, keys: _Keys, limits: _Integers | None) -> _Integers:
        """Returns the next nodes of walks, by the weights of all their edges; -1 where there is none."""
        adjacency = self._adjacency
        counts = adjacency.offsets[here + 1] - adjacency.offsets[here]
        group = np.repeat(np.arange(len(here)), counts)
        edges = expand_ranges(adjacency.offsets[here], counts)
        if limits is not None:
            assert adjacency.times is not None
            kept = adjacency.times[edges] < limits[group]
            group, edges = group[kept], edges[kept]
        neighbors = adjacency.neighbors[edges]
        weights = self._weigh(before[group], neighbors)
        uniforms = uniform_scores(keys[group], adjacency.edge_hashes[edges])
        best = find_smallest(group, exponential_scores(uniforms, weights), adjacency.edge_rows[edges], 1)
        found = np.full(len(here), -1, np.int64)
        found[group[best]] = neighbors[best]
        return found
