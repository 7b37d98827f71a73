"""The single Beam pass of GraphExampleValidator over the examples."""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam import pvalue
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.components.graph_example_validator import label_copies, label_homophily, split_leaks
from tfx_gnn.components.graph_example_validator.check_names import NO_EXAMPLES
from tfx_gnn.components.graph_example_validator.checks import DAMAGED_FILE, EMPTY_SET, MISSING_ROOT
from tfx_gnn.components.graph_example_validator.label_copies import ColumnCounts, LabelColumn
from tfx_gnn.components.graph_example_validator.label_homophily import EdgeAgreement
from tfx_gnn.components.graph_example_validator.split_leaks import LeakRules, SeedsOfBatch
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.records.batch_check import DANGLING_EDGE, BatchChecker, file_name
from tfx_gnn.records.example_batches import ExampleBatch, ExampleDecoder, group_records
from tfx_gnn.records.examples_folder import RecordFile, read_records
from tfx_gnn.records.findings import MAX_PLACES, Findings, Place, merge_findings
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.readout_roots import READOUT_PREFIX, ReadoutRoots, read_roots
from tfx_gnn.records.split_statistics import SplitSummary, to_dataset_statistics
from tfx_gnn.records.summary_pass import make_pipeline, take_merged, write_one
from tfx_gnn.records.value_hashes import RowCollector, Rows, fold_rows, hash_values, num_buckets_for
from tfx_gnn.sampling.random_choice import hash_ids

_GRAPH_ID = f"{const.CONTEXT}/{ID_NAME}"
_LEAKS, _LABELS, _ENDS, _TIMES = "leaks", "labels", "ends", "times"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationPlan:
    """What the pass checks.

    Attributes:
        checker: checks examples against the graph schema.
        rules: which leaks to look for.
        columns: features that may reveal labels.
        known_label: feature of `_readout` whose homophily is reported; empty for none.
        pair_label_key: key of the feature that is 0 for negative pairs; empty if there are none.
        time_key: key of the feature with the time of seeds; empty if there is none.
        edge_times: feature with the time of each edge, by edge set.
        only_earlier_edges: whether edges with the same time as the seed are refused.
    """

    checker: BatchChecker
    rules: LeakRules
    columns: tuple[LabelColumn, ...] = ()
    known_label: str = ""
    pair_label_key: str = ""
    time_key: str = ""
    edge_times: Mapping[str, str] = dataclasses.field(default_factory=dict)
    only_earlier_edges: bool = False

    @property
    def layout(self) -> GraphLayout:
        """The keys of the schema."""
        return self.checker.layout

    @property
    def knows_seeds_by_record(self) -> bool:
        """Whether seeds have no ids, so that only equal records, or graphs with equal ids, count as the same seed."""
        return not self.rules.roots.node_sets or bool(self.rules.roots.without_id(self.layout))


@dataclasses.dataclass(kw_only=True)
class PassPart:
    """Results of a part of the pass.

    Attributes:
        statistics: summaries by split.
        findings: what checks found.
        label_counts: how features and labels co-occur, by position of the column.
        agreements: how many edges join equal labels.
    """

    statistics: dict[str, SplitSummary] = dataclasses.field(default_factory=dict)
    findings: Findings = dataclasses.field(default_factory=Findings)
    label_counts: list[ColumnCounts] = dataclasses.field(default_factory=list)
    agreements: list[EdgeAgreement] = dataclasses.field(default_factory=list)

    def merge(self, other: PassPart) -> None:
        """Adds the results of another part, which is not modified."""
        for split, summary in other.statistics.items():
            self.statistics.setdefault(split, SplitSummary()).merge(summary)
        self.findings = merge_findings([self.findings, other.findings])
        self.label_counts = label_copies.merge_label_counts([self.label_counts, other.label_counts])
        self.agreements = label_homophily.merge_agreements([self.agreements, other.agreements])


@dataclasses.dataclass(kw_only=True)
class PassReport:
    """Results of the whole pass, in a form that can be written as JSON.

    Attributes:
        statistics: serialized `DatasetFeatureStatistics` in base64, by split.
        findings: what checks found.
        label_counts: how features and labels co-occur, by position of the column.
    """

    statistics: dict[str, str]
    findings: Findings
    label_counts: list[ColumnCounts]

    def dataset(self, split: str) -> statistics_pb2.DatasetFeatureStatistics:
        """The statistics of a split."""
        return statistics_pb2.DatasetFeatureStatistics.FromString(base64.b64decode(self.statistics[split]))


def run_validation_pass(
    files: Sequence[RecordFile], plan: ValidationPlan, *, scratch_dir: str, beam_args: Sequence[str]
) -> PassReport:
    """Reads all examples once; each file is one unit of work.

    Of a window of spans, the statistics, and what they are compared with, are of the newest span alone; what must never
    be in examples is looked for in all.

    Memory is bounded by the size of a batch and of a bucket; see `num_buckets_for`. All workers and the caller must
    be able to access `scratch_dir`.
    """
    path = os.path.join(scratch_dir, f"pass-{uuid.uuid4().hex}.json")
    names = {(file.split, file.shard): file_name(file) for file in files}
    num_buckets = num_buckets_for(files)
    with make_pipeline(beam_args) as pipeline:
        read = (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Read"
            >> beam.ParDo(_ReadFile(plan, num_buckets)).with_outputs(_LEAKS, _LABELS, _ENDS, _TIMES, main="parts")
        )
        # Merged on the workers: the sketches of thousands of files would not fit on one machine.
        summaries = read["parts"] | "MergeFiles" >> beam.CombineGlobally(_MergeParts())
        parts = [summaries, _compare_leaks(read[_LEAKS], plan, names)]
        if plan.columns:
            parts.append(_count_labels(read[_LABELS], plan))
        if plan.known_label:
            parts.append(_compare_ends(read[_ENDS], num_buckets))
        if plan.time_key:
            parts.append(_compare_times(read[_TIMES], plan, names))
        merged = tuple(parts) | beam.Flatten() | "Merge" >> beam.CombineGlobally(_MergeParts())
        _ = write_one(merged | "Report" >> beam.Map(_report, plan), path)
    return take_merged(path, PassReport)


class _ReadFile(beam.DoFn):
    """Turns a file into a `PassPart` and buckets of rows."""

    def __init__(self, plan: ValidationPlan, num_buckets: int) -> None:
        self._plan = plan
        self._num_buckets = num_buckets

    def setup(self) -> None:
        self._decoder = ExampleDecoder()

    def process(self, element: RecordFile) -> Iterator[Any]:
        plan, part = self._plan, PassPart()
        part.statistics[element.split] = SplitSummary()
        collectors = {
            _LEAKS: RowCollector(_leak_row_keys, split_leaks.reduce_leak_rows, self._num_buckets),
            _LABELS: RowCollector(label_copies.hash_label_rows, label_copies.reduce_label_rows, self._num_buckets),
            _ENDS: RowCollector(label_homophily.hash_end_rows, label_homophily.reduce_end_rows, self._num_buckets),
        }
        for first, records in group_records(_records_of(element, part.findings)):
            for batch in plan.checker.read(self._decoder, first, records, element, part.findings):
                if not element.earlier_span:
                    part.statistics[element.split].add(batch, plan.layout)
                seeds = _seeds_of(batch, records, first, plan)
                yield from self._look(seeds, element, part.findings, collectors)
        for tag, collector in collectors.items():
            for bucket in collector.flush():
                yield pvalue.TaggedOutput(tag, bucket)
        yield part

    def _look(
        self, seeds: SeedsOfBatch, file: RecordFile, findings: Findings, collectors: Mapping[str, RowCollector]
    ) -> Iterator[Any]:
        plan, rules = self._plan, self._plan.rules
        rank = rules.splits.index(file.split)
        _report_missing_roots(seeds, file, findings)
        rows = {_LEAKS: split_leaks.make_leak_rows(seeds, rules, file.split, file.shard)}
        if rules.shown_edge_sets:
            split_leaks.find_supervision_in_examples(seeds, rules, file.split, file_name(file), findings)
        # A seed of an earlier span is here again: its values do not confirm each other.
        if plan.columns and not file.earlier_span:
            rows[_LABELS] = label_copies.make_label_rows(seeds, plan.columns, plan.layout)
        if plan.known_label and not file.earlier_span:
            rows[_ENDS] = label_homophily.make_end_rows(seeds, rules.roots, plan.known_label, plan.layout, rank)
        if plan.edge_times:
            place = (file.split, file_name(file))
            split_leaks.find_newer_edges(
                seeds, plan.edge_times, plan.layout, place, findings, only_earlier=plan.only_earlier_edges
            )
        for tag, found in rows.items():
            for bucket in collectors[tag].add(found):
                yield pvalue.TaggedOutput(tag, bucket)
        if plan.time_key:
            yield pvalue.TaggedOutput(_TIMES, split_leaks.make_time_rows(seeds, rank, file.shard))


def _records_of(file: RecordFile, findings: Findings) -> Iterator[bytes]:
    """Yields the records of a file; if it is damaged, those before the damage."""
    try:
        yield from read_records(file)
    except ValueError as error:
        findings.at(DAMAGED_FILE, file.split).add(1, [Place(file=file_name(file), record=-1, detail=str(error))])


def _seeds_of(batch: ExampleBatch, records: Sequence[bytes], first: int, plan: ValidationPlan) -> SeedsOfBatch:
    """Finds the seeds of a batch's examples; an example without readout is its own seed."""
    if READOUT_PREFIX in plan.layout.set_by_prefix:
        roots = read_roots(batch, plan.rules.roots, plan.layout)
    else:
        roots = ReadoutRoots(examples=np.arange(batch.num_examples), nodes={})
    counts = roots.is_whole
    if plan.pair_label_key:
        counts &= batch.column(plan.pair_label_key).numbers != 0
    hashes = None
    if plan.knows_seeds_by_record and _GRAPH_ID in plan.layout.features:
        hashes = hash_values(batch.column(_GRAPH_ID).values)
    elif plan.knows_seeds_by_record:
        chosen = pa.array([records[number - first] for number in batch.numbers.tolist()], pa.large_binary())
        hashes = hash_ids(chosen.view(pa.large_string()))
    return SeedsOfBatch(batch=batch, roots=roots, counts=counts, times=_times(batch, roots, plan), records=hashes)


def _times(batch: ExampleBatch, roots: ReadoutRoots, plan: ValidationPlan) -> npt.NDArray[np.int64] | None:
    if not plan.time_key:
        return None
    values = batch.column(plan.time_key).numbers.astype(np.int64)
    prefix = plan.layout.set_of_key[plan.time_key].prefix
    if prefix == READOUT_PREFIX:
        return values
    if prefix == const.CONTEXT:
        return values[roots.examples]
    # A readout without a root has index -1, which selects the appended 0; such readouts are not counted.
    padded = np.append(values, 0)
    (root,) = (root for root, name in plan.rules.roots.node_sets.items() if f"{const.NODES}/{name}" == prefix)
    return padded[roots.nodes[root]]


def _report_missing_roots(seeds: SeedsOfBatch, file: RecordFile, findings: Findings) -> None:
    for root, nodes in seeds.roots.nodes.items():
        examples = np.unique(seeds.roots.examples[nodes < 0])
        if len(examples):
            places = [
                Place(file=file_name(file), record=int(seeds.batch.numbers[example]))
                for example in examples[:MAX_PLACES]
            ]
            findings.at(MISSING_ROOT, file.split, f"{const.EDGES}/_readout/{root}").add(len(examples), places)


def _leak_row_keys(rows: Rows) -> npt.NDArray[np.uint64]:
    keys: npt.NDArray[np.uint64] = rows["key"]
    return keys


def _in_buckets(rows: Any, name: str, fold: Callable[[Iterable[Rows]], Any]) -> Any:
    """Groups the rows by bucket and folds each bucket."""
    return rows | f"{name}Buckets" >> beam.GroupByKey() | f"{name}Fold" >> beam.MapTuple(lambda _, chunks: fold(chunks))


def _compare_leaks(rows: Any, plan: ValidationPlan, names: Mapping[tuple[str, int], str]) -> Any:
    def compare(chunks: Iterable[Rows]) -> PassPart:
        folded = fold_rows(chunks, split_leaks.reduce_leak_rows, split_leaks.LEAK_ROW)
        return PassPart(findings=split_leaks.compare_leak_rows(folded, plan.rules, names))

    return _in_buckets(rows, "Leak", compare)


def _count_labels(rows: Any, plan: ValidationPlan) -> Any:
    num_columns = len(plan.columns)

    def count(chunks: Iterable[Rows]) -> PassPart:
        folded = fold_rows(chunks, label_copies.reduce_label_rows, label_copies.LABEL_ROW)
        return PassPart(label_counts=label_copies.count_label_rows(folded, num_columns))

    return _in_buckets(rows, "Label", count)


def _compare_ends(rows: Any, num_buckets: int) -> Any:
    fold = functools.partial(fold_rows, reduce=label_homophily.reduce_end_rows, dtype=label_homophily.END_ROW)

    def turn(chunks: Iterable[Rows]) -> list[tuple[int, Rows]]:
        collector = RowCollector(label_homophily.hash_end_rows, label_homophily.reduce_end_rows, num_buckets)
        asked = label_homophily.ask_sources(fold(chunks))
        return [*collector.add(asked), *collector.flush()]

    turned = _in_buckets(rows, "Source", turn) | "Turned" >> beam.FlatMap(lambda buckets: buckets)
    return _in_buckets(turned, "Target", lambda chunks: PassPart(agreements=label_homophily.ask_targets(fold(chunks))))


def _compare_times(rows: Any, plan: ValidationPlan, names: Mapping[tuple[str, int], str]) -> Any:
    def find(times: Rows, earliest: Mapping[int, int]) -> PassPart:
        return PassPart(findings=split_leaks.find_newer_seeds(times, earliest, plan.rules, names, plan.time_key))

    filled = rows | "Filled" >> beam.Filter(lambda times: len(times) > 0)
    earliest = (
        filled
        | "Earliest" >> beam.Map(lambda times: (int(times["rank"][0]), int(times["time"].min())))
        | "EarliestOfSplit" >> beam.CombinePerKey(min)
    )
    return filled | "Newer" >> beam.Map(find, pvalue.AsDict(earliest))


class _MergeParts(beam.CombineFn):
    """Merges parts, in any order, into one."""

    def create_accumulator(self) -> PassPart:
        return PassPart()

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        mutable_accumulator.merge(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged = PassPart()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


def _report(whole: PassPart, plan: ValidationPlan) -> PassReport:
    datasets = {}
    for split, summary in whole.statistics.items():
        _report_emptiness(split, summary, plan.layout, whole.findings)
        dataset = to_dataset_statistics(summary, split, plan.layout)
        _add_dangling(dataset, split, whole.findings, plan.layout)
        _add_homophily(dataset, plan.rules.splits.index(split), whole.agreements, plan)
        datasets[split] = base64.b64encode(dataset.SerializeToString(deterministic=True)).decode()
    return PassReport(statistics=datasets, findings=merge_findings([whole.findings]), label_counts=whole.label_counts)


def _report_emptiness(split: str, summary: SplitSummary, layout: GraphLayout, findings: Findings) -> None:
    if not summary.num_examples:
        findings.at(NO_EXAMPLES, split).add(0, [])
        return
    for one_set in layout.sets:
        sizes = summary.features.get(one_set.size_key) if one_set.set_type != const.CONTEXT else None
        is_empty = sizes is None or sizes.numbers is None or sizes.numbers.maximum <= 0
        if one_set.set_type != const.CONTEXT and is_empty:
            findings.at(EMPTY_SET, split, one_set.prefix).add(summary.num_examples, [])


def _add_dangling(
    dataset: statistics_pb2.DatasetFeatureStatistics, split: str, findings: Findings, layout: GraphLayout
) -> None:
    dangling = {
        item.about: item.num_values for item in findings.found if (item.check, item.split) == (DANGLING_EDGE, split)
    }
    for feature in dataset.features:
        key = feature.path.step[0]
        if key in (layout.set_of_key[key].source_key, layout.set_of_key[key].target_key):
            feature.custom_stats.add(name="dangling_edges", num=dangling.get(key, 0))


def _add_homophily(
    dataset: statistics_pb2.DatasetFeatureStatistics,
    rank: int,
    agreements: Sequence[EdgeAgreement],
    plan: ValidationPlan,
) -> None:
    names = label_homophily.list_homophilic_edge_sets(plan.layout, plan.rules.roots)
    by_key = {
        f"{const.EDGES}/{names[item.edge_set]}.{const.SIZE_NAME}": item for item in agreements if item.rank == rank
    }
    for feature in dataset.features:
        item = by_key.get(feature.path.step[0])
        if item is not None:
            feature.custom_stats.add(name="edges_with_known_labels", num=item.num_edges)
            feature.custom_stats.add(name="label_homophily", num=item.num_equal / item.num_edges)
