"""The objective of node and graph regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.losses import ElementwiseRegressionLoss
from tfx_gnn.models.metrics import WeightedMae, WeightedR2, WeightedRmse
from tfx_gnn.models.tasks.label_places import LabelPlace
from tfx_gnn.models.tasks.objective import Objective, shape_in_words
from tfx_gnn.models.tasks.output_layers import OutputLayers, check_tensor_output
from tfx_gnn.models.tasks.task import LabelSummary
from tfx_gnn.serving import model_interface

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.regression import GraphRegression, NodeRegression


class RegressionObjective(Objective):
    """One or more numbers a row; see `Objective`.

    Three units meet here. Data holds labels as `preprocessing_fn` left them. With `standardize`, labels
    that have been split off, loss and the model's output are in standard deviations of the training
    split. Metrics and answers are in the label's own unit, before any of this.

    Attributes:
        mean: of each output, the label's value that a model's output of 0 means.
        std: of each output, what a difference of 1 in a model's output means.

    Args:
        task: what is predicted.
        place: where the label lies.
        summary: as for `Task.objective`.
    """

    def __init__(
        self,
        task: NodeRegression | GraphRegression,
        place: LabelPlace,
        *,
        summary: LabelSummary | Mapping[str, LabelSummary] | None,
    ) -> None:
        self.task = task
        self._place = place
        self.readout_key = place.readout_key
        self._num_outputs = task.num_outputs
        self._loss = task.loss
        # The transform has scaled such numbers to other ones.
        self._missing_values = () if task.mean else task.missing_values
        self._standardizes = task.standardize and isinstance(summary, LabelSummary)
        self.mean = task.mean or (0.0,) * task.num_outputs
        self.std = task.std or (1.0,) * task.num_outputs
        self._lacks_summary = task.standardize and summary is None
        self._center = (0.0,) * task.num_outputs
        if isinstance(summary, LabelSummary):
            if task.standardize:
                self.mean = summary.mean
                # A label that never changes is told by its mean alone.
                self.std = tuple(std if std > 0.0 else 1.0 for std in summary.std)
            else:
                self._center = summary.mean

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Demands a float32 label, [rows] or [rows, num_outputs]; see `Objective`."""
        label = self._place.label_spec(spec)
        shapes = [[None, self._num_outputs], *([[None]] if self._num_outputs == 1 else [])]
        fits = isinstance(label, tf.TensorSpec) and label.dtype == tf.float32
        if not (fits and label.shape.rank and [None, *label.shape[1:]] in shapes):
            raise ValueError(
                f"`task` must name a float32 label with {self._num_outputs} values a readout; got {label.dtype.name} "
                f"of shape {shape_in_words(label.shape)} in {self._place.label_feature!r}. Cast it in "
                "`preprocessing_fn`, or set `num_outputs`."
            )

    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """See `Objective`."""
        self._place.check_budget(budget, spec)

    def without_labels(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """See `Objective`."""
        return self._place.without_label(spec)

    def labels_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """See `Objective`."""
        return self._place.label_only(spec)

    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Parts a graph from its labels, float32 [rows, num_outputs]; NaN for missing ones."""
        graph, label = self._place.split_off(graph)
        label = tf.reshape(label, [label.shape[0] or tf.shape(label)[0], self._num_outputs])
        for missing in self._missing_values:
            label = tf.where(label == missing, float("nan"), label)
        if self._standardizes:
            label = (label - tf.constant(self.mean, tf.float32)) / tf.constant(self.std, tf.float32)
        return graph, label

    def counts(self, labels: tf.Tensor, graph: GraphTensor, is_real_component: tf.Tensor) -> tf.Tensor:
        """Counts finite labels of real graphs, bool [rows, num_outputs]."""
        return self._place.by_row(graph, is_real_component)[:, tf.newaxis] & tf.math.is_finite(labels)

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Weighs all alike, float32 [rows, num_outputs]."""
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
        """Demands numbers, [rows, num_outputs]."""
        check_tensor_output(
            output,
            [self._place.num_rows(graph), self._num_outputs],
            form="[num_readouts, num_outputs]",
            advice="Read out the seeds or graphs, and end with one unit an output.",
        )

    def loss(self) -> tf_keras.losses.Loss:
        """Makes the loss of each number."""
        return ElementwiseRegressionLoss(self._loss, name=self._loss)

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes MAE and RMSE in the label's own unit, and R2."""
        return [WeightedMae(self.std), WeightedRmse(self.std), WeightedR2(self._center)]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "numbers") -> OutputLayers:
        """Makes readout and one Dense layer; see `Objective`."""
        head = tf_keras.layers.Dense(self._num_outputs, dtype=tf.float32, name=output_name)
        return OutputLayers(self._place.readout_layer(embeddings_name), head)

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Answers numbers in the label's own unit, [rows, num_outputs]."""
        own = tf.cast(output, tf.float32) * tf.constant(self.std, tf.float32) + tf.constant(self.mean, tf.float32)
        return {model_interface.PREDICTION_OUTPUT: own}
