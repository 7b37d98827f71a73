"""Divides tables of many graphs into the graphs, and checks that no edge leaves its graph.

These are pure functions of whole tables, or of the rows that belong to some of the graphs.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.sampling.engine.sampled_subgraphs import SampledEdges, SampledNodes
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.seed_splits import place_of_row
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables import row_rules
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport, show_value
from tfx_gnn.tables.schema_layouts import CONTEXT
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY

_Rows = npt.NDArray[np.int64]

ABSENT = -1
"""Position of what is not there."""

MakeProblem = Callable[[int, dict[str, Any]], RowProblem]
"""Describes the row at a position; the dictionary says where it is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupedGraphs:
    """Graphs, ascending by (key, row).

    Attributes:
        ids: large_string array, shape [num_graphs].
        keys: uint64 array, shape [num_graphs]: hashes of the ids.
        rows: int64 array, shape [num_graphs]: positions in the columns of the context
            table; without one, positions in `ids`.
        node_sets: by node set; `SampledNodes.rows` are positions in the columns of the
            node table, ascending in each graph.
        edge_sets: by edge set, likewise.
        indices: by table label and name of a feature that holds indices of nodes, int64 arrays of the length of the
            table: the position of each row's node in its graph, or -1.
        reports: counts of rows read, used and dropped, by table label.
        problems: rows that were dropped, table by table.
    """

    ids: pa.Array
    keys: npt.NDArray[np.uint64]
    rows: _Rows
    node_sets: Mapping[str, SampledNodes]
    edge_sets: Mapping[str, SampledEdges]
    indices: Mapping[tuple[str, str], _Rows]
    reports: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.keys)

    @property
    def num_empty(self) -> int:
        """Number of graphs without nodes."""
        num_nodes = np.sum([np.diff(nodes.splits) for nodes in self.node_sets.values()], axis=0)
        return int((num_nodes == 0).sum())


def group_graphs(
    tables: Mapping[str, Table], spec: GraphLevelExamples, schema: GraphSchema, rules: RowRules
) -> GroupedGraphs:
    """Divides tables, given by label, into graphs; they hold all rows of their graphs, in the order of the tables.

    The rule `dangling_edges` also applies to nodes and edges of graphs that the context
    table lacks; `duplicate_nodes` also applies to graphs. The caller, which sees all
    graphs, checks how many rows were dropped.
    """
    grouping = _Grouping(tables, spec, rules)
    nodes = {name: grouping.find_nodes(name) for name in sorted(schema.node_sets)}
    grouping.refuse_empty_graphs(np.sum([np.diff(of_set.sampled.splits) for of_set in nodes.values()], axis=0))
    edges = {
        name: grouping.find_edges(name, edge_set.source, edge_set.target, nodes)
        for name, edge_set in sorted(schema.edge_sets.items())
    }
    return GroupedGraphs(
        ids=grouping.ids,
        keys=hash_ids(grouping.ids),
        rows=grouping.rows,
        node_sets={name: of_set.sampled for name, of_set in nodes.items()},
        edge_sets=edges,
        indices={
            (label, feature): grouping.find_indices(label, feature, str(node_set), nodes)
            for label, by_feature in index_features(schema).items()
            for feature, node_set in by_feature.items()
            if label in tables
        },
        reports=grouping.reports,
        problems=tuple(grouping.problems),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Nodes:
    """Nodes of one set, searchable by graph and id."""

    sampled: SampledNodes
    distinct_ids: pa.Array
    keys: _Rows  # graph * number of distinct ids + position of the id in them, ascending
    places: _Rows  # position of each node in its graph
    path: str

    def places_of(self, graphs: _Rows, ids: pa.Array) -> _Rows:
        """Returns positions in the graphs; -1 for nodes that the graphs do not have."""
        if not len(self.keys):
            return np.full(len(graphs), ABSENT, np.int64)
        numbers = positions_of(ids, self.distinct_ids)
        keys = graphs * len(self.distinct_ids) + numbers
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_there = (numbers != ABSENT) & (graphs != ABSENT) & (self.keys[found] == keys)
        return np.where(is_there, self.places[found], ABSENT)


class RowCheck:
    """Drops or refuses rows of one table, check after check."""

    def __init__(self, table: Table) -> None:
        self.is_used = np.ones(table.num_rows, np.bool_)
        self.problems: list[RowProblem] = []
        self._table = table

    def apply(self, is_wrong: npt.NDArray[np.bool_], make: MakeProblem, *, refuse: bool) -> None:
        """Drops or refuses wrong rows that no earlier check dropped; `make` describes a row by position and place."""
        positions = np.flatnonzero(is_wrong & self.is_used)
        shown = positions[:1] if refuse else positions
        table = self._table
        row_word = table_format(table.layout).row_word
        for position, (file, row) in zip(shown.tolist(), table.locate(table.rows[shown]), strict=True):
            place = {"table": table.layout.label, "file": file, "row": row, "row_word": row_word}
            self.problems.append(make(position, place))
        if refuse and len(positions):
            count = f" It is one of {len(positions)} such rows." if len(positions) > 1 else ""
            raise ValueError(self.problems[-1].message + count)
        self.is_used[positions] = False

    def report(self, *, duplicate_edges: int = 0, self_loops: int = 0) -> TableReport:
        """Counts the rows, those that were dropped on reading included."""
        problems = (*self._table.problems, *self.problems)
        return TableReport(
            table=self._table.layout.label,
            rows_read=self._table.report.rows_read,
            rows_used=int(self.is_used.sum()),
            dropped=dict(collections.Counter(problem.rule for problem in problems)),
            duplicate_edges=duplicate_edges,
            self_loops=self_loops,
        )


class _Grouping:
    """Groups the tables one by one and collects reports and problems of their rows."""

    def __init__(self, tables: Mapping[str, Table], spec: GraphLevelExamples, rules: RowRules) -> None:
        self._tables = tables
        self._spec = spec
        self._id_key = EXTRA_PREFIX + spec.graph_id_column
        self._rules = rules
        self.reports: dict[str, TableReport] = {}
        self.problems: list[RowProblem] = []
        self._is_used: dict[str, npt.NDArray[np.bool_]] = {}
        ids, rows = self._find_graphs()
        order = np.lexsort((rows, hash_ids(ids)))
        self.ids = ids.take(pa.array(order))
        self.rows = rows[order]

    def find_nodes(self, name: str) -> _Nodes:
        table = self._tables[f"nodes/{name}"]
        check = RowCheck(table)
        graphs = self._graphs_of(table, check)
        ids = table.columns[ID_FEATURE]
        distinct_ids = pc.unique(ids)
        numbers = positions_of(ids, distinct_ids)

        def repeated(position: int, place: dict[str, Any]) -> RowProblem:
            problem = row_rules.duplicate_node_problem(
                column=table.layout.columns[ID_FEATURE].name, value=ids[position].as_py(), **place
            )
            return dataclasses.replace(
                problem,
                requirement="be different in every record of a graph",
                value=f"{problem.value} in graph {self._graph_id(table, position)}",
            )

        is_repeated = is_again([graphs, numbers], check.is_used)
        check.apply(is_repeated, repeated, refuse=self._rules.duplicate_nodes == "refuse")
        self._gather(check, check.report())
        rows, splits = self._by_graph(graphs, check.is_used)
        places = np.arange(len(rows)) - np.repeat(splits[:-1], np.diff(splits))
        keys = graphs[rows] * len(distinct_ids) + numbers[rows]
        order = np.argsort(keys)
        return _Nodes(
            sampled=SampledNodes(rows=rows, splits=splits),
            distinct_ids=distinct_ids,
            keys=keys[order],
            places=places[order],
            path=table.layout.declared_as,
        )

    def find_edges(self, name: str, source_set: str, target_set: str, nodes: Mapping[str, _Nodes]) -> SampledEdges:
        table = self._tables[f"edges/{name}"]
        check = RowCheck(table)
        graphs = self._graphs_of(table, check)
        ends = {}
        for key, node_set, rule in (
            (SOURCE_KEY, source_set, row_rules.DANGLING_SOURCE),
            (TARGET_KEY, target_set, row_rules.DANGLING_TARGET),
        ):
            ends[key] = nodes[node_set].places_of(graphs, table.columns[key])
            check.apply(
                ends[key] == ABSENT,
                self._dangling(table, key, rule, node_set, nodes[node_set].path),
                refuse=self._rules.dangling_edges == "refuse",
            )
        is_repeated = is_again([graphs, *ends.values()], check.is_used)
        if self._rules.duplicate_edges != "keep":
            check.apply(is_repeated, self._repeated_edge(table), refuse=self._rules.duplicate_edges == "refuse")
        is_loop = (ends[SOURCE_KEY] == ends[TARGET_KEY]) & check.is_used & (source_set == target_set)
        self._gather(check, check.report(duplicate_edges=int(is_repeated.sum()), self_loops=int(is_loop.sum())))
        rows, splits = self._by_graph(graphs, check.is_used)
        return SampledEdges(rows=rows, sources=ends[SOURCE_KEY][rows], targets=ends[TARGET_KEY][rows], splits=splits)

    def find_indices(self, label: str, feature: str, node_set: str, nodes: Mapping[str, _Nodes]) -> _Rows:
        """Finds the nodes that a column names, each in the graph of its row; refuses names of others in used rows."""
        table = self._tables[label]
        ids = table.columns[feature]
        graphs = positions_of(table.columns[self._id_key], self.ids)
        places = nodes[node_set].places_of(graphs, ids)
        is_wrong = (places == ABSENT) & self._is_used[label] & ~_names_no_node(ids)

        def unknown(position: int, place: dict[str, Any]) -> RowProblem:
            return RowProblem(
                rule=row_rules.UNKNOWN_NODE,
                column=table.layout.columns[feature].name,
                requirement=f"name a node of {node_set!r} ({nodes[node_set].path}) of the row's own graph",
                value=f"{show_value(ids[position].as_py())} in graph {self._graph_id(table, position)}",
                advice="Add the node, or leave the cell empty for no node.",
                **place,
            )

        RowCheck(table).apply(is_wrong, unknown, refuse=True)
        return places

    def refuse_empty_graphs(self, num_nodes: npt.NDArray[np.int64]) -> None:
        empty = np.flatnonzero(num_nodes == 0)
        if not len(empty) or self._spec.allows_empty_graphs:
            return
        graph = empty[np.argmin(self.rows[empty])]
        context = self._tables[CONTEXT]
        row = int(self.rows[graph])
        raise ValueError(
            f"`{self._spec.graph_id_column}` must name a graph that has nodes; got {self.ids[int(graph)].as_py()!r} in "
            f"{place_of_row(context, row)}, one of {len(empty)} graphs without any. "
            "Add their nodes, remove the graphs, or set `allows_empty_graphs`."
        )

    def _find_graphs(self) -> tuple[pa.Array, _Rows]:
        context = self._tables.get(CONTEXT)
        if context is None:
            columns = [
                self._tables[label].columns[self._id_key]
                for label in sorted(self._tables)
                if label.startswith("nodes/")
            ]
            ids = pc.unique(pa.chunked_array(columns, pa.large_string()))
            return ids, np.arange(len(ids), dtype=np.int64)
        check = RowCheck(context)
        ids = context.columns[self._id_key]

        def repeated(position: int, place: dict[str, Any]) -> RowProblem:
            column = self._spec.graph_id_column
            return row_rules.duplicate_node_problem(column=column, value=ids[position].as_py(), **place)

        is_repeated = is_again([positions_of(ids, pc.unique(ids))], check.is_used)
        check.apply(is_repeated, repeated, refuse=self._rules.duplicate_nodes == "refuse")
        self._gather(check, check.report())
        rows = np.flatnonzero(check.is_used).astype(np.int64)
        return ids.take(pa.array(rows)), rows

    def _graphs_of(self, table: Table, check: RowCheck) -> _Rows:
        graphs = positions_of(table.columns[self._id_key], self.ids)
        where = "of the context table" if CONTEXT in self._tables else "that has nodes"

        def unknown(position: int, place: dict[str, Any]) -> RowProblem:
            return RowProblem(
                rule=row_rules.UNKNOWN_GRAPH,
                column=self._spec.graph_id_column,
                requirement=f"name a graph {where}",
                value=self._graph_id(table, position),
                advice="Add the graph or remove its rows.",
                option="drop them by dangling_edges",
                **place,
            )

        check.apply(graphs == ABSENT, unknown, refuse=self._rules.dangling_edges == "refuse")
        return graphs

    def _dangling(self, table: Table, key: str, rule: str, node_set: str, path: str) -> MakeProblem:
        def dangling(position: int, place: dict[str, Any]) -> RowProblem:
            problem = row_rules.dangling_edge_problem(
                rule=rule,
                column=table.layout.columns[key].name,
                node_set=node_set,
                node_file=path,
                value=table.columns[key][position].as_py(),
                **place,
            )
            return dataclasses.replace(
                problem,
                requirement=f"{problem.requirement} of the edge's own graph",
                value=f"{problem.value} in graph {self._graph_id(table, position)}",
            )

        return dangling

    def _repeated_edge(self, table: Table) -> MakeProblem:
        def repeated(position: int, place: dict[str, Any]) -> RowProblem:
            ends = tuple(table.columns[key][position].as_py() for key in (SOURCE_KEY, TARGET_KEY))
            problem = row_rules.duplicate_edge_problem(value=ends, **place)
            return dataclasses.replace(problem, value=f"{problem.value} in graph {self._graph_id(table, position)}")

        return repeated

    def _graph_id(self, table: Table, position: int) -> str:
        return show_value(table.columns[self._id_key][position].as_py())

    def _by_graph(self, graphs: _Rows, is_used: npt.NDArray[np.bool_]) -> tuple[_Rows, _Rows]:
        """Returns the used positions, sorted by graph, and where each graph starts."""
        used = np.flatnonzero(is_used).astype(np.int64)
        rows = used[np.argsort(graphs[used], kind="stable")]
        splits = np.searchsorted(graphs[rows], np.arange(len(self.ids) + 1)).astype(np.int64)
        return rows, splits

    def _gather(self, check: RowCheck, report: TableReport) -> None:
        self.reports[report.table] = report
        self._is_used[report.table] = check.is_used
        self.problems += [*self._tables[report.table].problems, *check.problems]


def _names_no_node(ids: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns which cells of a column of node ids name no node."""
    no_node = pa.scalar("" if pa.types.is_large_string(ids.type) else NO_NODE, ids.type)
    return np.asarray(pc.equal(ids, no_node).to_numpy(zero_copy_only=False), np.bool_)


def positions_of(ids: pa.Array, known: pa.Array) -> _Rows:
    """Returns positions in `known`; -1 for ids that are not there."""
    found = pc.fill_null(pc.index_in(ids, value_set=known), ABSENT)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def is_again(keys: Sequence[_Rows], is_used: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Returns which used rows have the same keys as an earlier used row."""
    used = np.flatnonzero(is_used)
    order = used[np.lexsort([key[used] for key in keys])]  # stable: earlier rows stay first
    is_same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        is_same &= key[order][1:] == key[order][:-1]
    found = np.zeros(len(is_used), np.bool_)
    found[order[1:][is_same]] = True
    return found
