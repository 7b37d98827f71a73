"""Converts tables of many small graphs to graph-level examples: serialized tf.Examples in TF-GNN's layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.engine.edge_choice import expand_ranges
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledEdges, SampledNodes, SampledSubgraphs
from tfx_gnn.sampling.examples.graph_grouping import GroupedGraphs, group_graphs
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder, RecordSlices
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples, graph_level_layouts, make_graph_level_schema
from tfx_gnn.sampling.plan.seed_splits import UNUSED, SplitColumns, node_split_codes, select_split_columns
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport, check_dropped_share
from tfx_gnn.tables.schema_layouts import CONTEXT
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import Table, read_table
from tfx_gnn.tables.table_layout import ID_FEATURE

_GRAPHS_AT_ONCE = 1024

_Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphBatch:
    """Some graphs of one split, as records.

    Attributes:
        keys: uint64 array, shape [num_graphs], ascending: hashes of the graphs' ids.
        graphs: nodes and edges of the graphs; rows are positions in the columns of the
            tables.
        records: one serialized tf.Example per graph.
    """

    keys: npt.NDArray[np.uint64]
    graphs: SampledSubgraphs
    records: list[bytes]


class GraphLevelConverter:
    """Converts the table rows of some graphs to records.

    A record depends on the rows of its own graph only, not on other graphs.

    Attributes:
        schema: graph schema of the records.
        grouped: the graphs.
        num_unused: graphs that `SplitPlan.unused_values` excludes.
    """

    def __init__(
        self, tables: Mapping[str, Table], spec: GraphLevelExamples, tables_schema: GraphSchema, rules: RowRules
    ) -> None:
        """Divides tables, read by the layouts of `graph_level_layouts`, into graphs and finds the graphs' splits."""
        self.schema = make_graph_level_schema(tables_schema, spec)
        self.grouped: GroupedGraphs = group_graphs(tables, spec, tables_schema, rules)
        self._tables = tables
        context = tables.get(CONTEXT)
        columns = (
            select_split_columns(spec.splits, context, self.grouped.rows) if context is not None else SplitColumns()
        )
        self._split_codes = node_split_codes(spec.splits, codes=self.grouped.keys, columns=columns)
        self._split_names = spec.splits.names
        self.num_unused = int((self._split_codes == UNUSED).sum())

    @property
    def num_graphs(self) -> dict[str, int]:
        """Number of graphs by split, for all splits of the split plan."""
        return {name: int((self._split_codes == code).sum()) for code, name in enumerate(self._split_names)}

    def keys_of(self, split: str) -> npt.NDArray[np.uint64]:
        """Lists the keys of the graphs of a split, ascending: hashes of their ids."""
        return self.grouped.keys[self._graphs_of(split)]

    def convert(
        self, split: str, *, start: int = 0, stop: int | None = None, batch_size: int = _GRAPHS_AT_ONCE
    ) -> Iterator[GraphBatch]:
        """Yields the graphs of a split from position `start` to `stop`, in batches of at most `batch_size`.

        Graphs ascend by (key, row of the context table), over all batches.
        """
        graphs = self._graphs_of(split)[start:stop]
        for first in range(0, len(graphs), batch_size):
            chosen = graphs[first : first + batch_size]
            subgraphs = SampledSubgraphs(
                num_subgraphs=len(chosen),
                node_sets={name: _take_nodes(nodes, chosen) for name, nodes in self.grouped.node_sets.items()},
                edge_sets={name: _take_edges(edges, chosen) for name, edges in self.grouped.edge_sets.items()},
            )
            records = self._encode(subgraphs, chosen)
            yield GraphBatch(keys=self.grouped.keys[chosen], graphs=subgraphs, records=records)

    def _graphs_of(self, split: str) -> _Rows:
        return np.flatnonzero(self._split_codes == self._split_names.index(split))

    def _encode(self, graphs: SampledSubgraphs, chosen: _Rows) -> list[bytes]:
        columns: dict[str, pa.Array] = {}
        slices = RecordSlices(graphs.num_subgraphs)

        def add(key: str, column: pa.Array, rows: _Rows, splits: _Rows) -> None:
            # Only the rows of the batch are encoded, which bounds the memory.
            columns[key] = column.take(pa.array(rows))
            slices.columns[key] = np.arange(len(rows)), splits

        for feature in self.schema.context.features:
            if feature == ID_FEATURE:
                add(f"context/{feature}", self.grouped.ids, chosen, slices.one_each)
            else:
                add(f"context/{feature}", self._column(CONTEXT, feature), self.grouped.rows[chosen], slices.one_each)
        for name, node_set in self.schema.node_sets.items():
            nodes = graphs.node_sets[name]
            slices.add_nodes(name, nodes.splits)
            for feature in node_set.features:
                add(f"nodes/{name}.{feature}", self._column(f"nodes/{name}", feature), nodes.rows, nodes.splits)
        for name, edge_set in self.schema.edge_sets.items():
            edges = graphs.edge_sets[name]
            slices.add_edges(name, edges.sources, edges.targets, edges.splits)
            for feature in edge_set.features:
                add(f"edges/{name}.{feature}", self._column(f"edges/{name}", feature), edges.rows, edges.splits)
        return RecordEncoder(columns).encode(graphs.num_subgraphs, slices.columns, slices.integers)

    def _column(self, label: str, feature: str) -> pa.Array:
        indices = self.grouped.indices.get((label, feature))
        return self._tables[label].columns[feature] if indices is None else pa.array(indices)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLevelReport:
    """Counts of graphs and table rows.

    Attributes:
        num_graphs: by split, graphs.
        num_unused: graphs that `SplitPlan.unused_values` excludes.
        num_empty: graphs without nodes.
        tables: counts of rows read, used and dropped, by table label.
        problems: rows that were dropped.
    """

    num_graphs: Mapping[str, int]
    num_unused: int
    num_empty: int
    tables: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]


def convert_graph_level_examples(
    tables_dir: str,
    tables_schema: GraphSchema,
    spec: GraphLevelExamples,
    *,
    rules: RowRules | None = None,
    access: TableAccess | None = None,
) -> tuple[GraphLevelConverter, GraphLevelReport]:
    """Reads tables of many graphs into memory, and prepares to write each graph as a record.

    By default any row that breaks a rule is an error. `num_graphs` of the report names the splits to write.
    """
    rules = rules or RowRules()
    layouts = graph_level_layouts(tables_dir, tables_schema, spec, access=access)
    tables = {layout.label: read_table(layout, rules) for layout in layouts.all}
    converter = GraphLevelConverter(tables, spec, tables_schema, rules)
    grouped = converter.grouped
    for report in grouped.reports.values():
        check_dropped_share(report, rules)
    num_nodes = np.sum([np.diff(nodes.splits) for nodes in grouped.node_sets.values()], axis=0)
    return converter, GraphLevelReport(
        num_graphs=splits_with_graphs(converter.num_graphs, spec),
        num_unused=converter.num_unused,
        num_empty=int((num_nodes == 0).sum()),
        tables=grouped.reports,
        problems=grouped.problems,
    )


def splits_with_graphs(num_graphs: Mapping[str, int], spec: GraphLevelExamples) -> dict[str, int]:
    """Checks that splits have graphs, and leaves out empty splits that may be missing."""
    splits = {name: count for name, count in num_graphs.items() if count or not spec.splits.may_be_missing}
    empty = [name for name, count in splits.items() if not count]
    if not any(splits.values()) or (empty and not spec.splits.allows_empty_splits):
        raise ValueError(
            f"`splits` must give every split at least one graph; got {dict(num_graphs)}. "
            "Change the shares or bounds, or set `allows_empty_splits`."
        )
    return splits


def _take_nodes(nodes: SampledNodes, chosen: _Rows) -> SampledNodes:
    positions, splits = _ranges(nodes.splits, chosen)
    return SampledNodes(rows=nodes.rows[positions], splits=splits)


def _take_edges(edges: SampledEdges, chosen: _Rows) -> SampledEdges:
    positions, splits = _ranges(edges.splits, chosen)
    return SampledEdges(
        rows=edges.rows[positions],
        sources=edges.sources[positions],
        targets=edges.targets[positions],
        splits=splits,
    )


def _ranges(splits: _Rows, chosen: _Rows) -> tuple[_Rows, _Rows]:
    """Returns the concatenated positions of the chosen ranges, and where each range begins in them."""
    sizes = np.diff(splits)[chosen]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return expand_ranges(splits[chosen], sizes), starts
