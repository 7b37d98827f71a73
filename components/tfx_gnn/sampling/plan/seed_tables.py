"""Separate tables of seeds: their columns, and the nodes they name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.plan.hop import SEED, SOURCE, TARGET
from tfx_gnn.sampling.plan.plan import SamplingPlan, root_node_sets
from tfx_gnn.sampling.plan.seed_splits import SplitColumns, tables_with_splits
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_tables import GraphTables
from tfx_gnn.tables.row_rules import (
    DANGLING_SOURCE,
    DANGLING_TARGET,
    RowProblem,
    RowRules,
    TableReport,
    check_dropped_share,
    dangling_edge_problem,
    show_value,
)
from tfx_gnn.tables.schema_layouts import id_type, seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import Table
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout
from tfx_gnn.tables.table_paths import resolve_table_files

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

_KEYS = {SEED: ID_FEATURE, SOURCE: SOURCE_KEY, TARGET: TARGET_KEY}
# A seed node that is not there is counted like the source of an edge.
_RULES = {SEED: DANGLING_SOURCE, SOURCE: DANGLING_SOURCE, TARGET: DANGLING_TARGET}
_ARROW_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.large_string()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSeeds:
    """The rows of a seed table whose nodes are all there.

    Attributes:
        nodes: by root, int64 array, shape [num_seeds]: rows of the node table.
        rows: int64 array, shape [num_seeds]: positions in the columns of the seed table.
        columns: what decides about splits.
        times: int64 array, shape [num_seeds]; None if the plan is not temporal.
        report: what became of the rows.
        problems: rows that were dropped.
    """

    nodes: Mapping[str, npt.NDArray[np.int64]]
    rows: npt.NDArray[np.int64]
    columns: SplitColumns
    times: npt.NDArray[np.int64] | None
    report: TableReport
    problems: tuple[RowProblem, ...]


def seed_table_layout(
    tables_dir: str, plan: SamplingPlan, schema: GraphSchema, *, access: TableAccess | None = None
) -> TableLayout:
    """Describes a plan's seed table: ids, declared features, and as text the columns that decide about splits.

    The file name is relative to `tables_dir`, the folder of the graph schema.
    """
    if plan.seed_table is None:
        raise ValueError("`plan` must have a seed table; got none. Its seeds are all of its seed set.")
    columns = {}
    for root, node_set in root_node_sets(plan, schema).items():
        name = "id" if root == SEED else root
        renamed = plan.seed_table.columns.get(name)
        columns[_KEYS[root]] = TableColumn(
            name=renamed or name,
            dtype=id_type(schema.node_sets[node_set], f"node set {node_set!r}"),
            alternatives=() if renamed else (f"#{name}",),
        )
    for name, dtype in plan.seed_table.features.items():
        columns[name] = TableColumn(name=name, dtype=_ARROW_TYPES[dtype])
    for name in tables_with_splits(plan).extra_columns:
        columns[EXTRA_PREFIX + name] = TableColumn(name=name, dtype=pa.large_string())
    access = access or TableAccess()
    filename = plan.seed_table.filename
    if not resolve_table_files(
        tables_dir, filename, allow_outside_files=access.allow_outside_files, place="the plan's seed table"
    ):
        raise ValueError(
            "`seed_table.filename` must name a file that exists, relative to the folder of the tables; got "
            f"{filename!r} in {tables_dir!r}. Correct the name or put the file there."
        )
    return seeds_layout(tables_dir, filename, columns, access=access)


def find_table_seeds(tables: GraphTables, plan: SamplingPlan, table: Table, rules: RowRules) -> TableSeeds:
    """Looks up the nodes that a seed table names.

    The rule `dangling_edges` says what happens to rows that name no node.
    """
    sets = root_node_sets(plan, tables.schema)
    found = {
        root: pc.index_in(table.columns[_KEYS[root]], value_set=tables.node_tables[node_set].ids)
        for root, node_set in sets.items()
    }
    is_there = np.ones(table.num_rows, np.bool_)
    broken: list[tuple[int, str]] = []
    for root, positions in found.items():
        missing = positions.is_null().to_numpy(zero_copy_only=False) & is_there
        broken += [(int(row), root) for row in np.flatnonzero(missing)]
        is_there &= ~missing
    problems = _dangling_problems(tables, table, sets, sorted(broken))
    if problems and rules.dangling_edges == "refuse":
        raise ValueError(problems[0].message + (f" It is one of {len(problems)} such rows." if problems[1:] else ""))
    report = dataclasses.replace(
        table.report,
        rows_used=int(is_there.sum()),
        dropped=_add_counts(table.report.dropped, [problem.rule for problem in problems]),
    )
    check_dropped_share(report, rules)
    rows = np.flatnonzero(is_there)
    kept = {key: column.take(pa.array(rows)) for key, column in table.columns.items()}
    times = _integers(kept[plan.temporal.seed_time]) if plan.temporal else None
    nodes = {
        root: np.asarray(positions.take(pa.array(rows)).to_numpy(zero_copy_only=False), np.int64)
        for root, positions in found.items()
    }
    assert plan.seed_table is not None
    codes = [hash_ids(kept[name]) for name in plan.seed_table.identity_features]
    _refuse_repeats(table, rows, [*nodes.values(), *codes, *([] if times is None else [times])])
    return TableSeeds(
        nodes=nodes,
        rows=rows,
        columns=_split_columns(plan, table, kept, rows),
        times=times,
        report=report,
        problems=(*table.problems, *problems),
    )


def _dangling_problems(
    tables: GraphTables, table: Table, sets: Mapping[str, str], broken: Sequence[tuple[int, str]]
) -> list[RowProblem]:
    rows = np.array([row for row, _ in broken], np.int64)
    return [
        dangling_edge_problem(
            table=table.layout.label,
            file=file,
            row=number,
            row_word=table_format(table.layout).row_word,
            rule=_RULES[root],
            column=table.layout.columns[_KEYS[root]].name,
            node_set=sets[root],
            node_file=tables.node_tables[sets[root]].path,
            value=table.columns[_KEYS[root]][row].as_py(),
        )
        for (row, root), (file, number) in zip(broken, table.locate(table.rows[rows]), strict=True)
    ]


def _refuse_repeats(table: Table, rows: npt.NDArray[np.int64], identity: Sequence[npt.NDArray[Any]]) -> None:
    order = np.lexsort((rows, *identity))
    is_repeat = np.ones(max(len(order) - 1, 0), np.bool_)
    for values in identity:
        is_repeat &= values[order][1:] == values[order][:-1]
    if is_repeat.any():
        row = int(rows[order[1:][is_repeat]].min())
        names = {key: table.columns[key][row].as_py() for key in _KEYS.values() if key in table.columns}
        raise ValueError(
            f"`{table.layout.label}` must name every seed once, or once for each time and identity; got "
            f"{show_value(tuple(names.values()))} again in {_place(table, row)}, one of {int(is_repeat.sum())}. "
            "Remove the repetition, or name what tells them apart in `identity_features`."
        )


def _split_columns(
    plan: SamplingPlan, table: Table, kept: Mapping[str, pa.Array], rows: npt.NDArray[np.int64]
) -> SplitColumns:
    splits = plan.splits
    return SplitColumns(
        names=kept[EXTRA_PREFIX + splits.column] if splits.column else None,
        times=_integers(kept[splits.time_feature]) if splits.time_feature else None,
        groups=kept[EXTRA_PREFIX + splits.group_column] if splits.group_column else None,
        place_of=lambda row: _place(table, int(rows[row])),
    )


def _place(table: Table, row: int) -> str:
    [(file, number)] = table.locate(table.rows[row : row + 1])
    return f"{file}, {table_format(table.layout).row_word} {number}"


def _integers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def _add_counts(counts: Mapping[str, int], rules: Sequence[str]) -> dict[str, int]:
    added = dict(counts)
    for rule in rules:
        added[rule] = added.get(rule, 0) + 1
    return added
