"""Builds a graph index from tables, in memory that does not grow with the number of edges."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.column_files import ColumnWriter, FileRecord, MappedFiles, ValuesWriter
from tfx_gnn.sampling.index.external_sort import find_repeated_edges, row_dtype
from tfx_gnn.sampling.index.files import IndexManifest, TableEntry
from tfx_gnn.sampling.index.index_writer import IndexWriter, pieces_of, positions_in_chunks
from tfx_gnn.sampling.index.node_lookup import NodeLookup, open_lookup
from tfx_gnn.tables.graph_checks import check_nodes
from tfx_gnn.tables.graph_tables import check_context_rows, check_edge_times
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    DANGLING_TARGET,
    RowProblem,
    RowRules,
    TableReport,
    check_used_edges,
    dangling_edge_problem,
    duplicate_edge_problem,
    refusal,
)
from tfx_gnn.tables.schema_layouts import TableLayouts
from tfx_gnn.tables.table_files import Table, TableBlock, TableScan, TableUnit, no_records, read_table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout

_ROWS = "rows"
DANGLING = {SOURCE_KEY: DANGLING_SOURCE, TARGET_KEY: DANGLING_TARGET}
"""The rule that an edge breaks whose end by a key is no node, in the order in which ends are checked."""

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltIndex:
    """What a build wrote.

    Attributes:
        manifest: what the index consists of.
        problems: rows that were dropped, table by table.
    """

    manifest: IndexManifest
    problems: tuple[RowProblem, ...]


def write_graph_index(
    folder: str,
    schema: GraphSchema,
    layouts: TableLayouts,
    *,
    rules: RowRules | None = None,
    edge_times: Mapping[str, str] | None = None,
) -> BuiltIndex:
    """Writes the files of a graph index into an empty folder on a local disk.

    Tables are read once, block by block. In memory are the ids of one node set, twice, with 16 bytes for each of its
    nodes; or 16 bytes for each node at one end of an edge set; and always the rows that are dropped. Temporary files
    in the folder take about as much room as one table. They are removed at the end.

    Args:
        folder: where to write.
        schema: schema of the tables.
        layouts: the tables; they include the node sets at the ends of edge sets.
        rules: what to do with rows that break a rule; by default any such row is an error.
        edge_times: see `read_tables`.

    Returns:
        The manifest, which is in the folder, too, and the rows that were dropped.

    Raises:
        ValueError: if a table breaks a rule, as in `read_tables`.
    """
    check_tables_of_index(layouts, edge_times or {})
    builder = _Builder(folder, schema, rules or RowRules(), edge_times or {})
    node_sets = {name: builder.write_nodes(layout) for name, layout in layouts.node_sets.items()}
    edge_sets = {name: builder.write_edges(layout) for name, layout in layouts.edge_sets.items()}
    context = None if layouts.context is None else builder.write_context(layouts.context)
    manifest = builder.writer.finish(schema, node_sets=node_sets, edge_sets=edge_sets, context=context)
    return BuiltIndex(manifest=manifest, problems=tuple(builder.problems))


def check_tables_of_index(layouts: TableLayouts, edge_times: Mapping[str, str]) -> None:
    """Refuses tables that no index can be built from, and times of edges as in `check_edge_times`."""
    for layout in layouts.all:
        if layout.bigquery is not None:
            raise ValueError(
                f"`metadata.filename` must name the files of a table for a graph index; got `metadata.bigquery` for "
                f"{layout.label}. Export the table (EXPORT DATA, as Parquet) and name its files."
            )
    check_edge_times(layouts, edge_times)


class _Builder:
    """Writes one table after the other, node tables first."""

    def __init__(self, folder: str, schema: GraphSchema, rules: RowRules, edge_times: Mapping[str, str]) -> None:
        self._schema = schema
        self._rules = rules
        self._edge_times = edge_times
        self._layouts: dict[str, TableLayout] = {}
        self._nodes: dict[str, TableEntry] = {}
        self.writer = IndexWriter(folder)
        self.problems: list[RowProblem] = []

    def write_nodes(self, layout: TableLayout) -> TableEntry:
        name = layout.name
        table = self._spool(layout)
        checked = check_nodes(table, self._rules)
        self.problems += checked.problems
        for key, column in table.columns.items():
            place = files.nodes_file(name, key) if key == ID_FEATURE else files.nodes_file(name, "column", key)
            self.writer.write_column(place, column, pieces_of(checked.positions))
        self._layouts[name] = layout
        self._nodes[name] = TableEntry(
            path=layout.declared_as,
            num_rows=len(checked.positions),
            columns={key: column.type for key, column in table.columns.items()},
            report=checked.report,
        )
        del table, checked
        self.writer.clear_scratch()
        self.writer.write_codes(name, self._ids(name), layout.label)
        return self._nodes[name]

    def write_edges(self, layout: TableLayout) -> TableEntry:
        name, edge_set = layout.name, self._schema.edge_sets[layout.name]
        sets = {SOURCE_KEY: edge_set.source, TARGET_KEY: edge_set.target}
        edges = _SpooledEdges(layout, self._rules, self.writer.scratch, self._ends(sets))
        if edges.scanned.rows_read:
            for end in sets.values():
                if not self._nodes[end].report.rows_read:
                    raise no_records(self._layouts[end])
        dropped, report = self._check_edges(layout, edges, sets)
        has_gaps = report.rows_used < report.rows_read
        num_rows = len(edges.values[_ROWS])
        for key, column in edges.columns.items():
            self.writer.write_column(
                files.edges_file(name, "column", key), column, positions_in_chunks(num_rows, dropped)
            )
        for key in sets:
            values = edges.values[key]
            self.writer.write_ends(
                name, key, values.dtype, (values[rows] for rows in positions_in_chunks(num_rows, dropped))
            )
        if has_gaps:
            self.writer.write_rows(name, (edges.values[_ROWS][rows] for rows in positions_in_chunks(num_rows, dropped)))
        types = {key: column.type for key, column in edges.columns.items()}
        del edges
        self.writer.clear_scratch()
        num_nodes = {key: self._nodes[end].num_rows for key, end in sets.items()}
        self.writer.write_edges_by_node(name, num_nodes, has_gaps=has_gaps)
        return TableEntry(
            path=layout.declared_as,
            num_rows=report.rows_used,
            columns=types,
            report=report,
            has_gaps=has_gaps,
            edge_time=self._edge_times.get(name, ""),
            duplicate_edges=self._rules.duplicate_edges,
        )

    def write_context(self, layout: TableLayout) -> TableEntry:
        table = read_table(layout, self._rules)
        check_context_rows(layout, table.num_rows)
        self.problems += table.problems
        for key, column in table.columns.items():
            self.writer.write_column(files.context_file(key), column, positions_in_chunks(table.num_rows))
        return TableEntry(
            path=layout.declared_as,
            num_rows=table.num_rows,
            columns={key: column.type for key, column in table.columns.items()},
            report=table.report,
        )

    def _spool(self, layout: TableLayout) -> Table:
        """Reads a table into temporary files, and returns it as if it was in memory."""
        scan = TableScan(layout, self._rules)
        spool = _Spool(self.writer.scratch, {key: column.arrow_type for key, column in layout.columns.items()})
        for block, rows in scan.blocks():
            spool.append(block.columns, {_ROWS: rows})
        columns, values = spool.finish()
        return Table(
            layout=layout,
            columns=columns,
            rows=values[_ROWS],
            units=scan.units,
            unit_starts=scan.unit_starts,
            report=scan.report(),
            problems=tuple(scan.problems),
        )

    def _check_edges(
        self, layout: TableLayout, edges: _SpooledEdges, sets: Mapping[str, str]
    ) -> tuple[_Integers, TableReport]:
        """Finds repeated edges and counts all rows.

        Returns the positions of the edges to drop, ascending.
        """
        sources, targets = edges.values[SOURCE_KEY], edges.values[TARGET_KEY]
        time = self._edge_times.get(layout.name, "")
        found = find_repeated_edges(
            sources,
            targets,
            num_targets=max(self._nodes[sets[TARGET_KEY]].num_rows, 1),
            scratch=self.writer.scratch,
            times=edges.columns[time].to_numpy() if time else None,
        )
        dropped = np.zeros(0, np.int64)
        if self._rules.duplicate_edges == "keep":
            num_again = sum(len(positions) for positions in found)
        else:
            dropped = np.sort(np.concatenate([dropped, *found]))
            num_again = len(dropped)
            if num_again:
                edges.note_repeated(dropped, self._ends(sets), time, refuse=self._rules.duplicate_edges == "refuse")
        num_used = len(sources) - len(dropped)
        self.problems += edges.problems
        is_one_set = sets[SOURCE_KEY] == sets[TARGET_KEY]
        report = dataclasses.replace(
            edges.scanned,
            rows_used=num_used,
            dropped=dict(collections.Counter(problem.rule for problem in edges.problems)),
            duplicate_edges=num_again,
            self_loops=_count_equal(sources, targets, dropped) if is_one_set else 0,
        )
        check_used_edges(report, self._rules, edges.problems[0].dropped_message if edges.problems else "")
        return dropped, report

    def _ends(self, sets: Mapping[str, str]) -> dict[str, _End]:
        return {
            key: _End(node_set, self._nodes[node_set].path, self._ids(node_set), self._lookup(node_set))
            for key, node_set in sets.items()
        }

    def _ids(self, node_set: str) -> pa.Array:
        return self.writer.ids_of(node_set, self._nodes[node_set])

    def _lookup(self, node_set: str) -> NodeLookup:
        return open_lookup(self.writer.mapped(), node_set, self._ids(node_set))


@dataclasses.dataclass(frozen=True)
class _End:
    """The nodes at one end of an edge set."""

    node_set: str
    path: str
    ids: pa.Array
    lookup: NodeLookup


class _Spool:
    """Columns in temporary files: those of a table, and arrays of integers."""

    def __init__(
        self, folder: str, types: Mapping[str, pa.DataType], dtypes: Mapping[str, npt.DTypeLike] | None = None
    ) -> None:
        self._folder = folder
        self._types = types
        self._columns = {
            key: ColumnWriter(folder, f"column-{number}", dtype) for number, (key, dtype) in enumerate(types.items())
        }
        self._values = {
            key: ValuesWriter(folder, f"values-{number}", dtype)
            for number, (key, dtype) in enumerate({_ROWS: np.int64, **(dtypes or {})}.items())
        }
        self._num_rows = 0

    def append(self, columns: Mapping[str, pa.Array], values: Mapping[str, npt.NDArray[Any]]) -> None:
        for key, writer in self._columns.items():
            writer.append(columns[key])
        for key, of_values in self._values.items():
            of_values.append(values[key])
        self._num_rows += len(values[_ROWS])

    def finish(self) -> tuple[dict[str, pa.Array], dict[str, npt.NDArray[Any]]]:
        records: dict[str, FileRecord] = {}
        for column in self._columns.values():
            records.update(column.finish())
        for of_values in self._values.values():
            records.update(of_values.finish())
        mapped = MappedFiles(self._folder, records)
        columns = {
            key: mapped.column(f"column-{number}", dtype, self._num_rows)
            for number, (key, dtype) in enumerate(self._types.items())
        }
        return columns, {key: mapped.values(writer.name) for key, writer in self._values.items()}


class _SpooledEdges:
    """An edge table in temporary files, with the rows of its ends in place of their ids, without dangling edges.

    Attributes:
        scanned: counts of the rows by themselves.
        problems: rows that were dropped.
        columns: features.
        values: the rows of both ends by key, and the rows of the edges in the table as written.
    """

    def __init__(self, layout: TableLayout, rules: RowRules, scratch: str, ends: Mapping[str, _End]) -> None:
        self._layout = layout
        self._refuses = rules.dangling_edges == "refuse"
        self._refused: dict[str, tuple[RowProblem, int]] = {}
        self._dangling: list[RowProblem] = []
        self._scan = scan = TableScan(layout, rules)
        types = {
            key: column.arrow_type for key, column in layout.columns.items() if key not in (SOURCE_KEY, TARGET_KEY)
        }
        spool = _Spool(scratch, types, {key: row_dtype(len(end.ids)) for key, end in ends.items()})
        for block, rows in scan.blocks():
            found = {key: end.lookup.find(block.columns[key]) for key, end in ends.items()}
            is_used = np.ones(len(rows), np.bool_)
            for key in DANGLING:
                dangling = np.flatnonzero((found[key] < 0) & is_used)
                is_used[dangling] = False
                if len(dangling):
                    self._note_dangling(key, block, dangling, ends[key])
            columns = {key: block.columns[key] for key in types}
            if not is_used.all():
                columns = {key: column.filter(pa.array(is_used)) for key, column in columns.items()}
                found = {key: of_end[is_used] for key, of_end in found.items()}
                rows = rows[is_used]
            spool.append(columns, found | {_ROWS: rows})
        self.scanned = scan.report()
        for key in DANGLING:
            if key in self._refused:
                raise refusal(*self._refused[key])
        self.problems = [*scan.problems, *self._dangling]
        self.columns, self.values = spool.finish()

    def _note_dangling(self, key: str, block: TableBlock, dangling: _Integers, end: _End) -> None:
        if self._refuses and key in self._refused:
            problem, count = self._refused[key]
            self._refused[key] = problem, count + len(dangling)
            return
        shown = dangling[:1] if self._refuses else dangling
        problems = describe_dangling(
            self._layout,
            self._scan.units[block.unit],
            key,
            rows=block.rows[shown],
            ids=block.columns[key].take(pa.array(shown)),
            node_set=end.node_set,
            node_file=end.path,
        )
        if self._refuses:
            self._refused[key] = problems[0], len(dangling)
        else:
            self._dangling += problems

    def note_repeated(self, again: _Integers, ends: Mapping[str, _End], time: str, *, refuse: bool) -> None:
        """Adds the problems of repeated edges at ascending positions, or raises the first."""
        shown = again[:1] if refuse else again
        table = Table(
            layout=self._layout,
            columns={},
            rows=self.values[_ROWS],
            units=self._scan.units,
            unit_starts=self._scan.unit_starts,
            report=self.scanned,
            problems=(),
        )
        for (file, number), position in zip(table.locate(table.rows[shown]), shown.tolist(), strict=True):
            value = tuple(end.ids[int(self.values[key][position])].as_py() for key, end in ends.items())
            problem = duplicate_edge_problem(
                table=self._layout.label,
                file=file,
                row=number,
                row_word=table_format(self._layout).row_word,
                value=(*value, self.columns[time][position].as_py()) if time else value,
            )
            if refuse:
                raise refusal(problem, len(again))
            self.problems.append(problem)


def describe_dangling(
    layout: TableLayout,
    unit: TableUnit,
    key: str,
    *,
    rows: _Integers,
    ids: pa.Array,
    node_set: str,
    node_file: str,
) -> list[RowProblem]:
    """Describes edges, at ascending rows of a unit, whose ends by a key have these ids, which no node has."""
    reader = table_format(layout)
    return [
        dangling_edge_problem(
            table=layout.label,
            file=unit.path,
            row=number,
            row_word=reader.row_word,
            rule=DANGLING[key],
            column=layout.columns[key].name,
            node_set=node_set,
            node_file=node_file,
            value=node_id,
        )
        for number, node_id in zip(reader.locate(unit.path, unit.part, rows.tolist()), ids.to_pylist(), strict=True)
    ]


def _count_equal(sources: npt.NDArray[Any], targets: npt.NDArray[Any], dropped: _Integers) -> int:
    return sum(int((sources[rows] == targets[rows]).sum()) for rows in positions_in_chunks(len(sources), dropped))
