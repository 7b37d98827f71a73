"""GraphEvaluator: what is the exported model worth on raw examples, and may it be pushed?"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf
from google.protobuf.message import DecodeError

import tfx_gnn
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.signature import LABEL_OUTPUT, MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.versions import resolve_saved_model
from tfx_gnn.stages.evaluation.classification_metrics import (
    ClassificationMetrics,
    always_predicting,
    classification_metrics,
)
from tfx_gnn.stages.examples.beam_pipeline import make_pipeline
from tfx_gnn.stages.files.atomic_folder import atomic_folder
from tfx_gnn.stages.files.blessing import write_blessing
from tfx_gnn.stages.files.record_files import RecordFile, place_of, read_records, record_files

METRICS_FILE = "metrics.json"

_COUNTS_FILE = "counts.json"
_MAX_BATCH = 128
_NO_LABEL = ""

_Counts = Counter[tuple[str, str, str]]
"""(purpose, true class, predicted class) to a number of examples."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluatorOptions:
    """What to measure, and what a model must reach to be blessed.

    Attributes:
        label_feature: feature of node set `_readout` with the true class, string or integer.
        split: split to evaluate.
        baseline_split: split whose most frequent class the majority baseline always
            predicts; a baseline may not look at the labels that it is scored on.
        min_accuracy_over_majority: accuracy must be greater than the baseline's by
            more than this; at least 0.
        min_accuracy: accuracy must be at least this, in [0, 1].
        min_macro_f1: macro-F1 must be at least this, in [0, 1].
        max_examples_without_label: examples of the two splits that may lack a label;
            with more of them the evaluation fails.
    """

    label_feature: str
    split: str = "test"
    baseline_split: str = "train"
    min_accuracy_over_majority: float = 0.0
    min_accuracy: float = 0.0
    min_macro_f1: float = 0.0
    max_examples_without_label: int = 0

    def __post_init__(self) -> None:
        for name in ("label_feature", "split", "baseline_split"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must not be empty; got ''. Name a feature or split of the examples.")
        for name in ("min_accuracy_over_majority", "min_accuracy", "min_macro_f1"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {getattr(self, name)}. Give a share, not percent.")
        if self.max_examples_without_label < 0:
            raise ValueError(
                f"`max_examples_without_label` must be at least 0; got {self.max_examples_without_label}. Give a count."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEvaluation:
    """What an evaluation found.

    Attributes:
        metrics: quality of the model.
        majority_class: most frequent class of the baseline split.
        majority: quality of always predicting that class.
        num_examples_without_label: examples that could not be counted.
        blessed: whether every threshold is met.
        reasons: one sentence a threshold.
    """

    metrics: ClassificationMetrics
    majority_class: str
    majority: ClassificationMetrics
    num_examples_without_label: int
    blessed: bool
    reasons: tuple[str, ...]


def evaluate_graph_model(
    *,
    examples_dir: str,
    model_dir: str,
    evaluation_dir: str,
    blessing_dir: str,
    options: GraphEvaluatorOptions,
    beam_args: Sequence[str] = (),
) -> GraphEvaluation:
    """Runs the exported model over the raw examples of a split and blesses it if it is good enough.

    What is measured is what will be served: serialized examples go in, as from a
    client. Counts are gathered by Apache Beam, on as many machines as it is given.

    Args:
        examples_dir: raw examples, with labels.
        model_dir: trained model, with `Format-Serving/`.
        evaluation_dir: absent or empty folder for `metrics.json`.
        blessing_dir: absent or empty folder for `BLESSED` or `NOT_BLESSED`, and `reasons.json`.
        options: what to measure and to require.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        What was found, as in the files.

    Raises:
        ValueError: if a split is missing or has no labelled example, or too many
            examples lack a label.
        FileNotFoundError: if `model_dir` holds no SavedModel.
    """
    saved_model_dir = resolve_saved_model(os.path.join(model_dir, MODEL_ARTIFACT_FOLDER))
    with atomic_folder(evaluation_dir) as evaluation_partial, atomic_folder(blessing_dir) as blessing_partial:
        counts = _gather_counts(examples_dir, saved_model_dir, evaluation_partial, options, beam_args)
        evaluation = _judge(counts, examples_dir, options)
        with tf.io.gfile.GFile(os.path.join(evaluation_partial, METRICS_FILE), "w") as file:
            file.write(json.dumps(_report(evaluation, options), indent=2) + "\n")
        write_blessing(blessing_partial, blessed=evaluation.blessed, reasons=evaluation.reasons)
    return evaluation


class _CountPredictions(beam.DoFn):
    """Files of raw examples to counts of ("evaluate", true class, predicted class)."""

    def __init__(self, saved_model_dir: str, label_feature: str) -> None:
        self._saved_model_dir = saved_model_dir
        self._label_feature = label_feature
        self._model: ServingModel | None = None

    def setup(self) -> None:
        self._model = ServingModel(self._saved_model_dir)

    def process(self, element: RecordFile) -> Iterator[_Counts]:
        assert self._model is not None
        records = enumerate(read_records(element))
        while batch := list(itertools.islice(records, _MAX_BATCH)):
            true = [_true_class(element, position, record, self._label_feature) for position, record in batch]
            outputs = self._model(tf.constant([record for _, record in batch], tf.string))
            predicted = (label.decode("utf-8", errors="replace") for label in outputs[LABEL_OUTPUT].numpy().tolist())
            yield Counter(("evaluate", *pair) for pair in zip(true, predicted, strict=True))


def _count_labels(file: RecordFile, label_feature: str) -> _Counts:
    """Files of raw examples to counts of ("baseline", true class, "")."""
    return Counter(
        ("baseline", _true_class(file, position, record, label_feature), "")
        for position, record in enumerate(read_records(file))
    )


class _MergeCounts(beam.CombineFn):
    def create_accumulator(self) -> _Counts:
        return Counter()

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        mutable_accumulator.update(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        merged: _Counts = Counter()
        for accumulator in accumulators:
            merged.update(accumulator)
        return merged

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


def _gather_counts(
    examples_dir: str,
    saved_model_dir: str,
    scratch_dir: str,
    options: GraphEvaluatorOptions,
    beam_args: Sequence[str],
) -> _Counts:
    # A pipeline cannot return a value to its launcher on every runner; a file it can write.
    counts_file = os.path.join(scratch_dir, _COUNTS_FILE)
    label_feature = options.label_feature
    with make_pipeline(beam_args) as pipeline:
        evaluated = (
            pipeline
            | "EvaluatedFiles" >> beam.Create(record_files(examples_dir, (options.split,)))
            | "SpreadEvaluated" >> beam.Reshuffle()
            | "Predict" >> beam.ParDo(_CountPredictions(saved_model_dir, label_feature))
        )
        baseline = (
            pipeline
            | "BaselineFiles" >> beam.Create(record_files(examples_dir, (options.baseline_split,)))
            | "SpreadBaseline" >> beam.Reshuffle()
            | "CountLabels" >> beam.Map(_count_labels, label_feature)
        )
        _ = (
            (evaluated, baseline)
            | beam.Flatten()
            | beam.CombineGlobally(_MergeCounts())
            | "Write" >> beam.Map(_write_counts, counts_file)
        )
    with tf.io.gfile.GFile(counts_file, "r") as file:
        counts = Counter({(purpose, true, predicted): n for purpose, true, predicted, n in json.loads(file.read())})
    tf.io.gfile.remove(counts_file)
    return counts


def _write_counts(counts: _Counts, path: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps([[*key, count] for key, count in sorted(counts.items())]))


def _true_class(file: RecordFile, position: int, record: bytes, label_feature: str) -> str:
    """Class that a raw example carries, as the served label writes it; "" if it carries none."""
    key = f"nodes/_readout.{label_feature}"
    try:
        feature = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise ValueError(
            f"`examples_dir` must hold serialized tf.Examples; got {len(record)} other bytes in "
            f"{place_of(file, position)}. Make the examples again."
        ) from error
    if key not in feature:
        return _NO_LABEL
    kind = feature[key].WhichOneof("kind")
    values = list(getattr(feature[key], kind).value) if kind else []
    if not values:
        return _NO_LABEL
    if kind == "float_list" or len(values) > 1:
        raise ValueError(
            f"`label_feature` must be one string or integer an example; got {values[:3]!r} in {key!r} of "
            f"{place_of(file, position)}. "
            "Name the label feature of a classification with one readout node an example."
        )
    return values[0].decode("utf-8", errors="replace") if kind == "bytes_list" else str(values[0])


def _judge(counts: _Counts, examples_dir: str, options: GraphEvaluatorOptions) -> GraphEvaluation:
    without_label = sum(count for (_, true, _), count in counts.items() if true == _NO_LABEL)
    if without_label > options.max_examples_without_label:
        raise ValueError(
            f"`examples_dir` must have a label {options.label_feature!r} on every example but "
            f"{options.max_examples_without_label}; got {without_label} without one in splits {options.split!r} and "
            f"{options.baseline_split!r} of {examples_dir!r}. Label them, or raise `max_examples_without_label`."
        )
    confusion: Counter[tuple[str, str]] = Counter()
    support: Counter[str] = Counter()
    baseline: Counter[str] = Counter()
    for (purpose, true, predicted), count in counts.items():
        if true == _NO_LABEL:
            continue
        if purpose == "baseline":
            baseline[true] += count
        else:
            confusion[true, predicted] += count
            support[true] += count
    for split, found in ((options.split, support), (options.baseline_split, baseline)):
        if not found:
            raise ValueError(
                f"`examples_dir` must hold labelled examples of split {split!r}; got none in {examples_dir!r}. "
                "Choose another split or make the examples again."
            )
    metrics = classification_metrics(confusion)
    majority_class = min(baseline, key=lambda name: (-baseline[name], name))
    majority = classification_metrics(always_predicting(majority_class, support))
    verdicts = _verdicts(metrics, majority, options)
    return GraphEvaluation(
        metrics=metrics,
        majority_class=majority_class,
        majority=majority,
        num_examples_without_label=without_label,
        blessed=all(passed for passed, _ in verdicts),
        reasons=tuple(sentence for _, sentence in verdicts),
    )


def _verdicts(
    metrics: ClassificationMetrics, majority: ClassificationMetrics, options: GraphEvaluatorOptions
) -> list[tuple[bool, str]]:
    above = metrics.accuracy > majority.accuracy + options.min_accuracy_over_majority
    sentence = (
        f"accuracy {metrics.accuracy:.4f} {'exceeds' if above else 'does not exceed'} the majority class's "
        f"{majority.accuracy:.4f} by more than {options.min_accuracy_over_majority:g}"
    )
    verdicts = [(above, sentence)]
    for name, value, minimum in (
        ("accuracy", metrics.accuracy, options.min_accuracy),
        ("macro-F1", metrics.macro_f1, options.min_macro_f1),
    ):
        if minimum > 0.0:
            reached = value >= minimum
            verdicts.append((reached, f"{name} {value:.4f} is {'at least' if reached else 'below'} {minimum:g}"))
    return verdicts


def _report(evaluation: GraphEvaluation, options: GraphEvaluatorOptions) -> dict[str, Any]:
    return {
        "format_version": 1,
        "tfx_gnn_version": tfx_gnn.__version__,
        "split": options.split,
        "num_examples": evaluation.metrics.num_examples,
        "num_examples_without_label": evaluation.num_examples_without_label,
        "accuracy": evaluation.metrics.accuracy,
        "macro_f1": evaluation.metrics.macro_f1,
        "majority_baseline": {
            "class": evaluation.majority_class,
            "class_from_split": options.baseline_split,
            "accuracy": evaluation.majority.accuracy,
            "macro_f1": evaluation.majority.macro_f1,
        },
        "blessed": evaluation.blessed,
        "reasons": list(evaluation.reasons),
        "per_class": {name: dataclasses.asdict(item) for name, item in evaluation.metrics.per_class.items()},
    }
