"""Splits nodes by tables of training, validation and test ids."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.graph_checks import check_nodes
from tfx_gnn.tables.graph_tables import NodeTable
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    RowProblem,
    RowRules,
    TableReport,
    check_dropped_share,
    dangling_edge_problem,
    show_value,
)
from tfx_gnn.tables.table_files import Table, read_table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

MASK_COLUMN = "mask"
"""Extra column of nodes that masks make, for `SplitPlan(column=MASK_COLUMN, unused_values=(UNMASKED,))`."""

UNMASKED = "none"
"""What this column has for nodes that no mask names."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedNodes:
    """Nodes with a column that tells which mask names them.

    Attributes:
        nodes: the table, with `MASK_COLUMN` among its extra columns.
        reports: what became of the rows of the masks' tables, by their labels.
        problems: rows of these tables that were dropped.
    """

    nodes: NodeTable
    reports: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]


def mask_nodes(
    nodes: NodeTable, layouts: Mapping[str, TableLayout], *, node_set: str, rules: RowRules | None = None
) -> MaskedNodes:
    """Reads the ids that masks name, and adds a column of masks to the nodes.

    Of the tables of masks nothing but the ids is read.

    Args:
        nodes: all nodes of the set.
        layouts: by mask, a table of nodes that are in it.
        node_set: name of the set, for messages.
        rules: what to do with rows of the masks' tables: `duplicate_nodes` with ids that
            come again in one mask, `dangling_edges` with ids of no node. Refused by default.

    Returns:
        The nodes; those that no mask names are `UNMASKED`.

    Raises:
        ValueError: if a row is refused, or an id is in two masks.
    """
    rules = rules or RowRules()
    codes = np.zeros(nodes.num_nodes, np.int64)
    reports: dict[str, TableReport] = {}
    problems: tuple[RowProblem, ...] = ()
    for code, (mask, layout) in enumerate(layouts.items(), start=1):
        id_column = layout.columns[ID_FEATURE]
        if id_column.dtype != nodes.ids.type:
            raise ValueError(
                f"`{id_column.name}` must have the type of the nodes' ids, {nodes.ids.type}; got {id_column.dtype} in "
                f"{layout.declared_as}, mask {mask!r} of {node_set!r}. Write the ids alike."
            )
        table = read_table(dataclasses.replace(layout, columns={ID_FEATURE: id_column}, decoders={}), rules)
        rows, report, found = _find_rows(table, nodes, node_set, rules)
        taken = rows[codes[rows] > 0]
        if len(taken):
            other = tuple(layouts)[codes[taken[0]] - 1]
            raise ValueError(
                f"`mask` must name each node once; got {show_value(nodes.ids[int(taken[0])].as_py())} in {mask!r} and "
                f"in {other!r} of {node_set!r}, one of {len(taken)}. Remove it from one of the two."
            )
        codes[rows] = code
        reports[report.table] = report
        problems += found
    names = pa.array([UNMASKED, *layouts], pa.large_string())
    column = names.take(pa.array(codes))
    return MaskedNodes(
        nodes=dataclasses.replace(nodes, extra_columns={**nodes.extra_columns, MASK_COLUMN: column}),
        reports=reports,
        problems=problems,
    )


def _find_rows(
    table: Table, nodes: NodeTable, node_set: str, rules: RowRules
) -> tuple[npt.NDArray[np.int64], TableReport, tuple[RowProblem, ...]]:
    """Returns the nodes that a mask names, and what became of its rows."""
    checked = check_nodes(table, rules)
    positions = np.sort(checked.positions)
    ids = table.columns[ID_FEATURE]
    found = pc.index_in(ids.take(pa.array(positions)), value_set=nodes.ids)
    rows = np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
    dangling = positions[rows < 0]
    added = tuple(
        dangling_edge_problem(
            table=table.layout.label,
            file=file,
            row=number,
            row_word=table_format(table.layout).row_word,
            rule=DANGLING_SOURCE,
            column=table.layout.columns[ID_FEATURE].name,
            node_set=node_set,
            node_file=nodes.path,
            value=ids[position].as_py(),
        )
        for position, (file, number) in zip(dangling.tolist(), table.locate(table.rows[dangling]), strict=True)
    )
    if added and rules.dangling_edges == "refuse":
        raise ValueError(added[0].message + (f" It is one of {len(added)} such rows." if added[1:] else ""))
    report = dataclasses.replace(
        checked.report,
        rows_used=checked.report.rows_used - len(added),
        dropped=dict(collections.Counter(problem.rule for problem in (*checked.problems, *added))),
    )
    check_dropped_share(report, rules)
    return rows[rows >= 0], report, (*checked.problems, *added)
