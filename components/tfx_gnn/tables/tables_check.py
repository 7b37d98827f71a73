"""Reports everything that is wrong with a graph's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.graph_checks import check_edges, check_nodes
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport
from tfx_gnn.tables.schema_layouts import try_layouts
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import no_records, read_table
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout

_RULES = RowRules(invalid_rows="drop", duplicate_nodes="keep_first", dangling_edges="drop")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesCheck:
    """What a check of tables found.

    Attributes:
        reports: by label of the table, what becomes of its rows, for those that can be read.
        problems: rows that cannot be used, table by table.
        faults: by label of the table, why nothing of it can be used, or what could not be
            checked.
    """

    reports: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]
    faults: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not (self.problems or self.faults)


def check_tables(tables_dir: str, *, access: TableAccess | None = None) -> TablesCheck:
    """Reads all tables of a folder, and goes on where one is broken.

    An edge is good if the nodes at its ends are rows with an id, even if these rows break other
    rules: they are problems themselves, and what mends them mends their edges. Node tables with
    such rows are read twice.

    Of node tables, only ids stay in memory; of edge tables, one at a time is in memory.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the tables it names.
        access: another name of the schema, and which files may be read.

    Returns:
        What is there, and what is wrong with it.

    Raises:
        ValueError: if the schema itself is missing or invalid.
    """
    schema = read_tables_schema(tables_dir, access=access, check_files=False)
    checker = _Checker(schema)
    for label, layout in try_layouts(schema, tables_dir, access):
        try:
            if isinstance(layout, ValueError):
                raise layout
            checker.check(layout)
        except (ValueError, OSError, tf.errors.OpError) as fault:
            checker.faults[label] = " ".join(str(getattr(fault, "message", fault)).split())
    return TablesCheck(reports=checker.reports, problems=tuple(checker.problems), faults=checker.faults)


class _Checker:
    """Checks one table after the other, those of nodes first."""

    def __init__(self, schema: GraphSchema) -> None:
        self._schema = schema
        self._nodes: dict[str, tuple[TableLayout, pa.Array]] = {}
        self.reports: dict[str, TableReport] = {}
        self.problems: list[RowProblem] = []
        self.faults: dict[str, str] = {}

    def check(self, layout: TableLayout) -> None:
        table = read_table(layout, _RULES)
        # What is found out below replaces it.
        self._note(table.report, ())
        if layout.kind == "node":
            nodes = check_nodes(table, _RULES)
            ids = table.columns[ID_FEATURE].take(pa.array(nodes.positions))
            self._nodes[layout.name] = layout, _readable_ids(layout) if table.problems else ids
            self._note(nodes.report, nodes.problems)
        elif layout.kind == "edge":
            edge_set = self._schema.edge_sets[layout.name]
            sets = {SOURCE_KEY: edge_set.source, TARGET_KEY: edge_set.target}
            unknown = sorted({f"nodes/{name}" for name in sets.values() if name not in self._nodes})
            if unknown:
                self._note(table.report, table.problems)
                raise ValueError(
                    f"`{layout.label}` must lead to nodes that are there; got none to compare with, as {unknown} "
                    "cannot be read. Mend those first, and check again."
                )
            for name in sets.values():
                if table.num_rows and not len(self._nodes[name][1]):
                    raise no_records(self._nodes[name][0])
            edges = check_edges(
                table,
                _RULES,
                ends={
                    key: (name, self._nodes[name][0].declared_as, self._nodes[name][1]) for key, name in sets.items()
                },
            )
            self._note(edges.report, edges.problems)
        else:
            self._note(table.report, table.problems)
            if table.num_rows != 1:
                raise ValueError(
                    f"`{layout.label}` must have exactly one row, for the whole graph; got {table.num_rows} in "
                    f"{layout.declared_as}. Keep one, or read the tables as many graphs by their graph ids."
                )

    def _note(self, report: TableReport, problems: tuple[RowProblem, ...]) -> None:
        self.reports[report.table] = report
        self.problems += problems


def _readable_ids(layout: TableLayout) -> pa.Array:
    """Reads the ids of a node table, also those of rows that break a rule by another column."""
    only_ids = dataclasses.replace(layout, columns={ID_FEATURE: layout.columns[ID_FEATURE]}, decoders={})
    return read_table(only_ids, _RULES).columns[ID_FEATURE].unique()
