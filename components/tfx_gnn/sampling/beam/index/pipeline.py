"""The Beam pipeline that builds an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam import pvalue

from tfx_gnn.sampling.beam.index import joining as index_joining
from tfx_gnn.sampling.beam.index import lookups as index_lookups
from tfx_gnn.sampling.beam.index import table_steps
from tfx_gnn.sampling.beam.index import writing as index_writing
from tfx_gnn.sampling.beam.index.broken_rows import WriteProblems
from tfx_gnn.sampling.beam.index.degrees import DegreeSummary, MergeDegrees
from tfx_gnn.sampling.beam.index.job import IndexJob
from tfx_gnn.sampling.beam.index.messages import BrokenRows, PartitionRecord
from tfx_gnn.sampling.beam.index.reverse_edge_splits import CompareSplits, OtherSplits
from tfx_gnn.sampling.beam.index.table_steps import DROPPED, SumByKey, unit_key
from tfx_gnn.sampling.beam.messages import pack, unpack
from tfx_gnn.tables.bigquery_table import bigquery_blocks
from tfx_gnn.tables.row_rules import DUPLICATE_EDGE, DUPLICATE_NODE, RowRules
from tfx_gnn.tables.table_files import TableBlock


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexResults:
    """What the pipeline found out, beside the files of the index.

    Attributes:
        unit_counts: by label and unit, numbers of rows that were read and that can be used.
        tallies: by what is counted and label (and rule), one number.
        records: files that were written.
        refused: rows that the rules refuse.
        degrees: by edge set and direction.
        other_splits: reverse edges in other splits than their edges.
    """

    unit_counts: Mapping[tuple[str, int], tuple[int, int]]
    tallies: Mapping[tuple[str, ...], tuple[int]]
    records: tuple[PartitionRecord, ...]
    refused: tuple[BrokenRows, ...]
    degrees: Mapping[tuple[str, str], DegreeSummary]
    other_splits: tuple[OtherSplits, ...]


def add_index_steps(pipeline: beam.Pipeline, job: IndexJob, results_file: str) -> None:
    """Adds the steps that build an index to an empty pipeline; `take_results` reads `results_file`."""
    sent: Any = _read_blocks(pipeline, job) | "SendBlocks" >> beam.ParDo(table_steps.SendBlocks(job)).with_outputs(
        table_steps.BLOCKS,
        table_steps.NODES,
        table_steps.QUESTIONS,
        table_steps.PAIRS,
        table_steps.PROBLEMS,
        table_steps.TALLIES,
        table_steps.COUNTS,
    )
    unit_counts = sent[table_steps.COUNTS] | "CountRows" >> beam.CombineGlobally(SumByKey())
    counts = pvalue.AsSingleton(unit_counts)
    nodes: Any = (
        sent[table_steps.NODES]
        | "NodesByPartition" >> beam.GroupByKey()
        | "IndexNodes"
        >> beam.ParDo(index_lookups.IndexNodes(job), counts).with_outputs(
            index_lookups.TARGETS, index_lookups.RECORDS, index_lookups.BROKEN, main="known"
        )
    )
    answers = (
        (nodes.known, sent[table_steps.QUESTIONS])
        | "NodesAndQuestions" >> beam.Flatten()
        | "QuestionsByPartition" >> beam.GroupByKey()
        | "AnswerQuestions" >> beam.ParDo(index_lookups.AnswerQuestions())
    )
    repeats = (
        sent[table_steps.PAIRS]
        | "PairsByPartition" >> beam.GroupByKey()
        | "FindRepeats" >> beam.ParDo(index_lookups.FindRepeats())
    )
    joined: Any = (
        (sent[table_steps.BLOCKS], answers, repeats)
        | "BlocksAndAnswers" >> beam.Flatten()
        | "AnswersByBlock" >> beam.GroupByKey()
        | "JoinBlocks"
        >> beam.ParDo(index_joining.JoinBlocks(job), counts).with_outputs(
            index_joining.EDGES,
            index_joining.COUNTED,
            index_joining.SEEDS,
            index_joining.SPLITS,
            index_lookups.BROKEN,
            table_steps.TALLIES,
        )
    )
    summed: Any = (
        (joined[index_joining.COUNTED], nodes[index_lookups.TARGETS])
        | "CountsAndTargets" >> beam.Flatten()
        | "CountsByPartition" >> beam.GroupByKey()
        | "SumDegrees"
        >> beam.ParDo(index_writing.SumDegrees(job)).with_outputs(
            index_writing.ANSWERS, index_writing.HUBS, index_writing.SUMMARIES, index_lookups.RECORDS
        )
    )
    written = _write_edges(job, joined[index_joining.EDGES], summed)
    seeds = (
        joined[index_joining.SEEDS]
        | "SeedsByPartition" >> beam.GroupByKey()
        | "WriteSeeds" >> beam.ParDo(index_writing.WriteSeeds(job))
    )
    other_splits = (
        joined[index_joining.SPLITS]
        | "SplitsByPartition" >> beam.GroupByKey()
        | "CompareSplits" >> beam.ParDo(CompareSplits())
    )
    broken = (nodes[index_lookups.BROKEN], joined[index_lookups.BROKEN]) | "BrokenRows" >> beam.Flatten()
    dropped = broken | "Dropped" >> beam.Filter(lambda rows: not refuses(job, rows))
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
    tallies = (
        (sent[table_steps.TALLIES], joined[table_steps.TALLIES], dropped_counts)
        | "Tallies" >> beam.Flatten()
        | "SumTallies" >> beam.CombineGlobally(SumByKey())
    )
    summaries = summed[index_writing.SUMMARIES] | "MergeDegrees" >> beam.CombinePerKey(MergeDegrees())
    records = (
        nodes[index_lookups.RECORDS],
        summed[index_lookups.RECORDS],
        *written,
        seeds,
    ) | "Records" >> beam.Flatten()
    refused = broken | "Refused" >> beam.Filter(lambda rows: refuses(job, rows))
    named = [
        found | f"Name_{name}" >> beam.Map(_Named(name))
        for name, found in (
            ("unit_counts", unit_counts),
            ("tallies", tallies),
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
        | "WriteResults" >> beam.Map(_WriteResults(results_file))
    )


def take_results(results_file: str) -> IndexResults:
    """Reads what the pipeline found out, and removes the file."""
    with tf.io.gfile.GFile(results_file, "rb") as file:
        found: list[tuple[str, Any]] = unpack(file.read())
    tf.io.gfile.remove(results_file)
    by_name: dict[str, list[Any]] = {}
    for name, content in found:
        by_name.setdefault(name, []).append(content)
    return IndexResults(
        unit_counts=by_name["unit_counts"][0],
        tallies=by_name["tallies"][0],
        records=tuple(by_name.get("records", ())),
        refused=tuple(by_name.get("refused", ())),
        degrees=dict(by_name.get("degrees", ())),
        other_splits=tuple(by_name.get("other_splits", ())),
    )


def refuses(job: IndexJob, broken: BrokenRows) -> bool:
    """Tells whether the rules refuse rows; seeds that come again always are."""
    rules: RowRules = job.rules
    if broken.rule == DUPLICATE_NODE:
        return rules.duplicate_nodes == "refuse"
    if broken.rule == DUPLICATE_EDGE:
        return rules.duplicate_edges == "refuse" or job.layouts[broken.label].kind == "seeds"
    return rules.dangling_edges == "refuse"


def _read_blocks(pipeline: beam.Pipeline, job: IndexJob) -> Any:
    """Returns pairs of a label and a block, of all tables."""
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
        bigquery_blocks(pipeline, layout, job.rules) | f"Label {label}" >> beam.Map(_Labelled(label))
        for label, layout in job.layouts.items()
        if job.is_read_once(label)
    ]
    return (blocks, *in_bigquery) | "AllBlocks" >> beam.Flatten() if in_bigquery else blocks


def _write_edges(job: IndexJob, edges: Any, summed: Any) -> tuple[Any, Any]:
    """Returns the records of edges and of hubs."""
    if any(requirements.degree_directions for requirements in job.requirements.edge_sets.values()):
        edges = (
            (edges, summed[index_writing.ANSWERS])
            | "EdgesAndDegrees" >> beam.Flatten()
            | "DegreesByBlock" >> beam.GroupByKey()
            | "AttachDegrees" >> beam.ParDo(index_joining.AttachDegrees(job))
        )
    written = (
        edges
        | "RouteEdges" >> beam.ParDo(index_writing.RouteEdges(job), pvalue.AsList(summed[index_writing.HUBS]))
        | "EdgesByPartition" >> beam.GroupByKey()
        | "WriteEdges"
        >> beam.ParDo(index_writing.WriteEdges(job)).with_outputs(index_lookups.RECORDS, index_writing.BUCKETS)
    )
    hubs = (
        written[index_writing.BUCKETS]
        | "BucketsByPartition" >> beam.GroupByKey()
        | "WriteHubs" >> beam.ParDo(index_writing.WriteHubs(job))
    )
    return written[index_lookups.RECORDS], hubs


class _Labelled:
    """Gives blocks the label of their table."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __call__(self, block: TableBlock) -> tuple[str, TableBlock]:
        return self._label, block


class _Named:
    """Gives results a common key and a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, content: Any) -> tuple[str, bytes]:
        return "", pack((self._name, content))


class _WriteResults:
    """Writes all results to one file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, element: tuple[str, Iterable[bytes]]) -> str:
        found = [unpack(message) for message in element[1]]
        with tf.io.gfile.GFile(self._path, "wb") as file:
            file.write(pack(found))
        return self._path
