"""Tells what kind of graph edges make: undirected, sorted, with loops or with nodes that no edge reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def are_undirected(edge_index: Array, edge_attr: Array | None = None) -> bool:
    """Returns whether each edge has one in the other direction, with equal features if there are some."""
    sources, targets = edge_index
    forward, backward = np.lexsort((targets, sources)), np.lexsort((sources, targets))
    if not np.array_equal(sources[forward], targets[backward]):
        return False
    if not np.array_equal(targets[forward], sources[backward]):
        return False
    return edge_attr is None or bool(np.array_equal(edge_attr[forward], edge_attr[backward]))


def have_loops(edge_index: Array) -> bool:
    """Returns whether an edge leads from a node to itself."""
    return bool((edge_index[0] == edge_index[1]).any())


def leave_nodes_isolated(edge_index: Array, num_nodes: int) -> bool:
    """Returns whether a node has no edge to or from another node."""
    ends = edge_index[:, edge_index[0] != edge_index[1]]
    return len(np.unique(ends)) < num_nodes


def are_sorted(edge_index: Array, *, by_row: bool = True) -> bool:
    """Returns whether edges are in the order of their sources, or of their targets."""
    ends = edge_index[0 if by_row else 1]
    return bool((ends[1:] >= ends[:-1]).all())


def are_coalesced(edge_index: Array) -> bool:
    """Returns whether edges are in the order of source and target, and none is there twice."""
    (before, source), (last, target) = ((row[:-1], row[1:]) for row in edge_index)
    return bool(((source > before) | ((source == before) & (target > last))).all())


def faults_of_edges(edge_index: Any, ends: Sequence[tuple[str, int | None]], where: str) -> list[str]:
    """Returns what is wrong with edges, a sentence each.

    `ends` has the name and number of the source nodes and of the target nodes.
    """
    faults = [
        f"`num_nodes` must be known of {name}; got None. Set num_nodes or x."
        for name, count in dict(ends).items()
        if count is None
    ]
    if edge_index is None:
        return faults
    if edge_index.ndim != 2 or len(edge_index) != 2:
        return [*faults, f"`edge_index` must have shape [2, num_edges]; got {list(edge_index.shape)} in {where}."]
    for row, (name, count) in zip(edge_index, ends, strict=True):
        limit = row.max(initial=0) + 1 if count is None else count
        wrong = row[(row < 0) | (row >= limit)]
        if len(wrong):
            faults.append(
                f"`edge_index` must hold indices of {name}, from 0 and below {limit}; got {wrong[0]} in {where}. "
                "Correct it, or set num_nodes."
            )
    return faults
