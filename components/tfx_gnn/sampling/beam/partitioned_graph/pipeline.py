"""The Beam pipeline that partitions a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam import pvalue

from tfx_gnn.sampling.beam.messages import pack, unpack
from tfx_gnn.sampling.beam.partitioned_graph import join_steps, table_steps, write_steps
from tfx_gnn.sampling.beam.partitioned_graph.broken_rows import WriteProblems, refuses
from tfx_gnn.sampling.beam.partitioned_graph.files import PartitionRecord
from tfx_gnn.sampling.beam.partitioned_graph.job import PartitionJob
from tfx_gnn.sampling.beam.partitioned_graph.messages import BrokenRows
from tfx_gnn.sampling.beam.partitioned_graph.reverse_edge_splits import CompareSplits, OtherSplits
from tfx_gnn.sampling.beam.partitioned_graph.table_steps import DROPPED, SumByKey, unit_key
from tfx_gnn.sampling.beam.partitioned_graph.write_steps import DegreeSummary, MergeDegrees
from tfx_gnn.tables.bigquery_table import bigquery_blocks
from tfx_gnn.tables.table_files import TableBlock


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionResults:
    """Results of the pipeline, in addition to the files of the partitioned graph.

    Attributes:
        unit_counts: by label and unit, numbers of rows that were read and that are usable.
        row_counts: by kind of count and label (and rule), one number.
        records: files that were written.
        refused: rows that the rules refuse.
        degrees: by edge set and direction.
        other_splits: reverse edges in other splits than their forward edges.
    """

    unit_counts: Mapping[tuple[str, int], tuple[int, int]]
    row_counts: Mapping[tuple[str, ...], tuple[int]]
    records: tuple[PartitionRecord, ...]
    refused: tuple[BrokenRows, ...]
    degrees: Mapping[tuple[str, str], DegreeSummary]
    other_splits: tuple[OtherSplits, ...]


def add_partition_steps(pipeline: beam.Pipeline, job: PartitionJob, results_file: str) -> None:
    """Adds the steps that partition a graph to an empty pipeline; `take_results` reads `results_file`."""
    sent: Any = _read_blocks(pipeline, job) | "SendBlocks" >> beam.ParDo(table_steps.SendBlocks(job)).with_outputs(
        table_steps.BLOCKS,
        table_steps.NODES,
        table_steps.REQUESTS,
        table_steps.PAIRS,
        table_steps.PROBLEMS,
        table_steps.ROW_COUNTS,
        table_steps.UNIT_COUNTS,
    )
    unit_counts = sent[table_steps.UNIT_COUNTS] | "SumUnitCounts" >> beam.CombineGlobally(SumByKey())
    counts = pvalue.AsSingleton(unit_counts)
    nodes: Any = (
        sent[table_steps.NODES]
        | "NodesByPartition" >> beam.GroupByKey()
        | "PartitionNodes"
        >> beam.ParDo(join_steps.PartitionNodes(job), counts).with_outputs(
            join_steps.DRAWN, join_steps.RECORDS, join_steps.BROKEN, main="known"
        )
    )
    answers = (
        (nodes.known, sent[table_steps.REQUESTS])
        | "NodesAndRequests" >> beam.Flatten()
        | "RequestsByPartition" >> beam.GroupByKey()
        | "AnswerEnds" >> beam.ParDo(join_steps.AnswerEnds())
    )
    repeats = (
        sent[table_steps.PAIRS]
        | "PairsByPartition" >> beam.GroupByKey()
        | "FindRepeats" >> beam.ParDo(join_steps.FindRepeats())
    )
    joined: Any = (
        (sent[table_steps.BLOCKS], answers, repeats)
        | "BlocksAndAnswers" >> beam.Flatten()
        | "AnswersByBlock" >> beam.GroupByKey()
        | "JoinBlocks"
        >> beam.ParDo(join_steps.JoinBlocks(job), counts).with_outputs(
            join_steps.EDGES,
            join_steps.COUNTED,
            join_steps.SEEDS,
            join_steps.SPLITS,
            join_steps.BROKEN,
            table_steps.ROW_COUNTS,
        )
    )
    summed: Any = (
        (joined[join_steps.COUNTED], nodes[join_steps.DRAWN])
        | "CountsAndTargets" >> beam.Flatten()
        | "CountsByPartition" >> beam.GroupByKey()
        | "SumDegrees"
        >> beam.ParDo(write_steps.SumDegrees(job)).with_outputs(
            write_steps.ANSWERS, write_steps.HUBS, write_steps.SUMMARIES, join_steps.RECORDS
        )
    )
    written = _write_edges(job, joined[join_steps.EDGES], summed)
    seeds = (
        joined[join_steps.SEEDS]
        | "SeedsByPartition" >> beam.GroupByKey()
        | "WriteSeeds" >> beam.ParDo(write_steps.WriteSeeds(job))
    )
    other_splits = (
        joined[join_steps.SPLITS]
        | "SplitsByPartition" >> beam.GroupByKey()
        | "CompareSplits" >> beam.ParDo(CompareSplits())
    )
    broken = (nodes[join_steps.BROKEN], joined[join_steps.BROKEN]) | "BrokenRows" >> beam.Flatten()
    dropped = broken | "Dropped" >> beam.Filter(lambda rows: not refuses(job, rows.label, rows.rule))
    problems = dropped | "DroppedByUnit" >> beam.Map(lambda rows: (unit_key(rows.label, rows.unit), pack(rows)))
    _ = (
        (sent[table_steps.PROBLEMS], problems)
        | "Problems" >> beam.Flatten()
        | "ProblemsByUnit" >> beam.GroupByKey()
        | "WriteProblems" >> beam.ParDo(WriteProblems(job))
    )
    dropped_counts = dropped | "CountDropped" >> beam.Map(
        lambda rows: ((DROPPED, rows.label, rows.rule), (rows.count,))
    )
    row_counts = (
        (sent[table_steps.ROW_COUNTS], joined[table_steps.ROW_COUNTS], dropped_counts)
        | "RowCounts" >> beam.Flatten()
        | "SumRowCounts" >> beam.CombineGlobally(SumByKey())
    )
    summaries = summed[write_steps.SUMMARIES] | "MergeDegrees" >> beam.CombinePerKey(MergeDegrees())
    records = (
        nodes[join_steps.RECORDS],
        summed[join_steps.RECORDS],
        *written,
        seeds,
    ) | "Records" >> beam.Flatten()
    refused = broken | "Refused" >> beam.Filter(lambda rows: refuses(job, rows.label, rows.rule))
    # A pipeline returns nothing to the process that runs it, so all results go through one file.
    named = [
        found | f"Name_{name}" >> beam.Map(_name_result, name)
        for name, found in (
            ("unit_counts", unit_counts),
            ("row_counts", row_counts),
            ("records", records),
            ("refused", refused),
            ("degrees", summaries),
            ("other_splits", other_splits),
        )
    ]
    _ = (
        named
        | "Results" >> beam.Flatten()
        | "GatherResults" >> beam.GroupByKey()
        | "WriteResults" >> beam.Map(_write_results, results_file)
    )


def take_results(results_file: str) -> PartitionResults:
    """Reads the results of the pipeline, and removes their file."""
    with tf.io.gfile.GFile(results_file, "rb") as file:
        found: list[tuple[str, Any]] = unpack(file.read())
    tf.io.gfile.remove(results_file)
    by_name: dict[str, list[Any]] = {}
    for name, content in found:
        by_name.setdefault(name, []).append(content)
    return PartitionResults(
        unit_counts=by_name["unit_counts"][0],
        row_counts=by_name["row_counts"][0],
        records=tuple(by_name.get("records", ())),
        refused=tuple(by_name.get("refused", ())),
        degrees=dict(by_name.get("degrees", ())),
        other_splits=tuple(by_name.get("other_splits", ())),
    )


def _read_blocks(pipeline: beam.Pipeline, job: PartitionJob) -> Any:
    """Returns pairs (label, block) of all tables."""
    units = [
        (label, unit.index) for label, of_table in job.units.items() if not job.is_read_once(label) for unit in of_table
    ]
    blocks = (
        pipeline
        | "ListUnits" >> beam.Create(units)
        | "SpreadUnits" >> beam.Reshuffle()
        | "ReadUnits" >> beam.ParDo(table_steps.ReadUnits(job))
    )
    in_bigquery = [
        bigquery_blocks(pipeline, layout, job.rules) | f"Label {label}" >> beam.Map(_label_block, label)
        for label, layout in job.layouts.items()
        if job.is_read_once(label)
    ]
    return (blocks, *in_bigquery) | "AllBlocks" >> beam.Flatten() if in_bigquery else blocks


def _write_edges(job: PartitionJob, edges: Any, summed: Any) -> tuple[Any, Any]:
    """Returns the records of edges and of hubs."""
    if any(requirements.degree_directions for requirements in job.requirements.edge_sets.values()):
        edges = (
            (edges, summed[write_steps.ANSWERS])
            | "EdgesAndDegrees" >> beam.Flatten()
            | "DegreesByBlock" >> beam.GroupByKey()
            | "AttachDegrees" >> beam.ParDo(join_steps.AttachDegrees(job))
        )
    written = (
        edges
        | "RouteEdges" >> beam.ParDo(write_steps.RouteEdges(job), pvalue.AsList(summed[write_steps.HUBS]))
        | "EdgesByPartition" >> beam.GroupByKey()
        | "WriteEdges" >> beam.ParDo(write_steps.WriteEdges(job)).with_outputs(join_steps.RECORDS, write_steps.BUCKETS)
    )
    hubs = (
        written[write_steps.BUCKETS]
        | "BucketsByPartition" >> beam.GroupByKey()
        | "WriteHubs" >> beam.ParDo(write_steps.WriteHubs(job))
    )
    return written[join_steps.RECORDS], hubs


def _label_block(block: TableBlock, label: str) -> tuple[str, TableBlock]:
    return label, block


def _name_result(content: Any, name: str) -> tuple[str, bytes]:
    # All results get the same key, so that one group holds them all.
    return "", pack((name, content))


def _write_results(element: tuple[str, Iterable[bytes]], path: str) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(pack([unpack(message) for message in element[1]]))
