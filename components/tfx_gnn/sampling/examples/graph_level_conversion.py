"""Converts tables of many small graphs to graph-level examples: serialized tf.Examples in TF-GNN's layout.

An example is a graph, or a pair of graphs: then it has a copy of every set and context feature for each side.
"""

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
from tfx_gnn.sampling.examples.pair_grouping import GroupedPairs, group_pairs
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder, RecordSlices
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_level_tables import graph_level_tables, make_graph_level_schema, schema_of_graphs
from tfx_gnn.sampling.plan.graph_pairs import PAIRS, name_on_side
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
    """Some graphs, or pairs, of one split, as records.

    Attributes:
        keys: uint64 array, shape [num_examples], ascending: hashes of the graphs' ids.
        graphs: nodes and edges of the examples; rows are positions in the columns of the
            tables.
        records: one serialized tf.Example per graph or pair.
    """

    keys: npt.NDArray[np.uint64]
    graphs: SampledSubgraphs
    records: list[bytes]


class _ToEncode:
    """Columns of a batch, and which of their rows belong to which record."""

    def __init__(self, num_records: int) -> None:
        self.columns: dict[str, pa.Array] = {}
        self.slices = RecordSlices(num_records)

    def add(self, key: str, column: pa.Array, rows: _Rows, splits: _Rows) -> None:
        # Only the rows of the batch are encoded, which bounds the memory.
        self.columns[key] = column.take(pa.array(rows))
        self.slices.columns[key] = np.arange(len(rows)), splits

    def add_one_each(self, key: str, column: pa.Array, rows: _Rows) -> None:
        self.add(key, column, rows, self.slices.one_each)


class GraphLevelConverter:
    """Converts the table rows of some graphs, or pairs of graphs, to records.

    A record depends on the rows of its own graphs only, not on other graphs.

    Attributes:
        schema: graph schema of the records.
        grouped: the graphs.
        pairs: the pairs, if these are the examples.
        num_unused: examples that `SplitPlan.unused_values` excludes, and pairs of graphs of different splits.
    """

    def __init__(
        self, tables: Mapping[str, Table], spec: GraphLevelExamples, tables_schema: GraphSchema, rules: RowRules
    ) -> None:
        """Divides tables, read by the layouts of `graph_level_layouts`, into graphs and finds the graphs' splits."""
        self.schema = make_graph_level_schema(tables_schema, spec)
        self._of_graph = schema_of_graphs(tables_schema, spec)
        of_graphs = {label: table for label, table in tables.items() if label != PAIRS}
        self.grouped: GroupedGraphs = group_graphs(of_graphs, spec, tables_schema, rules)
        self._tables = tables
        graph_codes = None if spec.is_split_by_pair else split_codes_of_graphs(tables, self.grouped, spec)
        self.pairs: GroupedPairs | None = None
        # Positions of the graphs of each example, by the beginning of the names of their sets.
        self._graphs: dict[str, _Rows] = {"": np.arange(self.grouped.num_graphs)}
        if spec.pairs is not None:
            self.pairs = group_pairs(tables[PAIRS], self.grouped, spec, rules, graph_split_codes=graph_codes)
            left, right = (name_on_side(side, "") for side in spec.pairs.sides)
            self._graphs = {left: self.pairs.left, right: self.pairs.right}
            self._pair_features = [name for name in spec.pairs.features if name in self.schema.context.features]
        self._keys = self.grouped.keys if self.pairs is None else self.pairs.keys
        codes = graph_codes if self.pairs is None else self.pairs.split_codes
        assert codes is not None
        self._split_codes = codes
        self._split_names = spec.splits.names
        self.num_unused = int((self._split_codes == UNUSED).sum())

    @property
    def reports(self) -> dict[str, TableReport]:
        """Counts of rows read, used and dropped, by table label."""
        of_pairs = {} if self.pairs is None else {PAIRS: self.pairs.report}
        return {**self.grouped.reports, **of_pairs}

    @property
    def problems(self) -> tuple[RowProblem, ...]:
        """Rows that were dropped, table by table."""
        return self.grouped.problems if self.pairs is None else (*self.grouped.problems, *self.pairs.problems)

    @property
    def num_graphs(self) -> dict[str, int]:
        """Number of graphs or pairs by split, for all splits of the split plan."""
        return {name: int((self._split_codes == code).sum()) for code, name in enumerate(self._split_names)}

    def keys_of(self, split: str) -> npt.NDArray[np.uint64]:
        """Lists the keys of the examples of a split, ascending: hashes of the ids of their graphs."""
        return self._keys[self._examples_of(split)]

    def convert(
        self, split: str, *, start: int = 0, stop: int | None = None, batch_size: int = _GRAPHS_AT_ONCE
    ) -> Iterator[GraphBatch]:
        """Yields the examples of a split from position `start` to `stop`, in batches of at most `batch_size`.

        Examples ascend by (key, row of the context table or table of pairs), over all batches.
        """
        examples = self._examples_of(split)[start:stop]
        for first in range(0, len(examples), batch_size):
            chosen = examples[first : first + batch_size]
            graphs = {prefix: of_examples[chosen] for prefix, of_examples in self._graphs.items()}
            subgraphs = SampledSubgraphs(
                num_subgraphs=len(chosen),
                node_sets={
                    prefix + name: _take_nodes(nodes, of_side)
                    for prefix, of_side in graphs.items()
                    for name, nodes in self.grouped.node_sets.items()
                },
                edge_sets={
                    prefix + name: _take_edges(edges, of_side)
                    for prefix, of_side in graphs.items()
                    for name, edges in self.grouped.edge_sets.items()
                },
            )
            records = self._encode(subgraphs, chosen, graphs)
            yield GraphBatch(keys=self._keys[chosen], graphs=subgraphs, records=records)

    def _examples_of(self, split: str) -> _Rows:
        return np.flatnonzero(self._split_codes == self._split_names.index(split))

    def _encode(self, subgraphs: SampledSubgraphs, chosen: _Rows, graphs: Mapping[str, _Rows]) -> list[bytes]:
        to_encode = _ToEncode(subgraphs.num_subgraphs)
        if self.pairs is None:
            to_encode.add_one_each(f"context/{ID_FEATURE}", self.grouped.ids, chosen)
        else:
            to_encode.add_one_each(f"context/{ID_FEATURE}", self.pairs.ids, chosen)
            for feature in self._pair_features:
                to_encode.add_one_each(
                    f"context/{feature}", self._tables[PAIRS].columns[feature], self.pairs.rows[chosen]
                )
        for prefix, of_side in graphs.items():
            self._add_graphs(to_encode, subgraphs, prefix, of_side)
        encoder = RecordEncoder(to_encode.columns)
        return encoder.encode(subgraphs.num_subgraphs, to_encode.slices.columns, to_encode.slices.integers)

    def _add_graphs(self, to_encode: _ToEncode, subgraphs: SampledSubgraphs, prefix: str, graphs: _Rows) -> None:
        """Adds one graph of each example."""
        for feature in self._of_graph.context.features:
            if feature != ID_FEATURE:
                column = self._column(CONTEXT, feature)
                to_encode.add_one_each(f"context/{prefix}{feature}", column, self.grouped.rows[graphs])
        for name, node_set in self._of_graph.node_sets.items():
            nodes = subgraphs.node_sets[prefix + name]
            to_encode.slices.add_nodes(prefix + name, nodes.splits)
            for feature in node_set.features:
                column = self._column(f"nodes/{name}", feature)
                to_encode.add(f"nodes/{prefix}{name}.{feature}", column, nodes.rows, nodes.splits)
        for name, edge_set in self._of_graph.edge_sets.items():
            edges = subgraphs.edge_sets[prefix + name]
            to_encode.slices.add_edges(prefix + name, edges.sources, edges.targets, edges.splits)
            for feature in edge_set.features:
                column = self._column(f"edges/{name}", feature)
                to_encode.add(f"edges/{prefix}{name}.{feature}", column, edges.rows, edges.splits)

    def _column(self, label: str, feature: str) -> pa.Array:
        indices = self.grouped.indices.get((label, feature))
        return self._tables[label].columns[feature] if indices is None else pa.array(indices)


def split_codes_of_graphs(
    tables: Mapping[str, Table], graphs: GroupedGraphs, spec: GraphLevelExamples
) -> npt.NDArray[np.int16]:
    """Finds the split of each graph: its position in the names of splits, or `UNUSED`."""
    context = tables.get(CONTEXT)
    columns = SplitColumns() if context is None else select_split_columns(spec.splits, context, graphs.rows)
    return node_split_codes(spec.splits, codes=graphs.keys, columns=columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLevelReport:
    """Counts of examples and table rows.

    Attributes:
        num_graphs: by split, graphs; or pairs, if these are the examples.
        num_unused: examples that `SplitPlan.unused_values` excludes, and pairs of graphs of different splits.
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
    """Reads tables of many graphs into memory, and prepares to write each graph, or each pair, as a record.

    By default any row that breaks a rule is an error. `num_graphs` of the report names the splits to write.
    """
    rules = rules or RowRules()
    layouts = graph_level_tables(tables_dir, tables_schema, spec, access=access)
    tables = {layout.label: read_table(layout, rules) for layout in layouts}
    converter = GraphLevelConverter(tables, spec, tables_schema, rules)
    for report in converter.reports.values():
        check_dropped_share(report, rules)
    return converter, GraphLevelReport(
        num_graphs=splits_with_graphs(converter.num_graphs, spec),
        num_unused=converter.num_unused,
        num_empty=converter.grouped.num_empty,
        tables=converter.reports,
        problems=converter.problems,
    )


def splits_with_graphs(num_graphs: Mapping[str, int], spec: GraphLevelExamples) -> dict[str, int]:
    """Checks that splits have graphs, or pairs, and leaves out empty splits that may be missing."""
    splits = {name: count for name, count in num_graphs.items() if count or not spec.splits.may_be_missing}
    empty = [name for name, count in splits.items() if not count]
    if not any(splits.values()) or (empty and not spec.splits.allows_empty_splits):
        what = "graph" if spec.pairs is None else "pair"
        raise ValueError(
            f"`splits` must give every split at least one {what}; got {dict(num_graphs)}. "
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
