"""The files of a folder as tables, and the graph schema that follows from which hold nodes and which edges."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_values import ColumnValues, read_column_values
from tfx_gnn.tables.data_files import format_of_name
from tfx_gnn.tables.keys.declared_keys import DeclaredKeys, read_declared_keys
from tfx_gnn.tables.null_spellings import take_null_spellings
from tfx_gnn.tables.schema_inference import infer_schema, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess

_SHARD = re.compile(r"-\d{5}-of-(\d{5})")
_KIND_IN_NAME = re.compile(r"^(nodes?|edges?)[_\-. ]+(?=.)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundTable:
    """A file, or shards, that may be a table of nodes or edges.

    Attributes:
        name: name of its node set or edge set, after the file.
        filename: the file, or the pattern of its shards, relative to the folder.
        columns: the values of its columns, in their order.
        declared: the keys that the source of a Parquet file declares.
    """

    name: str
    filename: str
    columns: Mapping[str, ColumnValues]
    declared: DeclaredKeys = dataclasses.field(default_factory=DeclaredKeys)

    @property
    def num_rows(self) -> int:
        """Number of rows that can be read."""
        return max((column.num_rows for column in self.columns.values()), default=0)


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
    for name in entries:
        if format_of_name(name) is None and format_of_name(name.lower()) is not None:
            raise ValueError(
                f"`tables_dir` must hold tables whose suffix is in small letters; got {name!r} in {tables_dir!r}. "
                "Rename it, or move it away."
            )
    filenames = sorted({_SHARD.sub(r"-?????-of-\1", name) for name in entries if format_of_name(name) is not None})
    if not filenames:
        raise ValueError(
            f"`tables_dir` must hold tables as .csv, .tsv or .parquet files; got {entries[:10]} in {tables_dir!r}. "
            "Name the folder that holds them, or export them there; `tfx-gnn snapshot` makes such of .jsonl and "
            ".ndjson files and of databases."
        )
    tables: dict[str, FoundTable] = {}
    for filename in filenames:
        name = name_of_file(filename)
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
        declared = read_declared_keys(layout.files[0]) if layout.format == "parquet" else DeclaredKeys()
        tables[name] = FoundTable(name=name, filename=filename, columns=take_null_spellings(columns), declared=declared)
    return tables


def name_of_file(filename: str) -> str:
    """Names a table after its file, as node sets and edge sets are named."""
    base = _SHARD.sub("", os.path.basename(filename).replace("-?????-of-", "-00000-of-"))
    stem = re.sub(r"\.(csv|tsv|parquet)(\.gz)?$", "", base)
    return re.sub(r"\W+", "_", _KIND_IN_NAME.sub("", stem)).strip("_") or "table"
