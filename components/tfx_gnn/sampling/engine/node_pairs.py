"""Pairs of (subgraph, node) that a block of subgraphs has reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


class NodePairs:
    """Pairs of a subgraph of a block and a node, as two arrays of one length.

    Attributes:
        subgraphs: int64 array, shape [num_pairs]: position of the subgraph in the block.
        nodes: int64 array, shape [num_pairs]: number of the node (see `NodeNumbers`).
    """

    def __init__(self, subgraphs: _Integers, nodes: _Integers) -> None:
        self.subgraphs = subgraphs
        self.nodes = nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @classmethod
    def none(cls) -> NodePairs:
        """Makes no pairs."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def packed(self, num_nodes: int) -> _Integers:
        """Makes one integer of each pair, in the order of subgraph, then node; `num_nodes` exceeds every number."""
        return self.subgraphs * num_nodes + self.nodes

    def select(self, kept: npt.NDArray[np.bool_]) -> NodePairs:
        """Keeps the pairs where `kept` is true."""
        return NodePairs(self.subgraphs[kept], self.nodes[kept])

    def without(self, others: NodePairs, num_nodes: int) -> NodePairs:
        """Leaves out the pairs that are among others."""
        if not len(others) or not len(self):
            return self
        return self.select(~is_among(self.packed(num_nodes), np.sort(others.packed(num_nodes))))


class NodeNumbers:
    """Small numbers for the nodes of one set that a block of subgraphs meets.

    In memory a node's handle is its row and serves as its number. Where handles are
    64-bit codes, nodes are numbered in the order in which they are met.
    """

    def __init__(self, num_nodes: int | None = None) -> None:
        """Starts with all rows of a node table if handles are rows; with none (None) if they are codes."""
        self._num_rows = num_nodes
        self._handles = np.zeros(0, np.int64)
        self._order = np.zeros(0, np.int64)

    @property
    def size(self) -> int:
        """Larger than every number so far, at least 1."""
        return max(len(self._handles) if self._num_rows is None else self._num_rows, 1)

    def number(self, handles: _Integers) -> _Integers:
        """Numbers nodes; those that were not met before get new numbers."""
        if self._num_rows is not None:
            return handles
        distinct, positions = np.unique(handles, return_inverse=True)
        where = np.searchsorted(self._handles, distinct, sorter=self._order)
        known = np.zeros(len(distinct), np.bool_)
        inside = where < len(self._handles)
        known[inside] = self._handles[self._order[where[inside]]] == distinct[inside]
        numbers = np.empty(len(distinct), np.int64)
        numbers[known] = self._order[where[known]]
        numbers[~known] = len(self._handles) + np.arange(np.count_nonzero(~known))
        if not known.all():
            self._handles = np.concatenate([self._handles, distinct[~known]])
            self._order = np.argsort(self._handles)
        return numbers[positions]

    def handles(self, numbers: _Integers) -> _Integers:
        """Returns the handles of numbered nodes."""
        return numbers if self._num_rows is not None else self._handles[numbers]

    @property
    def all_handles(self) -> _Integers | None:
        """int64 array: handle of each number; None where the handles are the numbers."""
        return None if self._num_rows is not None else self._handles


def union(parts: Sequence[NodePairs], num_nodes: int) -> NodePairs:
    """Collects every pair once, sorted by subgraph, then node."""
    if not parts:
        return NodePairs.none()
    packed = [part.packed(num_nodes) for part in parts]
    keys = sorted_unique(packed[0] if len(packed) == 1 else np.concatenate(packed))
    subgraphs = keys // num_nodes
    return NodePairs(subgraphs, keys - subgraphs * num_nodes)


def sorted_unique(values: _Integers) -> _Integers:
    """Sorts integers and leaves out repetitions."""
    in_order = np.sort(values)
    first = np.ones(len(in_order), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return in_order[first]


def is_among(values: _Integers, in_order: _Integers) -> npt.NDArray[np.bool_]:
    """Tells which values are in an ascending array."""
    if not len(in_order):
        return np.zeros(len(values), np.bool_)
    where = np.minimum(np.searchsorted(in_order, values), len(in_order) - 1)
    return in_order[where] == values
