"""Samples rooted subgraphs from tables in memory; the reference for all other samplers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.engine.adjacency import EdgesByNode, build_adjacency
from tfx_gnn.sampling.engine.block_result import index_block
from tfx_gnn.sampling.engine.block_sampling import BlockSampling, ranked_edge_sets, rounds_of_plan, timed_edge_sets
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests, FoundEdges, find_edges
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledSubgraphs
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.index.graph_index import IndexedGraph
from tfx_gnn.sampling.index.node_lookup import NodeLookup, make_lookup
from tfx_gnn.sampling.plan.drawing_weights import check_hop_weights
from tfx_gnn.sampling.plan.hop import SEED, Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan.plan_checks import check_plan
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_tables import GraphTables

_Integers = npt.NDArray[np.int64]
_NUM_SHOWN = 3


class InMemorySampler:
    """Executes a sampling plan over tables in memory.

    A subgraph depends on the tables, the plan, the sampling seed and its own seed,
    not on the batch that it is sampled in. Random choices identify nodes by their ids
    and edges by their rows, so other parts of the graph do not affect a subgraph.

    Memory in addition to the tables: 16 bytes per edge for each direction in which the
    plan follows it, 8 more for each of times, weights and hashes that its choices need,
    and 8 bytes per node.
    """

    def __init__(
        self,
        tables: GraphTables,
        plan: SamplingPlan,
        *,
        sampling_seed: int,
        edge_ranks: Mapping[str, npt.NDArray[np.int8]] | None = None,
    ) -> None:
        """Indexes the edges that the plan follows.

        Args:
            tables: the graph; it must hold every node set and edge set of the plan.
            plan: what to sample.
            sampling_seed: seed of all random choices, in [0, 2**63).
            edge_ranks: by edge set, int8 array, shape [num_edges]: rank of each edge of
                the table; needed for edge sets with edges that rank limits hide from seeds.

        Raises:
            ValueError: if the plan does not fit the graph, the seed is out of range, or
                a weight is NaN.
        """
        if not 0 <= sampling_seed < 2**63:
            raise ValueError(f"`sampling_seed` must be in [0, 2**63); got {sampling_seed}. Choose another number.")
        check_plan(plan, tables.schema)
        self._tables = tables
        self._plan = plan
        self._sampling_seed = sampling_seed
        self._node_codes = {
            name: tables.node_codes(name)
            if isinstance(tables, IndexedGraph)
            else random_choice.hash_ids(tables.node_tables[name].ids)
            for name in reached_node_sets(plan, tables.schema)
        }
        self._edge_ranks = dict(edge_ranks or {})
        self._hops = {hop.name: hop for hops in rounds_of_plan(plan) for hop in hops}
        self._edges: dict[tuple[str, str, str], EdgesByNode] = {}
        for hop in self._hops.values():
            key = _adjacency_key(hop)
            if key not in self._edges:
                self._edges[key] = self._edges_by_node(hop)

    def sample(self, seeds: Seeds, *, sampling_seed: int | None = None) -> SampledSubgraphs:
        """Samples one subgraph around each seed.

        Args:
            seeds: the seeds; their nodes are rows of the node tables.
            sampling_seed: seed of all random choices, in [0, 2**63); by default the
                sampler's own.

        Returns:
            The subgraphs, in the order of the seeds.

        Raises:
            ValueError: if the seeds have rank limits and `edge_ranks` were not given.
        """
        ranked = ranked_edge_sets(self._plan, self._tables.schema) if seeds.rank_limits is not None else ()
        for name in ranked:
            if name not in self._edge_ranks:
                raise ValueError(
                    f"`edge_ranks` must hold ranks of the edge sets {list(ranked)} for seeds with rank limits; got "
                    f"{sorted(self._edge_ranks)}. Make them with the seeds."
                )
        block = BlockSampling(
            self._plan,
            self._tables.schema,
            seeds,
            sampling_seed=self._sampling_seed if sampling_seed is None else sampling_seed,
            node_codes=self._node_codes,
        )
        while requests := block.next_requests():
            block.accept([self._answer(asked) for asked in requests])
        return index_block(block.finish(), seeds, self._tables, self._plan)

    def sample_nodes(self, rows: _Integers) -> SampledSubgraphs:
        """Samples one subgraph around each of some nodes, for plans without time and splits.

        Args:
            rows: int64 array, shape [num_subgraphs]: rows of the seed node table, in [0, num_nodes).

        Returns:
            The subgraphs, in the order of the rows.

        Raises:
            ValueError: if the plan needs more about its seeds than their rows, or a row is out of range.
        """
        self._check_seeds_are_nodes()
        rows = np.asarray(rows, np.int64)
        codes = self._node_codes[self._plan.seed_node_set]
        outside = np.flatnonzero((rows < 0) | (rows >= len(codes)))
        if len(outside):
            raise ValueError(
                f"`rows` must be in [0, {len(codes)}), the rows of nodes/{self._plan.seed_node_set}; got "
                f"{rows[outside[:_NUM_SHOWN]].tolist()}, {len(outside)} of {len(rows)}. -1 stands for an id that was "
                "not found: leave it out, or call `sample_ids`."
            )
        seeds = Seeds(
            keys=codes[rows],
            rows=rows,
            readout_splits=np.arange(len(rows) + 1),
            readout_nodes={SEED: rows},
        )
        return self.sample(seeds)

    def sample_ids(self, ids: Sequence[str] | Sequence[int] | pa.Array) -> SampledSubgraphs:
        """Samples one subgraph around each of some nodes, for plans without time and splits.

        Args:
            ids: ids of the seed node table, strings or integers as there, shape [num_subgraphs].

        Returns:
            The subgraphs, in the order of the ids.

        Raises:
            TypeError: if the ids have another type than those of the table.
            ValueError: if the table lacks one of the ids, or the plan needs more about its seeds than their ids.
        """
        self._check_seeds_are_nodes()
        name = self._plan.seed_node_set
        wanted = _ids_of_type(ids, self._tables.node_tables[name].ids.type, f"nodes/{name}")
        if isinstance(self._tables, IndexedGraph):
            rows = self._tables.find_nodes(name, wanted)
        else:
            rows = self._seed_lookup.find(wanted)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            shown = wanted.take(pa.array(unknown[:_NUM_SHOWN])).to_pylist()
            raise ValueError(
                f"`ids` must be ids of nodes/{name}; got {shown}, which {self._tables.node_tables[name].path} lacks, "
                f"{len(unknown)} of {len(wanted)}. Correct them, or leave them out."
            )
        return self.sample_nodes(rows)

    def _check_seeds_are_nodes(self) -> None:
        plan = self._plan
        if plan.is_link_plan or plan.temporal or plan.seed_table or self._edge_ranks:
            raise ValueError(
                "`plan` must have nodes as seeds, and neither times nor ranks, to sample from rows alone; got "
                f"seeds {plan.seed_set!r}. Make Seeds and call `sample`."
            )

    @functools.cached_property
    def _seed_lookup(self) -> NodeLookup:
        name = self._plan.seed_node_set
        return make_lookup(self._tables.node_tables[name].ids, self._node_codes[name], f"nodes/{name}")

    def _answer(self, requests: EdgeRequests) -> FoundEdges:
        hop = self._hops[requests.hop]
        inclusive = self._plan.temporal is not None and self._plan.temporal.inclusive
        return find_edges(hop, self._edges[_adjacency_key(hop)], requests.nodes, requests, inclusive=inclusive)

    def _edges_by_node(self, hop: Hop) -> EdgesByNode:
        temporal = self._plan.temporal
        time = temporal.edge_times[hop.edge_set] if temporal and hop.edge_set in timed_edge_sets(self._plan) else ""
        if isinstance(self._tables, IndexedGraph):
            return self._tables.edges_by_node(hop, time_feature=time, ranks=self._edge_ranks.get(hop.edge_set))
        table = self._tables.edge_tables[hop.edge_set]
        starts, ends, start_set = table.sources, table.targets, table.source_set
        if hop.direction == "backward":
            starts, ends, start_set = table.targets, table.sources, table.target_set
        return build_adjacency(
            starts,
            ends,
            self._tables.node_tables[start_set].num_nodes,
            edge_rows=table.rows,
            times=_integers(table, time) if time else None,
            ranks=self._edge_ranks.get(hop.edge_set),
            weights=edge_weights(hop, table),
        )


def _ids_of_type(ids: Sequence[str] | Sequence[int] | pa.Array, dtype: pa.DataType, place: str) -> pa.Array:
    """Returns ids as an Arrow array of the type of a node table's; other types are refused, not converted."""
    rule = f"`ids` must be ids of {place}, of type {dtype}; got"
    try:
        found: pa.Array = ids if isinstance(ids, pa.Array) else pa.array(ids)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise TypeError(f"{rule} {ids!r}. Correct them: {error}") from error
    is_text = pa.types.is_string(found.type) or pa.types.is_large_string(found.type)
    fits = pa.types.is_integer(found.type) if pa.types.is_integer(dtype) else is_text
    if found.null_count or (len(found) and not fits):
        raise TypeError(f"{rule} {found.type} with {found.null_count} nulls. Correct them.")
    return found.cast(dtype)


def edge_weights(hop: Hop, table: Edges) -> npt.NDArray[np.float64] | None:
    """Returns the weights by which a hop chooses among its edge set's edges; None if its strategy needs none."""
    if hop.weighs_by_degree:
        ends = table.targets if hop.direction == "forward" else table.sources
        return np.bincount(ends)[ends].astype(np.float64) if len(ends) else np.zeros(0)
    if not hop.weight_feature:
        return None
    weights = table.features[hop.weight_feature].to_numpy(zero_copy_only=False).astype(np.float64)
    check_hop_weights(hop, weights, lambda position: f"row {table.rows[position]} of {table.path}")
    return weights


def _integers(table: Edges, feature: str) -> _Integers:
    column: pa.Array = table.features[feature]
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def _adjacency_key(hop: Hop) -> tuple[str, str, str]:
    # Hops with the same weights share one adjacency.
    weights = "#in_degree" if hop.weighs_by_degree else hop.weight_feature
    return hop.edge_set, hop.direction, weights
