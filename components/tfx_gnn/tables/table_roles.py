"""Finds out which files of a folder are tables of nodes, which of edges, and what the edges join.

Names decide first: a table with a column `id`, or one that is named after the table, holds nodes; a table with columns
`source` and `target` holds edges. Then values decide: a table holds edges if two of its columns hold ids of nodes. A
column of a node table that holds ids of nodes is a foreign key, and an edge set too.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Mapping

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_values import ColumnValues, read_column_values
from tfx_gnn.tables.data_files import format_of_name
from tfx_gnn.tables.schema_inference import infer_schema, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess

_LEAST_SHARE_OF_IDS = 0.9
"""A column refers to nodes if at least this share of its rows holds ids of them; the others are dangling."""

_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
_SHARD = re.compile(r"-\d{5}-of-(\d{5})")
_KIND_IN_NAME = re.compile(r"^(nodes?|edges?)[_\-. ]+(?=.)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundTable:
    """A file, or shards, that may be a table of nodes or edges.

    Attributes:
        name: name of its node set or edge set, after the file.
        filename: the file, or the pattern of its shards, relative to the folder.
        columns: the values of its columns, in their order.
    """

    name: str
    filename: str
    columns: Mapping[str, ColumnValues]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeRole:
    """What the edges of a table join.

    Attributes:
        table: name of the table.
        source_column: column with ids of the edges' sources.
        source: node set of the sources.
        target_column: column with ids of the edges' targets.
        target: node set of the targets.
    """

    table: str
    source_column: str
    source: str
    target_column: str
    target: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRoles:
    """Which tables hold nodes and which hold edges.

    Attributes:
        tables: all tables, by name.
        id_columns: by node set, the column of ids.
        edges: by edge set, what its edges join.
    """

    tables: Mapping[str, FoundTable]
    id_columns: Mapping[str, str]
    edges: Mapping[str, EdgeRole]

    def infer_schema(self, tables_dir: str, access: TableAccess) -> GraphSchema:
        """Infers the graph schema of the tables; see the function `infer_schema`."""
        schema = infer_schema(
            tables_dir=tables_dir,
            node_tables={name: self.tables[name].filename for name in self.id_columns},
            edge_tables={
                name: (role.source, role.target, self.tables[role.table].filename) for name, role in self.edges.items()
            },
            id_columns={name: column for name, column in self.id_columns.items() if column not in ("id", "#id")},
            source_columns={name: role.source_column for name, role in self.edges.items()},
            target_columns={name: role.target_column for name, role in self.edges.items()},
            access=access,
        )
        for name, role in self.edges.items():
            if role.table in self.id_columns:
                # The other columns are those of the nodes.
                schema.edge_sets[name].ClearField("features")
                schema.edge_sets[name].ClearField("description")
                schema.node_sets[role.table].features.pop(role.target_column, None)
        return schema


def find_tables(tables_dir: str, access: TableAccess) -> dict[str, FoundTable]:
    """Reads the CSV and Parquet files of a folder.

    Args:
        tables_dir: the folder.
        access: the largest record, and whether links may lead out of the folder.

    Returns:
        The tables by name, in alphabetical order.

    Raises:
        ValueError: if it is no folder, holds no table or two of one name, or a file is broken.
    """
    if not tf.io.gfile.isdir(tables_dir):
        raise ValueError(f"`tables_dir` must be a folder; got {tables_dir!r}, which is not one. Correct the name.")
    entries = sorted(name for name in tf.io.gfile.listdir(tables_dir) if not name.startswith("."))
    filenames = sorted({_SHARD.sub(r"-?????-of-\1", name) for name in entries if format_of_name(name) is not None})
    if not filenames:
        raise ValueError(
            f"`tables_dir` must hold tables as .csv, .tsv or .parquet files; got {entries[:10]} in {tables_dir!r}. "
            "Name the folder that holds them, or export them there."
        )
    tables: dict[str, FoundTable] = {}
    for filename in filenames:
        name = _set_name(filename)
        if name in tables:
            raise ValueError(
                f"`tables_dir` must hold tables of different names; got {tables[name].filename!r} and {filename!r} in "
                f"{tables_dir!r}. Rename one, or move it away."
            )
        layout = undeclared_layout("node", name, tables_dir, filename, access)
        if layout.format == "tfrecord":
            raise ValueError(
                f"`tables_dir` must hold a graph schema where tables are TFRecord files; got {filename!r} in "
                f"{tables_dir!r}. Write one by `tfx-gnn tables infer-schema`."
            )
        columns = read_column_values(layout)
        only = next(iter(columns)) if len(columns) == 1 else ""
        wrong = next((mark for mark in (";", "\t", "|") if mark in only), "")
        if wrong:
            raise ValueError(
                f"`{filename}` must have commas between its cells, or tabs in a .tsv file; got {wrong!r} in its first "
                "line. Export it with commas."
            )
        tables[name] = FoundTable(name=name, filename=filename, columns=columns)
    return tables


def find_roles(tables: Mapping[str, FoundTable], tables_dir: str) -> TableRoles:
    """Decides which tables hold nodes and which hold edges.

    Args:
        tables: the tables by name.
        tables_dir: their folder, for messages.

    Returns:
        The roles of all tables.

    Raises:
        ValueError: if the role of a table is not clear; the message has the command that can say it.
    """
    ids: dict[str, str] = {}
    edges: dict[str, EdgeRole] = {}
    for table in tables.values():
        column = named_id(table)
        if column:
            ids[table.name] = column
    _add_edges(edges, tables, ids)
    for table in tables.values():
        first = next(iter(table.columns), "")
        is_open = table.name not in ids and table.name not in edges
        is_of_edges = bool(named_ends(list(table.columns))) or table.filename.casefold().startswith("edge")
        if is_open and not is_of_edges and first and table.columns[first].is_key:
            ids[table.name] = first
    _add_edges(edges, tables, ids)
    roles = TableRoles(tables=tables, id_columns=ids, edges=edges)
    for table in tables.values():
        if table.name not in ids and table.name not in edges:
            raise ValueError(_unclear(table, roles, tables_dir))
    foreign_keys = {
        _unused_name(f"{role.table}_{role.target_column}", tables): role
        for name, column in ids.items()
        for role in _foreign_keys(tables[name], column, {one: tables[one].columns[of] for one, of in ids.items()})
    }
    return dataclasses.replace(roles, edges={**edges, **foreign_keys})


def _foreign_keys(table: FoundTable, id_column: str, ids: Mapping[str, ColumnValues]) -> Iterator[EdgeRole]:
    """Finds the columns of a node table that hold ids of nodes in every row.

    Small integers often do by chance, so a column of numbers must be named after the nodes.
    """
    for name, column in table.columns.items():
        if name == id_column or column.num_filled < column.num_rows:
            continue
        found = list(_node_sets_of(name, column, ids))
        is_named = any(ends_with(words_of(name), words_of(one)) for one in found)
        if len(found) == 1 and (is_named or column.numbers() is None):
            yield EdgeRole(
                table=table.name, source_column=id_column, source=table.name, target_column=name, target=found[0]
            )


def _unused_name(name: str, tables: Mapping[str, FoundTable]) -> str:
    name = re.sub(r"\W+", "_", name)
    return name if name not in tables else f"{name}_edges"


def _set_name(filename: str) -> str:
    base = _SHARD.sub("", os.path.basename(filename).replace("-?????-of-", "-00000-of-"))
    stem = re.sub(r"\.(csv|tsv|parquet)(\.gz)?$", "", base)
    return re.sub(r"\W+", "_", _KIND_IN_NAME.sub("", stem)).strip("_") or "table"


def named_id(table: FoundTable) -> str:
    """Finds the column that a name tells to hold the ids of nodes; "" if there is none."""
    if named_ends(list(table.columns)):
        return ""
    for name in ("id", "#id"):
        if name in table.columns:
            return name
    owner = words_of(table.name)
    named = [name for name, column in table.columns.items() if column.is_key and ends_with(owner, words_of(name))]
    return named[0] if named else ""


def named_ends(names: list[str]) -> tuple[str, str] | None:
    """Finds the columns that names tell to hold the sources and the targets of edges."""
    by_word = {"_".join(words_of(name)): name for name in reversed(names)}
    return next(
        ((by_word[source], by_word[target]) for source, target in _ENDS if source in by_word and target in by_word),
        None,
    )


def _add_edges(edges: dict[str, EdgeRole], tables: Mapping[str, FoundTable], ids: Mapping[str, str]) -> None:
    for table in tables.values():
        if table.name not in ids and table.name not in edges:
            role = edge_role(table, {name: tables[name].columns[column] for name, column in ids.items()})
            if role is not None:
                edges[table.name] = role


def edge_role(table: FoundTable, ids: Mapping[str, ColumnValues]) -> EdgeRole | None:
    """Finds the two columns of a table that hold ids, and of which nodes; None if they are not clear."""
    holders = {name: list(_node_sets_of(name, column, ids)) for name, column in table.columns.items()}
    found = [name for name, node_sets in holders.items() if node_sets]
    ends = named_ends(list(table.columns)) or _two_of(found, table, holders)
    if ends is None or not all(len(holders[end]) == 1 for end in ends):
        return None
    source, target = ends
    return EdgeRole(
        table=table.name,
        source_column=source,
        source=holders[source][0],
        target_column=target,
        target=holders[target][0],
    )


def _two_of(found: list[str], table: FoundTable, holders: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """Chooses the ends among columns that may hold ids: small integers often do by chance."""
    named = [name for name in found if any(ends_with(words_of(name), words_of(one)) for one in holders[name])]
    repeated = [name for name in found if not table.columns[name].is_key]
    for chosen in (found, named, repeated):
        if len(chosen) == 2:
            return chosen[0], chosen[1]
    return None


def _node_sets_of(name: str, column: ColumnValues, ids: Mapping[str, ColumnValues]) -> Iterator[str]:
    """Lists the node sets whose ids a column holds; only those after which it is named, if there are any."""
    found = [
        node_set
        for node_set, known in ids.items()
        if column.num_filled and column.count_in(known) >= _LEAST_SHARE_OF_IDS * column.num_filled
    ]
    named = [node_set for node_set in found if ends_with(words_of(name), words_of(node_set))]
    yield from named or found


def words_of(name: str) -> list[str]:
    """Splits a name into words in the singular, without "id" and numbers."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = [_singular(word) for word in re.findall(r"[^\W_]+", parted.casefold())]
    return [word for word in words if word not in ("id", "key") and not word.isdecimal()] or words or [name]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


def ends_with(words: list[str], others: list[str]) -> bool:
    """Whether the last words are the others."""
    return words[-len(others) :] == others


def _unclear(table: FoundTable, roles: TableRoles, tables_dir: str) -> str:
    ids = {name: roles.tables[name].columns[column] for name, column in roles.id_columns.items()}
    held = {name: list(_node_sets_of(name, column, ids)) for name, column in table.columns.items()}
    holding = ", ".join(f"{name} (of {' or '.join(held[name])})" for name in table.columns if held[name])
    others = ", ".join(name for name in table.columns if not held[name])
    known = ", ".join(f"{name} such as {one.values[0].as_py()!r}" for name, one in ids.items() if one.num_distinct)
    command = ["tfx-gnn", "tables", "infer-schema", "--tables-dir", tables_dir]
    for name, column in roles.id_columns.items():
        command += ["--node", f"{name}={roles.tables[name].filename}"]
        command += ["--id-column", f"{name}={column}"] if column not in ("id", "#id") else []
    for name, role in roles.edges.items():
        command += ["--edge", f"{name}={role.source},{role.target},{roles.tables[name].filename}"]
        command += [
            "--source-column",
            f"{name}={role.source_column}",
            "--target-column",
            f"{name}={role.target_column}",
        ]
    open_edge = [
        *("--edge", f"{table.name}=SET,SET,{table.filename}"),
        *("--source-column", f"{table.name}=COLUMN", "--target-column", f"{table.name}=COLUMN"),
    ]
    return (
        "`tables_dir` must show which tables hold nodes, by a column with another id in every row, and which hold "
        f"edges, by two columns of such ids; got {table.filename}, where ids of nodes are in {holding or 'no column'} "
        f"and not in {others or 'any other'}; the ids known are {known or 'none'}. Rename the columns to id, or to "
        "source and target; or write the schema, with SET and "
        f"COLUMN filled in, or without the last table: {shlex.join([*command, *open_edge])}"
    )
