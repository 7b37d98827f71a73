"""The file layout of a partitioned graph.

A partitioned graph stores a graph as Arrow files that are loaded one partition at a
time. The first bits of a node's code are the number of its partition; an edge is
in the partition of the node that it is looked up by. A folder consists of

    partitions.json                                   list of the tables (`PartitionInfo`)
    graph_schema.pbtxt                           schema of the tables
    nodes/<set>/<p>.arrow                        nodes, by code
    edges/<set>/<direction>/<p>.arrow            edges of nodes that are not hubs
    edges/<set>/<direction>/<p>.hubs.arrow       hubs: number of edges in each bucket
    edges/<set>/<direction>/<q>.buckets.arrow    edges of hubs, divided into buckets
    edges/<set>/<p>.in_degrees.arrow             number of edges at each node that negatives are drawn from
    seeds/<p>.arrow                              seeds, by key
    context/0.arrow                              features of the context, one row

A partition in which a table has no rows has no file of that table.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import os
import urllib.parse
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE

FORMAT_VERSION = 1
"""Version of the format; folders of other versions cannot be read."""

CODE = "#code"
"""Column of node tables: code of the node, uint64 viewed as int64. Rows ascend by the uint64 value."""
ID = ID_NAME
"""Column of node tables: original id."""
NODE = "#node"
"""Column of edge tables: code of the node that an edge is looked up by."""
NEIGHBOR = "#neighbor"
"""Column of edge tables: code of the node at the other end."""
ROW = "#row"
"""Column of edge and seed tables: row in the table as written, from 0 over all of its files."""
RANK = "#rank"
"""Column of edge tables: rank of the edge, int8, which decides the splits that see it (see `edge_ranks`)."""
IN_DEGREE = "#in_degree"
"""Column of edge tables: number of edges of the set at the neighbor; in in-degree tables: at the node."""
BUCKET = "#bucket"
"""Column of bucket and hub tables: number of the bucket of a hub, int32."""
BUCKET_COUNT = "#bucket_count"
"""Column of hub tables: number of edges in the bucket."""
KEY = "#key"
"""Column of seed tables: key of the subgraph, uint64 viewed as int64. Rows ascend by (uint64 value, row)."""
SOURCE = "#source"
"""Column of seed tables of link plans: code of the source."""
TARGET = "#target"
"""Column of seed tables of link plans: code of the target."""
SPLIT = "#split"
"""Column of seed tables: position of the split in `PartitionInfo.splits`, int16."""
TIME = "#time"
"""Column of seed tables: time limit of the subgraph, int64."""
UNIT = "#unit"
"""Column of rows while the graph is partitioned: position of the unit that a row was read from, int32."""
RESERVED = frozenset(
    (CODE, ID, NODE, NEIGHBOR, ROW, RANK, IN_DEGREE, BUCKET, BUCKET_COUNT, KEY, SOURCE, TARGET, SPLIT, TIME, UNIT)
)
"""All columns that are not features. A feature may begin with # too: TF-GNN's weights are `#weight`."""

_INFO_FILE = "partitions.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionedTable:
    """One table of a partitioned graph.

    Attributes:
        schema: Arrow schema of the table's files.
        num_rows: number of rows in each partition; a partition with 0 rows has no file.
    """

    schema: pa.Schema
    num_rows: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of rows in all partitions together."""
        return sum(self.num_rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionInfo:
    """Description of a partitioned graph: the content of `partitions.json`.

    Attributes:
        num_partitions: number of partitions, a power of two.
        hub_degree: a node with more edges than this in a direction is a hub in that
            direction.
        tables: by path without partition, such as "nodes/item" (see `node_table`,
            `edge_table`, `hub_table`, `bucket_table`, `in_degree_table`, `SEED_TABLE`,
            `CONTEXT_TABLE`).
        num_edges: by edge set, number of edges, including those of hubs.
        in_degree_totals: by edge set whose numbers of edges are stored at one of its ends, the
            sum of these numbers in each partition of the nodes.
        splits: names of the seeds' splits; `SPLIT` is a position in it.
        seed_counts: by split, number of its seeds in each partition of the keys.
        fingerprint: SHA-256 over the content of all files, as hexadecimal digits.
    """

    num_partitions: int
    hub_degree: int
    tables: Mapping[str, PartitionedTable]
    num_edges: Mapping[str, int]
    in_degree_totals: Mapping[str, tuple[int, ...]]
    splits: tuple[str, ...]
    seed_counts: Mapping[str, tuple[int, ...]]
    fingerprint: str


SEED_TABLE = "seeds"
"""Name of the table of seeds."""

CONTEXT_TABLE = "context"
"""Name of the table of the graph's context, one row in partition 0."""


def node_table(node_set: str) -> str:
    """Names the table of a node set within `PartitionInfo.tables`."""
    return f"nodes/{_quoted(node_set)}"


def edge_table(edge_set: str, direction: str) -> str:
    """Names the table of the edges of nodes that are not hubs.

    Edges are looked up by source in direction "forward", by target in "backward".
    """
    return f"edges/{_quoted(edge_set)}/{direction}"


def hub_table(edge_set: str, direction: str) -> str:
    """Names the table of the sizes of hubs' buckets."""
    return f"{edge_table(edge_set, direction)}/hubs"


def bucket_table(edge_set: str, direction: str) -> str:
    """Names the table of the hubs' edges."""
    return f"{edge_table(edge_set, direction)}/buckets"


def in_degree_table(edge_set: str) -> str:
    """Names the table of the numbers of edges at an edge set's targets, or its sources if negatives replace those."""
    return f"edges/{_quoted(edge_set)}/in_degrees"


def as_codes(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Reads an int64 column of codes as uint64 with the same bits."""
    codes: npt.NDArray[np.uint64] = np.asarray(column.to_numpy(), np.int64).view(np.uint64)
    return codes


def one_array(rows: pa.Table, name: str) -> pa.Array:
    """Reads a column as one array, without copying if it is already in one chunk."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def table_file(partitions_dir: str, table: str, partition: int) -> str:
    """Returns the path of one partition of a table."""
    folder, _, kind = table.rpartition("/")
    if table.startswith("edges/") and kind in ("hubs", "buckets", "in_degrees"):
        return os.path.join(partitions_dir, folder, f"{partition}.{kind}.arrow")
    return os.path.join(partitions_dir, table, f"{partition}.arrow")


def schema_file(partitions_dir: str) -> str:
    """Returns the path of the graph schema of the tables."""
    return os.path.join(partitions_dir, GRAPH_SCHEMA_FILE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionRecord:
    """One file that was written.

    Attributes:
        table: name of the table within `PartitionInfo.tables`.
        partition: number of the partition.
        num_rows: number of rows, at least 1.
        digest: SHA-256 of the file as hexadecimal digits.
        total: for in-degree tables, the sum of the in-degrees.
        by_split: for the seed table, the number of seeds of each split.
    """

    table: str
    partition: int
    num_rows: int
    digest: str
    total: int = 0
    by_split: tuple[int, ...] = ()


def write_partition(
    partitions_dir: str, table: str, partition: int, rows: pa.Table, num_splits: int = 0
) -> PartitionRecord:
    """Writes one partition of a table, at least one row; `num_splits`, for seeds, is the plan's number of splits."""
    data = _encode(rows)
    path = table_file(partitions_dir, table, partition)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)
    total, by_split = 0, [0] * num_splits
    if table.endswith("/in_degrees"):
        total = int(rows.column(IN_DEGREE).to_numpy().sum())
    if table == SEED_TABLE:
        for code in rows.column(SPLIT).value_counts():
            by_split[code["values"].as_py()] = code["counts"].as_py()
    return PartitionRecord(
        table=table,
        partition=partition,
        num_rows=rows.num_rows,
        digest=hashlib.sha256(data).hexdigest(),
        total=total,
        by_split=tuple(by_split),
    )


def _encode(rows: pa.Table) -> bytes:
    """Encodes rows as an Arrow IPC file of one batch; equal rows give equal bytes."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks(), max_chunksize=max(rows.num_rows, 1))
    return sink.getvalue()


def read_partition(partitions_dir: str, info: PartitionInfo, table: str, partition: int) -> pa.Table:
    """Reads one partition of a table, each column in at most one chunk."""
    entry = info.tables.get(table)
    if entry is None:
        raise ValueError(
            f"`table` must be in the partitioned graph; got {table!r} in {partitions_dir}, which has "
            f"{sorted(info.tables)}. Partition the graph for the plan to sample."
        )
    if not entry.num_rows[partition]:
        return entry.schema.empty_table()
    path = table_file(partitions_dir, table, partition)
    with tf.io.gfile.GFile(path, "rb") as file:
        rows = pa.ipc.open_file(pa.BufferReader(file.read())).read_all()
    if rows.num_rows != entry.num_rows[partition]:
        raise ValueError(
            f"`{path}` must hold the {entry.num_rows[partition]} rows that partitions.json declares; got "
            f"{rows.num_rows}. Partition the graph again."
        )
    return rows


def assemble_info(
    records: Iterable[PartitionRecord],
    schemas: Mapping[str, pa.Schema],
    *,
    num_partitions: int,
    hub_degree: int,
    num_edges: Mapping[str, int],
    splits: tuple[str, ...],
    schema_text: str,
) -> PartitionInfo:
    """Assembles the content of partitions.json; `schemas` also has tables without rows."""
    by_place = {(record.table, record.partition): record for record in records}

    def records_of(table: str) -> list[PartitionRecord | None]:
        return [by_place.get((table, partition)) for partition in range(num_partitions)]

    digest = hashlib.sha256(f"{FORMAT_VERSION} {num_partitions} {hub_degree} {splits}\n{schema_text}".encode())
    for place in sorted(by_place):
        digest.update(f"\n{place[0]} {place[1]} {by_place[place].digest}".encode())
    return PartitionInfo(
        num_partitions=num_partitions,
        hub_degree=hub_degree,
        tables={
            name: PartitionedTable(schema=schema, num_rows=tuple(r.num_rows if r else 0 for r in records_of(name)))
            for name, schema in schemas.items()
        },
        num_edges=dict(num_edges),
        in_degree_totals={
            edge_set: tuple(r.total if r else 0 for r in records_of(in_degree_table(edge_set)))
            for edge_set in num_edges
            if in_degree_table(edge_set) in schemas
        },
        splits=splits,
        seed_counts={
            name: tuple(r.by_split[code] if r else 0 for r in records_of(SEED_TABLE))
            for code, name in enumerate(splits)
        },
        fingerprint=digest.hexdigest(),
    )


def write_info(partitions_dir: str, info: PartitionInfo) -> None:
    """Writes `partitions.json`, the last file, which marks the partitioned graph as complete."""
    plain = dataclasses.asdict(dataclasses.replace(info, tables={}))
    plain["tables"] = {
        name: {
            "num_rows": list(table.num_rows),
            "columns": {field.name: str(field.type) for field in table.schema},  # for human readers
            "arrow_schema": base64.b64encode(table.schema.serialize().to_pybytes()).decode(),
        }
        for name, table in sorted(info.tables.items())
    }
    text = json.dumps({"format_version": FORMAT_VERSION, **plain}, indent=1, sort_keys=True)
    with tf.io.gfile.GFile(os.path.join(partitions_dir, _INFO_FILE), "w") as file:
        file.write(text + "\n")


def read_info(partitions_dir: str) -> PartitionInfo:
    """Reads `partitions.json`."""
    path = os.path.join(partitions_dir, _INFO_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`partitions_dir` must be the folder of a partitioned graph; got {partitions_dir!r}, which has no "
            f"{_INFO_FILE}. Partition the graph first."
        )
    with tf.io.gfile.GFile(path, "r") as file:
        plain = json.load(file)
    if plain.pop("format_version", None) != FORMAT_VERSION:
        raise ValueError(f"`{path}` must have format version {FORMAT_VERSION}; got another. Partition the graph again.")
    tables = {
        name: PartitionedTable(
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(entry["arrow_schema"]))),
            num_rows=tuple(entry["num_rows"]),
        )
        for name, entry in plain.pop("tables").items()
    }
    for name in ("in_degree_totals", "seed_counts"):
        plain[name] = {key: tuple(values) for key, values in plain[name].items()}
    return PartitionInfo(**{**plain, "tables": tables, "splits": tuple(plain["splits"])})


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
