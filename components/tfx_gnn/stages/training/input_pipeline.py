"""The input of training: serialized examples in, padded graphs with labels and weights out.

Everything runs inside `tf.data`, next to the training step and not in it. Every
batch has the same static shapes, so the step is traced once and could run on a TPU.

Keras divides the loss of a batch by its number of rows, padding included, and
packed batches hold a varying number of graphs. In training the real graphs of a
batch weigh so much that its loss, and so the gradient, is the mean over them, as it
is for batches without padding; what Keras shows for an epoch is the mean over its
batches. Graphs that share a batch with fewer others then count a little more: the
largest hundredth 1.1 times on the Debian graph, 1.8 times where sizes have a Pareto
tail of exponent 1.3. One weight for all graphs of an epoch avoids that, but did not
train better on the Debian graph, and hangs on a number of batches that is known only
afterwards. In evaluation it is known, and all graphs weigh the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.example_parsing import parse_merge_and_pad
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.tasks import READOUT_NODE_SET, NodeClassification
from tfx_gnn.stages.files.record_datasets import ordered_records, shuffled_records
from tfx_gnn.stages.files.record_files import RecordFile
from tfx_gnn.stages.padded_batches import PaddedBatch, padded_batches
from tfx_gnn.stages.sizes.size_constraints_file import Budget
from tfx_gnn.stages.training.input_tally import InputTally
from tfx_gnn.stages.training.model_graph import split_off_label, with_declared_shapes

_READOUT_EDGE_SETS = f"{READOUT_NODE_SET}/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledGraphs:
    """Makes what a model is trained on of padded transformed graphs.

    Attributes:
        graph_spec: spec of one transformed graph, label included.
        task: what is predicted.
        num_classes: number of classes.
    """

    graph_spec: GraphTensorSpec
    task: NodeClassification
    num_classes: int

    def __call__(self, graph: GraphTensor, is_real: tf.Tensor) -> tuple[GraphTensor, tf.Tensor, tf.Tensor]:
        """Parts a graph from its labels.

        Args:
            graph: scalar padded graph with one readout node a component.
            is_real: bool [num_components]; False for padding.

        Returns:
            The graph without label and original ids; class index of every readout node, int64
            [num_components]; whether it counts, bool [num_components]: not for padding, and not
            for an example whose class is not in the vocabulary.
        """
        graph, label = split_off_label(_with_declared_shapes(graph, self.graph_spec), self.task)
        is_known = tf.logical_and(label >= 0, label < self.num_classes)
        return graph, tf.where(is_known, label, tf.zeros_like(label)), tf.logical_and(is_real, is_known)


def check_readouts(budget: Budget, graph_spec: GraphTensorSpec) -> None:
    """Checks that a padding budget is for graphs with one readout node a component.

    A padding component has a readout node, as every example has; it needs its edge
    to some padding node, or the readout of a padded batch is not complete.

    Args:
        budget: budget for batches of such graphs.
        graph_spec: spec of one graph.

    Raises:
        ValueError: if padded components have not one readout node, and one edge to it, each.
    """
    sizes = {READOUT_NODE_SET: budget.total_num_nodes.get(READOUT_NODE_SET)}
    for name in graph_spec.edge_sets_spec:
        if name.startswith(_READOUT_EDGE_SETS):
            sizes[name] = budget.total_num_edges.get(name)
    least = budget.min_nodes_per_component.get(READOUT_NODE_SET, 0)
    if least != 1 or set(sizes.values()) != {budget.total_num_components}:
        raise ValueError(
            f"`size_constraints_dir` must hold a budget with one {READOUT_NODE_SET!r} node a component, and one edge "
            f"to it; got {sizes} for {budget.total_num_components} components, at least {least} nodes each. Learn it "
            "from examples with one readout."
        )


def expected_steps(budget: Budget, num_graphs: int) -> int:
    """Tells how many batches a pass over a split makes, before there is any.

    Exact but for packed batches, and for fit-or-skip but for those that are removed.

    Args:
        budget: what batches are padded to.
        num_graphs: graphs of the split, at least 1.

    Returns:
        Number of batches, at least 1.
    """
    return math.ceil(num_graphs / budget.graphs_per_batch)


def training_dataset(
    files: Sequence[RecordFile],
    labelled: LabelledGraphs,
    *,
    budget: Budget,
    batching: str,
    shuffle_buffer_size: int,
    seed: int,
    tally: InputTally,
) -> tf.data.Dataset:
    """Reads a split once, in an order that the seed and the epoch determine.

    Serialized examples are shuffled, not parsed ones: they are smaller. Each
    iteration has another order, the same in each run, so fit-or-skip removes
    other graphs in each epoch.

    Args:
        files: files of the split.
        labelled: applied to every batch.
        budget: what batches are padded to.
        batching: how graphs are batched, as for `padded_batches`.
        shuffle_buffer_size: examples that are mixed.
        seed: seed of the order.
        tally: counts what goes by.

    Returns:
        Dataset of (graph, labels, weights) of static shapes; the loss of a batch is the mean over those
        of its graphs that count.
    """
    records = shuffled_records(files, shuffle_buffer_size=shuffle_buffer_size, seed=seed)
    batches = padded_batches(records, labelled.graph_spec, budget, batching)
    return weighted_batches(batches, labelled, tally=tally)


def evaluation_dataset(
    files: Sequence[RecordFile], labelled: LabelledGraphs, *, budget: Budget, num_graphs: int, num_scored: int
) -> tf.data.Dataset:
    """Reads a split once, in the order of its files; nothing is left out.

    Args:
        files: files of the split.
        labelled: applied to every batch.
        budget: what batches are padded to, of kind "tight".
        num_graphs: graphs of the split.
        num_scored: those of them whose class is in the vocabulary.

    Returns:
        Dataset of (graph, labels, weights) of static shapes; the mean loss of its batches is the mean
        over the graphs that are scored.
    """
    batches = padded_batches(ordered_records(files), labelled.graph_spec, budget, "tight")
    return weighted_batches(batches, labelled, graphs_per_batch=max(num_scored, 1) / expected_steps(budget, num_graphs))


def evaluation_batch(
    serialized: tf.Tensor, labelled: LabelledGraphs, budget: Budget
) -> tuple[GraphTensor, tf.Tensor, tf.Tensor]:
    """Makes one batch as `evaluation_dataset` makes it.

    Args:
        serialized: transformed graph tf.Examples, string [n].
        labelled: applied to the batch.
        budget: what it is padded to.

    Returns:
        What `labelled` returns.
    """
    return labelled(*parse_merge_and_pad(labelled.graph_spec, serialized, budget.constraints))


def weighted_batches(
    batches: tf.data.Dataset,
    labelled: LabelledGraphs,
    *,
    graphs_per_batch: float | None = None,
    tally: InputTally | None = None,
) -> tf.data.Dataset:
    """Makes what Keras trains on of padded batches.

    Args:
        batches: dataset of `PaddedBatch`.
        labelled: applied to every batch.
        graphs_per_batch: mean number of graphs that count, by which the loss of each batch is divided;
            None for the number of each batch.
        tally: counts what goes by.

    Returns:
        Dataset of (graph, labels, weights). A graph that counts weighs the number of rows over
        `graphs_per_batch`, others 0.
    """

    def weighted(batch: PaddedBatch) -> tuple[GraphTensor, tf.Tensor, tf.Tensor]:
        graph, labels, counts = labelled(batch.graph, batch.is_real)
        weights = tf.cast(counts, tf.float32)
        mean = tf.maximum(tf.reduce_sum(weights), 1.0) if graphs_per_batch is None else graphs_per_batch
        with tf.control_dependencies([] if tally is None else [tally.add(batch)]):
            weights = weights * (counts.shape[0] / mean)
        return graph, labels, weights

    # Nothing here needs AutoGraph, which takes seconds to read it all.
    weighted = tf.autograph.experimental.do_not_convert(weighted)
    return batches.map(weighted).prefetch(tf.data.AUTOTUNE)


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
