"""The last Beam step of sampling: converts blocks to records, through tables of the block's own nodes and edges.

These tables are a small graph with the features that the partitions sent. The functions that encode subgraphs of a
graph in memory then encode the block, with the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.io.progress import count_progress
from tfx_gnn.sampling.beam.messages import NodeAnswer, read_state, unpack_table
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.partitions import positions_in
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.beam.rounds.block_state import BlockState
from tfx_gnn.sampling.beam.shard_files import WrittenBlock, write_block
from tfx_gnn.sampling.engine.block_result import BlockEdges, BlockResult, index_block
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledSubgraphs, SubgraphStatisticsBuilder
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.plan import SamplingPlan, reached_node_sets
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import ContextTable, EdgeTable, GraphTables, NodeTable

_Integers = npt.NDArray[np.int64]


class KnownRows:
    """Features of some edges of a set, by their `#row` in the table as written; rows may be repeated."""

    def __init__(self, table: pa.Table) -> None:
        self._columns = {name: files.one_array(table, name) for name in table.column_names}
        rows = np.asarray(self._columns.pop(files.ROW).to_numpy(), np.int64)
        self._rows, self._places = np.unique(rows, return_index=True)

    @property
    def names(self) -> frozenset[str]:
        """Names of the features."""
        return frozenset(self._columns)

    def find(self, rows: _Integers) -> tuple[_Integers, npt.NDArray[np.bool_]]:
        """Returns the position of each edge's features in `values`, and whether the edge is known."""
        at = positions_in(self._rows, rows)
        is_known = at >= 0
        places = np.zeros(len(rows), np.int64)
        places[is_known] = self._places[at[is_known]]
        return places, is_known

    def values(self, name: str) -> pa.Array:
        """Returns the values of a feature; `find` returns positions in it."""
        return self._columns[name]


def edge_features(rows: _Integers, known: Sequence[KnownRows], types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Collects the features of edges, without nulls; `rows` ascend.

    A feature that none of `known` has for an edge gets an arbitrary value there, which is never read.
    """
    found = [of_rows.find(rows) for of_rows in known]
    return {
        name: _collect(
            [
                (of_rows.values(name), places, is_known)
                for of_rows, (places, is_known) in zip(known, found, strict=True)
                if name in of_rows.names
            ],
            len(rows),
            dtype,
        )
        for name, dtype in types.items()
    }


def _collect(
    parts: Sequence[tuple[pa.Array, _Integers, npt.NDArray[np.bool_]]], count: int, dtype: pa.DataType
) -> pa.Array:
    # `take` needs a position for every edge, so values that are never read point to a filler at the end.
    values = pa.concat_arrays([*(part for part, _, _ in parts), pa.array([_any_value(dtype)], dtype)])
    places = np.full(count, len(values) - 1)
    start = 0
    for part, at, is_known in parts:
        places = np.where(is_known, start + at, places)
        start += len(part)
    return values.take(pa.array(places))


def _any_value(dtype: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(dtype):
        return [_any_value(dtype.value_type)] * dtype.list_size
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return []
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return ""
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return b""
    return False if pa.types.is_boolean(dtype) else 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AssembledBlock:
    """A block as part of a graph in memory.

    Attributes:
        tables: the nodes and edges of the block.
        subgraphs: the block's subgraphs; their rows are rows of `tables`.
        seed_features: columns of the seed table, one row per seed; empty if the plan has
            no seed table.
    """

    tables: GraphTables
    subgraphs: SampledSubgraphs
    seed_features: Mapping[str, pa.Array]


class BlockAssembler:
    """Assembles blocks from their nodes, edges and seeds."""

    def __init__(self, graph: PartitionedGraph, plan: SamplingPlan) -> None:
        """Reads the types of ids and features from the description; loads only the context."""
        self._schema = graph.schema
        self._plan = plan
        tables = graph.info.tables
        self._node_types = {
            name: tables[files.node_table(name)].schema for name in reached_node_sets(plan, self._schema)
        }
        self._edge_types: dict[str, dict[str, pa.DataType]] = {}
        subgraph_schema = make_subgraph_schema(self._schema, plan)
        for name in plan.edge_set_names:
            described = [tables[key].schema for key in _edge_tables(graph, name)]
            if name == plan.seed_edge_set:
                described.append(tables[files.SEED_TABLE].schema)
            types = {field.name: field.type for schema in described for field in schema}
            features = set(subgraph_schema.edge_sets[name].features) - files.RESERVED
            self._edge_types[name] = {feature: types[feature] for feature in sorted(features)}
        self._context = _context_table(graph) if plan.context_features else None
        if plan.is_link_plan and not plan.seed_table:
            of_seeds = tables[files.SEED_TABLE].schema
            labels = {feature: of_seeds.field(feature).type for feature in plan.label_features}
            self._edge_types.setdefault(plan.seed_edge_set, {}).update(labels)

    def assemble(self, state: BlockState, nodes: Mapping[str, Sequence[bytes]]) -> AssembledBlock:
        """Assembles a block after its last round; `nodes` are the partitions' answers by node set."""
        assert state.result is not None
        node_tables: dict[str, NodeTable] = {}
        rows_of_numbers: dict[str, _Integers] = {}
        for name, handles in state.result.node_handles.items():
            assert handles is not None
            answers = [unpack_table(data) for data in nodes.get(name, ())]
            rows = pa.concat_tables(answers) if answers else self._node_types[name].empty_table()
            node_tables[name], rows_of_numbers[name] = _node_table(name, rows, handles)
        result = state.result.with_rows(rows_of_numbers)
        seeds, seed_features = state.seeds, unpack_table(state.seed_features)
        edge_tables = {name: self._edge_table(name, result, state, seed_features) for name in sorted(self._edge_types)}
        if self._plan.seed_table:
            seeds = dataclasses.replace(seeds, rows=np.arange(seeds.num_subgraphs))
        tables = GraphTables(
            schema=self._schema, node_tables=node_tables, edge_tables=edge_tables, context_table=self._context
        )
        return AssembledBlock(
            tables=tables,
            subgraphs=index_block(result, seeds, tables, self._plan),
            seed_features=_columns(seed_features) if self._plan.seed_table else {},
        )

    def _edge_table(self, name: str, result: BlockResult, state: BlockState, seed_features: pa.Table) -> EdgeTable:
        """Makes a table of all edges that are in a subgraph or are seeds."""
        edge_set = self._schema.edge_sets[name]
        edges = result.edges.get(name, BlockEdges.union([]))
        rows, sources, targets = edges.rows, edges.sources, edges.targets
        known = [KnownRows(table) for table in _together(state.edge_features.get(name, ()))]
        if name == self._plan.seed_edge_set and not self._plan.seed_table and seed_features.num_columns:
            seeds = state.seeds
            rows = np.concatenate([rows, seeds.rows])
            # The ends of seeds are never read from this table.
            sources, targets = (
                np.concatenate([ends, np.zeros(len(seeds.rows), np.int64)]) for ends in (sources, targets)
            )
            known.append(KnownRows(seed_features.append_column(files.ROW, pa.array(seeds.rows))))
        rows, firsts = np.unique(rows, return_index=True)
        return EdgeTable(
            path=name,
            source_set=edge_set.source,
            target_set=edge_set.target,
            sources=sources[firsts],
            targets=targets[firsts],
            features=edge_features(rows, known, self._edge_types[name]),
            rows=rows,
        )


def _context_table(graph: PartitionedGraph) -> ContextTable:
    rows = graph.load_context()
    return ContextTable(path="context", features=_columns(rows), extra_columns={}, num_rows=rows.num_rows)


def _edge_tables(graph: PartitionedGraph, edge_set: str) -> list[str]:
    names = [files.edge_table(edge_set, direction) for direction in ("forward", "backward")]
    return [name for name in names if name in graph.info.tables]


def _together(features: Sequence[bytes]) -> list[pa.Table]:
    return [pa.concat_tables([unpack_table(data) for data in features])] if features else []


def _node_table(name: str, rows: pa.Table, handles: _Integers) -> tuple[NodeTable, _Integers]:
    """Makes a node table, and returns the row of each handle."""
    columns = _columns(rows)
    order = pc.sort_indices(columns[files.ID])
    codes = np.asarray(columns[files.CODE].to_numpy(), np.int64)
    row_of_place = np.empty(len(codes), np.int64)
    row_of_place[order.to_numpy()] = np.arange(len(codes))
    by_code = np.argsort(codes)
    table = NodeTable(
        path=name,
        ids=columns[files.ID].take(order),
        features={key: values.take(order) for key, values in columns.items() if key not in files.RESERVED},
    )
    return table, row_of_place[by_code[np.searchsorted(codes[by_code], handles)]]


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    return {name: files.one_array(table, name) for name in table.column_names}


class AssembleBlocks(beam.DoFn):
    """Writes the records of each block, from (block, answers about nodes and its state), to a file."""

    def __init__(
        self, partitions_dir: str, plan: SamplingPlan, examples_dir: str, splits: Sequence[str], num_shards: int
    ) -> None:
        self._partitions_dir = partitions_dir
        self._plan = plan
        self._examples_dir = examples_dir
        self._splits = tuple(splits)
        self._num_shards = num_shards

    def setup(self) -> None:
        """Opens the partitioned graph."""
        self._assembler = BlockAssembler(PartitionedGraph(self._partitions_dir, num_cached=1), self._plan)

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[tuple[tuple[int, int], WrittenBlock]]:
        """Writes a block; yields it by its shard, (position of the split, shard)."""
        nodes: dict[str, list[bytes]] = {}

        def add(answer: NodeAnswer) -> None:
            nodes.setdefault(answer.node_set, []).append(answer.rows)

        state = read_state(element[1], add, BlockState)
        block = self._assembler.assemble(state, nodes)
        records = SubgraphExampleEncoder(block.tables, self._plan, seed_features=block.seed_features).encode(
            block.subgraphs
        )
        statistics = SubgraphStatisticsBuilder()
        statistics.add(self._splits[state.block.split], block.subgraphs)
        key = state.block.split, state.block.shard(self._num_shards)
        written = write_block(self._examples_dir, records)
        count_progress("examples", len(records))
        yield key, (state.block.block, written, statistics.build())
