"""An oracle for indexes: written from tables in memory, without Beam, with the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph import rows as table_rows
from tfx_gnn.sampling.beam.partitioned_graph.build import DEFAULT_HUB_DEGREE
from tfx_gnn.sampling.beam.partitioned_graph.job import FORWARD, requirements_of_plan
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    bucket_bits,
    bucket_partition_of,
    buckets_of_edges,
    count_buckets,
    hub_rows,
    partition_of_codes,
    sort_edges,
    sort_seeds,
    split_by_partition,
)
from tfx_gnn.sampling.beam.partitioned_graph.rows import GivenRows, KnownEnds
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.graph_tables import GraphTables
from tfx_gnn.tables.table_layout import EXTRA_PREFIX

_Codes = npt.NDArray[np.uint64]
_Ranks = npt.NDArray[np.int8]


@pytest.fixture(scope="session")
def write_partitions():
    """The function `_write_partitions`."""
    return _write_partitions


def _write_partitions(
    tables: GraphTables,
    plan: SamplingPlan,
    partitions_dir: str,
    num_partitions: int,
    *,
    hub_degree: int = DEFAULT_HUB_DEGREE,
) -> files.PartitionInfo:
    """Partitions a graph whose plan has no seed table; edges are counted and sorted as a whole."""
    requirements = requirements_of_plan(plan, tables.schema)
    writer = _Writer(partitions_dir, num_partitions, hub_degree, len(plan.splits.names))
    codes: dict[str, _Codes] = {}
    ranks: dict[str, _Ranks | None] = {}
    for name in requirements.node_sets:
        nodes = tables.node_tables[name]
        given = GivenRows(
            columns=pa.table({files.ID: nodes.ids, **nodes.features, **_extra(nodes.extra_columns)}),
            rows=np.arange(nodes.num_nodes),
            place_of=f"node {{}} of {name!r}".format,
        )
        rows = table_rows.node_rows(plan, requirements, name, given)
        codes[name] = files.as_codes(rows.column(files.CODE))
        ranks[name] = table_rows.node_ranks(plan, name, rows)
        stored = table_rows.stored_nodes(requirements, name, rows)
        writer.write(files.node_table(name), stored, stored.column(files.CODE), _sort_nodes)
        if name == plan.seed_node_set:
            writer.write_seeds(table_rows.node_seeds(plan, rows))
    for name, of_set in requirements.edge_sets.items():
        edges = tables.edge_tables[name]
        ends = KnownEnds(
            sources=codes[of_set.source_set][edges.sources],
            targets=codes[of_set.target_set][edges.targets],
            source_ranks=_take(ranks[of_set.source_set], edges.sources),
            target_ranks=_take(ranks[of_set.target_set], edges.targets),
        )
        given = GivenRows(
            columns=pa.table({files.ROW: edges.rows, **edges.features, **_extra(edges.extra_columns)}),
            rows=edges.rows,
            place_of=f"edge {{}} of {name!r}".format,
        )
        rows = table_rows.edge_rows(plan, requirements, name, given, ends)
        writer.num_edges[name] = rows.num_rows
        for direction in of_set.degree_directions:
            far = files.as_codes(rows.column(files.TARGET if direction == FORWARD else files.SOURCE))
            _, places, degrees = _count(far)
            rows = rows.append_column(table_rows.degree_column(direction), pa.array(degrees[places]))
        for direction in of_set.directions:
            writer.write_edges(name, direction, table_rows.direction_rows(of_set, rows, direction))
        if of_set.stored_degrees == "target":
            writer.write_in_degrees(name, codes[of_set.target_set], ends.targets)
        elif of_set.stored_degrees == "source":
            writer.write_in_degrees(name, codes[of_set.source_set], ends.sources)
        if name == plan.seed_edge_set:
            writer.write_seeds(table_rows.edge_seeds(plan, requirements, rows))
    if plan.context_features and tables.context_table is not None:
        given_context = {name: tables.context_table.features[name] for name in sorted(plan.context_features)}
        writer.write_context(pa.table(given_context))
    schema_text = text_format.MessageToString(tables.schema)
    with tf.io.gfile.GFile(files.schema_file(partitions_dir), "w") as file:
        file.write(schema_text)
    info = files.assemble_info(
        writer.records,
        writer.schemas,
        num_partitions=num_partitions,
        hub_degree=hub_degree,
        num_edges=writer.num_edges,
        splits=plan.splits.names,
        schema_text=schema_text,
    )
    files.write_info(partitions_dir, info)
    return info


class _Writer:
    """Cuts tables in partitions and writes them."""

    def __init__(self, partitions_dir: str, num_partitions: int, hub_degree: int, num_splits: int) -> None:
        self.records: list[files.PartitionRecord] = []
        self.schemas: dict[str, pa.Schema] = {}
        self.num_edges: dict[str, int] = {}
        self._partitions_dir = partitions_dir
        self._num_partitions = num_partitions
        self._hub_degree = hub_degree
        self._num_splits = num_splits

    def write(
        self,
        table: str,
        rows: pa.Table,
        codes: pa.ChunkedArray,
        sort: Callable[[pa.Table], pa.Table],
    ) -> None:
        self._write_parts(table, rows, partition_of_codes(files.as_codes(codes), self._num_partitions), sort)

    def write_seeds(self, rows: pa.Table) -> None:
        self.write(files.SEED_TABLE, rows, rows.column(files.KEY), sort_seeds)

    def write_context(self, rows: pa.Table) -> None:
        self._write_parts(files.CONTEXT_TABLE, rows, np.zeros(rows.num_rows, np.int64), lambda part: part)

    def write_edges(self, edge_set: str, direction: str, rows: pa.Table) -> None:
        nodes, places, degrees = _count(files.as_codes(rows.column(files.NODE)))
        is_hub = degrees > self._hub_degree
        of_hub = is_hub[places]
        others = rows.filter(pa.array(~of_hub))
        self.write(files.edge_table(edge_set, direction), others, others.column(files.NODE), sort_edges)
        bits = np.zeros(len(nodes), np.int64)
        bits[is_hub] = bucket_bits(degrees[is_hub], self._hub_degree)
        of_hubs = rows.filter(pa.array(of_hub))
        buckets = buckets_of_edges(of_hubs.column(files.ROW).to_numpy(), bits[places[of_hub]])
        of_hubs = of_hubs.append_column(files.BUCKET, pa.array(buckets))
        hubs = files.as_codes(of_hubs.column(files.NODE))
        self._write_parts(
            files.bucket_table(edge_set, direction),
            of_hubs,
            bucket_partition_of(hubs, buckets, self._num_partitions),
            sort_edges,
        )
        counts = hub_rows(nodes[is_hub], bits[is_hub], count_buckets(sort_edges(of_hubs)))
        self.write(files.hub_table(edge_set, direction), counts, counts.column(files.NODE), lambda part: part)

    def write_in_degrees(self, edge_set: str, nodes: _Codes, targets: _Codes) -> None:
        nodes = np.sort(nodes)
        counts = np.bincount(np.searchsorted(nodes, targets), minlength=len(nodes)).astype(np.int64)
        rows = pa.table({files.CODE: nodes.view(np.int64), files.IN_DEGREE: counts})
        table = files.in_degree_table(edge_set)
        self.write(table, rows, rows.column(files.CODE), lambda part: part.select([files.IN_DEGREE]))

    def _write_parts(
        self,
        table: str,
        rows: pa.Table,
        partitions: npt.NDArray[np.int64],
        sort: Callable[[pa.Table], pa.Table],
    ) -> None:
        self.schemas[table] = sort(rows.slice(0, 0)).schema
        for partition, part in split_by_partition(rows, partitions):
            record = files.write_partition(self._partitions_dir, table, partition, sort(part), self._num_splits)
            self.records.append(record)


def _count(codes: _Codes) -> tuple[_Codes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    distinct, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return distinct, places, counts.astype(np.int64)


def _take(ranks: _Ranks | None, rows: npt.NDArray[np.int64]) -> _Ranks | None:
    return None if ranks is None else ranks[rows]


def _extra(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    return {EXTRA_PREFIX + name: values for name, values in columns.items()}


def _sort_nodes(rows: pa.Table) -> pa.Table:
    """Sorts nodes by code as uint64; equal codes keep their order."""
    return rows.take(pa.array(np.argsort(files.as_codes(rows.column(files.CODE)), kind="stable")))
