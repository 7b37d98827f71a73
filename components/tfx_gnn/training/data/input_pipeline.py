"""The training input: from serialized examples to padded graphs with labels and weights.

Everything runs inside `tf.data`, in parallel with the training step. All batches have the
same static shapes, so the step is traced once and can run on a TPU.

For TensorFlow a pass over a split never ends: after the last real batch come batches that
hold only padding. The loop finds the end from the batches' counts, once all replicas have
reached it; until then, replicas that are done get padding with weight 0. So no step gets
batches of other shapes, such as those that TensorFlow makes up for replicas without data.

In training, a label that does not count has weight 0, and any other label the weight of
its class. Keras divides the loss of a replica by its number of rows, padding included, and
by the number of replicas. Its gradient is thus a mean over replicas in which the real rows
of a nearly empty batch count more than those of a full one. `weights_of_global_mean` undoes
that: the gradient is the class-weighted mean over all real rows of the step, and is the
same for any number of replicas. Padding has weight 0, also in replicas with nothing else.

The loss and metrics that Keras shows for an epoch are the mean over its steps. Graphs in
steps with few other graphs then count a little more: on packed batches, the largest 1% of
the graphs count 1.1 times on the Debian graph, and 1.8 times if sizes have a Pareto tail
with exponent 1.3. One weight for all graphs of an epoch would avoid that, but did not train
better on the Debian graph, and depends on the number of batches, which is known only
afterwards. In evaluation that number is known, and all labels have the same weight.

Each batch carries its own counts to the step that trains on it. So a batch that is read
ahead is counted only once it is trained on, and the counts can be summed over replicas.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import EgoTrees, count_empty_places, is_ego_batch
from tfx_gnn.graph.batching.index_shifts import component_sizes
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, padded_index_features
from tfx_gnn.models.tasks import Objective
from tfx_gnn.records.examples_folder import RecordFile, RecordTimes, ordered_records, shuffled_records
from tfx_gnn.training.data.padded_batches import BatchBudget, PaddedBatch, empty_batches, padded_batch, padded_batches
from tfx_gnn.transform.transform_layer import with_declared_shapes, without_reserved_features

NUM_COUNTS = 6
"""Numbers in the counts of a batch: batches, graphs, removed batches, removed graphs, real items, padded items."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochInput:
    """What an epoch was trained on.

    Attributes:
        num_steps: steps; each takes one batch per replica.
        num_batches: batches with at least one graph. Replicas without data in the epoch's last steps got padding.
        num_graphs: graphs in these batches.
        num_removed_batches: batches that fit-or-skip removed.
        num_removed_graphs: graphs in the removed batches.
        graphs_per_batch: mean number of graphs in a batch.
        fill: fraction of nodes and edges that are not padding, over all sets and replicas together.
        removed_share: fraction of all graphs that was removed.
        graphs_per_second: graphs trained on per second of the epoch, without evaluation.
        input_bound_share: fraction of that time that steps spent waiting for input.
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
    """Counts a batch, int64 [NUM_COUNTS]; a batch without graphs counts as nothing but padding."""
    pieces = [*batch.graph.node_sets.values(), *batch.graph.edge_sets.values()]
    is_real = tf.cast(batch.is_real, tf.int64)
    sizes = tf.add_n([tf.cast(piece.sizes, tf.int64) for piece in pieces])
    # An empty place in a tree is a node and an edge.
    empty = 2 * count_empty_places(batch.graph) if is_ego_batch(batch.graph.spec) else tf.zeros_like(sizes)
    return tf.stack(
        [
            tf.reduce_max(is_real),
            tf.reduce_sum(is_real),
            batch.num_removed_batches,
            batch.num_removed_graphs,
            tf.reduce_sum((sizes - empty) * is_real),
            tf.reduce_sum(sizes),
        ]
    )


def epoch_input(
    counts: Sequence[int], *, num_steps: int, seconds: float = 0.0, seconds_waited: float = 0.0
) -> EpochInput:
    """Turns the sum of `count_batch` over the batches of an epoch into figures; fractions of nothing are 0.

    `seconds_waited` is the part of `seconds` that steps waited for input, in one process or as a mean over processes.
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
        labels: labels in the form that the objective's loss takes.
        weights: float32, one for each label; 0 for labels that the loss does not count.
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
        labels: labels in the form that the objective's loss takes; those that cannot count are replaced.
        counts: bool, one for each weight; False for padding and for unknown labels.
        weights: float32 of the same shape: the weight of each label in training if it counts.
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
        index_features: features that hold indices of nodes, which count from the first node of their example until
            they are shifted here.
        trees: form of the trees of graphs that `ego_batch` made, whose shapes are right already.
    """

    graph_spec: GraphTensorSpec
    objective: Objective
    index_features: IndexFeatures = dataclasses.field(default_factory=dict)
    trees: EgoTrees | None = None

    def __call__(self, graph: GraphTensor, is_real: tf.Tensor) -> LabelledBatch:
        """Separates a scalar padded graph from its labels; `is_real` is bool [num_components], False for padding."""
        if self.trees is None:
            graph = _with_declared_shapes(graph, self.graph_spec)
        if self.index_features:
            sizes = component_sizes(graph)
            graph = padded_index_features(graph, sizes, self.index_features, is_real, shift=True)
        graph, labels = self.objective.split_off_labels(graph)
        return LabelledBatch(
            graph=without_reserved_features(graph),
            labels=self.objective.safe_labels(labels),
            counts=self.objective.counts(labels, graph, is_real),
            weights=self.objective.weights(labels),
        )


def training_weights(batch: LabelledBatch) -> Any:
    """Returns the training weights of one replica's labels: 0 for labels that do not count."""
    return tf.nest.map_structure(lambda counts, weights: tf.where(counts, weights, 0.0), batch.counts, batch.weights)


def counted_rows(weights: Any) -> tf.Tensor:
    """Counts the rows with a non-zero weight, int64 [number of outputs] in the order of `tf.nest.flatten`."""
    return tf.stack([tf.math.count_nonzero(weight) for weight in tf.nest.flatten(weights)])


def weights_of_global_mean(weights: Any, num_counted: tf.Tensor, num_replicas: int) -> Any:
    """Scales the weights of one replica so that Keras' loss becomes the mean over the counted rows of all replicas.

    `num_counted` is the sum of `counted_rows` over all replicas. The result is 0 if no row counts.

    Example:
        >>> two_of_three = tf.constant([1.0, 1.0, 0.0])
        >>> weights_of_global_mean(two_of_three, tf.constant([4], tf.int64), num_replicas=2).numpy().tolist()
        [1.5, 1.5, 0.0]
    """
    # Undo Keras' division by rows and replicas, and divide by the rows that count instead.
    counts = tf.unstack(tf.maximum(tf.cast(num_counted, tf.float32), 1.0), num=len(tf.nest.flatten(weights)))
    scaled = [
        weight * (tf.cast(tf.size(weight), tf.float32) * num_replicas / count)
        for weight, count in zip(tf.nest.flatten(weights), counts, strict=True)
    ]
    return tf.nest.pack_sequence_as(weights, scaled)


def expected_steps(budget: BatchBudget, num_graphs: int, num_replicas: int = 1) -> int:
    """Predicts the number of steps in a pass over a split, at least 1.

    The number is exact for one replica, except for packed batches and batches that fit-or-skip removes. For
    several replicas, their parts of the data must also be equal.
    """
    return math.ceil(math.ceil(num_graphs / budget.graphs_per_batch) / num_replicas)


def training_batches(
    files: Sequence[RecordFile],
    graph_spec: GraphTensorSpec,
    *,
    epochs: tf.data.Dataset,
    keep: Callable[[tf.Tensor], tf.Tensor] | None,
    budget: BatchBudget,
    batching: str,
    shuffle_buffer_size: int,
    seed: int,
    pipeline: int = 0,
    shard: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
    times: RecordTimes | None = None,
) -> tf.data.Dataset:
    """Reads a split once per epoch, in an order determined by the seed and the epoch; a dataset of `PaddedBatch`.

    It shuffles serialized examples, which are smaller than parsed ones. Each epoch has a different order, which is the
    same in every run, so fit-or-skip removes different graphs in each epoch. `keep` is as for `padded_batches`,
    `pipeline` and `times` as for `shuffled_records`; `shard` keeps only the records of this pipeline.
    """
    records = shuffled_records(
        files,
        epochs=epochs,
        shuffle_buffer_size=shuffle_buffer_size,
        seed=seed,
        pipeline=pipeline,
        shard=shard,
        times=times,
    )
    return padded_batches(records, graph_spec, budget, batching, keep=keep)


def training_dataset(batches: tf.data.Dataset, labelled: LabelledGraphs, budget: BatchBudget) -> tf.data.Dataset:
    """Makes `TrainingBatch`es for synchronous replicas from padded batches; endless padding follows the last batch."""
    return weighted_training_batches(batches.concatenate(empty_batches(labelled.graph_spec, budget)), labelled)


def weighted_training_batches(batches: tf.data.Dataset, labelled: LabelledGraphs) -> tf.data.Dataset:
    """Makes one `TrainingBatch` from each padded batch, without padding at the end."""
    return _weighted(batches, labelled, training_weights)


def evaluation_dataset(
    files: Sequence[RecordFile],
    labelled: LabelledGraphs,
    *,
    budget: BatchBudget,
    num_batches: int,
    num_counted: Mapping[str, int],
    pipeline: int = 0,
    num_pipelines: int = 1,
) -> tf.data.Dataset:
    """Reads a whole split again and again, in the order of its files.

    In each pass, all replicas together get the batches that one replica would get, followed by padding:
    `num_batches` is steps times replicas, and each pipeline takes every n-th batch. The weights make the mean loss over
    the batches of a pass the mean over the labels that count; `num_counted` holds their number by output ("" if there
    is only one).
    """
    keep = None if num_pipelines == 1 else lambda number: number % num_pipelines == pipeline
    records = ordered_records(files)
    batches = padded_batches(records, labelled.graph_spec, budget, "tight", keep=keep)

    def weigh(labels: LabelledBatch) -> Any:
        scale = [num_batches / max(num_counted[name], 1) for name in sorted(num_counted)]
        weights = [
            tf.cast(counts, tf.float32) * (counts.shape.num_elements() * by)
            for counts, by in zip(tf.nest.flatten(labels.counts), scale, strict=True)
        ]
        return tf.nest.pack_sequence_as(labels.counts, weights)

    a_pass = batches.concatenate(empty_batches(labelled.graph_spec, budget)).take(num_batches // num_pipelines)
    # One iterator for all passes: TensorFlow needs half a second to make one.
    return _weighted(a_pass.repeat(), labelled, weigh)


def evaluation_batch(serialized: tf.Tensor, labelled: LabelledGraphs, budget: BatchBudget) -> LabelledBatch:
    """Makes one batch from serialized examples, string [n], as `evaluation_dataset` does."""
    return labelled(*padded_batch(labelled.graph_spec, serialized, budget))


def _weighted(
    batches: tf.data.Dataset, labelled: LabelledGraphs, weigh: Callable[[LabelledBatch], Any]
) -> tf.data.Dataset:
    def weighted(batch: PaddedBatch) -> TrainingBatch:
        parts = labelled(batch.graph, batch.is_real)
        weights = weigh(parts)
        counts = tf.concat([count_batch(batch), counted_rows(weights)], axis=0)
        return TrainingBatch(graph=parts.graph, labels=parts.labels, weights=weights, counts=counts)

    # Nothing here needs AutoGraph, which would take seconds to rewrite all of it.
    return batches.map(tf.autograph.experimental.do_not_convert(weighted)).prefetch(tf.data.AUTOTUNE)


def _with_declared_shapes(graph: GraphTensor, spec: GraphTensorSpec) -> GraphTensor:
    """Restores the static shapes of items, which padding by a number known only at run time loses."""

    def shaped(piece: Any, piece_spec: Any) -> dict[str, const.Field]:
        return {
            name: with_declared_shapes(value, piece_spec.features_spec[name]) for name, value in piece.features.items()
        }

    return graph.replace_features(
        context=shaped(graph.context, spec.context_spec),
        node_sets={name: shaped(node_set, spec.node_sets_spec[name]) for name, node_set in graph.node_sets.items()},
        edge_sets={name: shaped(edge_set, spec.edge_sets_spec[name]) for name, edge_set in graph.edge_sets.items()},
    )
