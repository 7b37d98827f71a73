"""Rules between rows of a graph's tables: unique node ids, existing endpoints, duplicate edges."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    DANGLING_TARGET,
    RowProblem,
    RowRules,
    TableReport,
    check_used_edges,
    dangling_edge_problem,
    duplicate_edge_problem,
    duplicate_node_problem,
    refusal,
)
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

_Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedNodes:
    """The usable rows of a node table.

    Attributes:
        positions: int64 array, shape [num_nodes]: positions in the columns of the
            table, in ascending order of their ids.
        report: counts of rows read, used and dropped.
        problems: all dropped rows: first those dropped when the table was read, then those dropped here.
    """

    positions: _Rows
    report: TableReport
    problems: tuple[RowProblem, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedEdges:
    """The usable rows of an edge table.

    Attributes:
        positions: int64 array, shape [num_edges]: positions in the columns of the table, ascending.
        sources: int64 array, shape [num_edges]: positions in the ids of the source nodes.
        targets: int64 array, shape [num_edges]: positions in the ids of the target nodes.
        report: counts of rows read, used and dropped.
        problems: all dropped rows: first those dropped when the table was read, then those dropped here.
    """

    positions: _Rows
    sources: _Rows
    targets: _Rows
    report: TableReport
    problems: tuple[RowProblem, ...]


def check_nodes(table: Table, rules: RowRules) -> CheckedNodes:
    """Sorts nodes by id and finds repeated ids."""
    ids = table.columns[ID_FEATURE]
    order = np.asarray(pc.sort_indices(ids).to_numpy(), np.int64)  # equal ids stay in the order of the files
    in_order = ids.take(pa.array(order))
    is_again = np.zeros(len(order), np.bool_)
    if len(order):
        is_again[1:] = pc.equal(in_order.slice(1), in_order.slice(0, len(order) - 1)).to_numpy(zero_copy_only=False)
    again = np.sort(order[is_again])
    problems = _Problems(table)
    if len(again):
        column = table.layout.columns[ID_FEATURE].name
        refuse = rules.duplicate_nodes == "refuse"
        for place, position in zip(problems.places(again[:1] if refuse else again), again.tolist(), strict=False):
            problems.add(duplicate_node_problem(column=column, value=ids[position].as_py(), **place))
        if refuse:
            raise refusal(problems.added[0], len(again))
    return CheckedNodes(
        positions=order[~is_again],
        report=problems.report(),
        problems=problems.all,
    )


def check_edges(
    table: Table,
    rules: RowRules,
    *,
    ends: Mapping[str, tuple[str, str, pa.Array]],
    time_feature: str = "",
) -> CheckedEdges:
    """Finds the nodes at the ends of edges, and repeated edges.

    `ends` has, for the keys `#source` and `#target`, the node set, its file as declared, and the ids of its nodes.
    With a `time_feature` (integer), an edge is repeated only if its time is equal too.
    """
    problems = _Problems(table)
    found = {key: find_nodes(table.columns[key], ids) for key, (_, _, ids) in ends.items()}
    is_used = np.ones(table.num_rows, np.bool_)
    for key, rule in ((SOURCE_KEY, DANGLING_SOURCE), (TARGET_KEY, DANGLING_TARGET)):
        dangling = np.flatnonzero((found[key] < 0) & is_used)
        is_used[dangling] = False
        refuse = rules.dangling_edges == "refuse"
        for place, position in zip(problems.places(dangling[:1] if refuse else dangling), dangling, strict=False):
            node_set, node_file, _ = ends[key]
            problems.add(
                dangling_edge_problem(
                    rule=rule,
                    column=table.layout.columns[key].name,
                    node_set=node_set,
                    node_file=node_file,
                    value=table.columns[key][int(position)].as_py(),
                    **place,
                )
            )
        if refuse and len(dangling):
            raise refusal(problems.added[0], len(dangling))
    positions = np.flatnonzero(is_used).astype(np.int64)
    again = positions[_repeated(table, positions, found, len(ends[TARGET_KEY][2]), time_feature)]
    num_again = len(again)
    if num_again and rules.duplicate_edges != "keep":
        refuse = rules.duplicate_edges == "refuse"
        keys = [SOURCE_KEY, TARGET_KEY, *([time_feature] if time_feature else [])]
        for place, position in zip(problems.places(again[:1] if refuse else again), again.tolist(), strict=False):
            value = tuple(table.columns[key][position].as_py() for key in keys)
            problems.add(duplicate_edge_problem(value=value, **place))
        if refuse:
            raise refusal(problems.added[0], num_again)
        is_used[again] = False
        positions = np.flatnonzero(is_used).astype(np.int64)
    sources, targets = found[SOURCE_KEY][positions], found[TARGET_KEY][positions]
    is_one_set = ends[SOURCE_KEY][0] == ends[TARGET_KEY][0]
    report = problems.report(duplicate_edges=num_again, self_loops=int((sources == targets).sum()) if is_one_set else 0)
    check_used_edges(report, rules, problems.all[0].dropped_message if problems.all else "")
    return CheckedEdges(positions=positions, sources=sources, targets=targets, report=report, problems=problems.all)


class _Problems:
    """Rows that a check drops from a table, in addition to those dropped when it was read."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._row_word = table_format(table.layout).row_word
        self.added: list[RowProblem] = []

    @property
    def all(self) -> tuple[RowProblem, ...]:
        return (*self._table.problems, *self.added)

    def places(self, positions: _Rows) -> list[dict[str, Any]]:
        """Returns the arguments of the problem functions that say where the rows at ascending positions are."""
        located = self._table.locate(self._table.rows[positions])
        label = self._table.layout.label
        return [{"table": label, "file": file, "row": row, "row_word": self._row_word} for file, row in located]

    def add(self, problem: RowProblem) -> None:
        self.added.append(problem)

    def report(self, *, duplicate_edges: int = 0, self_loops: int = 0) -> TableReport:
        report = self._table.report
        return TableReport(
            table=report.table,
            rows_read=report.rows_read,
            rows_used=report.rows_used - len(self.added),
            dropped=dict(collections.Counter(problem.rule for problem in self.all)),
            duplicate_edges=duplicate_edges,
            self_loops=self_loops,
        )


def find_nodes(ids: pa.Array, node_ids: pa.Array) -> _Rows:
    """Returns positions in `node_ids`; -1 for ids that are not there."""
    found = pc.index_in(ids, value_set=node_ids)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)


def _repeated(table: Table, positions: _Rows, found: Mapping[str, _Rows], num_targets: int, time_feature: str) -> _Rows:
    """Returns which of the edges, ascending, have the same ends (and time) as an earlier one."""
    # One number per pair: Arrow counts positions in int32, so their product fits in int64.
    pairs = found[SOURCE_KEY][positions] * num_targets + found[TARGET_KEY][positions]
    if time_feature:
        times = np.asarray(table.columns[time_feature].to_numpy(zero_copy_only=False))[positions]
        order = np.lexsort((times, pairs))
        is_same = (np.diff(pairs[order]) == 0) & (times[order][1:] == times[order][:-1])
    else:
        order = np.argsort(pairs, kind="stable")
        is_same = np.diff(pairs[order]) == 0
    return np.sort(order[1:][is_same])
