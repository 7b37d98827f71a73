"""The nodes and edges of a block of subgraphs: by number while sampling, and in the order of records.

While a block is sampled, its nodes are pairs of (subgraph, node number). `index_block` converts them to
positions in each subgraph, as examples need them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.sampling.engine.sampled_subgraphs import (
    MAX_TRUNCATED_HUBS,
    HopCounts,
    SampledEdges,
    SampledNodes,
    SampledReadouts,
    SampledSubgraphs,
    TruncatedHub,
)
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.engine.structure_labels import label_structure
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.graph_tables import GraphTables

_Integers = npt.NDArray[np.int64]


class NodePairs:
    """Pairs of a subgraph of a block and a node, as two arrays of equal length.

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
        """Returns an empty set of pairs."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def packed(self, num_nodes: int) -> _Integers:
        """Packs each pair into one integer that sorts by subgraph, then node; `num_nodes` exceeds every number."""
        return self.subgraphs * num_nodes + self.nodes

    def select(self, kept: npt.NDArray[np.bool_]) -> NodePairs:
        """Keeps the pairs where `kept` is true."""
        return NodePairs(self.subgraphs[kept], self.nodes[kept])

    def without(self, others: NodePairs, num_nodes: int) -> NodePairs:
        """Leaves out the pairs that are in `others`."""
        if not len(others) or not len(self):
            return self
        return self.select(~is_among(self.packed(num_nodes), np.sort(others.packed(num_nodes))))


class NodeNumbers:
    """Small numbers for the nodes of one set that a block of subgraphs reaches.

    In memory, a node's handle is its row and serves as its number. Where handles are
    64-bit codes, nodes are numbered in the order in which they are reached.
    """

    def __init__(self, num_nodes: int | None = None) -> None:
        """Starts with all rows of a node table if handles are rows; with no nodes (None) if they are codes."""
        self._num_rows = num_nodes
        self._handles = np.zeros(0, np.int64)
        self._order = np.zeros(0, np.int64)

    @property
    def size(self) -> int:
        """Upper bound (exclusive) of the numbers so far, at least 1."""
        return max(len(self._handles) if self._num_rows is None else self._num_rows, 1)

    def number(self, handles: _Integers) -> _Integers:
        """Returns the numbers of nodes; new nodes get new numbers."""
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
        """int64 array: handle of each number; None if the handles are the numbers."""
        return None if self._num_rows is not None else self._handles


def union(parts: Sequence[NodePairs], num_nodes: int) -> NodePairs:
    """Collects every pair once, sorted by subgraph, then node."""
    packed = [part.packed(num_nodes) for part in parts if len(part)]
    if not packed:
        return NodePairs.none()
    keys = sorted_unique(packed[0] if len(packed) == 1 else np.concatenate(packed))
    subgraphs = keys // num_nodes
    return NodePairs(subgraphs, keys - subgraphs * num_nodes)


def sorted_unique(values: _Integers) -> _Integers:
    """Sorts integers and removes duplicates."""
    in_order = np.sort(values)
    return in_order[_is_first(in_order)]


def _is_first(in_order: _Integers) -> npt.NDArray[np.bool_]:
    """Returns which values differ from the one before."""
    first = np.empty(len(in_order), np.bool_)
    first[:1] = True
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return first


def is_among(values: _Integers, in_order: _Integers) -> npt.NDArray[np.bool_]:
    """Returns which values are in an ascending array."""
    if not len(in_order):
        return np.zeros(len(values), np.bool_)
    where = np.minimum(np.searchsorted(in_order, values), len(in_order) - 1)
    return in_order[where] == values


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
        """Collects every edge once, sorted by subgraph, edge row, copy."""
        parts = [part for part in parts if len(part.rows)]
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
    """Nodes with more eligible edges than a hop's fan-out.

    Attributes:
        node_set: node set of the nodes.
        nodes: int64 array, shape [num_nodes]: number of each node, ascending.
        degrees: int64 array, shape [num_nodes]: edges of each node in the whole graph.
        times_truncated: int64 array, shape [num_nodes]: number of subgraphs in which the
            node's edges were truncated.
    """

    node_set: str
    nodes: _Integers
    degrees: _Integers
    times_truncated: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockResult:
    """The result of sampling a block of subgraphs.

    Nodes are given by numbers: in memory, rows of the node table; otherwise positions in
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
        trees: by context feature, the node set and the nodes of the tree of a hop, [num_subgraphs, width]; -1 for none.
    """

    num_subgraphs: int
    roots: Mapping[str, tuple[str, NodePairs]]
    nodes: Mapping[str, NodePairs]
    edges: Mapping[str, BlockEdges]
    edge_ends: Mapping[str, tuple[str, str]]
    node_handles: Mapping[str, _Integers | None]
    hop_counts: Mapping[str, HopCounts]
    truncated: Mapping[str, TruncatedNodes]
    trees: Mapping[str, tuple[str, _Integers]] = dataclasses.field(default_factory=dict)

    def with_rows(self, rows: Mapping[str, _Integers]) -> BlockResult:
        """Replaces node numbers with rows of (local) node tables, one row per handle, and sorts by these rows."""
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
            trees={
                feature: (name, np.where(tree < 0, tree, rows[name][np.maximum(tree, 0)] if len(rows[name]) else tree))
                for feature, (name, tree) in self.trees.items()
            },
            node_handles=dict.fromkeys(self.node_handles),
        )


def _sorted_firsts(subgraphs: _Integers, rows: _Integers, copies: _Integers | None) -> _Integers:
    """Returns the positions of the distinct (subgraph, row, copy) triples, sorted."""
    if not len(rows):
        return np.zeros(0, np.int64)
    num_rows, num_copies = int(rows.max()) + 1, 1 if copies is None else int(copies.max()) + 1
    if (int(subgraphs.max()) + 1) * num_rows * num_copies < 2**63:
        keys = subgraphs * num_rows + rows
        if copies is not None:
            keys = keys * num_copies + copies
        order = keys.argsort()
        return order[_is_first(keys[order])]
    columns = [subgraphs, rows] if copies is None else [subgraphs, rows, copies]
    order = np.lexsort(columns[::-1])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    return order[is_first]


def index_block(result: BlockResult, seeds: Seeds, tables: GraphTables, plan: SamplingPlan) -> SampledSubgraphs:
    """Converts a block, whose node numbers are rows of `tables`, to subgraphs in the order of records.

    The tables are the whole graph, or the part of it that the block reached: node tables sorted by id, edge
    tables sorted by their rows as written.
    """
    num_subgraphs = result.num_subgraphs
    roots: dict[str, list[NodePairs]] = {}
    for node_set, pairs in result.roots.values():
        roots.setdefault(node_set, []).append(pairs)
    ordered = {
        name: _OrderedNodes(pairs, roots.get(name, []), tables.node_tables[name].num_nodes, num_subgraphs)
        for name, pairs in result.nodes.items()
    }
    edge_sets = {}
    for name, edges in result.edges.items():
        source_set, target_set = result.edge_ends[name]
        edge_sets[name] = SampledEdges(
            rows=tables.edge_tables[name].positions_of(edges.rows),
            sources=ordered[source_set].positions_of(NodePairs(edges.subgraphs, edges.sources)),
            targets=ordered[target_set].positions_of(NodePairs(edges.subgraphs, edges.targets)),
            splits=_splits(edges.subgraphs, num_subgraphs),
        )
    node_sets = {name: nodes.sampled for name, nodes in ordered.items()}
    positions = {root: ordered[name].positions_of(pairs) for root, (name, pairs) in result.roots.items()}
    structure_labels = {}
    if plan.structure_labels:
        _check_single_pairs(seeds)
        source, target = ((result.roots[root][0], positions[root]) for root in (ROOT_SOURCE, ROOT_TARGET))
        structure_labels = label_structure(
            plan.structure_labels, node_sets, edge_sets, result.edge_ends, (source, target)
        )
    return SampledSubgraphs(
        num_subgraphs=num_subgraphs,
        node_sets=node_sets,
        edge_sets=edge_sets,
        structure_labels=structure_labels,
        readouts=SampledReadouts(
            splits=seeds.readout_splits,
            positions=positions,
            seed_rows=_seed_rows(result, seeds, tables, plan),
            labels=seeds.readout_labels,
            seed_edges=_seed_edges(result, seeds, plan) if plan.keeps_seed_edge else None,
        ),
        trees={feature: _tree_positions(ordered[name], tree) for feature, (name, tree) in result.trees.items()},
        hop_counts=result.hop_counts,
        truncated_hubs={
            hop: _largest(truncated, tables.node_tables[truncated.node_set].ids)
            for hop, truncated in result.truncated.items()
        },
    )


def _check_single_pairs(seeds: Seeds) -> None:
    if (np.diff(seeds.readout_splits) != 1).any():
        raise ValueError(
            "`seeds` must have one pair for each subgraph in a plan with `structure_labels`; got "
            f"{int(np.diff(seeds.readout_splits).max())} for one of them. Call `seeds.with_own_subgraphs()`."
        )


def _tree_positions(nodes: _OrderedNodes, tree: _Integers) -> _Integers:
    subgraphs, places = np.nonzero(tree >= 0)
    positions = np.full_like(tree, NO_NODE)
    positions[subgraphs, places] = nodes.positions_of(NodePairs(subgraphs, tree[subgraphs, places]))
    return positions


class _OrderedNodes:
    """Nodes of one set in the order of subgraphs: roots first."""

    def __init__(self, nodes: NodePairs, roots: list[NodePairs], num_nodes: int, num_subgraphs: int) -> None:
        self._num_nodes = num_nodes
        self._keys = nodes.packed(num_nodes)
        splits = _splits(nodes.subgraphs, num_subgraphs)
        begins = splits[nodes.subgraphs]
        # For each node, sorted by row, its position in the subgraph.
        self._positions = np.arange(len(nodes)) - begins
        if roots:
            self._put_first(nodes, roots, splits)
        rows = np.empty(len(nodes), np.int64)
        rows[self._positions + begins] = nodes.nodes
        self.sampled = SampledNodes(rows=rows, splits=splits)

    def positions_of(self, pairs: NodePairs) -> _Integers:
        return self._positions[self._keys.searchsorted(pairs.packed(self._num_nodes))]

    def _put_first(self, nodes: NodePairs, roots: list[NodePairs], splits: _Integers) -> None:
        subgraphs = np.concatenate([pairs.subgraphs for pairs in roots])
        numbers = np.concatenate([pairs.nodes for pairs in roots])
        by_subgraph = np.argsort(subgraphs, kind="stable")
        all_roots = NodePairs(subgraphs[by_subgraph], numbers[by_subgraph])
        _, firsts = np.unique(all_roots.packed(self._num_nodes), return_index=True)
        firsts.sort()  # each root once, in the order of readouts
        distinct = NodePairs(all_roots.subgraphs[firsts], all_roots.nodes[firsts])
        root_splits = _splits(distinct.subgraphs, len(splits) - 1)
        where = self._keys.searchsorted(distinct.packed(self._num_nodes))
        is_root = np.zeros(len(nodes), np.bool_)
        is_root[where] = True
        # Other nodes move back by the number of roots of their subgraph that come after them.
        roots_so_far = is_root.cumsum() - root_splits[nodes.subgraphs]
        self._positions += np.diff(root_splits)[nodes.subgraphs] - roots_so_far
        self._positions[where] = np.arange(len(firsts)) - root_splits[distinct.subgraphs]


def _seed_rows(result: BlockResult, seeds: Seeds, tables: GraphTables, plan: SamplingPlan) -> _Integers:
    if plan.seed_table:
        return seeds.rows
    if plan.is_link_plan:
        # Without labels, the rows of seed edges are not read, and the table may lack them.
        if not plan.label_features:
            return seeds.rows
        return tables.edge_tables[plan.seed_edge_set].positions_of(seeds.rows)
    (_, pairs), *_ = result.roots.values()
    return pairs.nodes


def _seed_edges(result: BlockResult, seeds: Seeds, plan: SamplingPlan) -> _Integers:
    edges: BlockEdges = result.edges[plan.seed_edge_set]
    num_rows = int(max(edges.rows.max(initial=0), seeds.rows.max(initial=0))) + 1
    keys = edges.subgraphs * num_rows + edges.rows
    found = np.searchsorted(keys, np.arange(result.num_subgraphs) * num_rows + seeds.rows)
    return found - _splits(edges.subgraphs, result.num_subgraphs)[:-1]


def _largest(truncated: TruncatedNodes, ids: pa.Array) -> tuple[TruncatedHub, ...]:
    # Rows are in the order of ids, which settles ties.
    order = np.lexsort((truncated.nodes, -truncated.degrees))[:MAX_TRUNCATED_HUBS]
    return tuple(
        TruncatedHub(node_id=node_id, degree=degree, times_truncated=times)
        for node_id, degree, times in zip(
            ids.take(pa.array(truncated.nodes[order])).to_pylist(),
            truncated.degrees[order].tolist(),
            truncated.times_truncated[order].tolist(),
            strict=True,
        )
    )


def _splits(subgraphs: _Integers, num_subgraphs: int) -> _Integers:
    return subgraphs.searchsorted(np.arange(num_subgraphs + 1)).astype(np.int64, copy=False)
