"""Writes tables of many small graphs as records on Apache Beam.

Blocks of rows are split and regrouped by chunks of graphs: a worker holds all rows of one chunk, and no worker holds
all rows. Like output shards, chunks are ranges of the hashes of graph ids.

Pairs of graphs are regrouped by chunks too, ranges of the hashes of both ids. Each chunk of graphs sends every chunk of
pairs the rows of those graphs that its pairs name.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from apache_beam import pvalue

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.messages import pack, unpack
from tfx_gnn.sampling.beam.shard_files import WriteShards, WrittenBlock, remove_blocks, write_block
from tfx_gnn.sampling.engine.sampled_subgraphs import SubgraphStatisticsBuilder
from tfx_gnn.sampling.engine.seeds import shard_starts
from tfx_gnn.sampling.examples.graph_grouping import GroupedGraphs, group_graphs
from tfx_gnn.sampling.examples.graph_level_conversion import (
    GraphLevelConverter,
    GraphLevelReport,
    split_codes_of_graphs,
    splits_with_graphs,
)
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_level_tables import graph_level_tables
from tfx_gnn.sampling.plan.graph_pairs import PAIRS
from tfx_gnn.sampling.plan.seed_splits import pair_keys
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.row_rules import RowRules, TableReport, check_dropped_share
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import Table, TableBlock, TableUnit, list_units, read_unit
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, SOURCE_KEY, TARGET_KEY, TableLayout

# Rows of each unit are counted from a multiple of this: the order is right without knowing the sizes of the units.
_ROWS_OF_UNIT = 1 << 40
_BYTES_PER_CHUNK = 1 << 24
_BYTES_OF_PAIRS_PER_CHUNK = 1 << 17  # some thousands of pairs, each of which becomes a record of two graphs
_CHUNKS, _PAIRS, _REPORTS, _WRITTEN = "chunks", "pairs", "reports", "written"  # outputs of steps


def chunks_of_keys(keys: npt.NDArray[np.uint64], num_chunks: int) -> npt.NDArray[np.int64]:
    """Returns the chunk of each uint64 key: (key * num_chunks) >> 64.

    Chunk `i` of `k * n` belongs to output shard `i // k` of `n`.
    """
    return np.searchsorted(shard_starts(num_chunks), keys, side="right").astype(np.int64) - 1


def split_block(block: TableBlock, spec: GraphLevelExamples, num_chunks: int) -> Iterator[tuple[int, TableBlock]]:
    """Yields the rows of each non-empty chunk, chosen by the hash of the rows' graph ids, without problems."""
    yield from _split_by_key(block, hash_ids(block.columns[EXTRA_PREFIX + spec.graph_id_column]), num_chunks)


def split_pairs(block: TableBlock, num_chunks: int) -> Iterator[tuple[int, TableBlock]]:
    """Yields the pairs of each non-empty chunk, chosen by the hash of the ids of both graphs, without problems."""
    keys = pair_keys(hash_ids(block.columns[SOURCE_KEY]), hash_ids(block.columns[TARGET_KEY]))
    yield from _split_by_key(block, keys, num_chunks)


def _split_by_key(block: TableBlock, keys: npt.NDArray[np.uint64], num_chunks: int) -> Iterator[tuple[int, TableBlock]]:
    for number, positions in _positions_by_chunk(keys, num_chunks):
        yield number, _take_rows(block, positions)


def _ids_by_chunk(pairs: TableBlock, num_chunks: int) -> Iterator[tuple[int, pa.Array]]:
    """Yields the distinct ids of the pairs' graphs, by chunk of graphs."""
    ids = pc.unique(pa.chunked_array([pairs.columns[SOURCE_KEY], pairs.columns[TARGET_KEY]]))
    for number, positions in _positions_by_chunk(hash_ids(ids), num_chunks):
        yield number, ids.take(pa.array(positions))


def _positions_by_chunk(keys: npt.NDArray[np.uint64], num_chunks: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    chunks = chunks_of_keys(keys, num_chunks)
    order = np.argsort(chunks, kind="stable")
    numbers, starts = np.unique(chunks[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)


def _take_rows(block: TableBlock, positions: npt.NDArray[np.int64]) -> TableBlock:
    taken = pa.array(positions)
    return TableBlock(
        columns={key: column.take(taken) for key, column in block.columns.items()},
        unit=block.unit,
        rows=block.rows[positions],
        num_rows_read=len(positions),
    )


def join_blocks(layout: TableLayout, units: Sequence[TableUnit], blocks: Sequence[TableBlock]) -> Table:
    """Joins parts of blocks to a table in the order of its rows; the parts may be in any order, but share no row.

    `Table.rows` gives the order and places of the rows; they are not positions over all files.
    """
    rows = np.concatenate([np.zeros(0, np.int64), *(block.rows + block.unit * _ROWS_OF_UNIT for block in blocks)])
    order = np.argsort(rows)
    in_order = pa.array(order)
    return Table(
        layout=layout,
        columns={
            key: pa.concat_arrays(
                [pa.array([], column.arrow_type), *(block.columns[key].cast(column.arrow_type) for block in blocks)]
            ).take(in_order)
            for key, column in layout.columns.items()
        },
        rows=rows[order],
        units=tuple(units),
        unit_starts=np.arange(len(units) + 1, dtype=np.int64) * _ROWS_OF_UNIT,
        report=TableReport(table=layout.label, rows_read=len(rows), rows_used=len(rows)),
        problems=(),
    )


def write_graph_level_examples_with_beam(
    *,
    make_pipeline: Callable[[], beam.Pipeline],
    tables_dir: str,
    tables_schema: GraphSchema,
    examples_dir: str,
    spec: GraphLevelExamples,
    num_shards: int,
    rules: RowRules | None = None,
    access: TableAccess | None = None,
    num_chunks: int = 0,
) -> GraphLevelReport:
    """Writes each graph of tables of many graphs, or each pair of them, as a record.

    A worker's memory depends on the size of a chunk of graphs, not on the size of the tables. Shards are recorded in
    the folder's `ShardLog`, with their statistics. The records do not depend on `num_chunks`, a multiple of
    `num_shards`; 0 chooses it so that a chunk holds about 16 MiB of the tables' files, or 128 KiB of the table of
    pairs. Problems in the report are in
    no particular order; its `num_graphs` names the splits that were written.
    """
    rules = rules or RowRules()
    declared = graph_level_tables(tables_dir, tables_schema, spec, access=access)
    layouts = {layout.label: layout for layout in declared}
    of_graphs = [layout for layout in declared if layout.label != PAIRS]
    of_pairs = [layout for layout in declared if layout.label == PAIRS]
    job = _Job(
        layouts=layouts,
        units={label: list_units(layout) for label, layout in layouts.items()},
        spec=spec,
        rules=rules,
        schema=tables_schema.SerializeToString(),
        examples_dir=examples_dir,
        num_shards=num_shards,
        num_chunks=_checked_chunks(num_shards, num_chunks, of_graphs, _BYTES_PER_CHUNK),
        num_pair_chunks=_checked_chunks(num_shards, num_chunks, of_pairs, _BYTES_OF_PAIRS_PER_CHUNK),
    )
    names = spec.splits.names
    report_file = os.path.join(examples_dir, f".report-{uuid.uuid4().hex}")
    tf.io.gfile.makedirs(examples_dir)
    with make_pipeline() as pipeline:
        read = (
            pipeline
            | "Units"
            >> beam.Create([(label, unit) for label, units in job.units.items() for unit in range(len(units))])
            | "Read" >> beam.ParDo(_ReadUnits(job)).with_outputs(_PAIRS, _REPORTS, main=_CHUNKS)
        )
        by_chunk = read[_CHUNKS] | "ByChunk" >> beam.GroupByKey()
        reports = [read[_REPORTS]]
        if spec.pairs is not None:
            found = by_chunk | "FindGraphs" >> beam.ParDo(_FindGraphs(job)).with_outputs(_REPORTS, main=_PAIRS)
            by_chunk = (
                (read[_PAIRS], found[_PAIRS]) | "WithGraphs" >> beam.Flatten() | "ByPairChunk" >> beam.GroupByKey()
            )
            reports.append(found[_REPORTS])
        converted = by_chunk | "Convert" >> beam.ParDo(_ConvertChunks(job)).with_outputs(_REPORTS, main=_WRITTEN)
        total = (
            (*reports, converted[_REPORTS])
            | "AllReports" >> beam.Flatten()
            | "AddReports" >> beam.CombineGlobally(_add_reports)
        )
        empty = total | "Shards" >> beam.FlatMap(_list_shards, spec, num_shards)
        _ = (
            (converted[_WRITTEN], empty)
            | "WithEmptyShards" >> beam.Flatten()
            | "ByShard" >> beam.GroupByKey()
            | "WriteShards" >> beam.ParDo(WriteShards(examples_dir, names, num_shards))
        )
        _ = total | "WriteReport" >> beam.Map(_write_file, report_file)
    remove_blocks(examples_dir)
    with tf.io.gfile.GFile(report_file, "rb") as file:
        report: GraphLevelReport = unpack(file.read())
    tf.io.gfile.remove(report_file)
    tables = {label: report.tables.get(label, TableReport(table=label, rows_read=0, rows_used=0)) for label in layouts}
    for of_table in tables.values():
        check_dropped_share(of_table, rules)
    num_graphs = {name: report.num_graphs.get(name, 0) for name in names}
    return dataclasses.replace(report, num_graphs=splits_with_graphs(num_graphs, spec), tables=tables)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Job:
    """Options of the steps. They are sent to every worker."""

    layouts: Mapping[str, TableLayout]
    units: Mapping[str, Sequence[TableUnit]]
    spec: GraphLevelExamples
    rules: RowRules
    schema: bytes
    examples_dir: str
    num_shards: int
    num_chunks: int
    num_pair_chunks: int

    def join(self, label: str, blocks: Sequence[TableBlock]) -> Table:
        """Joins the rows of a table that belong to a chunk."""
        return join_blocks(self.layouts[label], self.units[label], blocks)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _GraphRequest:
    """Ids of graphs that pairs of a chunk name."""

    pair_chunk: int
    ids: pa.Array


class _ReadUnits(beam.DoFn):
    """Converts (label, position of the unit) to (chunk, its rows), and reports rows that were left out.

    Rows of pairs are a further output; chunks of graphs get requests for their graphs.
    """

    def __init__(self, job: _Job) -> None:
        self._job = job

    def process(self, element: tuple[str, int]) -> Iterator[Any]:
        label, unit = element
        job = self._job
        for block in read_unit(job.layouts[label], job.units[label][unit], job.rules):
            yield pvalue.TaggedOutput(_REPORTS, _report_of_block(label, block))
            if label != PAIRS:
                for chunk, part in split_block(block, job.spec, job.num_chunks):
                    yield chunk, pack((label, part))
                continue
            for pair_chunk, part in split_pairs(block, job.num_pair_chunks):
                yield pvalue.TaggedOutput(_PAIRS, (pair_chunk, pack((label, part))))
                for chunk, ids in _ids_by_chunk(part, job.num_chunks):
                    yield chunk, pack(_GraphRequest(pair_chunk=pair_chunk, ids=ids))


class _FindGraphs(beam.DoFn):
    """Converts (chunk of graphs, its rows and requests) to (chunk of pairs, rows of requested graphs), and reports."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        job = self._job
        parts: dict[str, list[TableBlock]] = {label: [] for label in job.layouts if label != PAIRS}
        requests: dict[int, list[pa.Array]] = {}
        for message in map(unpack, element[1]):
            if isinstance(message, _GraphRequest):
                requests.setdefault(message.pair_chunk, []).append(message.ids)
            else:
                label, part = message
                parts[label].append(part)
        tables = {label: job.join(label, blocks) for label, blocks in parts.items()}
        graphs = group_graphs(tables, job.spec, GraphSchema.FromString(job.schema), job.rules)
        if not job.spec.is_split_by_pair:
            split_codes_of_graphs(
                tables, graphs, job.spec
            )  # refuses graphs of unknown splits, also those without pairs
        id_key = EXTRA_PREFIX + job.spec.graph_id_column
        for pair_chunk, ids in requests.items():
            # Rows of unknown graphs stay here: they are reported here, and their pairs find no graph.
            known = graphs.ids.filter(pc.is_in(graphs.ids, value_set=pa.chunked_array(ids)))
            for label, blocks in parts.items():
                for block in blocks:
                    wanted = pc.is_in(block.columns[id_key], value_set=known)
                    positions = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
                    if len(positions):
                        yield pair_chunk, pack((label, _take_rows(block, positions)))
        yield pvalue.TaggedOutput(_REPORTS, _report_of_graphs(graphs))


class _ConvertChunks(beam.DoFn):
    """Converts pairs (chunk, rows) to files of records, by shard, and reports."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        chunk, messages = element
        job = self._job
        parts: dict[str, list[TableBlock]] = {label: [] for label in job.layouts}
        for message in messages:
            label, part = unpack(message)
            parts[label].append(part)
        tables = {label: job.join(label, blocks) for label, blocks in parts.items()}
        converter = GraphLevelConverter(tables, job.spec, GraphSchema.FromString(job.schema), job.rules)
        for position, split in enumerate(job.spec.splits.names):
            records: list[bytes] = []
            statistics = SubgraphStatisticsBuilder()
            for batch in converter.convert(split):
                statistics.add(split, batch.graphs)
                records += batch.records
            if records:
                written: WrittenBlock = chunk, write_block(job.examples_dir, records), statistics.build()
                num_chunks = job.num_chunks if converter.pairs is None else job.num_pair_chunks
                yield (position, chunk // (num_chunks // job.num_shards)), written
        yield pvalue.TaggedOutput(_REPORTS, _report_of_chunk(converter))


def _report_of_block(label: str, block: TableBlock) -> GraphLevelReport:
    # Only rows that were left out are counted here. The others are counted with the chunk of their graph.
    dropped = collections.Counter(problem.rule for problem in block.problems)
    report = TableReport(table=label, rows_read=len(block.problems), rows_used=0, dropped=dict(dropped))
    return GraphLevelReport(
        num_graphs={}, num_unused=0, num_empty=0, tables={label: report}, problems=tuple(block.problems)
    )


def _report_of_graphs(graphs: GroupedGraphs) -> GraphLevelReport:
    return GraphLevelReport(
        num_graphs={}, num_unused=0, num_empty=graphs.num_empty, tables=graphs.reports, problems=graphs.problems
    )


def _report_of_chunk(converter: GraphLevelConverter) -> GraphLevelReport:
    counts: dict[str, Any] = {"num_graphs": converter.num_graphs, "num_unused": converter.num_unused}
    if converter.pairs is None:
        return dataclasses.replace(_report_of_graphs(converter.grouped), **counts)
    # The graphs were reported when they were found.
    pairs = converter.pairs
    return GraphLevelReport(num_empty=0, tables={PAIRS: pairs.report}, problems=pairs.problems, **counts)


def _add_reports(reports: Iterable[GraphLevelReport]) -> GraphLevelReport:
    num_graphs: collections.Counter[str] = collections.Counter()
    tables: dict[str, TableReport] = {}
    problems: list[Any] = []
    num_unused = num_empty = 0
    for report in reports:
        num_graphs.update(report.num_graphs)
        num_unused += report.num_unused
        num_empty += report.num_empty
        problems += report.problems
        for label, of_table in report.tables.items():
            tables[label] = _add_tables(tables[label], of_table) if label in tables else of_table
    return GraphLevelReport(
        num_graphs=dict(num_graphs), num_unused=num_unused, num_empty=num_empty, tables=tables, problems=tuple(problems)
    )


def _add_tables(one: TableReport, other: TableReport) -> TableReport:
    return TableReport(
        table=one.table,
        rows_read=one.rows_read + other.rows_read,
        rows_used=one.rows_used + other.rows_used,
        dropped=dict(collections.Counter(one.dropped) + collections.Counter(other.dropped)),
        duplicate_edges=one.duplicate_edges + other.duplicate_edges,
        self_loops=one.self_loops + other.self_loops,
    )


def _checked_chunks(num_shards: int, num_chunks: int, layouts: Iterable[TableLayout], bytes_per_chunk: int) -> int:
    if num_shards < 1:
        raise ValueError(f"`num_shards` must be at least 1; got {num_shards}. Choose a larger number.")
    if num_chunks < 0 or num_chunks % num_shards:
        raise ValueError(
            f"`num_chunks` must be a multiple of `num_shards`, or 0; got {num_chunks} for {num_shards} shards. "
            "Use 0 to have it chosen by size."
        )
    num_bytes = sum(tf.io.gfile.stat(path).length for layout in layouts for path in layout.files)
    return num_chunks or num_shards * max(1, -(-num_bytes // (bytes_per_chunk * num_shards)))


def _list_shards(
    report: GraphLevelReport, spec: GraphLevelExamples, num_shards: int
) -> Iterator[tuple[tuple[int, int], None]]:
    """Lists every shard to write, with graphs or without."""
    for position, split in enumerate(spec.splits.names):
        if report.num_graphs.get(split) or not spec.splits.may_be_missing:
            for shard in range(num_shards):
                yield (position, shard), None


def _write_file(report: GraphLevelReport, path: str) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(pack(report))
