"""The tables of a graph as DuckDB sees them: typed views, the times of rows, and what refers to what."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.table_views import KEYS, key_names, literal, quoted, scan_table
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.prepared_tables import ROW_TIME
from tfx_gnn.tables.row_times import FIRST_SECOND, LAST_SECOND, TimeOrder, describe_first_time, first_time
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableLayout
from tfx_gnn.tables.table_names import names_other_time, names_time

if TYPE_CHECKING:
    import duckdb

    from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, GraphSchema

Kind = Literal["number", "text", "time", "truth", "other"]
"""What can be done with the values of a column."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskTable:
    """A table of nodes or edges.

    Attributes:
        name: name of the node set or edge set.
        is_node_set: whether it holds nodes.
        features: the columns that the schema declares as features.
        kinds: by column, what can be done with it; without the columns of ids.
        types: by column, DuckDB's type.
        id_column: of a node table, the name that the column of ids has in the file.
        ends: of an edge table, by `#source` and `#target` the names that the column has in the file, and the node set.
    """

    name: str
    is_node_set: bool
    features: frozenset[str]
    kinds: Mapping[str, Kind]
    types: Mapping[str, str]
    id_column: str = ""
    ends: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def view(self) -> str:
        """The quoted name of its view."""
        return f"files.{quoted(self.name)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """What leads from each row of a table to at most one node: a foreign key.

    Attributes:
        table: the table.
        node_set: the node set that it leads to.
        names: what it may be called, the first in messages.
        key: column of the table with the node's id; empty if an edge set has it.
        edge_set: the edge set with one edge for each row.
        row_end: the end of these edges that is the row, `#source` or `#target`.
        node_end: the other end.
    """

    table: str
    node_set: str
    names: tuple[str, ...]
    key: str = ""
    edge_set: str = ""
    row_end: str = ""
    node_end: str = ""


class TaskTables:
    """The tables of a folder, as views of a connection; see `open_task_tables`."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Mapping[str, TaskTable],
        times: Mapping[str, str],
        statements: Sequence[str],
    ) -> None:
        self.connection = connection
        self.tables = tables
        self.statements = tuple(statements)
        self._times = times
        self._time_columns: dict[str, tuple[str, ...]] = {}
        self._remarks: list[str] = []
        self._references: dict[str, tuple[Reference, ...]] = {}

    def table(self, name: str, place: str) -> TaskTable:
        """Finds a table by name.

        Args:
            name: its name.
            place: where it is named, which begins the error.

        Raises:
            ValueError: if there is no such table.
        """
        if name not in self.tables:
            raise ValueError(
                f"{place} must name a table among {sorted(self.tables)}; got {name!r}. "
                f"{did_you_mean(name, self.tables)}"
            )
        return self.tables[name]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was decided of the tables that were looked at, a sentence each."""
        return tuple(self._remarks)

    def time_of(self, table: TaskTable, alias: str) -> str:
        """Writes the times of a table's rows, in UTC, where its view has an alias; empty if they have none.

        Raises:
            ValueError: if several columns could be the time and none comes first, or `times` names one that cannot.
        """
        found = self.time_columns(table)
        if len(found) > 1:
            raise ValueError(
                f"`times` must say which column of {table.name} is the time of its rows; got several of times, "
                f"{', '.join(found)}, none of which is nearly always first. Write, for example, times: "
                f"{{{table.name}: {found[0]}}}."
            )
        return self.as_time(table, found[0], alias) if found else ""

    def time_columns(self, table: TaskTable) -> tuple[str, ...]:
        """Lists the columns that could be the time of a table's rows: the one that `times` names, or what looks so.

        Of several, the first in time is the only one, as where tables are written anew; see `first_time`. A single
        column counts even if all rows have one time: earlier seeds then do not see them, where a guess could show them
        too early.

        Raises:
            ValueError: if `times` names one that cannot be the time.
        """
        if table.name not in self._time_columns:
            self._time_columns[table.name] = self._find_time_columns(table)
        return self._time_columns[table.name]

    def _find_time_columns(self, table: TaskTable) -> tuple[str, ...]:
        named = self._times.get(table.name)
        if named is None:
            found = self._columns_of_times(table)
            first = self._first_time(table, found) if len(found) > 1 else ""
            if first:
                self._remarks.append(describe_first_time(table.name, first, found))
            return (first,) if first else found
        if not named:
            return ()
        if named not in table.kinds:
            raise ValueError(
                f"`times` must name a column of {table.name}; got {named!r}, not one of {sorted(table.kinds)}. "
                f"{did_you_mean(named, table.kinds)}"
            )
        if table.kinds[named] != "time" and not self._holds_seconds(table, named):
            raise ValueError(
                f"`times` must name a column of dates, time stamps, or whole seconds since 1970; got {named!r} of "
                f"{table.name}, of type {table.types[named]}. Convert it."
            )
        return (named,)

    def _columns_of_times(self, table: TaskTable) -> tuple[str, ...]:
        """Lists the columns of times; numbers are seconds, because sampling compares them with the times of seeds."""
        if ROW_TIME in table.kinds:
            return (ROW_TIME,)
        return tuple(
            name
            for name, kind in table.kinds.items()
            if not names_other_time(name)
            and (kind == "time" or (kind == "number" and names_time(name) and self._holds_seconds(table, name)))
        )

    def _first_time(self, table: TaskTable, names: Sequence[str]) -> str:
        """Finds the column that comes first; one time in all rows tells nothing beside others."""
        seconds = {name: f"date_trunc('second', {self.as_time(table, name, 'of_table')})" for name in names}
        rows = f"FROM {table.view} AS of_table"

        def compare(name: str, other: str) -> TimeOrder:
            one, two = seconds[name], seconds[other]
            num_unknown, num_both, num_not_after = self.one(
                f"SELECT count(*) FILTER (WHERE {one} IS NULL AND {two} IS NOT NULL), "
                f"count(*) FILTER (WHERE {one} IS NOT NULL AND {two} IS NOT NULL), "
                f"count(*) FILTER (WHERE {one} <= {two}) {rows}"
            )
            return TimeOrder(num_unknown=num_unknown, num_both=num_both, num_not_after=num_not_after)

        told = [name for name, sql in seconds.items() if self.one(f"SELECT min({sql}) < max({sql}) {rows}")[0]]
        return first_time(told, compare)

    def references_of(self, table: TaskTable) -> tuple[Reference, ...]:
        """Lists what leads from each row of a table to at most one node, by the values of the tables."""
        if table.name not in self._references:
            self._references[table.name] = tuple(self._find_references(table))
        return self._references[table.name]

    def _find_references(self, table: TaskTable) -> Iterator[Reference]:
        for key, (column, node_set) in table.ends.items():
            yield Reference(
                table=table.name,
                node_set=node_set,
                names=tuple(dict.fromkeys((column, key.removeprefix("#"), node_set))),
                key=key,
            )
        for edges in filter(self._is_foreign_key, self.tables.values()):
            for row_end, node_end in ((SOURCE_KEY, TARGET_KEY), (TARGET_KEY, SOURCE_KEY)):
                if table.is_node_set and edges.ends[row_end][1] == table.name:
                    if not self._has_one_edge(edges, row_end):
                        continue
                    node_set = edges.ends[node_end][1]
                    yield Reference(
                        table=table.name,
                        node_set=node_set,
                        names=tuple(dict.fromkeys((edges.name.removeprefix(f"{table.name}_"), edges.name))),
                        edge_set=edges.name,
                        row_end=row_end,
                        node_end=node_end,
                    )

    def _is_foreign_key(self, edges: TaskTable) -> bool:
        """Whether edges tell nothing but what they join and when; others are a table of their own."""
        return bool(edges.ends) and set(edges.kinds) <= {*self._columns_of_times(edges), *self.time_columns(edges)}

    def _has_one_edge(self, edges: TaskTable, end: str) -> bool:
        return bool(self.one(f"SELECT count({quoted(end)}) = count(DISTINCT {quoted(end)}) FROM {edges.view}")[0])

    def _holds_seconds(self, table: TaskTable, column: str) -> bool:
        if not table.types[column].endswith("INT") and table.types[column] != "INTEGER":
            return False
        least, most = self.one(f"SELECT min({quoted(column)}), max({quoted(column)}) FROM {table.view}")
        return least is not None and least >= FIRST_SECOND and most < LAST_SECOND

    @staticmethod
    def as_time(table: TaskTable, column: str, alias: str) -> str:
        """Writes a column of times, in UTC and without a zone, where the table's view has an alias."""
        dtype, sql = table.types[column], f"{alias}.{quoted(column)}"
        if dtype == "TIMESTAMP WITH TIME ZONE":
            return f"timezone('UTC', {sql})"
        if table.kinds[column] == "number":
            return f"make_timestamp({sql} * 1000000)"
        return sql if dtype == "TIMESTAMP" else f"CAST({sql} AS TIMESTAMP)"

    def one(self, query: str) -> tuple[Any, ...]:
        """Returns the only row of a query's result."""
        # A result that is not read to its end keeps the connection from other work.
        rows: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        (row,) = rows
        return row


@contextlib.contextmanager
def open_task_tables(
    tables_dir: str,
    *,
    times: Mapping[str, str] | None = None,
    files: Sequence[str] = (),
    access: TableAccess | None = None,
) -> Iterator[TaskTables]:
    """Opens the tables of a folder in DuckDB, which keeps what does not fit into memory in a temporary folder.

    Queries can read the files of these tables and no others.

    Args:
        tables_dir: local folder of graph_schema.pbtxt and CSV or Parquet tables.
        times: by table, the column with the time of its rows, where several could be; empty if they have none.
        files: other files that queries read.
        access: the schema's file name, and which files may be read.

    Yields:
        The tables. Empty cells are nulls, not what the schema says that they stand for.

    Raises:
        ModuleNotFoundError: if DuckDB is not installed.
        ValueError: if a table is of another format, or broken.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "A prediction task needs DuckDB; it is not installed. Install tfx-gnn with its extra 'sql'.",
            name=error.name,
        ) from error
    if "://" in tables_dir:
        raise ValueError(f"`tables_dir` must be a local folder; got {tables_dir!r}. Copy the tables first.")
    schema = read_tables_schema(tables_dir, access=access)
    layouts = layouts_of(schema, tables_dir, access=access)
    node_sets, edge_sets = layouts.node_sets, layouts.edge_sets
    both = sorted(set(node_sets) & set(edge_sets))
    if both:
        raise ValueError(f"`tables_dir` must have one table of a name; got nodes and edges of {both}. Rename one set.")
    unknown = sorted(set(times or {}) - {*node_sets, *edge_sets})
    if unknown:
        known = sorted({*node_sets, *edge_sets})
        raise ValueError(
            f"`times` must name tables among {known}; got {unknown[0]!r}. {did_you_mean(unknown[0], known)}"
        )
    tables = {**dict(sorted(node_sets.items())), **dict(sorted(edge_sets.items()))}
    statements = ["SET TimeZone = 'UTC'", "CREATE SCHEMA files"]
    statements += [f"CREATE VIEW files.{quoted(name)} AS {scan_table(layout)}" for name, layout in tables.items()]
    allowed = [file for layout in tables.values() for file in layout.files]
    restrictions = [
        "SET autoinstall_known_extensions = false",
        f"SET allowed_paths = [{', '.join(map(literal, [*allowed, *files]))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect(os.path.join(scratch, "task.duckdb")) as connection:
        try:
            for statement in (*statements, *restrictions):
                connection.execute(statement)
            described = {name: _describe(connection, layout, schema) for name, layout in tables.items()}
            yield TaskTables(connection, described, times or {}, statements)
        except duckdb.Error as error:
            raise ValueError(
                "`tables_dir` must hold tables that DuckDB can read, and `sql` a query that it can answer; got "
                f"{' '.join(str(error).split())} Run `tfx-gnn tables check` to see what is wrong with a table."
            ) from error


def _describe(connection: duckdb.DuckDBPyConnection, layout: TableLayout, schema: GraphSchema) -> TaskTable:
    described = connection.execute(f"DESCRIBE files.{quoted(layout.name)}").fetchall()
    types = {column: dtype for column, dtype, *_ in described if column not in KEYS}
    names = key_names(layout)
    edge_set = None if layout.kind == "node" else schema.edge_sets[layout.name]
    return TaskTable(
        name=layout.name,
        is_node_set=edge_set is None,
        features=frozenset(layout.columns) - set(KEYS),
        kinds={column: kind_of(dtype) for column, dtype in types.items()},
        types=types,
        id_column=names.get(ID_FEATURE, ""),
        ends={key: (names[key], node_set) for key, node_set in _node_sets(edge_set).items()},
    )


def _node_sets(edge_set: EdgeSet | None) -> dict[str, str]:
    return {SOURCE_KEY: edge_set.source, TARGET_KEY: edge_set.target} if edge_set is not None else {}


def kind_of(dtype: str) -> Kind:
    """Tells what can be done with values of a type of DuckDB's."""
    if dtype.startswith(("TIMESTAMP", "DATE")):
        return "time"
    if dtype.removeprefix("U").startswith(_NUMBERS) and not dtype.endswith("]"):
        return "number"
    return {"VARCHAR": "text", "BOOLEAN": "truth"}.get(dtype, "other")  # type: ignore[return-value]
