"""The objective of node and graph classification."""

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
from tfx_gnn.models.losses import SmoothedCrossEntropy
from tfx_gnn.models.metrics import MacroF1
from tfx_gnn.models.tasks.classification import BALANCED
from tfx_gnn.models.tasks.label_places import LabelPlace
from tfx_gnn.models.tasks.objective import Objective, shape_in_words
from tfx_gnn.models.tasks.output_layers import OutputLayers, check_tensor_output
from tfx_gnn.models.tasks.task import LabelSummary, Vocabulary
from tfx_gnn.serving import model_interface

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.classification import GraphClassification, NodeClassification


class ClassObjective(Objective):
    """One class a row; see `Objective`.

    Args:
        task: what is predicted.
        place: where the label lies.
        vocabulary: as for `Task.objective`.
        summary: as for `Task.objective`.
    """

    def __init__(
        self,
        task: NodeClassification | GraphClassification,
        place: LabelPlace,
        *,
        vocabulary: Vocabulary | None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None,
    ) -> None:
        self.task = task
        self._label_smoothing = task.label_smoothing
        self._place = place
        self.readout_key = place.readout_key
        self.class_names = _class_names(task, vocabulary)
        self.num_classes = len(self.class_names)
        self._class_weights = _class_weights(task, self.class_names, summary)

    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Demands an int64 class index; see `Objective`."""
        label = self._place.label_spec(spec)
        if not isinstance(label, tf.TensorSpec) or label.dtype != tf.int64 or label.shape.rank != 1:
            raise ValueError(
                f"`task` must name a class index, int64 with one value a readout; got {label.dtype.name} of shape "
                f"{shape_in_words(label.shape)} in {self._place.label_feature!r}. Make it by "
                "tft.compute_and_apply_vocabulary."
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
        """Parts a graph from its class indices, int64 [rows]."""
        return self._place.split_off(graph)

    def counts(self, labels: tf.Tensor, graph: GraphTensor, is_real_component: tf.Tensor) -> tf.Tensor:
        """Counts real graphs whose class is known, bool [rows]."""
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
        """Demands logits, [rows, num_classes]."""
        check_tensor_output(
            output,
            [self._place.num_rows(graph), self.num_classes],
            form="[num_readouts, num_classes]",
            advice="Read out the seeds, and end with one unit a class.",
        )

    def loss(self) -> tf_keras.losses.Loss:
        """Makes the cross entropy of logits."""
        return SmoothedCrossEntropy(self._label_smoothing, name="cross_entropy")

    def weighted_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Makes accuracy and macro-F1."""
        return [tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"), MacroF1(self.num_classes)]

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "logits") -> OutputLayers:
        """Makes readout and one Dense layer; see `Objective`."""
        # Logits of half precision would make a poor loss.
        head = tf_keras.layers.Dense(self.num_classes, dtype=tf.float32, name=output_name)
        return OutputLayers(self._place.readout_layer(embeddings_name), head)

    def served_outputs(self, output: tf.Tensor, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Answers logits, probabilities, and the most probable class with its probability."""
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
    """float32 [num_classes]; None as long as counts are missing."""
    weights = np.ones(len(class_names), np.float32)
    if isinstance(task.class_weights, dict):
        names = [name.decode() for name in class_names]
        unknown = sorted(set(task.class_weights) - set(names))
        if unknown:
            raise ValueError(f"`class_weights` must name classes among {names}; got {unknown}. Mend the names.")
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
