"""What a task is: what is predicted, and the interface to what computes it.

Needs no TensorFlow, so that options load fast.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import tensorflow as tf

    from tfx_gnn.graph.batching.size_constraints import SizeConstraints
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
    from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
    from tfx_gnn.models.tasks.output_layers import MultiOutputLayers, OutputLayers


Vocabulary = Callable[[str], Sequence[bytes]]
"""From the `vocab_filename` of a vocabulary to its entries by index."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """Labels of one task in one split.

    Attributes:
        num_labels: labels, known or not: one an example, for links one a candidate pair, and one
            for each target of a regression.
        num_counted: those that loss and metrics count: known, and for the softmax over candidates true pairs alone.
        class_counts: for tasks of classes, examples of each class; for links, false and true pairs.
        mean: for regressions, mean of each target over its known labels, 0 where there is none.
        std: for regressions, standard deviation of each target over its known labels, 0 where there is none.
        minimum: for regressions, the least known label of each target; infinity where there is none.
        maximum: for regressions, the greatest; minus infinity where there is none.
    """

    num_labels: int
    num_counted: int
    class_counts: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()

    @property
    def num_missing(self) -> int:
        """Labels that do not count."""
        return self.num_labels - self.num_counted


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """What a model is trained to predict: names and numbers, nothing that computes.

    A task travels as JSON; `objective` makes what trainers, exports and evaluators work with.

    Example:
        >>> from tfx_gnn.models import NodeClassification
        >>> task = NodeClassification(label_feature="topic", num_classes=3)
        >>> task.reads_context
        False
        >>> task.objective().class_names
        (b'0', b'1', b'2')
    """

    reads_context: ClassVar[bool] = False
    """Whether the label is a feature of the context, and not of `_readout`."""

    @abc.abstractmethod
    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes labels, loss, metrics and answers of this task.

        Args:
            vocabulary: gives the entries of a vocabulary of the transform; None where no class has a name.
            summary: what the training split's labels are, for MultiTask by name; needed where the
                task asks for class weights by counts or for standardised labels, and only to train.

        Returns:
            The objective.

        Raises:
            ValueError: if the vocabulary is missing or does not fit the task.
        """


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

    Example:
        >>> from tfx_gnn.models import GraphRegression
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     context_features={"energy": tf.constant([float("nan")])})
        >>> objective = GraphRegression(label_feature="energy").objective()
        >>> objective.check_spec(graph.spec)
        >>> graph, labels = objective.split_off_labels(graph)
        >>> objective.counts(labels, graph, tf.constant([True])).numpy().tolist()
        [[False]]
        >>> objective.safe_labels(labels).numpy().tolist()
        [[0.0]]
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


POOLINGS = ("mean", "sum", "max")
"""How states of nodes become one of their graph."""


def check_pooling(pooling: str) -> None:
    """Checks how states of nodes become one of their graph."""
    parts = pooling.split("|")
    if not set(parts) <= set(POOLINGS) or len(set(parts)) < len(parts):
        raise ValueError(
            f"`pooling` must be one of {list(POOLINGS)}, or several joined by '|'; got {pooling!r}. "
            "Write 'mean|max' for two of them."
        )
