"""The objectives of classification and regression, whose labels are features of seeds or graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declare_weight_index
from tfx_gnn.models.losses import ElementwiseRegressionLoss, SmoothedCrossEntropy
from tfx_gnn.models.metrics import MacroF1, WeightedMae, WeightedR2, WeightedRmse
from tfx_gnn.models.tasks.label_places import LabelPlace
from tfx_gnn.models.tasks.label_tasks import BALANCED
from tfx_gnn.models.tasks.output_layers import OutputLayers, check_tensor_output, shape_in_words
from tfx_gnn.models.tasks.task import LabelSummary, Objective, Task, Vocabulary
from tfx_gnn.serving import model_interface

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.label_tasks import (
        GraphClassification,
        GraphRegression,
        NodeClassification,
        NodeRegression,
    )


class LabelObjective(Objective):
    """Base of the objectives with one label feature, whose place defines how it is split off."""

    def __init__(self, task: Task, place: LabelPlace) -> None:
        self.task = task
        self._place = place
        self.readout_key = place.readout_key
        self.reads_seeds = place.reads_seeds
        self.pools_nodes = place.pools_nodes

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Runs the check of the label's place; see `Objective`."""
        self._place.check_budget(budget, spec)

    def without_labels(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Removes the label, which may already be missing; see `Objective`."""
        return self._place.without_label(spec)

    def labels_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Keeps only the label and the place that holds it; see `Objective`."""
        return self._place.label_only(spec)


class ClassObjective(LabelObjective):
    """Objective with one class per row; see `Objective`."""

    def __init__(
        self,
        task: NodeClassification | GraphClassification,
        place: LabelPlace,
        *,
        vocabulary: Vocabulary | None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None,
    ) -> None:
        super().__init__(task, place)
        self._class_vocabulary = task.class_vocabulary
        self._label_smoothing = task.label_smoothing
        self.class_names = _class_names(task, vocabulary)
        self.num_classes = len(self.class_names)
        self._class_weights = _class_weights(task, self.class_names, summary)

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Requires an int64 class index; see `Objective`."""
        label = self._place.label_spec(spec)
        if not isinstance(label, tf.TensorSpec) or label.dtype != tf.int64 or label.shape.rank != 1:
            raise ValueError(
                f"`task` must name a class index, int64 with one value per readout; got {label.dtype.name} of shape "
                f"{shape_in_words(label.shape)} in {self._place.label_feature!r}. Make it with "
                "tft.compute_and_apply_vocabulary, or without a `preprocessing_fn` by a `class_vocabulary`."
            )

    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the class indices, int64 [rows], off a graph."""
        return self._place.split_off(graph)

    def counts(self, labels: tf.Tensor, graph: GraphTensor, is_real_component: tf.Tensor) -> tf.Tensor:
        """Returns which rows are of real graphs and have a known class, bool [rows]."""
        return self._place.by_row(graph, is_real_component) & self._is_known(labels)

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Looks up the weight of each label's class, float32 [rows]."""
        if self._class_weights is None:
            raise ValueError(
                "`summary` must be given where class weights are to be balanced; got None. Count the labels of the "
                "training split first, and make the objective again by `task.objective(vocabulary, summary)`."
            )
        return tf.gather(tf.constant(self._class_weights), self.safe_labels(labels))

    def safe_labels(self, labels: tf.Tensor) -> tf.Tensor:
        """Replaces unknown classes by 0."""
        return tf.where(self._is_known(labels), labels, tf.zeros_like(labels))

    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Requires logits, [rows, num_classes]."""
        check_tensor_output(
            output,
            [self._place.num_rows(graph), self.num_classes],
            form="[num_readouts, num_classes]",
            advice="Read out the seeds, and end with one unit per class.",
        )

    def loss(self) -> tf_keras.losses.Loss:
        """Makes the cross-entropy loss of the logits."""
        return SmoothedCrossEntropy(self._label_smoothing, name="cross_entropy")

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes accuracy and macro-F1."""
        return [tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"), MacroF1(self.num_classes)]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "logits") -> OutputLayers:
        """Makes readout and one Dense layer; see `Objective`."""
        # Logits in half precision would make the loss imprecise.
        head = tf_keras.layers.Dense(self.num_classes, dtype=tf.float32, name=output_name)
        classes = IndexBlock(name="", size=self.num_classes, vocabulary=self._class_vocabulary)
        declare_weight_index(head, WeightIndex(axis=-1, blocks=(classes,)))
        return OutputLayers(self._place.readout_layer(embeddings_name), head)

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Returns logits, probabilities, and the most probable class with its probability."""
        logits = tf.cast(output, tf.float32)
        probabilities = tf.nn.softmax(logits)
        return {
            model_interface.LOGITS_OUTPUT: logits,
            model_interface.PROBABILITIES_OUTPUT: probabilities,
            model_interface.LABEL_OUTPUT: tf.gather(
                tf.constant(list(self.class_names), tf.string), tf.argmax(logits, axis=1)
            ),
            model_interface.SCORE_OUTPUT: tf.reduce_max(probabilities, axis=1),
        }

    def _is_known(self, labels: tf.Tensor) -> tf.Tensor:
        return (labels >= 0) & (labels < self.num_classes)


def _class_names(task: NodeClassification | GraphClassification, vocabulary: Vocabulary | None) -> tuple[bytes, ...]:
    if not task.class_vocabulary:
        return tuple(str(index).encode() for index in range(task.num_classes))
    if vocabulary is None:
        raise ValueError(
            f"`vocabulary` must be given to name the classes of class_vocabulary={task.class_vocabulary!r}; got None. "
            "Pass `tft_output.vocabulary_by_name`."
        )
    try:
        names = vocabulary(task.class_vocabulary)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"`task` must name the vocabulary of the classes; got class_vocabulary={task.class_vocabulary!r}, which "
            "the transform lacks. Give tft.compute_and_apply_vocabulary of the label this vocab_filename. "
            f"Cause: {error}"
        ) from error
    return tuple(bytes(name) for name in names)


def _class_weights(
    task: NodeClassification | GraphClassification,
    class_names: Sequence[bytes],
    summary: LabelSummary | Mapping[str, LabelSummary] | None,
) -> npt.NDArray[np.float32] | None:
    """Returns the class weights, float32 [num_classes]; None if they depend on label counts that are not given."""
    weights = np.ones(len(class_names), np.float32)
    if isinstance(task.class_weights, dict):
        names = [name.decode() for name in class_names]
        unknown = sorted(set(task.class_weights) - set(names))
        if unknown:
            raise ValueError(
                f"`class_weights` must name classes among {names}; got {unknown}. "
                f"{did_you_mean(unknown[0], names, otherwise='Correct the names.')}"
            )
        for name, weight in task.class_weights.items():
            weights[names.index(name)] = weight
    elif task.class_weights == BALANCED:
        if not isinstance(summary, LabelSummary):
            return None
        class_counts = np.asarray(summary.class_counts, np.float64)
        occurs = class_counts > 0
        # A class that does not occur keeps the weight 1, which nothing uses.
        weights[occurs] = class_counts.sum() / (occurs.sum() * class_counts[occurs])
    return weights


class RegressionObjective(LabelObjective):
    """Objective with one or more numbers per row; see `Objective`.

    There are three units. The data holds labels as `preprocessing_fn` left them. With `standardize`, the labels that
    `split_off_labels` returns, the loss and the model's output are in standard deviations of the training split.
    Metrics and served outputs are in the label's own unit, before any scaling.

    Attributes:
        mean: for each output, the label value that a model output of 0 stands for.
        std: for each output, the label difference that a difference of 1 in the model output stands for.
    """

    def __init__(
        self,
        task: NodeRegression | GraphRegression,
        place: LabelPlace,
        *,
        summary: LabelSummary | Mapping[str, LabelSummary] | None,
    ) -> None:
        super().__init__(task, place)
        self._num_outputs = task.num_outputs
        self._loss = task.loss
        # If the transform has scaled the label, these numbers no longer occur.
        self._missing_values = () if task.mean else task.missing_values
        self._standardizes = task.standardize and isinstance(summary, LabelSummary)
        self.mean = task.mean or (0.0,) * task.num_outputs
        self.std = task.std or (1.0,) * task.num_outputs
        self._lacks_summary = task.standardize and summary is None
        self._center = (0.0,) * task.num_outputs
        if isinstance(summary, LabelSummary):
            if task.standardize:
                self.mean = summary.mean
                # A constant label has std 0; its mean alone describes it.
                self.std = tuple(std if std > 0.0 else 1.0 for std in summary.std)
            else:
                self._center = summary.mean

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Requires a float32 label, [rows] or [rows, num_outputs]; see `Objective`."""
        label = self._place.label_spec(spec)
        shapes = [[None, self._num_outputs], *([[None]] if self._num_outputs == 1 else [])]
        fits = isinstance(label, tf.TensorSpec) and label.dtype == tf.float32
        if not (fits and label.shape.rank and [None, *label.shape[1:]] in shapes):
            raise ValueError(
                f"`task` must name a float32 label with {self._num_outputs} values per readout; got "
                f"{label.dtype.name} of shape {shape_in_words(label.shape)} in {self._place.label_feature!r}. Cast it "
                "in `preprocessing_fn`, or set `num_outputs`."
            )

    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Splits the labels, float32 [rows, num_outputs], off a graph; NaN marks missing labels."""
        graph, label = self._place.split_off(graph)
        label = tf.reshape(label, [label.shape[0] or tf.shape(label)[0], self._num_outputs])
        for missing in self._missing_values:
            label = tf.where(label == missing, float("nan"), label)
        if self._standardizes:
            label = (label - tf.constant(self.mean, tf.float32)) / tf.constant(self.std, tf.float32)
        return graph, label

    def counts(self, labels: tf.Tensor, graph: GraphTensor, is_real_component: tf.Tensor) -> tf.Tensor:
        """Returns which labels are finite and of real graphs, bool [rows, num_outputs]."""
        return self._place.by_row(graph, is_real_component)[:, tf.newaxis] & tf.math.is_finite(labels)

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Weights all labels equally, float32 [rows, num_outputs]."""
        if self._lacks_summary:
            raise ValueError(
                "`summary` must be given where labels are to be standardised; got None. Look at the labels of the "
                "training split first, and make the objective again by `task.objective(vocabulary, summary)`."
            )
        return tf.ones_like(labels)

    def safe_labels(self, labels: tf.Tensor) -> tf.Tensor:
        """Replaces missing labels by 0."""
        return tf.where(tf.math.is_finite(labels), labels, tf.zeros_like(labels))

    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Requires numbers, [rows, num_outputs]."""
        check_tensor_output(
            output,
            [self._place.num_rows(graph), self._num_outputs],
            form="[num_readouts, num_outputs]",
            advice="Read out the seeds or graphs, and end with one unit per output.",
        )

    def loss(self) -> tf_keras.losses.Loss:
        """Makes the elementwise loss."""
        return ElementwiseRegressionLoss(self._loss, name=self._loss)

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes MAE and RMSE in the label's own unit, and R2."""
        return [WeightedMae(self.std), WeightedRmse(self.std), WeightedR2(self._center)]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "numbers") -> OutputLayers:
        """Makes readout and one Dense layer; see `Objective`."""
        head = tf_keras.layers.Dense(self._num_outputs, dtype=tf.float32, name=output_name)
        return OutputLayers(self._place.readout_layer(embeddings_name), head)

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Returns numbers in the label's own unit, [rows, num_outputs]."""
        own = tf.cast(output, tf.float32) * tf.constant(self.std, tf.float32) + tf.constant(self.mean, tf.float32)
        return {model_interface.PREDICTION_OUTPUT: own}
