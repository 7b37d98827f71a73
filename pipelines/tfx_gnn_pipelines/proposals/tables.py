"""The tables that a project is proposed for: read where they are, or written anew."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, GraphSchema, NodeSet
from tfx_gnn.io.suggestions import closest_names, did_you_mean
from tfx_gnn.snapshot.snapshot_manifest import SNAPSHOT_FILE
from tfx_gnn.snapshot.source_address import hide_passwords, is_database
from tfx_gnn.tables.amounts import ask_about_amounts, take_amounts
from tfx_gnn.tables.column_values import ColumnValues, read_column_values
from tfx_gnn.tables.data_files import format_of_name
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.keys.database import Database
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.given_keys import GivenKeys
from tfx_gnn.tables.keys.table_roles import FoundTable, find_tables
from tfx_gnn.tables.label_splits import SPLIT_COLUMN
from tfx_gnn.tables.mixed_times import describe_mixed_times
from tfx_gnn.tables.prepared_tables import PreparedTables, write_prepared_tables
from tfx_gnn.tables.row_times import clock_columns, day_questions, may_be_times, row_time_columns, time_parts
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import TableLayout
from tfx_gnn_pipelines.proposals.missing_value_questions import ask_about_label, ask_about_time

_MOST_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetTable:
    """What is known of the table of a node set or edge set.

    Attributes:
        layout: the table.
        columns: the values of all its columns, by name.
    """

    layout: TableLayout
    columns: Mapping[str, ColumnValues]

    @property
    def num_rows(self) -> int:
        """Number of rows that can be read."""
        return max((column.num_rows for column in self.columns.values()), default=0)

    def values_of(self, key: str) -> ColumnValues:
        """Returns the values of a feature, `#id`, `#source` or `#target`."""
        column = self.layout.columns[key]
        return next(self.columns[name] for name in (column.name, *column.alternatives) if name in self.columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesSource:
    """Tables that a project is proposed for.

    Attributes:
        tables_dir: their folder.
        schema: their graph schema.
        is_inferred: whether the schema was inferred; otherwise the folder holds it.
        columns: by file name, the values of columns that were read already.
        prepared: what was learned where tables were written anew.
        remarks: what was decided, a sentence each.
        questions: what is open, a sentence each.
        named_by_label: the node set whose rows the label names by their ids; empty if it names none.
    """

    tables_dir: str
    schema: GraphSchema
    is_inferred: bool
    columns: Mapping[str, Mapping[str, ColumnValues]] = dataclasses.field(default_factory=dict)
    prepared: PreparedTables | None = None
    remarks: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    named_by_label: str = ""

    @property
    def times(self) -> Mapping[str, Sequence[str]]:
        """By set, its features that are times, where tables were written anew."""
        return self.prepared.times if self.prepared is not None else {}

    def read_sets(self, access: TableAccess) -> dict[str, SetTable]:
        """Reads the tables by label, such as "nodes/user"."""
        return {
            layout.label: _set_table(layout, self.columns, declared_set(self.schema, layout).metadata.filename)
            for layout in layouts_of(self.schema, self.tables_dir, access=access).all
            if layout.kind in ("node", "edge")
        }


def find_source(tables_dir: str, label: str, prepared_dir: str, access: TableAccess, given: GivenKeys) -> TablesSource:
    """Takes tables as they are if they can be read so, have no times and leave nothing open; else writes them anew."""
    _check_is_no_database(tables_dir)
    if tf.io.gfile.exists(access.schema_path(tables_dir)):
        return _declared_source(tables_dir, access, given)
    found = _find_tables(tables_dir, access, given)
    if prepared_dir:
        found = _with_amounts(found)
    of_label, _, column = label.partition(".")
    # Rows of an edge table can be predicted as nodes only where it is written anew.
    node = (of_label, column) if prepared_dir else ("", "")
    database = find_keys(found, tables_dir, label=node, access=access)
    predicted = found.get(of_label)
    is_plain = database.is_tidy and not database.has_other_spellings
    # What is asked about can be answered as long as no schema stands beside the tables.
    is_plain = is_plain and not any(_questions(database, node))
    is_plain = is_plain and not _has_times(of_label, column, found, database) and not _lacks_labels(predicted, column)
    if prepared_dir and not database.unclear and not is_plain:
        _check_label(label, found)
        return _written_anew(database, tables_dir, prepared_dir, node, access)
    schema = database.roles(tables_dir).infer_schema(tables_dir, access)
    return TablesSource(
        tables_dir=tables_dir,
        schema=schema,
        is_inferred=True,
        columns={table.filename: table.columns for table in found.values()},
        remarks=(*_unread_files(tables_dir), *database.describe()),
        questions=tuple(_questions(database, node)),
        named_by_label=database.named_by_label,
    )


def find_task_source(tables_dir: str, prepared_dir: str, access: TableAccess, given: GivenKeys) -> TablesSource:
    """Takes tables with a graph schema as they are, and writes others anew, with the times of rows at their edges.

    Raises:
        ValueError: if the tables do not show what refers to what.
    """
    _check_is_no_database(tables_dir)
    if tf.io.gfile.exists(access.schema_path(tables_dir)):
        return _declared_source(tables_dir, access, given)
    database = find_keys(_with_amounts(_find_tables(tables_dir, access, given)), tables_dir, access=access)
    if database.unclear:
        database.roles(tables_dir)
    return _written_anew(database, tables_dir, prepared_dir, ("", ""), access)


def _check_is_no_database(tables_dir: str) -> None:
    if is_database(tables_dir):
        raise ValueError(
            f"`tables_dir` must be a folder of CSV or Parquet files; got the database {hide_passwords(tables_dir)!r}. "
            "Copy its tables by `tfx-gnn snapshot SOURCE --to FOLDER`, and give that folder."
        )


def _declared_source(tables_dir: str, access: TableAccess, given: GivenKeys) -> TablesSource:
    """Takes tables with a graph schema, which has the last word."""
    path = access.schema_path(tables_dir)
    if given:
        raise ValueError(
            f"Keys and times of tables must be given where no graph schema has them; got some, and {path}. Change them "
            "there; or remove it, and they are found again."
        )
    return TablesSource(tables_dir=tables_dir, schema=read_tables_schema(tables_dir, access=access), is_inferred=False)


def _find_tables(tables_dir: str, access: TableAccess, given: GivenKeys) -> dict[str, FoundTable]:
    """Reads the tables of a folder, with the keys and times that are given."""
    tables = given.declare(find_tables(tables_dir, access))
    for name, column in given.time_columns.items():
        values = tables[name].columns.get(column)
        mixed = describe_mixed_times(values) if values is not None else ""
        if mixed:
            raise ValueError(f"`time_columns` must name columns that can be read as times; {name}.{column} {mixed}.")
        if values is not None and not may_be_times(values):
            raise ValueError(
                f"`time_columns` must name columns of dates, time stamps, seconds since 1970 or years; got "
                f"{name}.{column}, with values such as {values.values[:1].to_pylist()}. Name another one."
            )
    return tables


def _with_amounts(tables: Mapping[str, FoundTable]) -> dict[str, FoundTable]:
    """Reads amounts as numbers, which tables hold that are written anew."""
    return {name: dataclasses.replace(table, columns=take_amounts(table.columns)) for name, table in tables.items()}


def _written_anew(
    database: Database, tables_dir: str, prepared_dir: str, label: tuple[str, str], access: TableAccess
) -> TablesSource:
    os.makedirs(prepared_dir, exist_ok=True)
    prepared = write_prepared_tables(database, tables_dir, prepared_dir, label=label, access=access)
    return TablesSource(
        tables_dir=prepared_dir,
        schema=prepared.schema,
        is_inferred=True,
        prepared=prepared,
        remarks=(*_unread_files(tables_dir), *_key_remarks(database, prepared)),
        questions=(*_questions(database, label), *_time_questions(prepared)),
        named_by_label=database.named_by_label,
    )


def _has_times(name: str, label: str, tables: Mapping[str, FoundTable], database: Database) -> bool:
    """Whether a table has dates or time stamps, or one that the label's rows name, directly or not, years of rows."""
    for table in tables.values():
        of_label = label if table.name == name else ""
        if {*clock_columns(table)} - {of_label} or time_parts(table, label=of_label):
            return True
    reached, waiting = {name}, [name]
    while waiting:
        one = waiting.pop()
        named = {key.node_set for key in database.foreign_keys if key.table == one} - reached
        reached |= named
        waiting += named
    return any(
        bool(row_time_columns(tables[one], label=label if one == name else "")) for one in reached & tables.keys()
    )


def _lacks_labels(table: FoundTable | None, column: str) -> bool:
    """Whether some rows have no label, and no column says which are predicted."""
    if table is None or column not in table.columns or SPLIT_COLUMN in table.columns:
        return False
    return table.columns[column].num_filled < table.columns[column].num_rows


def like_label(label: str, known: Sequence[str]) -> str:
    """Returns the advice for a label that is none: one with a column of that name, whatever the table, or one alike."""
    column = label.rpartition(".")[2]
    columns = {text.partition(".")[2]: text for text in known}
    alike = closest_names(column, [column] if column in columns else columns)
    by_column = f"Did you mean {columns[alike[0]]!r}?" if alike else "Check the spelling."
    return did_you_mean(label, known, otherwise=by_column)


def _check_label(label: str, tables: Mapping[str, FoundTable]) -> None:
    """Refuses a label that no table has, or that is of a table without rows, before tables are written anew."""
    known = [f"{name}.{column}" for name, table in tables.items() for column in table.columns if column]
    if label not in known:
        raise ValueError(
            f"`label` must be a table and the column that is predicted, TABLE.COLUMN; got {label or 'none'!r} where "
            f"there are {', '.join(known)}. {like_label(label, known) if label else 'Choose one.'}"
        )
    table = tables[label.partition(".")[0]]
    if not table.num_rows:
        raise ValueError(
            f"`label` must be of a table with rows; got {label!r}, and {table.filename} has none. Fill it, or give "
            "another label."
        )


def _unread_files(tables_dir: str) -> Iterator[str]:
    """Says which files and folders of a folder of tables are passed over, but for what describes the tables."""
    unread = sorted(
        name
        for name in tf.io.gfile.listdir(tables_dir)
        if not name.startswith(".") and not name.endswith(".md") and name != SNAPSHOT_FILE and not format_of_name(name)
    )
    if unread:
        shown = ", ".join(unread[:_MOST_SHOWN]) + (
            f" and {len(unread) - _MOST_SHOWN} more" * (len(unread) > _MOST_SHOWN)
        )
        yield (
            f"Passed over in {tables_dir}: {shown}. Tables are .csv, .tsv and .parquet files; `tfx-gnn snapshot` makes "
            "such of .jsonl and .ndjson files and of databases. Export others as one of these."
        )


def _key_remarks(database: Database, prepared: PreparedTables) -> Iterator[str]:
    yield from database.describe()
    if prepared.integers:
        yield (
            f"{', '.join(prepared.integers)}: all numbers are whole, and some rows have none, where programs write "
            "integers as 7.0: they are read as integers."
        )
    yield from prepared.row_times.remarks
    if prepared.label_splits is not None:
        how = "at random" if prepared.label_splits.bounds is None else "by time"
        yield (
            f"{prepared.label_splits.num_unlabeled:,} rows have no label and are not predicted; the others are divided "
            f"{how}, 80 % for training, into the column {SPLIT_COLUMN!r}."
        )


def _questions(database: Database, label: tuple[str, str]) -> Iterator[str]:
    yield from database.questions
    name, column = label
    if name in database.tables and column in database.tables[name].columns:
        yield from ask_about_label(f"{name}.{column}", database.tables[name].columns[column])
    for table in database.tables.values():
        yield from day_questions(table)
        yield from ask_about_amounts(table.name, table.columns)
        for one, values in table.columns.items():
            yield from ask_about_time(f"{table.name}.{one}", values)
            mixed = "" if table.declared.is_timeless else describe_mixed_times(values)
            if mixed:
                yield f"{table.name}.{one} {mixed}, and run this again; until then it is read as a text."


def _time_questions(prepared: PreparedTables) -> Iterator[str]:
    for name, columns in prepared.row_times.undecided.items():
        what = "none is taken for the time of its rows. If one is it"
        if name in prepared.row_times.by_row:
            what = "a row of it is there from the latest on. If that is too late"
        yield (
            f"{name} has several columns of times, {', '.join(columns)}, none of which is nearly always first: {what}, "
            f"give --time-column {name}=COLUMN."
        )


def declared_set(schema: GraphSchema, layout: TableLayout) -> NodeSet | EdgeSet:
    """Returns what a schema declares of the set that a table holds."""
    return schema.node_sets[layout.name] if layout.kind == "node" else schema.edge_sets[layout.name]


def _set_table(layout: TableLayout, known: Mapping[str, Mapping[str, ColumnValues]], filename: str) -> SetTable:
    """Takes the values that were read to find the roles of tables, or reads them."""
    if layout.format not in ("csv", "parquet"):
        raise ValueError(
            "`tables_dir` must hold CSV or Parquet files, which are read to propose a project; got "
            f"{layout.format!r} for {layout.label}. Start from the example of `tfx-gnn new` without tables."
        )
    return SetTable(layout=layout, columns=known[filename] if filename in known else read_column_values(layout))
