"""Messages between the steps of an index build, and descriptions of the files they wrote.

Every message is about many rows at once and travels as bytes (see `tfx_gnn.sampling.beam.messages`),
under a key of text. A key that names a partition reads "<partition>/<what>".
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.index import files
from tfx_gnn.sampling.beam.index.files import partition_of_codes
from tfx_gnn.sampling.beam.index.reader import group_starts


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionRecord:
    """One file that was written.

    Attributes:
        table: name of the table within `IndexInfo.tables`.
        partition: number of the partition.
        num_rows: number of rows, at least 1.
        total: sum of what the table counts, where there is something: in-degrees.
        by_split: of seeds, how many there are of each split.
        digest: SHA-256 of the file as hexadecimal digits.
    """

    table: str
    partition: int
    num_rows: int
    digest: str
    total: int = 0
    by_split: tuple[int, ...] = ()


def write_recorded(index_dir: str, table: str, partition: int, rows: pa.Table, num_splits: int = 0) -> PartitionRecord:
    """Writes one partition of a table and counts what index.json says of it; `num_splits` is for seeds."""
    digest = files.write_partition(index_dir, table, partition, rows)
    total, by_split = 0, [0] * num_splits
    if table.endswith("/in_degrees"):
        total = int(rows.column(files.IN_DEGREE).to_numpy().sum())
    if table == files.SEED_TABLE:
        for code in rows.column(files.SPLIT).value_counts():
            by_split[code["values"].as_py()] = code["counts"].as_py()
    return PartitionRecord(
        table=table,
        partition=partition,
        num_rows=rows.num_rows,
        digest=digest,
        total=total,
        by_split=tuple(by_split),
    )


def assemble_info(
    records: Iterable[PartitionRecord],
    schemas: Mapping[str, pa.Schema],
    *,
    num_partitions: int,
    hub_degree: int,
    num_edges: Mapping[str, int],
    splits: tuple[str, ...],
    schema_text: str,
) -> files.IndexInfo:
    """Assembles the content of index.json; `schemas` name tables without rows too."""
    by_place = {(record.table, record.partition): record for record in records}
    tables = {}
    in_degree_totals = {}
    for name, schema in schemas.items():
        found = [by_place.get((name, partition)) for partition in range(num_partitions)]
        tables[name] = files.IndexedTable(schema=schema, num_rows=tuple(r.num_rows if r else 0 for r in found))
    for edge_set in num_edges:
        name = files.in_degree_table(edge_set)
        if name in schemas:
            found = [by_place.get((name, partition)) for partition in range(num_partitions)]
            in_degree_totals[edge_set] = tuple(r.total if r else 0 for r in found)
    seeds = [by_place.get((files.SEED_TABLE, partition)) for partition in range(num_partitions)]
    digest = hashlib.sha256(f"{files.FORMAT_VERSION} {num_partitions} {hub_degree} {splits}\n{schema_text}".encode())
    for place in sorted(by_place):
        digest.update(f"\n{place[0]} {place[1]} {by_place[place].digest}".encode())
    return files.IndexInfo(
        num_partitions=num_partitions,
        hub_degree=hub_degree,
        tables=tables,
        num_edges=dict(num_edges),
        in_degree_totals=in_degree_totals,
        splits=splits,
        seed_counts={name: tuple(r.by_split[code] if r else 0 for r in seeds) for code, name in enumerate(splits)},
        fingerprint=digest.hexdigest(),
    )


_Codes = npt.NDArray[np.uint64]


_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedNodes:
    """Nodes that rows name, each code once.

    Attributes:
        distinct: uint64 array, shape [num_nodes], ascending.
        places: array of unsigned integers, shape [num_rows]: positions in `distinct`.
    """

    distinct: _Codes
    places: npt.NDArray[Any]

    @property
    def codes(self) -> _Codes:
        """uint64 array, shape [num_rows]."""
        return self.distinct[self.places]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkBlock:
    """A block of rows that name nodes: edges or seeds.

    Attributes:
        key: key of the block, by which the answers find it.
        label: label of the table.
        unit: position of the unit among the table's units.
        rows: int64 array, shape [num_rows]: positions in the unit.
        ends: the nodes that each row names: source and target, or the one node.
        columns: features and extra columns, as `pack_rows` writes them.
    """

    key: str
    label: str
    unit: int
    rows: _Integers
    ends: tuple[NamedNodes, ...]
    columns: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownNodes:
    """The nodes of one set in one partition.

    Attributes:
        codes: uint64 array, shape [num_nodes], ascending.
        ranks: int8 array, shape [num_nodes]; None if they are visible to all.
    """

    codes: _Codes
    ranks: npt.NDArray[np.int8] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeQuestion:
    """Which nodes of one partition a block names.

    Attributes:
        block: key of the block.
        end: which of the block's `ends` it asks for.
        partition: number of the partition.
        codes: uint64 array, shape [n], each once, ascending.
    """

    block: str
    end: int
    partition: int
    codes: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeAnswer:
    """What became of a `NodeQuestion`.

    Attributes:
        end: as in the question.
        partition: as in the question.
        is_known: bool array, shape [n]: whether the node is there.
        ranks: int8 array, shape [n], 0 for what is not there; None without ranks.
    """

    end: int
    partition: int
    is_known: npt.NDArray[np.bool_]
    ranks: npt.NDArray[np.int8] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs:
    """Rows of a block whose ends fall into one partition of pairs.

    Attributes:
        block: key of the block.
        unit: position of the unit.
        first_row: position in the unit of the first row of the block.
        positions: array of unsigned integers, shape [n]: positions in the block.
        ends: codes, arrays of shape [n].
        times: int64 array, shape [n], if it tells equal ends apart.
        identity: hashes of other columns that do, uint64 arrays of shape [n].
    """

    block: str
    unit: int
    first_row: int
    positions: npt.NDArray[Any]
    ends: tuple[_Codes, ...]
    times: _Integers | None
    identity: tuple[_Codes, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeats:
    """Rows of a block that come again.

    Attributes:
        positions: array of unsigned integers: positions in the block.
    """

    positions: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndCounts:
    """How many edges of a block are at each node of one partition.

    Attributes:
        block: key of the block if it wants to know the sums over all blocks, else "".
        partition: number of the partition.
        codes: uint64 array, shape [n], each once, ascending.
        counts: int64 array, shape [n].
    """

    block: str
    partition: int
    codes: _Codes
    counts: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Degrees:
    """Sums over all blocks that answer an `EndCounts`.

    Attributes:
        end: "source" or "target".
        partition: as in the question.
        counts: int64 array, shape [n]: number of edges at each of the question's codes.
    """

    end: str
    partition: int
    counts: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hubs:
    """The hubs of one partition.

    Attributes:
        edge_set: name of the set.
        direction: "forward" or "backward".
        codes: uint64 array, shape [num_hubs], ascending.
        degrees: int64 array, shape [num_hubs].
    """

    edge_set: str
    direction: str
    codes: _Codes
    degrees: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokenRows:
    """Rows of one unit that break a rule between rows.

    Attributes:
        label: label of the table.
        unit: position of the unit.
        rule: name of the rule, see `row_rules`.
        rows: int64 array: positions in the unit, ascending; of rows that are refused
            only the first.
        count: how many rows there are.
        values: of each row, ids and time by key, where the table cannot be read again.
    """

    label: str
    unit: int
    rule: str
    rows: _Integers
    count: int
    values: tuple[Mapping[str, Any], ...] | None = None


def name_nodes(codes: _Codes) -> NamedNodes:
    """Names each node once, which takes a fraction of the bytes."""
    distinct, places = np.unique(codes, return_inverse=True)
    return NamedNodes(distinct=distinct, places=places.astype(np.min_scalar_type(max(len(distinct) - 1, 0))))


def pack_rows(rows: pa.Table) -> bytes:
    """Writes rows for `unpack_table`, compressed: they cross a shuffle once and are not looked into on the way."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def partition_key(partition: int, what: str) -> str:
    """Returns the key of a partition of `what`; `split_key` takes it apart."""
    return f"{partition}/{what}"


def split_key(key: str) -> tuple[int, str]:
    """Returns the number of a key's partition, and what is cut in partitions."""
    partition, _, what = key.partition("/")
    return int(partition), what


def ranges_by_partition(codes: _Codes, num_partitions: int) -> list[tuple[int, slice]]:
    """Returns each partition that has some of the ascending codes, and where these are."""
    partitions = partition_of_codes(codes, num_partitions)
    starts = group_starts(partitions).tolist()
    return [(int(partitions[start]), slice(start, stop)) for start, stop in itertools.pairwise(starts)]
