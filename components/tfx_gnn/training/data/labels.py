"""Reads the labels of a split, for checks before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.tasks import LabelSummary, Objective
from tfx_gnn.records.examples_folder import RecordFile, place_of


class LabelAccumulator:
    """Adds up the labels of a single task."""

    def __init__(self, objective: Objective) -> None:
        self._num_labels = 0
        self._num_counted = 0
        self._class_counts = np.zeros([objective.num_classes], np.int64)
        self._moments: _Moments | None = None if objective.num_classes else _Moments()

    def add(self, labels: npt.NDArray[Any], counts: npt.NDArray[np.bool_]) -> None:
        """Adds a batch: labels from `Objective.split_off_labels`, counts from `Objective.counts`."""
        self._num_labels += counts.size
        self._num_counted += int(counts.sum())
        if self._moments is not None:
            self._moments.add(labels.astype(np.float64), counts)
            return
        classes = labels[:, 0] if labels.ndim > 1 else labels
        num_classes = len(self._class_counts)
        known = classes[(classes >= 0) & (classes < num_classes)]
        self._class_counts += np.bincount(known, minlength=num_classes)

    def summary(self) -> LabelSummary:
        """Summarizes what was added."""
        moments = {} if self._moments is None else self._moments.figures()
        return LabelSummary(
            num_labels=self._num_labels,
            num_counted=self._num_counted,
            class_counts=tuple(self._class_counts.tolist()),
            **moments,
        )


class _Moments:
    """Mean, variance and range of each column, merged batch by batch without loss of precision.

    It sums squared differences from the mean, merged as in Chan, Golub and LeVeque (1979), because E[x^2] - E[x]^2
    suffers from cancellation.
    """

    def __init__(self) -> None:
        self._num: Any = 0.0
        self._mean: Any = 0.0
        self._squares: Any = 0.0
        self._minimum: Any = np.inf
        self._maximum: Any = -np.inf

    def add(self, values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> None:
        num = known.sum(axis=0)
        mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(num, 1)
        squares = np.where(known, np.square(values - mean), 0.0).sum(axis=0)
        total = np.maximum(self._num + num, 1)
        difference = mean - self._mean
        self._squares = self._squares + squares + np.square(difference) * self._num * num / total
        self._mean = self._mean + difference * num / total
        self._num = self._num + num
        self._minimum = np.minimum(self._minimum, np.where(known, values, np.inf).min(axis=0, initial=np.inf))
        self._maximum = np.maximum(self._maximum, np.where(known, values, -np.inf).max(axis=0, initial=-np.inf))

    def figures(self) -> dict[str, tuple[float, ...]]:
        std = np.sqrt(self._squares / np.maximum(self._num, 1))
        columns = {"mean": self._mean, "std": std, "minimum": self._minimum, "maximum": self._maximum}
        return {name: tuple(np.atleast_1d(values).tolist()) for name, values in columns.items()}


_READ_BATCH = 1024


def read_in_batches(file: RecordFile) -> tf.data.Dataset:
    """Reads serialized examples in order, as strings of shape [n]."""
    return tf.data.TFRecordDataset(file.path, compression_type="GZIP").batch(_READ_BATCH).prefetch(1)


class LabelReader:
    """Reads the labels of transformed examples, and nothing else.

    Its function is traced once for all files of all splits.
    """

    def __init__(self, graph_spec: GraphTensorSpec, objective: Objective) -> None:
        """Prepares to read; `graph_spec` is that of one transformed graph with labels, checked by `objective`."""
        self._objective = objective
        self._needs_one_readout = any(part.reads_seeds or part.pools_nodes for part in objective.parts.values())
        self._look = _make_look(objective.labels_only(graph_spec), objective)

    def summarize(self, files: Sequence[RecordFile]) -> tuple[dict[str, LabelSummary], int]:
        """Summarizes the labels of a split, by name in `objective.parts`: "" for a single task; and counts examples.

        Refuses a damaged file, a split without examples, and examples without a label or, for tasks about seeds or
        subgraphs, without exactly one `_readout` node.
        """
        accumulators = {name: LabelAccumulator(part) for name, part in self._objective.parts.items()}
        num_examples = 0
        for file in files:
            position = 0
            # Not mapped: TensorFlow would trace and optimize the function once more for each file.
            batches = read_in_batches(file)
            try:
                for serialized in batches:
                    sizes, has_labels, labels, counts = tf.nest.map_structure(np.asarray, self._look(serialized))
                    _check_readouts(sizes, has_labels, needs_one=self._needs_one_readout, file=file, position=position)
                    for name, accumulator in accumulators.items():
                        accumulator.add(labels[name], counts[name])
                    position += len(has_labels)
            except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
                raise ValueError(
                    "`transformed_examples_dir` must hold gzipped TFRecords of tf.Examples with labels as the schema "
                    f"says; got others in {place_of(file)}. Make them by GraphTransform. Cause: {error}"
                ) from error
            num_examples += position
        if not num_examples:
            raise ValueError(
                f"`transformed_examples_dir` must hold examples to train on; got none in split {files[0].split!r}. "
                "Choose another split or make the examples again."
            )
        return {name: accumulator.summary() for name, accumulator in accumulators.items()}, num_examples

    def classes(self, serialized: tf.Tensor) -> tf.Tensor:
        """Reads the classes of tf.Examples, string [n] to int64 [n], for a single task with one class per example."""
        _, _, labels, _ = self._look(serialized)
        return labels[""]


def check_train_labels(labels: Mapping[str, LabelSummary], objective: Objective, *, split: str) -> None:
    """Checks that there is something to learn from: known classes, finite targets, true and false pairs."""
    for name, part in objective.parts.items():
        summary = labels[name]
        place = f"split {split!r}" + (f" of task {name!r}" if name else "")
        if part.reads_pairs:
            if not all(summary.class_counts):
                raise ValueError(
                    f"`transformed_examples_dir` must have true and false pairs in {place}; got "
                    f"{summary.class_counts[1]} and {summary.class_counts[0]}. Let the sampling plan draw negatives."
                )
        elif part.class_names:
            if summary.num_missing:
                raise ValueError(
                    f"`transformed_examples_dir` must have labels in [0, {part.num_classes}) in {place}; got "
                    f"{summary.num_missing} others among {summary.num_labels}. Let the transform analyze that split, "
                    "so that the vocabulary has all of its classes."
                )
        elif not all(np.isfinite(summary.minimum)):
            raise ValueError(
                f"`transformed_examples_dir` must have labels that are finite numbers in {place}; got none for outputs "
                f"{np.flatnonzero(~np.isfinite(summary.minimum)).tolist()}. Leave them out of the label."
            )


def _make_look(spec: GraphTensorSpec, objective: Objective) -> Callable[[tf.Tensor], Any]:
    """Maps serialized examples to numbers of readouts, presence of labels, and labels and counts by task."""
    # A number that no label has marks a feature that is missing from an example.
    absent = {f"context/{name}": feature.dtype.min for name, feature in spec.context_spec.features_spec.items()}
    for set_name, node_set in spec.node_sets_spec.items():
        absent |= {f"nodes/{set_name}.{name}": spec.dtype.min for name, spec in node_set.features_spec.items()}

    def look(serialized: tf.Tensor) -> Any:
        # Damaged bytes must be found here, because training trusts what it reads in each epoch.
        graph = parse_and_merge(spec, serialized, default_values=absent)
        num_examples = tf.size(serialized)
        has_labels = tf.ones([num_examples], tf.bool)
        for piece in (graph.context, *graph.node_sets.values()):
            owners = tf.repeat(tf.range(num_examples), piece.sizes)
            for value in piece.features.values():
                values = tf.reshape(value, [tf.size(owners), -1])
                lacks = tf.cast(tf.reduce_any(values == value.dtype.min, axis=1), tf.int32)
                has_labels &= tf.math.unsorted_segment_sum(lacks, owners, num_examples) == 0
        is_readout_there = READOUT_NODE_SET in graph.node_sets
        sizes = graph.node_sets[READOUT_NODE_SET].sizes if is_readout_there else graph.context.sizes
        graph, labels = objective.split_off_labels(graph)
        counts = objective.counts(labels, graph, tf.ones([num_examples], tf.bool))
        if not isinstance(labels, Mapping):
            labels, counts = {"": labels}, {"": counts}
        return sizes, has_labels, labels, counts

    # Nothing here needs AutoGraph, which would take seconds to rewrite all of it.
    traced_once: Callable[[tf.Tensor], Any] = tf.function(
        look, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    return traced_once


def _check_readouts(
    sizes: npt.NDArray[np.int64],
    has_labels: npt.NDArray[np.bool_],
    *,
    needs_one: bool,
    file: RecordFile,
    position: int,
) -> None:
    wrong = np.flatnonzero(~has_labels | (sizes != 1 if needs_one else sizes < 1))
    if wrong.size:
        record = int(wrong[0])
        advice = "Leave examples without label out of the splits that are trained on."
        if has_labels[record] and sizes[record] > 1:
            advice = "Make an example of its own for each of them; for pairs, set Negatives(own_subgraphs=True)."
        raise ValueError(
            f"`transformed_examples_dir` must give every example {'one' if needs_one else 'at least one'} "
            f"readout with labels; got {int(sizes[record])} readouts {'with' if has_labels[record] else 'without'} "
            f"labels in {place_of(file, position + record)}. {advice}"
        )
