"""What is known of the files of an index once they are written."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

import pyarrow as pa

from tfx_gnn.beam_sampling import index_files as files


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
    """Writes one partition of a table, and counts what index.json tells of it.

    Args:
        index_dir: folder of the index.
        table: name of the table within `IndexInfo.tables`.
        partition: number of the partition.
        rows: its rows, at least one.
        num_splits: number of splits, if the rows are seeds.

    Returns:
        What was written.
    """
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
    """Puts the content of index.json together.

    Args:
        records: every file that was written, in any order.
        schemas: by name of a table, its Arrow schema; also of tables without rows.
        num_partitions: number of partitions.
        hub_degree: nodes with more edges in a direction are hubs there.
        num_edges: by edge set, number of its edges.
        splits: names of the splits.
        schema_text: text of the graph schema.

    Returns:
        What the index consists of.
    """
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
