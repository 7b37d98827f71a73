"""Scores a whole split with the exported model on Apache Beam, and sums up the results."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam import pvalue

from tfx_gnn.components.graph_evaluator.bootstrap_sample import BootstrapSample
from tfx_gnn.components.graph_evaluator.change_report import refuse_other_model
from tfx_gnn.components.graph_evaluator.column_pipeline import ColumnReader, sample_columns
from tfx_gnn.components.graph_evaluator.column_sample import EVALUATED, TRAINING, ColumnSample
from tfx_gnn.components.graph_evaluator.example_identity import ExampleIdentity
from tfx_gnn.components.graph_evaluator.measures import (
    Array,
    EvaluationSums,
    ExampleSums,
    Measure,
    SliceKey,
    feature_values,
    parse_features,
)
from tfx_gnn.components.graph_evaluator.paired_bootstrap import ReplicaSums, hash_examples
from tfx_gnn.components.graph_evaluator.ranking import KnownLinks, RankingMeasure
from tfx_gnn.components.graph_evaluator.slice_knowledge import (
    Hashes,
    NumberSample,
    SliceKnowledge,
    hash_node_ids,
    union_of_hashes,
)
from tfx_gnn.components.graph_evaluator.slices import Slicing, hash_roots, slice_numbers, slice_values
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, reading_progress, record_files
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.serving.prediction import ServingModel

_MAX_BATCH = 128
_READ_AT_ONCE = 1024
_PENDING_SAMPLES = 256
_Result = TypeVar("_Result")
_BASELINE, _EVALUATED, _REPLICAS = "baseline", "evaluated", "replicas"
_BLESSED, _SAMPLE, _KEPT = "blessed", "sample", "kept"
_QUANTILES = "quantiles"
_COLUMNS = "columns"


def gather_sums(
    *,
    examples_dir: str,
    saved_model_dir: str,
    blessed_model_dir: str = "",
    split: str,
    baseline_split: str,
    measures: Mapping[str, Measure],
    slices: Sequence[Slicing],
    known_links: KnownLinks | None,
    num_replicas: int,
    columns: ColumnReader | None = None,
    identity: ExampleIdentity,
    scratch_file: str,
    beam_args: Sequence[str],
) -> EvaluationSums:
    """Runs the model on `split`, and sums up the labels of `baseline_split` for learned baselines.

    The SavedModel in `blessed_model_dir`, if any, answers the same requests.
    `num_replicas` is the number of replicas in which the model is compared with the baseline; 0 for no comparison, and
    no sample for intervals. `columns` reads the seeds' own columns, of which both splits give a sample.
    `identity` tells examples apart in the answers that are kept.
    The sums pass through `scratch_file`, whose folder must exist and be accessible to all workers and the caller.
    """
    measures = dict(measures)
    learned = {name: measure for name, measure in measures.items() if measure.needs_baseline_split}
    evaluated_files = record_files(examples_dir, (split,))
    training_files = (
        record_files(examples_dir, (baseline_split,), argument="baseline_split")
        if learned or any(slicing.roots for slicing in slices)
        else []
    )
    baseline_files = training_files if learned else []
    read_files = [*baseline_files, *evaluated_files]
    if any(slicing.num_quantiles for slicing in slices):
        read_files += evaluated_files
    if any(slicing.roots for slicing in slices):
        read_files += [*evaluated_files, *training_files]
    if columns is not None:
        read_files += [*evaluated_files, *training_files]
    with reading_progress("evaluation", read_files), make_pipeline(beam_args) as pipeline:
        baselines = pipeline | "BaselineFiles" >> beam.Create(baseline_files)
        if learned:
            baselines = (
                baselines
                | "SpreadBaseline" >> beam.Reshuffle()
                | "SumLabels" >> beam.FlatMap(_label_sums, learned)
                | "MergeLabels" >> beam.CombinePerKey(_merged)
            )
        evaluate = _Evaluate(
            saved_model_dir,
            measures,
            slices,
            known_links,
            blessed_model_dir=blessed_model_dir,
            num_replicas=num_replicas,
            identity=identity,
        )
        quantiles, seen = _gather_slice_knowledge(pipeline, evaluated_files, training_files, slices)
        parts = (
            pipeline
            | "EvaluatedFiles" >> beam.Create(evaluated_files)
            | "SpreadEvaluated" >> beam.Reshuffle()
            | "Evaluate"
            >> beam.ParDo(
                evaluate,
                pvalue.AsDict(baselines),
                pvalue.AsDict(quantiles),
                pvalue.AsSingleton(seen),
            ).with_outputs(_REPLICAS, _BLESSED, _SAMPLE, _KEPT, main=_EVALUATED)
        )
        # Steps without elements take as long as others where there are few examples.
        purposes = [
            _EVALUATED,
            _KEPT,
            *[_BLESSED] * bool(blessed_model_dir),
            *[_REPLICAS, _SAMPLE] * bool(num_replicas),
        ]
        merged = [
            parts[purpose]
            | f"Merge {purpose}"
            >> beam.CombinePerKey(BootstrapSample.merged if purpose in (_SAMPLE, _KEPT) else _merged)
            | f"Lines of {purpose}" >> beam.MapTuple(functools.partial(_line, purpose))
            for purpose in purposes
        ]
        if columns is not None:
            files = {TRAINING: training_files, EVALUATED: evaluated_files}
            merged.append(
                sample_columns(pipeline, files, columns)
                | "ColumnLines" >> beam.MapTuple(lambda name, sample: [_COLUMNS, "", name, "", sample.to_json()])
            )
        # Not every runner can return a value to its launcher, but each can write a file.
        _ = (
            (
                baselines | "LabelLines" >> beam.MapTuple(functools.partial(_line, _BASELINE)),
                quantiles | "QuantileLines" >> beam.MapTuple(_quantile_line),
                *merged,
            )
            | beam.Flatten()
            | beam.combiners.ToList()
            | "Write" >> beam.Map(_write, scratch_file)
        )
    with tf.io.gfile.GFile(scratch_file, "r") as file:
        lines = json.loads(file.read())
    tf.io.gfile.remove(scratch_file)
    return _read_lines(lines, measures)


def _read_lines(lines: Iterable[list[Any]], measures: Mapping[str, Measure]) -> EvaluationSums:
    found = EvaluationSums(baselines={}, evaluated={}, replicas={})
    for purpose, task, slicing, value, plain in lines:
        if purpose == _REPLICAS:
            found.replicas[task] = ReplicaSums.from_json(plain)
        elif purpose == _SAMPLE:
            found.samples[task] = BootstrapSample.from_json(plain)
        elif purpose == _KEPT:
            found.kept[task] = BootstrapSample.from_json(plain)
        elif purpose == _COLUMNS:
            found.columns[slicing] = ColumnSample.from_json(plain)
        elif purpose == _QUANTILES:
            found.quantiles[slicing] = tuple(plain)
        elif purpose == _BASELINE:
            found.baselines[task] = measures[task].sums_from_json(plain)
        else:
            of_slice = found.evaluated if purpose == _EVALUATED else found.blessed
            of_slice[task, slicing, value] = measures[task].sums_from_json(plain)
    return found


def _gather_slice_knowledge(
    pipeline: beam.Pipeline,
    evaluated_files: Sequence[RecordFile],
    training_files: Sequence[RecordFile],
    slices: Sequence[Slicing],
) -> tuple[Any, Any]:
    """Reads the examples once before they are evaluated, if slices need that.

    Returns:
        A PCollection of keys of features with the numbers between their slices, and one with the hashes of nodes that
        training saw, of those that examples are about, in one array. Both are empty if no slices need them.
    """
    by_number = {slicing.key: slicing for slicing in slices if slicing.num_quantiles}
    by_root = [slicing for slicing in slices if slicing.roots]
    quantiles = pipeline | "NoQuantiles" >> beam.Create([])
    seen = pipeline | "NothingSeen" >> beam.Create([union_of_hashes([])])
    if not by_number and not by_root:
        return quantiles, seen
    files = pipeline | "SlicedFiles" >> beam.Create(evaluated_files) | "SpreadSliced" >> beam.Reshuffle()
    if by_number:
        quantiles = (
            files
            | "SampleNumbers" >> beam.FlatMap(_number_samples, by_number)
            | "MergeNumbers" >> beam.CombinePerKey(NumberSample.merged)
            | "Quantiles" >> beam.MapTuple(functools.partial(_quantiles, by_number))
        )
    for slicing in by_root:
        asked = (
            files
            | "HashRoots" >> beam.FlatMap(_root_hashes, slicing)
            | "JoinRoots" >> beam.CombineGlobally(union_of_hashes)
        )
        seen = (
            pipeline
            | "TrainingFiles" >> beam.Create(training_files)
            | "SpreadTraining" >> beam.Reshuffle()
            | "FindSeen" >> beam.FlatMap(_seen_hashes, slicing, pvalue.AsSingleton(asked))
            | "JoinSeen" >> beam.CombineGlobally(union_of_hashes)
        )
    return quantiles, seen


def _number_samples(file: RecordFile, slicings: Mapping[str, Slicing]) -> Iterator[tuple[str, NumberSample]]:
    for records, examples, places in _batches(file, _READ_AT_ONCE):
        hashes = hash_examples(records)
        for key, slicing in slicings.items():
            sample = NumberSample.of(hashes, slice_numbers(examples, slicing, places))
            if len(sample.numbers):
                yield key, sample


def _quantiles(slicings: Mapping[str, Slicing], key: str, sample: NumberSample) -> tuple[str, tuple[float, ...]]:
    return key, sample.quantiles(slicings[key].num_quantiles)


def _quantile_line(key: str, edges: tuple[float, ...]) -> list[Any]:
    return [_QUANTILES, "", key, "", list(edges)]


def _root_hashes(file: RecordFile, slicing: Slicing) -> Iterator[Hashes]:
    for _, examples, places in _batches(file, _READ_AT_ONCE):
        yield union_of_hashes(hash_roots(examples, slicing, places))


def _seen_hashes(file: RecordFile, slicing: Slicing, asked: Hashes) -> Iterator[Hashes]:
    """Hashes the nodes of a file's subgraphs that were asked for, so that others take no memory."""
    for _, examples, _ in _batches(file, _READ_AT_ONCE):
        for node_set in {node_set for _, node_set in slicing.roots}:
            ids = [one for features in examples for one in feature_values(features, f"nodes/{node_set}.{ID_NAME}")[1]]
            yield np.intersect1d(hash_node_ids(node_set, ids), asked)


@dataclasses.dataclass(frozen=True)
class _Compared:
    """Some examples, one row each: labels, outputs of the model and of the latest blessed one, hashes and slices.

    `hashes` are of the serialized examples, `identities` of what they are about.
    """

    truth: Array
    outputs: dict[str, Array]
    blessed: dict[str, Array]
    hashes: Array
    identities: Array
    slices: dict[str, Array]

    def rows(self, rows: Array) -> _Compared:
        outputs, blessed, slices = (
            {name: array[rows] for name, array in arrays.items()}
            for arrays in (self.outputs, self.blessed, self.slices)
        )
        return _Compared(self.truth[rows], outputs, blessed, self.hashes[rows], self.identities[rows], slices)

    @classmethod
    def concatenated(cls, parts: Sequence[_Compared]) -> _Compared:
        outputs, blessed, slices = (
            {name: np.concatenate([arrays[name] for arrays in of_parts]) for name in of_parts[0]}
            for of_parts in zip(*((part.outputs, part.blessed, part.slices) for part in parts), strict=True)
        )
        truth, hashes, identities = (
            np.concatenate(arrays)
            for arrays in zip(*((one.truth, one.hashes, one.identities) for one in parts), strict=True)
        )
        return cls(truth, outputs, blessed, hashes, identities, slices)


class _OfFile:
    """What a file adds to the bootstraps and to the kept answers, by task, in bounded memory."""

    def __init__(self) -> None:
        self.replicas: dict[str, ReplicaSums] = {}
        self._samples: dict[tuple[str, str], list[BootstrapSample]] = {}

    def add_replicas(self, task: str, replicas: ReplicaSums) -> None:
        before = self.replicas.get(task)
        self.replicas[task] = before.merged_with(replicas) if before is not None else replicas

    def add_sample(self, purpose: str, task: str, sample: BootstrapSample) -> None:
        pending = self._samples.setdefault((purpose, task), [])
        pending.append(sample)
        if len(pending) > _PENDING_SAMPLES:
            pending[:] = [BootstrapSample.merged(pending)]

    def outputs(self) -> Iterator[Any]:
        for task, sums in self.replicas.items():
            yield pvalue.TaggedOutput(_REPLICAS, (task, sums))
        for (purpose, task), pending in self._samples.items():
            yield pvalue.TaggedOutput(purpose, (task, BootstrapSample.merged(pending)))


class _Evaluate(beam.DoFn):
    """Turns files of raw examples into sums by task and slice."""

    def __init__(
        self,
        saved_model_dir: str,
        measures: Mapping[str, Measure],
        slices: Sequence[Slicing],
        known_links: KnownLinks | None,
        *,
        blessed_model_dir: str,
        num_replicas: int,
        identity: ExampleIdentity,
    ) -> None:
        self._identity = identity
        self._saved_model_dir = saved_model_dir
        self._blessed_model_dir = blessed_model_dir
        self._measures = measures
        self._slices = slices
        self._known_links = known_links
        self._num_replicas = num_replicas
        self._model: ServingModel | None = None
        self._blessed_model: ServingModel | None = None

    def setup(self) -> None:
        self._model = ServingModel(self._saved_model_dir)
        if self._blessed_model_dir:
            self._blessed_model = ServingModel(self._blessed_model_dir)

    def process(
        self,
        element: RecordFile,
        baselines: Mapping[str, ExampleSums],
        quantiles: Mapping[str, tuple[float, ...]],
        seen: Hashes,
    ) -> Iterator[Any]:
        assert self._model is not None
        knowledge = SliceKnowledge(quantiles=quantiles, seen=seen)
        held: dict[SliceKey, list[_Compared]] = {}
        of_file = _OfFile()
        for records, examples, places in _batches(element, _MAX_BATCH):
            outputs = _answers(self._model, records, places)
            blessed: dict[str, Array] = {}
            if self._blessed_model is not None:
                blessed = self._of_blessed(_answers, self._blessed_model, records, places)
            slices = {
                slicing.key: np.array(slice_values(examples, slicing, places, knowledge), object)
                for slicing in self._slices
            }
            groups = _groups(slices, len(examples))
            hashes, identities = hash_examples(records), self._identity.identify(records, examples)
            for task, measure in self._measures.items():
                truth = measure.truth(examples, places)
                if self._known_links is not None and isinstance(measure, RankingMeasure):
                    truth = self._known_links.without_false_negatives(truth, examples, outputs)
                for (slicing, value), rows in groups.items():
                    part = _Compared(truth, outputs, blessed, hashes, identities, slices).rows(rows)
                    if measure.compares_examples and truth.shape[1] == 1:
                        held.setdefault((task, slicing, value), []).append(part)
                    else:
                        yield from self._sums((task, slicing, value), part, baselines, of_file)
        for key, parts in held.items():
            # Batches may end between examples that are compared, files may not.
            yield from self._sums(key, _Compared.concatenated(parts), baselines, of_file)
        yield from of_file.outputs()

    def _sums(
        self,
        key: SliceKey,
        part: _Compared,
        baselines: Mapping[str, ExampleSums],
        of_file: _OfFile,
    ) -> Iterator[Any]:
        """Sums up some examples, and adds them to the bootstraps and the kept answers unless they are a slice."""
        task, slicing, _ = key
        measure, baseline = self._measures[task], baselines.get(task)
        # First, because these refuse answers that are not finite.
        yield key, measure.sums(part.truth, part.outputs, baseline)
        if part.blessed:
            yield pvalue.TaggedOutput(
                _BLESSED, (key, self._of_blessed(measure.sums, part.truth, part.blessed, baseline))
            )
        if slicing:
            return
        answers = measure.answers(part.truth, part.outputs)
        of_file.add_sample(_KEPT, task, BootstrapSample.of(part.identities, {}, answers, None))
        if self._num_replicas:
            terms = measure.paired_terms(part.truth, part.outputs, baseline, part.hashes)
            blessed = self._of_blessed(measure.answers, part.truth, part.blessed) if part.blessed else None
            sample = self._of_blessed(BootstrapSample.of, part.hashes, part.slices, answers, blessed)
            of_file.add_replicas(task, ReplicaSums.of(terms, self._num_replicas))
            of_file.add_sample(_SAMPLE, task, sample)

    def _of_blessed(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Calls a function of the latest blessed model's outputs, which may be those of another task."""
        try:
            return function(*arguments)
        except ValueError as error:
            raise refuse_other_model(error, self._blessed_model_dir) from error


def _groups(slices: Mapping[str, Array], num_examples: int) -> dict[tuple[str, str], Any]:
    """Positions of a batch's examples by feature and value."""
    groups: dict[tuple[str, str], Any] = {("", ""): np.arange(num_examples)}
    for key, values in slices.items():
        for value in dict.fromkeys(values.tolist()):
            groups[key, value] = np.flatnonzero(values == value)
    return groups


def _answers(model: ServingModel, records: Sequence[bytes], places: Sequence[str]) -> dict[str, Array]:
    try:
        return {name: value.numpy() for name, value in model(tf.constant(records, tf.string)).items()}
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(f"{error.message} The first example of this request is {places[0]}.") from error


def _line(purpose: str, key: str | SliceKey, sums: Any) -> list[Any]:
    """Writes the sums of a task or of a slice as JSON."""
    return [purpose, *((key, "", "") if isinstance(key, str) else key), sums.to_json()]


def _label_sums(file: RecordFile, measures: Mapping[str, Measure]) -> Iterator[tuple[str, ExampleSums]]:
    for _, examples, places in _batches(file, _READ_AT_ONCE):
        for task, measure in measures.items():
            yield task, measure.label_sums(measure.truth(examples, places))


def _batches(file: RecordFile, size: int) -> Iterator[tuple[list[bytes], list[Any], list[str]]]:
    """Yields records, their features and their places."""
    records = enumerate(read_records(file))
    while batch := list(itertools.islice(records, size)):
        places = [place_of(file, position) for position, _ in batch]
        features = [parse_features(record, place) for (_, record), place in zip(batch, places, strict=True)]
        yield [record for _, record in batch], features, places


def _merged(sums: Iterable[Any]) -> Any:
    return functools.reduce(lambda first, second: first.merged_with(second), sums)


def _write(lines: list[list[Any]], path: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(lines))
