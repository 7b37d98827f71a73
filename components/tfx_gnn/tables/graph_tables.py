"""A whole graph's tables: read into memory, typed, checked and joined; or checked for all problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_checks import check_edges, check_nodes
from tfx_gnn.tables.row_rules import RowProblem, RowRules, TableReport
from tfx_gnn.tables.schema_layouts import (
    ColumnsByTable,
    DecodersByTable,
    TableLayouts,
    layouts_of,
    try_layouts,
)
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import no_records, read_table
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout

_NO_ROWS = np.zeros(0, np.int64)
_RULES_OF_CHECK = RowRules(invalid_rows="drop", duplicate_nodes="keep_first", dangling_edges="drop")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeTable:
    """Nodes of one set, in ascending order of their ids, whatever the order of the files.

    Attributes:
        path: file, or pattern of files, that the table was read from.
        ids: Arrow array of large_string or int64, shape [num_nodes], no two equal.
        features: one Arrow array per feature of the schema, shape [num_nodes], no nulls;
            see `TableColumn.arrow_type`.
        extra_columns: large_string arrays of the columns requested by name.
    """

    path: str
    ids: pa.Array
    features: Mapping[str, pa.Array]
    extra_columns: Mapping[str, pa.Array] = dataclasses.field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.ids)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeTable:
    """Edges of one set, in the order of the files.

    Attributes:
        path: file, or pattern of files, that the table was read from.
        source_set: node set of the sources.
        target_set: node set of the targets.
        sources: int64 array, shape [num_edges]: rows of the source node table.
        targets: int64 array, shape [num_edges]: rows of the target node table.
        features: one Arrow array per feature of the schema, shape [num_edges], no nulls;
            see `TableColumn.arrow_type`.
        rows: int64 array, shape [num_edges]: the row of each edge in its table as
            written, counted from 0 over all files, ascending. Dropped rows leave gaps. By
            default there are no gaps.
        extra_columns: large_string arrays of the columns requested by name.
    """

    path: str
    source_set: str
    target_set: str
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    features: Mapping[str, pa.Array]
    rows: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: _NO_ROWS)
    extra_columns: Mapping[str, pa.Array] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rows is _NO_ROWS:
            object.__setattr__(self, "rows", np.arange(len(self.sources), dtype=np.int64))

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.sources)

    @property
    def row_column(self) -> pa.Array:
        """`rows` as an Arrow array."""
        return pa.array(self.rows)

    @property
    def has_gaps(self) -> bool:
        """Whether `rows` are others than 0, 1, ..., because rows were dropped."""
        return bool(self.num_edges) and int(self.rows[-1]) != self.num_edges - 1

    def positions_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the positions of edges, given by their rows as written; the table must hold all of them."""
        return np.searchsorted(self.rows, rows).astype(np.int64) if self.has_gaps else rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextTable:
    """Features of the whole graph, or of many graphs, in the order of the files.

    Attributes:
        path: file, or pattern of files, that the table was read from.
        features: one Arrow array per feature of the schema, shape [num_rows], no nulls;
            see `TableColumn.arrow_type`.
        extra_columns: large_string arrays of the columns requested by name.
        num_rows: number of rows; 1 unless extra columns were requested.
    """

    path: str
    features: Mapping[str, pa.Array]
    extra_columns: Mapping[str, pa.Array]
    num_rows: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTables:
    """A whole graph as tables.

    Attributes:
        schema: schema of the tables folder.
        node_tables: by node set.
        edge_tables: by edge set; `node_tables` has the node sets at both ends.
        context_table: features of the graph; None if none are declared.
        reports: counts of rows read, used and dropped, by table label ("nodes/<set>",
            "edges/<set>", "context").
        problems: rows that were dropped, table by table.
    """

    schema: GraphSchema
    node_tables: Mapping[str, NodeTable]
    edge_tables: Mapping[str, Edges]
    context_table: ContextTable | None = None
    reports: Mapping[str, TableReport] = dataclasses.field(default_factory=dict)
    problems: tuple[RowProblem, ...] = ()


def read_tables_schema(tables_dir: str, *, access: TableAccess | None = None, check_files: bool = True) -> GraphSchema:
    """Reads the schema of a tables folder and checks that its files exist.

    Args:
        tables_dir: folder with `graph_schema.pbtxt`.
        access: the schema's file name, if not the default, and which files may be read.
        check_files: whether to check that the files exist.

    Returns:
        The schema.

    Raises:
        ValueError: if the schema is missing or invalid, has no node set, names an absent
            file, or declares something that cannot be read from tables.
    """
    access = access or TableAccess()
    path = access.schema_path(tables_dir)
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        raise ValueError(
            f"`tables_dir` must hold a {access.schema_file}; got none in {tables_dir!r}. Describe the tables there, "
            "or name another file by `schema_file`."
        )
    try:
        schema = graph_schema.read_schema(path)
        schema_validation.validate_schema(schema)
    except (text_format.ParseError, schema_validation.ValidationError) as error:
        # Only the description of the mistake: the message below names the file itself.
        mistake = str(error).removeprefix(f"`filename` must name a text-format GraphSchema; got {path}: ")
        raise ValueError(
            f"`tables_dir` must hold a valid {access.schema_file}; got a mistake in {path}. Correct it: {mistake}"
        ) from error
    if not schema.node_sets:
        raise ValueError(
            f"`tables_dir` must hold a {access.schema_file} that declares a node set; got none in {path}. Describe the "
            "tables there, or remove the file to infer another."
        )
    if check_files:
        layouts_of(schema, tables_dir, access=access)
    return schema


def list_table_files(tables_dir: str, *, access: TableAccess | None = None) -> tuple[str, ...]:
    """Lists the files that the graph of a tables folder depends on, each once, in ascending order.

    These are the schema and every file of every table; tables in BigQuery have no files.
    """
    access = access or TableAccess()
    schema = read_tables_schema(tables_dir, access=access)
    files = {file for layout in layouts_of(schema, tables_dir, access=access).all for file in layout.files}
    return tuple(sorted({access.schema_path(tables_dir), *files}))


def read_tables(
    tables_dir: str,
    *,
    node_sets: Collection[str] | None = None,
    edge_sets: Collection[str] | None = None,
    extra_columns: ColumnsByTable | None = None,
    rules: RowRules | None = None,
    decoders: DecodersByTable | None = None,
    edge_times: Mapping[str, str] | None = None,
    access: TableAccess | None = None,
) -> GraphTables:
    """Reads the tables of a schema into memory, with the declared types.

    `layouts_of` describes what a schema may declare about files, columns, defaults and decoders.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the files it names.
        node_sets: node sets to read; all by default. They must include the node sets at
            the ends of `edge_sets`.
        edge_sets: edge sets to read; all by default.
        extra_columns: columns to read as text, declared or not, by the name of the set
            or by the label of its table ("nodes/<set>", "edges/<set>", "context").
        rules: what to do with rows that break a rule; by default any such row is an error.
        decoders: decoders by column, in addition to the declared ones, again by set or
            label.
        edge_times: by edge set, an integer feature; two edges with the same ends are
            duplicates only if this feature is equal too.
        access: the schema's file name, if not the default, and which files may be read.

    Returns:
        The graph.

    Raises:
        ValueError: if the schema or a table breaks a rule. The message names the file,
            the line or record, and the rule.
    """
    schema = read_tables_schema(tables_dir, access=access)
    layouts = layouts_of(
        schema,
        tables_dir,
        node_sets=node_sets,
        edge_sets=edge_sets,
        extra_columns=extra_columns,
        decoders=decoders,
        access=access,
    )
    check_edge_times(layouts, edge_times or {})
    return read_layouts(schema, layouts, rules=rules, edge_times=edge_times)


def check_edge_times(layouts: TableLayouts, edge_times: Mapping[str, str]) -> None:
    """Refuses times of edges, by edge set, that are no integer features; see `read_tables`."""
    for name, feature in edge_times.items():
        column = layouts.edge_sets[name].columns.get(feature) if name in layouts.edge_sets else None
        if column is None or column.shape or not pa.types.is_integer(column.dtype):
            raise ValueError(
                f"`edge_times` must name an integer feature of an edge set that is read; got {feature!r} of {name!r}. "
                "Check the spelling, or declare the feature."
            )


def read_layouts(
    schema: GraphSchema,
    layouts: TableLayouts,
    *,
    rules: RowRules | None = None,
    edge_rules: Mapping[str, RowRules] | None = None,
    edge_times: Mapping[str, str] | None = None,
) -> GraphTables:
    """Reads the tables of some layouts; the schema may come from anywhere.

    The layouts must include the node sets at the ends of edge sets. `edge_rules` replaces `rules` for the edge sets
    that it names.
    """
    reader = _Reader(rules or RowRules(), edge_rules or {}, edge_times or {})
    node_tables = {name: reader.read_nodes(layout) for name, layout in layouts.node_sets.items()}
    edge_tables = {name: reader.read_edges(schema, layout, node_tables) for name, layout in layouts.edge_sets.items()}
    context_table = None if layouts.context is None else reader.read_context(layouts.context)
    return GraphTables(
        schema=schema,
        node_tables=node_tables,
        edge_tables=edge_tables,
        context_table=context_table,
        reports=reader.reports,
        problems=tuple(reader.problems),
    )


class _Reader:
    """Reads tables under rules and collects reports and problems of their rows."""

    def __init__(self, rules: RowRules, edge_rules: Mapping[str, RowRules], edge_times: Mapping[str, str]) -> None:
        self._rules = rules
        self._edge_rules = edge_rules
        self._edge_times = edge_times
        self._node_layouts: dict[str, TableLayout] = {}
        self.reports: dict[str, TableReport] = {}
        self.problems: list[RowProblem] = []

    def read_nodes(self, layout: TableLayout) -> NodeTable:
        self._node_layouts[layout.name] = layout
        table = read_table(layout, self._rules)
        checked = check_nodes(table, self._rules)
        self._gather(checked.report, checked.problems)
        order = pa.array(checked.positions)
        arrays = {key: column.take(order) for key, column in table.columns.items()}
        ids = arrays.pop(ID_FEATURE)
        features, extra_columns = split_columns(arrays)
        return NodeTable(path=layout.declared_as, ids=ids, features=features, extra_columns=extra_columns)

    def read_edges(self, schema: GraphSchema, layout: TableLayout, node_tables: Mapping[str, NodeTable]) -> EdgeTable:
        rules = self._edge_rules.get(layout.name, self._rules)
        table = read_table(layout, rules)
        edge_set = schema.edge_sets[layout.name]
        for name in (edge_set.source, edge_set.target):
            if table.report.rows_read and not self.reports[f"nodes/{name}"].rows_read:
                raise no_records(self._node_layouts[name])
        checked = check_edges(
            table,
            rules,
            ends={
                key: (name, node_tables[name].path, node_tables[name].ids)
                for key, name in ((SOURCE_KEY, edge_set.source), (TARGET_KEY, edge_set.target))
            },
            time_feature=self._edge_times.get(layout.name, ""),
        )
        self._gather(checked.report, checked.problems)
        arrays = {key: column for key, column in table.columns.items() if key not in (SOURCE_KEY, TARGET_KEY)}
        if len(checked.positions) < table.num_rows:
            positions = pa.array(checked.positions)
            arrays = {key: column.take(positions) for key, column in arrays.items()}
        features, extra_columns = split_columns(arrays)
        return EdgeTable(
            path=layout.declared_as,
            source_set=edge_set.source,
            target_set=edge_set.target,
            sources=checked.sources,
            targets=checked.targets,
            features=features,
            rows=table.rows[checked.positions],
            extra_columns=extra_columns,
        )

    def read_context(self, layout: TableLayout) -> ContextTable:
        table = read_table(layout, self._rules)
        features, extra_columns = split_columns(table.columns)
        check_context_rows(layout, table.num_rows)
        self._gather(table.report, table.problems)
        return ContextTable(
            path=layout.declared_as, features=features, extra_columns=extra_columns, num_rows=table.num_rows
        )

    def _gather(self, report: TableReport, problems: tuple[RowProblem, ...]) -> None:
        self.reports[report.table] = report
        self.problems += problems


def check_context_rows(layout: TableLayout, num_rows: int) -> None:
    """Refuses a context table that has not exactly one row, unless columns were requested that tell graphs apart."""
    if num_rows != 1 and not any(key.startswith(EXTRA_PREFIX) for key in layout.columns):
        raise _not_one_row(layout, num_rows)


def _not_one_row(layout: TableLayout, num_rows: int) -> ValueError:
    return ValueError(
        f"`{layout.label}` must have exactly one row, for the whole graph; got {num_rows} in {layout.declared_as}. "
        "Keep one, or read the tables as many graphs by their graph ids."
    )


def split_columns(arrays: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Splits the columns of a table, by key, into features and the columns requested by name."""
    features = {key: array for key, array in arrays.items() if not key.startswith(EXTRA_PREFIX)}
    extra = {key.removeprefix(EXTRA_PREFIX): array for key, array in arrays.items() if key.startswith(EXTRA_PREFIX)}
    return features, extra


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesCheck:
    """What a check of tables found.

    Attributes:
        reports: by table label, counts of its rows, for tables that can be read.
        problems: rows that cannot be used, table by table.
        faults: by table label, why the whole table is unusable, or what could not be
            checked.
    """

    reports: Mapping[str, TableReport]
    problems: tuple[RowProblem, ...]
    faults: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Whether the check found nothing wrong."""
        return not (self.problems or self.faults)


def check_tables(tables_dir: str, *, access: TableAccess | None = None) -> TablesCheck:
    """Checks all tables of a folder, and continues after a broken one.

    An edge is good if both ends are rows with an id, even if these rows break other rules:
    the rows are reported themselves, and fixing them fixes their edges. Node tables with
    such rows are read twice.

    Only the ids of node tables, and one edge table at a time, are kept in memory.

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the tables it names.
        access: the schema's file name, if not the default, and which files may be read.

    Returns:
        Counts of the rows, and what is wrong with them.

    Raises:
        ValueError: if the schema itself is missing or invalid, or has no node set.
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
    """Checks one table after the other, node tables first."""

    def __init__(self, schema: GraphSchema) -> None:
        self._schema = schema
        self._nodes: dict[str, tuple[TableLayout, pa.Array]] = {}
        self.reports: dict[str, TableReport] = {}
        self.problems: list[RowProblem] = []
        self.faults: dict[str, str] = {}

    def check(self, layout: TableLayout) -> None:
        table = read_table(layout, _RULES_OF_CHECK)
        # A preliminary report, replaced by the checks below unless they fail.
        self._note(table.report, ())
        if layout.kind == "node":
            nodes = check_nodes(table, _RULES_OF_CHECK)
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
                    f"`{layout.label}` must lead to nodes that exist; got none to compare with, as {unknown} "
                    "cannot be read. Fix the node tables first, and check again."
                )
            for name in sets.values():
                if table.num_rows and not len(self._nodes[name][1]):
                    raise no_records(self._nodes[name][0])
            edges = check_edges(
                table,
                _RULES_OF_CHECK,
                ends={
                    key: (name, self._nodes[name][0].declared_as, self._nodes[name][1]) for key, name in sets.items()
                },
            )
            self._note(edges.report, edges.problems)
        else:
            self._note(table.report, table.problems)
            if table.num_rows != 1:
                raise _not_one_row(layout, table.num_rows)

    def _note(self, report: TableReport, problems: tuple[RowProblem, ...]) -> None:
        self.reports[report.table] = report
        self.problems += problems


def _readable_ids(layout: TableLayout) -> pa.Array:
    """Reads the ids of a node table, including rows that break a rule in another column."""
    only_ids = dataclasses.replace(layout, columns={ID_FEATURE: layout.columns[ID_FEATURE]}, decoders={})
    return read_table(only_ids, _RULES_OF_CHECK).columns[ID_FEATURE].unique()
