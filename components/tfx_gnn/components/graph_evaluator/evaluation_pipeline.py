"""Scores a whole split with the exported model on Apache Beam, and sums up the results."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam import pvalue
from google.protobuf.message import DecodeError

from tfx_gnn.components.graph_evaluator.measures import Array, EvaluationSums, ExampleSums, Measure, SliceKey
from tfx_gnn.components.graph_evaluator.ranking import KnownLinks, RankingMeasure
from tfx_gnn.components.graph_evaluator.slices import slice_value
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, record_files
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.serving.prediction import ServingModel

_MAX_BATCH = 128
_LABELS_AT_ONCE = 1024
_BASELINE, _EVALUATED = "baseline", "evaluated"


def gather_sums(
    *,
    examples_dir: str,
    saved_model_dir: str,
    split: str,
    baseline_split: str,
    measures: Mapping[str, Measure],
    slices: Sequence[str],
    known_links: KnownLinks | None,
    scratch_file: str,
    beam_args: Sequence[str],
) -> EvaluationSums:
    """Runs the model on `split`, and sums up the labels of `baseline_split` for learned baselines.

    The sums pass through `scratch_file`, whose folder must exist and be accessible to all workers and the caller.
    """
    measures = dict(measures)
    learned = {name: measure for name, measure in measures.items() if measure.needs_baseline_split}
    evaluated_files = record_files(examples_dir, (split,))
    baseline_files = record_files(examples_dir, (baseline_split,), argument="baseline_split") if learned else []
    with make_pipeline(beam_args) as pipeline:
        baselines = (
            pipeline
            | "BaselineFiles" >> beam.Create(baseline_files)
            | "SpreadBaseline" >> beam.Reshuffle()
            | "SumLabels" >> beam.FlatMap(_label_sums, learned)
            | "MergeLabels" >> beam.CombinePerKey(_merged)
        )
        evaluated = (
            pipeline
            | "EvaluatedFiles" >> beam.Create(evaluated_files)
            | "SpreadEvaluated" >> beam.Reshuffle()
            | "Evaluate"
            >> beam.ParDo(_Evaluate(saved_model_dir, measures, slices, known_links), pvalue.AsDict(baselines))
            | "MergeEvaluated" >> beam.CombinePerKey(_merged)
        )
        # Not every runner can return a value to its launcher, but each can write a file.
        _ = (
            (
                baselines | "LabelLines" >> beam.MapTuple(lambda task, sums: [_BASELINE, task, "", "", sums.to_json()]),
                evaluated | "Lines" >> beam.MapTuple(lambda key, sums: [_EVALUATED, *key, sums.to_json()]),
            )
            | beam.Flatten()
            | beam.combiners.ToList()
            | "Write" >> beam.Map(_write, scratch_file)
        )
    with tf.io.gfile.GFile(scratch_file, "r") as file:
        lines = json.loads(file.read())
    tf.io.gfile.remove(scratch_file)
    found: dict[str, dict[SliceKey, ExampleSums]] = {_BASELINE: {}, _EVALUATED: {}}
    for purpose, task, slicing, value, plain in lines:
        found[purpose][task, slicing, value] = measures[task].sums_from_json(plain)
    return EvaluationSums(
        baselines={task: sums for (task, _, _), sums in found[_BASELINE].items()}, evaluated=found[_EVALUATED]
    )


class _Evaluate(beam.DoFn):
    """Turns files of raw examples into sums by task and slice."""

    def __init__(
        self,
        saved_model_dir: str,
        measures: Mapping[str, Measure],
        slices: Sequence[str],
        known_links: KnownLinks | None,
    ) -> None:
        self._saved_model_dir = saved_model_dir
        self._measures = measures
        self._slices = slices
        self._known_links = known_links
        self._model: ServingModel | None = None

    def setup(self) -> None:
        self._model = ServingModel(self._saved_model_dir)

    def process(
        self, element: RecordFile, baselines: Mapping[str, ExampleSums]
    ) -> Iterator[tuple[SliceKey, ExampleSums]]:
        assert self._model is not None
        held: dict[SliceKey, list[tuple[Array, dict[str, Array]]]] = {}
        for records, examples, places in _batches(element, _MAX_BATCH):
            answers = self._answers(records, places)
            outputs = {name: value.numpy() for name, value in answers.items()}
            groups = self._groups(examples, places)
            for task, measure in self._measures.items():
                truth = measure.truth(examples, places)
                if self._known_links is not None and isinstance(measure, RankingMeasure):
                    truth = self._known_links.without_false_negatives(truth, examples, outputs)
                for (slicing, value), rows in groups.items():
                    of_rows = {name: output[rows] for name, output in outputs.items()}
                    if measure.compares_examples and truth.shape[1] == 1:
                        held.setdefault((task, slicing, value), []).append((truth[rows], of_rows))
                    else:
                        yield (task, slicing, value), measure.sums(truth[rows], of_rows, baselines.get(task))
        for key, parts in held.items():
            # Batches may end between examples that are compared, files may not.
            outputs = {name: np.concatenate([of_rows[name] for _, of_rows in parts]) for name in parts[0][1]}
            truth = np.concatenate([of_rows for of_rows, _ in parts])
            yield key, self._measures[key[0]].sums(truth, outputs, baselines.get(key[0]))

    def _answers(self, records: Sequence[bytes], places: Sequence[str]) -> dict[str, tf.Tensor]:
        assert self._model is not None
        try:
            return self._model(tf.constant(records, tf.string))
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{error.message} The first example of this request is {places[0]}.") from error

    def _groups(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> dict[tuple[str, str], Any]:
        """Positions of a batch's examples by feature and value."""
        groups: dict[tuple[str, str], Any] = {("", ""): np.arange(len(examples))}
        for slicing in self._slices:
            values = [slice_value(features, slicing, place) for features, place in zip(examples, places, strict=True)]
            for value in dict.fromkeys(values):
                groups[slicing, value] = np.flatnonzero(np.array(values, object) == value)
        return groups


def _label_sums(file: RecordFile, measures: Mapping[str, Measure]) -> Iterator[tuple[str, ExampleSums]]:
    for _, examples, places in _batches(file, _LABELS_AT_ONCE):
        for task, measure in measures.items():
            yield task, measure.label_sums(measure.truth(examples, places))


def _batches(file: RecordFile, size: int) -> Iterator[tuple[list[bytes], list[Any], list[str]]]:
    """Yields records, their features and their places."""
    records = enumerate(read_records(file))
    while batch := list(itertools.islice(records, size)):
        places = [place_of(file, position) for position, _ in batch]
        features = [_features(record, place) for (_, record), place in zip(batch, places, strict=True)]
        yield [record for _, record in batch], features, places


def _features(record: bytes, place: str) -> Any:
    try:
        return tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise ValueError(
            f"`examples_dir` must hold serialized tf.Examples; got {len(record)} other bytes in {place}. "
            "Make the examples again."
        ) from error


def _merged(sums: Iterable[Any]) -> Any:
    return functools.reduce(lambda first, second: first.merged_with(second), sums)


def _write(lines: list[list[Any]], path: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(lines))
