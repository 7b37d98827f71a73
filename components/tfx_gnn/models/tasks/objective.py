"""The interface of a task towards trainers, exports and evaluators."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

    from tfx_gnn.graph.batching.size_constraints import SizeConstraints
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
    from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
    from tfx_gnn.models.tasks.output_layers import MultiOutputLayers, OutputLayers
    from tfx_gnn.models.tasks.task import Task


def shape_in_words(shape: tf.TensorShape) -> str:
    """Writes the shape of something with one row a prediction.

    Args:
        shape: static shape, the number of rows first.

    Returns:
        The shape with words for what is not static.

    Example:
        >>> shape_in_words(tf.TensorShape([None, 2])), shape_in_words(tf.TensorShape([8, None]))
        ('[rows, 2]', '[8, any]')
    """
    if shape.rank is None:
        return "[any]"
    sizes = ["any" if size is None else str(size) for size in shape]
    if sizes and shape[0] is None:
        sizes[0] = "rows"
    return f"[{', '.join(sizes)}]"


class Objective(abc.ABC):
    """How a task is computed.

    Labels, weights and a model's output are a tensor each, or for MultiTask a dict of such by
    the names of its tasks. "Rows" are what has one prediction: a `_readout` node, or the
    context of a graph. Shapes by task:

    | task | labels | weights, counts | model's output |
    |---|---|---|---|
    | NodeClassification, GraphClassification | int64 [rows] | [rows] | logits, [rows, num_classes] |
    | NodeRegression, GraphRegression | float32 [rows, num_outputs] | [rows, num_outputs] | [rows, num_outputs] |
    | LinkPrediction | int64 [rows, 2] | [rows] | scores (logits), [rows] |

    The second column of link labels is the row at which the candidates of the same example begin:
    losses and metrics see labels, not graphs.

    Attributes:
        task: what is predicted.
        class_names: names of the classes by index; empty if the answer is no class.
        num_classes: number of classes; 2 (false and true) for links, 0 if the answer is no class.
        input_features: features of `_readout` that the answer is computed from, so that requests must have them.
        readout_key: equal for single tasks that read the same values out of a graph.
    """

    task: Task
    class_names: tuple[bytes, ...] = ()
    num_classes: int = 0
    input_features: tuple[str, ...] = ()
    readout_key: str = ""

    @property
    def parts(self) -> Mapping[str, Objective]:
        """The objectives of a MultiTask by name; for other tasks, this one by the name ""."""
        return {"": self}

    @abc.abstractmethod
    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Checks that transformed graphs have the labels.

        Args:
            spec: spec of one transformed graph, labels included.

        Raises:
            ValueError: if a label is missing or of the wrong dtype or shape, or edges to `_readout` are.
        """

    @abc.abstractmethod
    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Checks that batches padded to a budget can be read out.

        Args:
            budget: sizes of a padded batch.
            spec: spec of one transformed graph.

        Raises:
            ValueError: if padding would break the readout structure.
        """

    @abc.abstractmethod
    def without_labels(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Describes a graph as a request gives it: it tells no label.

        Args:
            spec: spec of one graph, raw or transformed, with or without labels.

        Returns:
            The spec without labels; original ids are still in it.
        """

    @abc.abstractmethod
    def labels_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Describes the part of a graph that tells its labels.

        Args:
            spec: spec of one transformed graph, labels included.

        Returns:
            Spec of a graph for `split_off_labels`, with as little as that needs.
        """

    @abc.abstractmethod
    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, Any]:
        """Parts a transformed graph into what a model may see and what it shall predict.

        Args:
            graph: scalar graph with labels, any number of components, padded or not.

        Returns:
            The graph without labels, and the labels.
        """

    @abc.abstractmethod
    def counts(self, labels: Any, graph: GraphTensor, is_real_component: tf.Tensor) -> Any:
        """Tells which labels count in loss and metrics.

        Args:
            labels: as `split_off_labels` returns them.
            graph: the graph that they are of.
            is_real_component: bool [num_components]; False for padding.

        Returns:
            bool, one for each weight: the label is known (a class in range, a number that is
            finite), and its component is not padding.
        """

    @abc.abstractmethod
    def weights(self, labels: Any) -> Any:
        """Tells how much each label weighs in training.

        Evaluation counts all alike, as it does for `class_weight` of Keras.

        Args:
            labels: as `split_off_labels` returns them; unknown ones may be among them.

        Returns:
            float32, one for each weight: the weight of the class, 1 without such.
        """

    @abc.abstractmethod
    def safe_labels(self, labels: Any) -> Any:
        """Replaces labels that no loss can be computed of.

        Args:
            labels: as `split_off_labels` returns them.

        Returns:
            Labels of the same shape that give a finite loss; those that count are as they were.
        """

    @abc.abstractmethod
    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Checks what a model answers.

        Args:
            output: what the model returned for the graph.
            graph: the graph.

        Raises:
            ValueError: if its structure, dtype or shape is not that of this task.
        """

    @abc.abstractmethod
    def loss(self) -> Any:
        """Makes the Keras loss of labels and output; a dict for MultiTask."""

    @abc.abstractmethod
    def weighted_metrics(self) -> Any:
        """Makes the Keras metrics: a list, or a dict of lists for MultiTask. Weight 0 leaves a row out."""

    def compile_arguments(self) -> dict[str, Any]:
        """Makes what a model is compiled with: `loss`, `weighted_metrics` and for MultiTask `loss_weights`."""
        return {"loss": self.loss(), "weighted_metrics": self.weighted_metrics()}

    def output_layer(self, *, embeddings_name: str = "embeddings") -> OutputLayers | MultiOutputLayers:
        """Makes the layers that end a model.

        The readout, whose values are the embeddings, is a Keras layer of its own with a name, so that
        a functional model can be cut behind it. Links have two, `source_<name>` and `target_<name>`. Tasks of a
        MultiTask that read out alike share theirs; if not all do, the name of a task is put before.

        Args:
            embeddings_name: name of that layer.

        Returns:
            tf.Module that maps a scalar graph whose node sets have "hidden_state", float
            [num_nodes, units], to the output, float32.
        """
        return self.output_layers(embeddings_name=embeddings_name)

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "output") -> OutputLayers:
        """Makes readout and head of a single task.

        Args:
            embeddings_name: as for `output_layer`.
            output_name: name of the last Keras layer.

        Returns:
            The layers.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def served_outputs(self, output: Any, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Turns a model's output into answers.

        Args:
            output: what the model returned for the graph.
            graph: scalar graph without padding.

        Returns:
            By the names of `tfx_gnn.serving.model_interface`, tensors of shape [num_components, ...].
            MultiTask puts "<name of the task>/" before them.
        """
