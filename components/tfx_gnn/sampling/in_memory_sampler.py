"""Samples rooted subgraphs from tables in memory: the reference for every other sampler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.adjacency import Adjacency, build_adjacency
from tfx_gnn.sampling.plan import SEED, Hop, SamplingPlan, hop_ends, reached_node_sets
from tfx_gnn.sampling.plan_checks import check_plan
from tfx_gnn.sampling.sampled_subgraphs import HopCounts, SampledEdges, SampledNodes, SampledSubgraphs
from tfx_gnn.tables.graph_tables import GraphTables

_Rows = npt.NDArray[np.int64]


class InMemorySampler:
    """Executes a sampling plan over tables in memory.

    A subgraph depends on the tables, the plan, the sampling seed and its own seed
    node, not on the batch that it is sampled in. Nodes are known to the random
    choice by their ids, so nodes and edges elsewhere in the graph do not change it.

    Memory beside the tables: 16 bytes an edge for each direction in which the
    plan follows it, and 8 bytes a node.
    """

    def __init__(self, tables: GraphTables, plan: SamplingPlan, *, sampling_seed: int) -> None:
        """Indexes the edges that the plan follows.

        Args:
            tables: the graph; it must hold every node set and edge set of the plan.
            plan: what to sample.
            sampling_seed: seed of all random choices, in [0, 2**63).

        Raises:
            ValueError: if the plan does not fit the graph, or the seed is out of range.
        """
        if not 0 <= sampling_seed < 2**63:
            raise ValueError(f"`sampling_seed` must be in [0, 2**63); got {sampling_seed}. Choose another number.")
        check_plan(plan, tables.schema)
        self._tables = tables
        self._plan = plan
        self._sampling_seed = sampling_seed
        self._node_sets = reached_node_sets(plan, tables.schema)
        self._node_hashes = {name: random_choice.hash_ids(tables.node_tables[name].ids) for name in self._node_sets}
        self._adjacencies: dict[tuple[str, str], Adjacency] = {}
        for hop in plan.hops:
            if (hop.edge_set, hop.direction) not in self._adjacencies:
                self._adjacencies[hop.edge_set, hop.direction] = self._build_adjacency(hop)

    def sample(self, seed_rows: npt.NDArray[np.int64]) -> SampledSubgraphs:
        """Samples one subgraph around each seed.

        Args:
            seed_rows: int64 array, shape [num_subgraphs]: rows of the seed node table.

        Returns:
            The subgraphs, in the order of the seeds.
        """
        seeds = _Pairs(np.arange(len(seed_rows), dtype=np.int64), np.asarray(seed_rows, np.int64))
        found: dict[str, _Pairs] = {SEED: seeds}
        edges: dict[str, list[_Pairs]] = {name: [] for name in self._plan.edge_set_names}
        nodes: dict[str, list[_Pairs]] = {name: [] for name in self._node_sets}
        counts: dict[str, HopCounts] = {}
        for hop in self._plan.hops:
            start_set, end_set = hop_ends(hop, self._tables.schema)
            num_starts = self._tables.node_tables[start_set].num_nodes
            inputs = _union([found[name] for name in hop.inputs], num_starts)
            hop_edges, ends, counts[hop.name] = self._follow(hop, start_set, inputs, seeds)
            edges[hop.edge_set].append(hop_edges)
            if end_set == self._plan.seed_node_set:
                ends = ends.select(ends.items != seeds.items[ends.subgraphs])
            found[hop.name] = _union([ends], self._tables.node_tables[end_set].num_nodes)
            nodes[end_set].append(found[hop.name])
        indexed = {name: self._index_nodes(name, nodes[name], seeds) for name in self._node_sets}
        return SampledSubgraphs(
            seed_rows=seeds.items,
            node_sets={name: nodes_of_set.sampled for name, nodes_of_set in indexed.items()},
            edge_sets={name: self._index_edges(name, pairs, indexed, len(seed_rows)) for name, pairs in edges.items()},
            hop_counts=counts,
        )

    def _build_adjacency(self, hop: Hop) -> Adjacency:
        table = self._tables.edge_tables[hop.edge_set]
        starts, ends, start_set = table.sources, table.targets, table.source_set
        if hop.direction == "backward":
            starts, ends, start_set = table.targets, table.sources, table.target_set
        return build_adjacency(starts, ends, self._tables.node_tables[start_set].num_nodes)

    def _follow(self, hop: Hop, start_set: str, inputs: _Pairs, seeds: _Pairs) -> tuple[_Pairs, _Pairs, HopCounts]:
        """Returns pairs (subgraph, edge row), pairs (subgraph, node at the far end), and what was done."""
        adjacency = self._adjacencies[hop.edge_set, hop.direction]
        first = adjacency.offsets[inputs.items]
        degrees = adjacency.offsets[inputs.items + 1] - first
        taken = np.minimum(degrees, hop.fan_out)
        positions = np.repeat(first - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())
        truncated = np.flatnonzero(degrees > hop.fan_out)
        if len(truncated):
            keys = random_choice.choice_keys(
                self._sampling_seed,
                hop.name,
                self._node_hashes[self._plan.seed_node_set][seeds.items[inputs.subgraphs[truncated]]],
                self._node_hashes[start_set][inputs.items[truncated]],
            )
            chosen = random_choice.choose_positions(keys, degrees[truncated], hop.fan_out)
            where = (np.cumsum(taken) - taken)[truncated, np.newaxis] + np.arange(hop.fan_out)
            positions[where] = first[truncated, np.newaxis] + chosen
        subgraphs = np.repeat(inputs.subgraphs, taken)
        counts = HopCounts(
            num_inputs=len(inputs.items),
            num_truncated=len(truncated),
            num_edges=len(positions),
            num_candidates=int(degrees.sum()),
        )
        return (
            _Pairs(subgraphs, adjacency.edge_rows[positions]),
            _Pairs(subgraphs, adjacency.neighbors[positions]),
            counts,
        )

    def _index_nodes(self, node_set: str, found: Sequence[_Pairs], seeds: _Pairs) -> _IndexedNodes:
        num_nodes = self._tables.node_tables[node_set].num_nodes
        others = _union(found, num_nodes)
        is_seed_set = node_set == self._plan.seed_node_set
        # Item 0 is the seed, so that it sorts before every other node of its subgraph.
        keys = others.subgraphs * (num_nodes + 1) + others.items + 1
        if is_seed_set:
            keys = np.sort(np.concatenate([keys, seeds.subgraphs * (num_nodes + 1)]))
        subgraphs, rows = np.divmod(keys, num_nodes + 1)
        rows = np.where(rows == 0, seeds.items[subgraphs], rows - 1) if is_seed_set else rows - 1
        splits = np.searchsorted(subgraphs, np.arange(len(seeds.items) + 1)).astype(np.int64)
        return _IndexedNodes(
            keys, num_nodes, SampledNodes(rows=rows, splits=splits), seeds.items if is_seed_set else None
        )

    def _index_edges(
        self, edge_set: str, found: Sequence[_Pairs], indexed: dict[str, _IndexedNodes], num_subgraphs: int
    ) -> SampledEdges:
        table = self._tables.edge_tables[edge_set]
        edges = _union(found, table.num_edges)
        return SampledEdges(
            rows=edges.items,
            sources=indexed[table.source_set].positions_of(_Pairs(edges.subgraphs, table.sources[edges.items])),
            targets=indexed[table.target_set].positions_of(_Pairs(edges.subgraphs, table.targets[edges.items])),
            splits=np.searchsorted(edges.subgraphs, np.arange(num_subgraphs + 1)).astype(np.int64),
        )


class _Pairs:
    """Pairs of a subgraph and something in it: a node row or an edge row."""

    def __init__(self, subgraphs: _Rows, items: _Rows) -> None:
        self.subgraphs = subgraphs
        self.items = items

    def select(self, mask: npt.NDArray[np.bool_]) -> _Pairs:
        return _Pairs(self.subgraphs[mask], self.items[mask])


class _IndexedNodes:
    """Nodes of one set with the sorted keys to look their positions up."""

    def __init__(self, keys: _Rows, num_nodes: int, sampled: SampledNodes, seed_rows: _Rows | None) -> None:
        self.sampled = sampled
        self._keys = keys
        self._num_nodes = num_nodes
        self._seed_rows = seed_rows

    def positions_of(self, pairs: _Pairs) -> _Rows:
        items = pairs.items + 1
        if self._seed_rows is not None:
            items = np.where(pairs.items == self._seed_rows[pairs.subgraphs], 0, items)
        keys = pairs.subgraphs * (self._num_nodes + 1) + items
        return np.searchsorted(self._keys, keys).astype(np.int64) - self.sampled.splits[pairs.subgraphs]


def _union(found: Sequence[_Pairs], num_items: int) -> _Pairs:
    """Returns every pair once, sorted by subgraph, then item."""
    if not found:
        return _Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    keys = np.unique(np.concatenate([pairs.subgraphs * num_items + pairs.items for pairs in found]))
    subgraphs, items = np.divmod(keys, num_items)
    return _Pairs(subgraphs, items)
