"""The training input: from serialized examples to padded graphs with labels and weights.

Everything runs inside `tf.data`, next to the training step and not in it. Every
batch has the same static shapes, so the step is traced once and could run on a TPU.

A pass over a split has no end for TensorFlow: batches of padding alone follow the last
real one. A loop knows the end by their counts, when all replicas are there; until then
replicas that have come to it earlier get padding, which weighs nothing. So no step needs
batches of other shapes, as those that TensorFlow makes up for replicas without data have.

In training a label weighs 0 if it does not count, else as much as its class does. Keras
divides the loss of a replica by its number of rows, padding included, and by the number
of replicas. Its gradient is thus a mean over replicas in which the real rows of a nearly
empty batch count more than those of a full one. `weights_of_global_mean` undoes that:
the gradient is the mean over all real rows of the step, each as much as its class weighs,
and is the same for any number of replicas. Padding, and replicas that got nothing but
padding, weigh 0.

What Keras shows for an epoch is the mean over its steps. Graphs of a step with few others
then count a little more: on packed batches the largest hundredth 1.1 times on the Debian
graph, 1.8 times where sizes have a Pareto tail of exponent 1.3. One weight for all graphs
of an epoch avoids that, but did not train better on the Debian graph, and hangs on a
number of batches that is known only afterwards. In evaluation it is known, and all labels
weigh the same.

Each batch carries its own counts to the step that trains on it, so what is read ahead of
the training counts only when it is trained on, and the counts of all replicas can be
added up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.codec.example_parsing import parse_merge_and_pad
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.tasks import Objective
from tfx_gnn.records.examples_folder import RecordFile, ordered_records, shuffled_records
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.padded_batches import PaddedBatch, empty_batches, padded_batches
from tfx_gnn.transform.transform_layer import with_declared_shapes, without_reserved_features

NUM_COUNTS = 6
"""Numbers in the counts of a batch: batches, graphs, removed batches, removed graphs, real items, padded items."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochInput:
    """What an epoch was trained on.

    Attributes:
        num_steps: steps; each takes a batch on each replica.
        num_batches: batches with a graph in them. Replicas that had none in the epoch's last steps got padding.
        num_graphs: graphs in them.
        num_removed_batches: batches that fit-or-skip removed.
        num_removed_graphs: graphs in these.
        graphs_per_batch: mean number of graphs of a batch.
        fill: share of the nodes and edges that are no padding, all sets and all replicas together.
        removed_share: graphs removed over all graphs.
        graphs_per_second: graphs trained on per second of the epoch, without evaluation.
        input_bound_share: share of that time in which steps waited for their input.
    """

    num_steps: int
    num_batches: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    graphs_per_batch: float
    fill: float
    removed_share: float
    graphs_per_second: float = 0.0
    input_bound_share: float = 0.0


def count_batch(batch: PaddedBatch) -> tf.Tensor:
    """Counts a batch, int64 [NUM_COUNTS]; one without any graph counts as padding alone."""
    pieces = [*batch.graph.node_sets.values(), *batch.graph.edge_sets.values()]
    is_real = tf.cast(batch.is_real, tf.int64)
    sizes = tf.add_n([tf.cast(piece.sizes, tf.int64) for piece in pieces])
    return tf.stack(
        [
            tf.reduce_max(is_real),
            tf.reduce_sum(is_real),
            batch.num_removed_batches,
            batch.num_removed_graphs,
            tf.reduce_sum(sizes * is_real),
            tf.reduce_sum(sizes),
        ]
    )


def epoch_input(
    counts: Sequence[int], *, num_steps: int, seconds: float = 0.0, seconds_waited: float = 0.0
) -> EpochInput:
    """Turns the sum of `count_batch` over the batches of an epoch into figures; shares of nothing are 0.

    `seconds_waited` is the part of `seconds` that the steps waited for input, as the mean over processes or of one.
    """
    batches, graphs, removed_batches, removed_graphs, real, padded = (int(count) for count in counts)
    return EpochInput(
        num_steps=num_steps,
        num_batches=batches,
        num_graphs=graphs,
        num_removed_batches=removed_batches,
        num_removed_graphs=removed_graphs,
        graphs_per_batch=graphs / max(batches, 1),
        fill=real / max(padded, 1),
        removed_share=removed_graphs / max(graphs + removed_graphs, 1),
        graphs_per_second=graphs / seconds if seconds else 0.0,
        input_bound_share=min(seconds_waited / seconds, 1.0) if seconds else 0.0,
    )


class TrainingBatch(NamedTuple):
    """What one replica gets for one step.

    Attributes:
        graph: scalar padded graph without labels and original ids.
        labels: as the objective's loss takes them.
        weights: float32, one for each label that the loss counts; 0 for what it does not.
        counts: int64: `count_batch`, then `counted_rows` of the weights.
    """

    graph: GraphTensor
    labels: Any
    weights: Any
    counts: tf.Tensor


class LabelledBatch(NamedTuple):
    """A padded graph and its labels.

    Attributes:
        graph: scalar padded graph without labels and original ids.
        labels: as the objective's loss takes them; those that cannot count are replaced.
        counts: bool, one for each weight: not for padding, nor for a label that is not known.
        weights: float32 of the same shape: what each label weighs in training if it counts.
    """

    graph: GraphTensor
    labels: Any
    counts: Any
    weights: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledGraphs:
    """Splits the labels off padded transformed graphs.

    Attributes:
        graph_spec: spec of one transformed graph, labels included.
        objective: what is predicted.
    """

    graph_spec: GraphTensorSpec
    objective: Objective

    def __call__(self, graph: GraphTensor, is_real: tf.Tensor) -> LabelledBatch:
        """Parts a scalar padded graph from its labels; `is_real` is bool [num_components], False for padding."""
        graph, labels = self.objective.split_off_labels(_with_declared_shapes(graph, self.graph_spec))
        return LabelledBatch(
            graph=without_reserved_features(graph),
            labels=self.objective.safe_labels(labels),
            counts=self.objective.counts(labels, graph, is_real),
            weights=self.objective.weights(labels),
        )


def training_weights(batch: LabelledBatch) -> Any:
    """Weighs the labels of one replica's batch for training: 0 for what does not count."""
    return tf.nest.map_structure(lambda counts, weights: tf.where(counts, weights, 0.0), batch.counts, batch.weights)


def counted_rows(weights: Any) -> tf.Tensor:
    """Counts the rows that weigh something, int64 [number of outputs] in the order of `tf.nest.flatten`."""
    return tf.stack([tf.math.count_nonzero(weight) for weight in tf.nest.flatten(weights)])


def weights_of_global_mean(weights: Any, num_counted: tf.Tensor, num_replicas: int) -> Any:
    """Scales the weights of one replica, so that Keras' loss becomes the mean over the rows of all replicas that count.

    `num_counted` is the sum of `counted_rows` over all replicas. The result is 0 where no row counts.

    Example:
        >>> two_of_three = tf.constant([1.0, 1.0, 0.0])
        >>> weights_of_global_mean(two_of_three, tf.constant([4], tf.int64), num_replicas=2).numpy().tolist()
        [1.5, 1.5, 0.0]
    """
    # Undoes Keras' division by rows and replicas, and divides by the rows that count instead.
    counts = tf.unstack(tf.maximum(tf.cast(num_counted, tf.float32), 1.0), num=len(tf.nest.flatten(weights)))
    scaled = [
        weight * (tf.cast(tf.size(weight), tf.float32) * num_replicas / count)
        for weight, count in zip(tf.nest.flatten(weights), counts, strict=True)
    ]
    return tf.nest.pack_sequence_as(weights, scaled)


def expected_steps(budget: Budget, num_graphs: int, num_replicas: int = 1) -> int:
    """Tells how many steps a pass over a split makes, at least 1, before there is any.

    Exact for one replica, except for packed batches and batches that fit-or-skip removes; for
    several, if their parts of the data are equal.
    """
    return math.ceil(math.ceil(num_graphs / budget.graphs_per_batch) / num_replicas)


def training_batches(
    files: Sequence[RecordFile],
    graph_spec: GraphTensorSpec,
    *,
    epochs: tf.data.Dataset,
    keep: Callable[[tf.Tensor], tf.Tensor] | None,
    budget: Budget,
    batching: str,
    shuffle_buffer_size: int,
    seed: int,
    pipeline: int = 0,
    shard: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Reads a split once an epoch, in an order that the seed and the epoch determine; a dataset of `PaddedBatch`.

    Serialized examples are shuffled, not parsed ones: they are smaller. Each epoch has another order, the same in each
    run, so fit-or-skip removes other graphs in each epoch. `keep` is as for `padded_batches`, `pipeline` as for
    `shuffled_records`; `shard` keeps the records of this pipeline.
    """
    records = shuffled_records(
        files, epochs=epochs, shuffle_buffer_size=shuffle_buffer_size, seed=seed, pipeline=pipeline, shard=shard
    )
    # LabelReader has read all of them before, without trust in their bytes.
    return padded_batches(records, graph_spec, budget, batching, keep=keep, trusted=True)


def training_dataset(batches: tf.data.Dataset, labelled: LabelledGraphs, budget: Budget) -> tf.data.Dataset:
    """Makes what replicas in step are trained on of padded batches; padding without end follows the last batch."""
    return weighted_training_batches(batches.concatenate(empty_batches(labelled.graph_spec, budget)), labelled)


def weighted_training_batches(batches: tf.data.Dataset, labelled: LabelledGraphs) -> tf.data.Dataset:
    """Makes `TrainingBatch`es of padded batches, however many there are."""
    return _weighted(batches, labelled, training_weights)


def evaluation_dataset(
    files: Sequence[RecordFile],
    labelled: LabelledGraphs,
    *,
    budget: Budget,
    num_batches: int,
    num_counted: Mapping[str, int],
    pipeline: int = 0,
    num_pipelines: int = 1,
) -> tf.data.Dataset:
    """Reads a split again and again, in the order of its files; nothing is left out.

    The batches of all replicas together are in each pass those that one replica would get, and padding behind them:
    `num_batches` is steps times replicas, of which each pipeline takes every n-th. The weights make the mean loss of
    the batches of a pass the mean over the labels that count, `num_counted` by output ("" for the only one).
    """
    keep = None if num_pipelines == 1 else lambda number: number % num_pipelines == pipeline
    records = ordered_records(files)
    batches = padded_batches(records, labelled.graph_spec, budget, "tight", keep=keep, trusted=True)

    def weigh(labels: LabelledBatch) -> Any:
        scale = [num_batches / max(num_counted[name], 1) for name in sorted(num_counted)]
        weights = [
            tf.cast(counts, tf.float32) * (counts.shape.num_elements() * by)
            for counts, by in zip(tf.nest.flatten(labels.counts), scale, strict=True)
        ]
        return tf.nest.pack_sequence_as(labels.counts, weights)

    a_pass = batches.concatenate(empty_batches(labelled.graph_spec, budget)).take(num_batches // num_pipelines)
    # In one iterator: to make one for each evaluation would take TensorFlow half a second.
    return _weighted(a_pass.repeat(), labelled, weigh)


def evaluation_batch(serialized: tf.Tensor, labelled: LabelledGraphs, budget: Budget) -> LabelledBatch:
    """Makes one batch of serialized examples, string [n], as `evaluation_dataset` makes it."""
    return labelled(*parse_merge_and_pad(labelled.graph_spec, serialized, budget.constraints, trusted=True))


def _weighted(
    batches: tf.data.Dataset, labelled: LabelledGraphs, weigh: Callable[[LabelledBatch], Any]
) -> tf.data.Dataset:
    def weighted(batch: PaddedBatch) -> TrainingBatch:
        parts = labelled(batch.graph, batch.is_real)
        weights = weigh(parts)
        counts = tf.concat([count_batch(batch), counted_rows(weights)], axis=0)
        return TrainingBatch(graph=parts.graph, labels=parts.labels, weights=weights, counts=counts)

    # Nothing here needs AutoGraph, which takes seconds to read it all.
    return batches.map(tf.autograph.experimental.do_not_convert(weighted)).prefetch(tf.data.AUTOTUNE)


def _with_declared_shapes(graph: GraphTensor, spec: GraphTensorSpec) -> GraphTensor:
    """Padding by a number of items that is known at run time only forgets static shapes of the items."""

    def shaped(piece: Any, piece_spec: Any) -> dict[str, const.Field]:
        return {
            name: with_declared_shapes(value, piece_spec.features_spec[name]) for name, value in piece.features.items()
        }

    return graph.replace_features(
        context=shaped(graph.context, spec.context_spec),
        node_sets={name: shaped(node_set, spec.node_sets_spec[name]) for name, node_set in graph.node_sets.items()},
        edge_sets={name: shaped(edge_set, spec.edge_sets_spec[name]) for name, edge_set in graph.edge_sets.items()},
    )
