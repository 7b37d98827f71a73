"""What sampling found for a block of subgraphs, before nodes have positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.node_pairs import NodePairs
from tfx_gnn.sampling.sampled_subgraphs import HopCounts

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockEdges:
    """Edges of one edge set in a block of subgraphs.

    Attributes:
        subgraphs: int64 array, shape [num_edges]: position of the subgraph in the block.
        rows: int64 array, shape [num_edges]: row of the edge in its table as written.
        copies: int64 array, shape [num_edges]: 0, 1, ... where draws with replacement
            put an edge into a subgraph several times; None if all are 0.
        sources: int64 array, shape [num_edges]: number of the source node.
        targets: int64 array, shape [num_edges]: number of the target node.
    """

    subgraphs: _Integers
    rows: _Integers
    copies: _Integers | None
    sources: _Integers
    targets: _Integers

    @classmethod
    def union(cls, parts: Sequence[BlockEdges]) -> BlockEdges:
        """Collects every edge once, sorted by subgraph, edge row, copy.

        Args:
            parts: edges, repeated or not.

        Returns:
            The union.
        """
        if not parts:
            none = np.zeros(0, np.int64)
            return cls(subgraphs=none, rows=none, copies=None, sources=none, targets=none)
        subgraphs = np.concatenate([part.subgraphs for part in parts])
        rows = np.concatenate([part.rows for part in parts])
        copies = None
        if any(part.copies is not None for part in parts):
            copies = np.concatenate(
                [np.zeros(len(part.rows), np.int64) if part.copies is None else part.copies for part in parts]
            )
        kept = _sorted_firsts(subgraphs, rows, copies)
        return cls(
            subgraphs=subgraphs[kept],
            rows=rows[kept],
            copies=None if copies is None else copies[kept],
            sources=np.concatenate([part.sources for part in parts])[kept],
            targets=np.concatenate([part.targets for part in parts])[kept],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TruncatedNodes:
    """Nodes of which a hop did not take every edge that it might have taken.

    Attributes:
        node_set: their node set.
        nodes: int64 array, shape [num_nodes]: number of each, ascending.
        degrees: int64 array, shape [num_nodes]: edges that each has in the whole graph.
        times_truncated: int64 array, shape [num_nodes]: in how many subgraphs.
    """

    node_set: str
    nodes: _Integers
    degrees: _Integers
    times_truncated: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockResult:
    """What sampling found for a block of subgraphs.

    Nodes are given by numbers: rows of the node table in memory, else positions in
    `node_handles`.

    Attributes:
        num_subgraphs: subgraphs of the block.
        roots: by root, its node set and the root of each readout.
        nodes: by node set, every node of every subgraph once, sorted.
        edges: by edge set, every edge of every subgraph, sorted.
        edge_ends: by edge set, the node sets of its sources and targets.
        node_handles: by node set, int64 array with the handle of each number; None where
            handles are rows.
        hop_counts: by hop.
        truncated: by hop, for hops that left out edges.
    """

    num_subgraphs: int
    roots: Mapping[str, tuple[str, NodePairs]]
    nodes: Mapping[str, NodePairs]
    edges: Mapping[str, BlockEdges]
    edge_ends: Mapping[str, tuple[str, str]]
    node_handles: Mapping[str, _Integers | None]
    hop_counts: Mapping[str, HopCounts]
    truncated: Mapping[str, TruncatedNodes]

    def with_rows(self, rows: Mapping[str, _Integers]) -> BlockResult:
        """Replaces the numbers of nodes by rows of (local) node tables.

        Args:
            rows: by node set, int64 array, shape [number of handles]: the row of each of
                `node_handles`, no two equal.

        Returns:
            The same block, whose node numbers are rows. Its nodes are sorted by them.
        """
        nodes = {}
        for name, pairs in self.nodes.items():
            renamed = rows[name][pairs.nodes]
            order = np.lexsort((renamed, pairs.subgraphs))
            nodes[name] = NodePairs(pairs.subgraphs[order], renamed[order])
        edges = {}
        for name, found in self.edges.items():
            source_set, target_set = self.edge_ends[name]
            sources, targets = rows[source_set][found.sources], rows[target_set][found.targets]
            edges[name] = dataclasses.replace(found, sources=sources, targets=targets)
        truncated = {}
        for name, cut in self.truncated.items():
            renamed = rows[cut.node_set][cut.nodes]
            order = np.argsort(renamed)
            truncated[name] = TruncatedNodes(
                node_set=cut.node_set,
                nodes=renamed[order],
                degrees=cut.degrees[order],
                times_truncated=cut.times_truncated[order],
            )
        return dataclasses.replace(
            self,
            roots={
                root: (name, NodePairs(pairs.subgraphs, rows[name][pairs.nodes]))
                for root, (name, pairs) in self.roots.items()
            },
            nodes=nodes,
            edges=edges,
            truncated=truncated,
            node_handles=dict.fromkeys(self.node_handles),
        )


def _sorted_firsts(subgraphs: _Integers, rows: _Integers, copies: _Integers | None) -> _Integers:
    """Returns the positions of the different (subgraph, row, copy), sorted."""
    if not len(rows):
        return np.zeros(0, np.int64)
    num_rows, num_copies = int(rows.max()) + 1, 1 if copies is None else int(copies.max()) + 1
    if (int(subgraphs.max()) + 1) * num_rows * num_copies < 2**63:
        keys = subgraphs * num_rows + rows
        if copies is not None:
            keys = keys * num_copies + copies
        order = np.argsort(keys)
        in_order = keys[order]
        is_first = np.ones(len(order), np.bool_)
        np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
        return order[is_first]
    columns = [subgraphs, rows] if copies is None else [subgraphs, rows, copies]
    order = np.lexsort(columns[::-1])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    return order[is_first]
