"""The input of training: serialized examples in, padded graphs with labels and weights out.

Preprocessing is a Keras model of its own that runs inside `Dataset.map`, next
to the training step and not in it. Every batch has the same static shapes, so
the step is traced once and could run on a TPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.example_parsing import parse_and_merge
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.padding import pad_to_total_sizes
from tfx_gnn.graph.size_constraints import SizeConstraints
from tfx_gnn.models.tasks import READOUT_NODE_SET, NodeClassification
from tfx_gnn.stages.model_graph import split_off_label, with_declared_shapes
from tfx_gnn.stages.record_files import RecordFile
from tfx_gnn.stages.size_constraints_file import Budget

_READOUT_EDGE_SETS = f"{READOUT_NODE_SET}/"
_MAX_OPEN_FILES = 16


class TrainingPreprocessing(tf_keras.Model):
    """Serialized transformed examples to what the main model is trained on.

    Args:
        graph_spec: spec of one transformed graph, label included.
        constraints: what each batch is padded to.
        task: what is predicted.
        num_classes: number of classes.
    """

    def __init__(
        self,
        *,
        graph_spec: GraphTensorSpec,
        constraints: SizeConstraints,
        task: NodeClassification,
        num_classes: int,
    ) -> None:
        super().__init__(name="preprocessing")
        self._graph_spec = graph_spec
        self._constraints = constraints
        self._task = task
        self._num_classes = num_classes

    def call(self, serialized: tf.Tensor) -> tuple[GraphTensor, tf.Tensor, tf.Tensor]:
        """Parses, merges and pads a batch.

        Args:
            serialized: transformed graph tf.Examples, string [n]; n may be below the batch size.

        Returns:
            Scalar graph of the padded sizes without label; class index of every readout
            node, int64 [num_components]; weight, float32 [num_components]: 1 for readouts of
            examples, 0 for those of padding and for examples whose class is not in the
            vocabulary.
        """
        graph = parse_and_merge(self._graph_spec, serialized)
        padded, is_real = pad_to_total_sizes(graph, self._constraints)
        padded, label = split_off_label(_with_declared_shapes(padded, self._graph_spec), self._task)
        is_known = tf.logical_and(label >= 0, label < self._num_classes)
        weight = tf.cast(tf.logical_and(is_real, is_known), tf.float32)
        return padded, tf.where(is_known, label, tf.zeros_like(label)), weight


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


def training_constraints(budget: Budget, graph_spec: GraphTensorSpec) -> SizeConstraints:
    """Fits a padding budget to graphs with one readout node a component.

    A padding component has a readout node, as every example has; it needs its edge
    to some padding node, or the readout of a padded batch is not complete.

    Args:
        budget: budget for batches of such graphs.
        graph_spec: spec of one graph.

    Returns:
        The budget's sizes, with as many readout edges as readout nodes.

    Raises:
        ValueError: if the budget is not for one readout node a component.
    """
    num_readouts = budget.total_num_nodes.get(READOUT_NODE_SET)
    if num_readouts != budget.total_num_components or budget.min_nodes_per_component.get(READOUT_NODE_SET) != 1:
        raise ValueError(
            f"`size_constraints_dir` must hold a budget with one {READOUT_NODE_SET!r} node a component; got "
            f"{num_readouts} nodes for {budget.total_num_components} components, at least "
            f"{budget.min_nodes_per_component.get(READOUT_NODE_SET, 0)} each. Learn it from examples with one readout."
        )
    readout_edges = {name: num_readouts for name in graph_spec.edge_sets_spec if name.startswith(_READOUT_EDGE_SETS)}
    return budget.constraints._replace(total_num_edges={**budget.total_num_edges, **readout_edges})


def training_dataset(
    files: Sequence[RecordFile],
    preprocessing: TrainingPreprocessing,
    *,
    batch_size: int,
    shuffle_buffer_size: int,
    seed: int,
) -> tf.data.Dataset:
    """Reads a split once, in an order that the seed and the epoch determine.

    Serialized examples are shuffled, not parsed ones: they are smaller. Each
    iteration has another order, the same in each run.

    Args:
        files: files of the split.
        preprocessing: applied to every batch.
        batch_size: examples in a batch; the last one may have fewer, its padding makes up for them.
        shuffle_buffer_size: examples that are mixed.
        seed: seed of the order.

    Returns:
        Dataset of (graph, labels, weights) of static shapes.
    """
    paths = tf.data.Dataset.from_tensor_slices([file.path for file in files])
    records = _read(paths.shuffle(len(files), seed=seed), len(files))
    return _batches(records.shuffle(shuffle_buffer_size, seed=seed), preprocessing, batch_size)


def evaluation_dataset(
    files: Sequence[RecordFile], preprocessing: TrainingPreprocessing, *, batch_size: int
) -> tf.data.Dataset:
    """Reads a split once, in the order of its files.

    Args:
        files: files of the split.
        preprocessing: applied to every batch.
        batch_size: examples in a batch.

    Returns:
        Dataset of (graph, labels, weights) of static shapes.
    """
    paths = tf.data.Dataset.from_tensor_slices([file.path for file in files])
    return _batches(_read(paths, len(files)), preprocessing, batch_size)


def _read(paths: tf.data.Dataset, num_files: int) -> tf.data.Dataset:
    return paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type="GZIP"),
        cycle_length=min(num_files, _MAX_OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _batches(records: tf.data.Dataset, preprocessing: TrainingPreprocessing, batch_size: int) -> tf.data.Dataset:
    batches = records.batch(batch_size).map(preprocessing, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return batches.prefetch(tf.data.AUTOTUNE)
