"""Finds the graphs of the rows of a table of pairs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.examples.graph_grouping import (
    ABSENT,
    GroupedGraphs,
    MakeProblem,
    RowCheck,
    is_again,
    positions_of,
)
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.seed_splits import (
    UNUSED,
    edge_split_codes,
    pair_keys,
    select_split_columns,
)
from tfx_gnn.tables import row_rules
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport, show_value
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

_SEPARATOR = "|"

_Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupedPairs:
    """Pairs of graphs, ascending by (key, row).

    Attributes:
        ids: large_string array, shape [num_pairs].
        keys: uint64 array, shape [num_pairs]: hashes of both graphs' ids.
        rows: int64 array, shape [num_pairs]: positions in the columns of the table of pairs.
        left: int64 array, shape [num_pairs]: positions of the left graphs in `GroupedGraphs`.
        right: the same of the right graphs.
        split_codes: int16 array, shape [num_pairs]: positions in the names of splits, or `UNUSED`.
        report: counts of rows read, used and dropped.
        problems: rows that were dropped.
    """

    ids: pa.Array
    keys: npt.NDArray[np.uint64]
    rows: _Rows
    left: _Rows
    right: _Rows
    split_codes: npt.NDArray[np.int16]
    report: TableReport
    problems: tuple[RowProblem, ...]


def group_pairs(
    table: Table,
    graphs: GroupedGraphs,
    spec: GraphLevelExamples,
    rules: RowRules,
    *,
    graph_split_codes: npt.NDArray[np.int16] | None,
) -> GroupedPairs:
    """Finds the graphs of each pair.

    The rule `dangling_edges` decides what happens to pairs with an unknown graph, `duplicate_edges` to repeated pairs.
    `graph_split_codes` are those of `graphs`, or None if rows of the table decide.
    """
    check = RowCheck(table)
    ends = {key: positions_of(table.columns[key], graphs.ids) for key in (SOURCE_KEY, TARGET_KEY)}
    for key, found in ends.items():
        check.apply(found == ABSENT, _unknown_graph(table, key, spec), refuse=rules.dangling_edges == "refuse")
    is_repeated = is_again([*ends.values()], check.is_used)
    if rules.duplicate_edges != "keep":
        check.apply(is_repeated, _repeated_pair(table), refuse=rules.duplicate_edges == "refuse")
    rows = np.flatnonzero(check.is_used).astype(np.int64)
    codes = {key: graphs.keys[found[rows]] for key, found in ends.items()}
    keys = pair_keys(codes[SOURCE_KEY], codes[TARGET_KEY])
    order = np.lexsort((rows, keys))
    rows = rows[order]
    left, right = (found[rows] for found in ends.values())
    if graph_split_codes is None:
        # A pair and its reverse have one split, for they hold the same graphs.
        split_codes = edge_split_codes(
            spec.splits,
            source_codes=graphs.keys[left],
            target_codes=graphs.keys[right],
            columns=select_split_columns(spec.splits, table, rows),
            is_symmetric=True,
        )
    else:
        of_left, of_right = graph_split_codes[left], graph_split_codes[right]
        split_codes = np.where(of_left == of_right, of_left, np.int16(UNUSED))
    is_loop = (ends[SOURCE_KEY] == ends[TARGET_KEY]) & check.is_used
    return GroupedPairs(
        ids=_ids_of_pairs(table, rows),
        keys=keys[order],
        rows=rows,
        left=left,
        right=right,
        split_codes=split_codes,
        report=check.report(duplicate_edges=int(is_repeated.sum()), self_loops=int(is_loop.sum())),
        problems=(*table.problems, *check.problems),
    )


def _ids_of_pairs(table: Table, rows: _Rows) -> pa.Array:
    chosen = pa.array(rows)
    if ID_FEATURE in table.columns:
        return table.columns[ID_FEATURE].take(chosen)
    sides = (table.columns[key].take(chosen) for key in (SOURCE_KEY, TARGET_KEY))
    return pc.binary_join_element_wise(*sides, pa.scalar(_SEPARATOR, pa.large_string()))


def _unknown_graph(table: Table, key: str, spec: GraphLevelExamples) -> MakeProblem:
    def unknown(position: int, place: dict[str, Any]) -> RowProblem:
        return RowProblem(
            rule=row_rules.UNKNOWN_GRAPH,
            column=table.layout.columns[key].name,
            requirement=f"name a graph of the tables by its {spec.graph_id_column!r}",
            value=show_value(table.columns[key][position].as_py()),
            advice="Add the graph or remove the pair.",
            option="drop such pairs by dangling_edges",
            **place,
        )

    return unknown


def _repeated_pair(table: Table) -> MakeProblem:
    def repeated(position: int, place: dict[str, Any]) -> RowProblem:
        ends = tuple(table.columns[key][position].as_py() for key in (SOURCE_KEY, TARGET_KEY))
        problem = row_rules.duplicate_edge_problem(value=ends, **place)
        return dataclasses.replace(problem, requirement="name every pair once")

    return repeated
