"""The training input: from serialized examples to padded graphs with labels and weights.

Everything runs inside `tf.data`, next to the training step and not in it. Every
batch has the same static shapes, so the step is traced once and could run on a TPU.

A pass over a split has no end for TensorFlow: batches of padding alone follow the last
real one. A loop knows the end by their counts, when all replicas are there; until then
replicas that have come to it earlier get padding, which weighs nothing. So no step needs
batches of other shapes, as those that TensorFlow makes up for replicas without data have.

In training a label weighs 0 if it does not count, else as much as its class does; see
`global_mean` for what becomes of it. What Keras shows for an epoch is the mean over its
steps. Graphs of a step with few others then count a little more: on packed batches the
largest hundredth 1.1 times on the Debian graph, 1.8 times where sizes have a Pareto
tail of exponent 1.3. One weight for all graphs of an epoch avoids that, but did not
train better on the Debian graph, and hangs on a number of batches that is known only
afterwards. In evaluation it is known, and all labels weigh the same.

Counts are taken as batches enter the training.

Each batch carries its own counts to the step that trains on it, so what is read ahead of the training counts
only when it is trained on, and the counts of all replicas can be added up.
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
from tfx_gnn.training.data.global_mean import counted_rows
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


def counts_of_batch(batch: PaddedBatch) -> tf.Tensor:
    """Counts a batch.

    Args:
        batch: the batch; one without any graph counts as padding alone.

    Returns:
        int64 [NUM_COUNTS].
    """
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
    """Makes figures of the counts of an epoch.

    Args:
        counts: sum of `counts_of_batch` over all batches.
        num_steps: steps that they were trained on in.
        seconds: time that these took.
        seconds_waited: time of it that they waited for input, as the mean over processes or of one.

    Returns:
        The figures; shares of nothing are 0.
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
        counts: int64: `counts_of_batch`, then `counted_rows` of the weights.
    """

    graph: GraphTensor
    labels: Any
    weights: Any
    counts: tf.Tensor


class LabelledBatch(NamedTuple):
    """A padded graph and its labels.

    Attributes:
        graph: scalar padded graph without labels and original ids.
        labels: as the objective's loss takes them; such as cannot count are replaced.
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
        """Parts a graph from its labels.

        Args:
            graph: scalar padded graph.
            is_real: bool [num_components]; False for padding.

        Returns:
            The parts.
        """
        graph, labels = self.objective.split_off_labels(_with_declared_shapes(graph, self.graph_spec))
        return LabelledBatch(
            graph=without_reserved_features(graph),
            labels=self.objective.safe_labels(labels),
            counts=self.objective.counts(labels, graph, is_real),
            weights=self.objective.weights(labels),
        )


def expected_steps(budget: Budget, num_graphs: int, num_replicas: int = 1) -> int:
    """Tells how many steps a pass over a split makes, before there is any.

    Exact for one replica, except for packed batches and batches that fit-or-skip removes; for
    several, if their parts of the data are equal.

    Args:
        budget: what batches are padded to.
        num_graphs: graphs of the split, at least 1.
        num_replicas: replicas in step, each of which takes a batch.

    Returns:
        Number of steps, at least 1.
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
    """Reads a split once an epoch, in an order that the seed and the epoch determine.

    Serialized examples are shuffled, not parsed ones: they are smaller. Each epoch has another order, the
    same in each run, so fit-or-skip removes other graphs in each epoch.

    Args:
        files: files of the split that this pipeline reads.
        graph_spec: spec of one transformed graph.
        epochs: numbers of the epochs to read.
        keep: tells which batches of them are wanted, as for `padded_batches`.
        budget: what batches are padded to.
        batching: how graphs are batched, as for `padded_batches`.
        shuffle_buffer_size: examples that are mixed; 1 for none.
        seed: seed of the order, in [0, 2**31); the same for all pipelines.
        pipeline: number of this pipeline, as for `shuffled_records`.
        shard: keeps the records of this pipeline.

    Returns:
        Dataset of `PaddedBatch`.
    """
    records = shuffled_records(
        files, epochs=epochs, shuffle_buffer_size=shuffle_buffer_size, seed=seed, pipeline=pipeline, shard=shard
    )
    return padded_batches(records, graph_spec, budget, batching, keep=keep)


def training_dataset(batches: tf.data.Dataset, labelled: LabelledGraphs, budget: Budget) -> tf.data.Dataset:
    """Makes what replicas in step are trained on of padded batches.

    Args:
        batches: `PaddedBatch`es of one pass.
        labelled: applied to every batch.
        budget: what they are padded to.

    Returns:
        Dataset of `TrainingBatch` of static shapes; after the last batch follows padding without end.
    """
    return weighted_training_batches(batches.concatenate(empty_batches(labelled.graph_spec, budget)), labelled)


def weighted_training_batches(batches: tf.data.Dataset, labelled: LabelledGraphs) -> tf.data.Dataset:
    """Makes what is trained on of padded batches, however many there are.

    Args:
        batches: `PaddedBatch`es.
        labelled: applied to every batch.

    Returns:
        Dataset of `TrainingBatch` of static shapes.
    """

    def weigh(labels: LabelledBatch) -> Any:
        return tf.nest.map_structure(
            lambda counts, weights: tf.where(counts, weights, 0.0), labels.counts, labels.weights
        )

    return _weighted(batches, labelled, weigh)


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

    The batches of all replicas together are in each pass those that one replica would get, and padding behind them.

    Args:
        files: files of the split.
        labelled: applied to every batch.
        budget: what batches are padded to, of kind "tight".
        num_batches: batches that all replicas get together in a pass, some at its end without a graph: steps times
            replicas.
        num_counted: labels of the split that count, by output; "" for the only one.
        pipeline: number of this pipeline, which takes every n-th batch.
        num_pipelines: how many there are.

    Returns:
        Endless dataset of `TrainingBatch` of static shapes; each pipeline gets its share of `num_batches` a pass.
        The mean loss of the batches of a pass is the mean over the labels that count.
    """
    keep = None if num_pipelines == 1 else lambda number: number % num_pipelines == pipeline
    batches = padded_batches(ordered_records(files), labelled.graph_spec, budget, "tight", keep=keep)

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
    """Makes one batch as `evaluation_dataset` makes it.

    Args:
        serialized: transformed graph tf.Examples, string [n].
        labelled: applied to the batch.
        budget: what it is padded to.

    Returns:
        What `labelled` returns.
    """
    return labelled(*parse_merge_and_pad(labelled.graph_spec, serialized, budget.constraints, trusted=True))


def _weighted(
    batches: tf.data.Dataset, labelled: LabelledGraphs, weigh: Callable[[LabelledBatch], Any]
) -> tf.data.Dataset:
    def weighted(batch: PaddedBatch) -> TrainingBatch:
        parts = labelled(batch.graph, batch.is_real)
        weights = weigh(parts)
        counts = tf.concat([counts_of_batch(batch), counted_rows(weights)], axis=0)
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
