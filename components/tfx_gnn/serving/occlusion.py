"""Weighs the edges and nodes of an example by occlusion: by what its value loses when they are removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.serving.example_edges import ExampleGraph, without_edges

_REQUEST_SIZE = 64
_LEAST_KEPT = 0.8
_Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OcclusionWeights:
    """What each edge and node of an example adds to its value.

    Attributes:
        value_without_edges: value of the example without any edge.
        edges: float32 [num_edges] by edge set: what each edge adds.
        nodes: what all edges of a node add together, by node set and index; nodes without edges are left out.
    """

    value_without_edges: float
    edges: Mapping[str, npt.NDArray[np.float32]]
    nodes: Mapping[tuple[str, int], float]


def occlusion_weights(
    example: tf.train.Example,
    graph: ExampleGraph,
    values_of: Callable[[list[bytes]], npt.NDArray[np.float64]],
    *,
    num_contexts: int,
) -> OcclusionWeights:
    """Removes each edge, and all edges of each node, from an example.

    Args:
        example: graph tf.Example.
        graph: its structure.
        values_of: computes the values of serialized examples, of which it gets up to 64 at a time.
        num_contexts: in how many graphs each of them is removed: the whole graph, then graphs without up to a fifth of
            their other edges, drawn at random, the same for the same numbers. Weights are means.

    Returns:
        The weights.

    Raises:
        ValueError: if an edge set has a ragged feature; see `without_edges`.
    """
    flat = _FlatEdges({name: indices.shape[1] for name, indices in graph.edges.items()})
    nodes = {
        (name, index): flat.positions(touching)
        for name, size in sorted(graph.node_sizes.items())
        for index in range(size)
        if (touching := graph.edges_of(name, index))
    }
    items = [*np.arange(flat.count).reshape(-1, 1), *nodes.values()]

    def values_without(masks: list[_Mask]) -> npt.NDArray[np.float64]:
        # Equal masks are asked once.
        unique = list({mask.tobytes(): mask for mask in masks}.values())
        found: dict[bytes, float] = {}
        for start in range(0, len(unique), _REQUEST_SIZE):
            some = unique[start : start + _REQUEST_SIZE]
            values = values_of([without_edges(example, flat.by_set(mask)) for mask in some])
            found.update(zip((mask.tobytes() for mask in some), values.tolist(), strict=True))
        return np.array([found[mask.tobytes()] for mask in masks], np.float64)

    (value_without_edges,) = values_without([np.ones(flat.count, bool)])
    weights = np.zeros(len(items))
    for removed in _contexts(flat.count, num_contexts):
        with_item = [_changed(removed, item, to=False) for item in items]
        without_item = [_changed(removed, item, to=True) for item in items]
        weights += values_without(with_item) - values_without(without_item)
    shares = (weights / num_contexts).astype(np.float32)
    return OcclusionWeights(
        value_without_edges=float(value_without_edges),
        edges=flat.parts(shares[: flat.count]),
        nodes=dict(zip(nodes, shares[flat.count :].tolist(), strict=True)),
    )


class _FlatEdges:
    """The edges of all sets of an example, counted through."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.count = sum(sizes.values())
        self._names = list(sizes)
        self._ends = np.cumsum(list(sizes.values()))
        self._starts = {name: int(end) - sizes[name] for name, end in zip(self._names, self._ends, strict=True)}

    def positions(self, by_set: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """Returns the positions among all edges of positions in their sets."""
        return np.concatenate([self._starts[name] + positions for name, positions in by_set.items()])

    def parts(self, values: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Splits values of all edges by set."""
        return dict(zip(self._names, np.split(values, self._ends[:-1]), strict=True)) if self._names else {}

    def by_set(self, mask: _Mask) -> dict[str, npt.NDArray[np.int64]]:
        """Returns the positions in their sets of edges that a mask holds."""
        return {name: np.flatnonzero(part) for name, part in self.parts(mask).items()}


def _contexts(num_edges: int, count: int) -> Iterator[_Mask]:
    """Yields which edges are removed beforehand: none, then random ones, the same for the same numbers."""
    yield np.zeros(num_edges, bool)
    random = np.random.default_rng(0)
    for _ in range(count - 1):
        # Graphs far from those of the training would be explained by what the network makes of strange graphs.
        kept = random.uniform(_LEAST_KEPT, 1.0)
        yield random.random(num_edges) >= kept


def _changed(mask: _Mask, positions: npt.NDArray[np.int64], *, to: bool) -> _Mask:
    changed = mask.copy()
    changed[positions] = to
    return changed
