"""The interfaces of a task, which says what is predicted, and of an objective, which computes it.

Imports no TensorFlow, so that options load fast.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfx_gnn.io.suggestions import did_you_mean

if TYPE_CHECKING:
    import tensorflow as tf

    from tfx_gnn.graph.batching.size_constraints import SizeConstraints
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
    from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
    from tfx_gnn.models.tasks.output_layers import MultiOutputLayers, OutputLayers


Vocabulary = Callable[[str], Sequence[bytes]]
"""Maps the `vocab_filename` of a vocabulary to its entries in index order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """Statistics of the labels of one task in one split.

    Attributes:
        num_labels: number of labels, known or not: one per example; for links, one per candidate pair;
            for regressions, one per target and example.
        num_counted: number of labels that loss and metrics count: known labels, or for the softmax over candidates
            only true pairs.
        class_counts: for classifications, number of examples of each class; for links, of false and true pairs.
        mean: for regressions, mean of each target over its known labels; 0 if there are none.
        std: for regressions, standard deviation of each target over its known labels; 0 if there are none.
        minimum: for regressions, smallest known label of each target; infinity if there are none.
        maximum: for regressions, largest known label of each target; minus infinity if there are none.
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
        """Number of labels that do not count."""
        return self.num_labels - self.num_counted


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """What a model is trained to predict, as plain data without computation.

    A task is passed on as JSON; `objective` makes the object that trainers, exports and evaluators use.

    Example:
        >>> from tfx_gnn.models import NodeClassification
        >>> task = NodeClassification(label_feature="topic", num_classes=3)
        >>> task.reads_context
        False
        >>> task.objective().class_names
        (b'0', b'1', b'2')
    """

    reads_context: ClassVar[bool] = False
    """Whether the label is a feature of the context rather than of `_readout`."""

    @abc.abstractmethod
    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the object that computes labels, loss, metrics and served outputs of this task.

        Args:
            vocabulary: returns the entries of a vocabulary of the transform; None if no class has a name.
            summary: label statistics of the training split, for MultiTask by task name; needed only for training,
                and only if the task has balanced class weights or standardised labels.

        Returns:
            The objective.

        Raises:
            ValueError: if the vocabulary is missing or does not fit the task.
        """


class Objective(abc.ABC):
    """Computes the labels, loss, metrics and served outputs of a task.

    Labels, weights and a model's output are one tensor each, or for MultiTask a dict of tensors by
    task name. Each row belongs to one prediction: for a `_readout` node, or for the context of a
    graph. Shapes by task:

    | task | labels | weights, counts | model's output |
    |---|---|---|---|
    | NodeClassification, GraphClassification | int64 [rows] | [rows] | logits, [rows, num_classes] |
    | NodeRegression, GraphRegression | float32 [rows, num_outputs] | [rows, num_outputs] | [rows, num_outputs] |
    | LinkPrediction | int64 [rows, 2] | [rows] | scores (logits), [rows] |

    The second column of link labels is the row at which the candidates of the same example begin,
    because losses and metrics see labels, not graphs.

    Attributes:
        task: what is predicted.
        class_names: names of the classes by index; empty if no class is predicted.
        num_classes: number of classes; 2 (false and true) for links, 0 if no class is predicted.
        input_features: features of `_readout` that the output is computed from, so requests must have them.
        readout_key: equal for single tasks that read the same values from a graph.
        reads_seeds: whether each prediction is for the seed of an example, which then has a single `_readout` node.
        reads_pairs: whether each `_readout` node is a pair of nodes.
        pools_nodes: whether the output depends on the states of all nodes of an example with `_readout`, which then
            has a single `_readout` node.

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
    reads_seeds: bool = False
    reads_pairs: bool = False
    pools_nodes: bool = False

    @property
    def parts(self) -> Mapping[str, Objective]:
        """The objectives of a MultiTask by name; for other tasks, this objective under the name ""."""
        return {"": self}

    @abc.abstractmethod
    def check_spec(self, spec: GraphTensorSpec) -> None:
        """Checks that transformed graphs have the labels.

        Args:
            spec: spec of one transformed graph, labels included.

        Raises:
            ValueError: if a label is missing or has the wrong dtype or shape, or if an edge set to `_readout` is
                missing.
        """

    @abc.abstractmethod
    def check_budget(self, budget: SizeConstraints, spec: GraphTensorSpec) -> None:
        """Checks that batches padded to a budget can be read out.

        Args:
            budget: padding budget, the size constraints of a padded batch.
            spec: spec of one transformed graph.

        Raises:
            ValueError: if padding would break the readout structure.
        """

    @abc.abstractmethod
    def without_labels(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Returns the spec of a graph as it is in a request, without labels.

        Args:
            spec: spec of one graph, raw or transformed, with or without labels.

        Returns:
            The spec without labels; original ids are kept.
        """

    @abc.abstractmethod
    def labels_only(self, spec: GraphTensorSpec) -> GraphTensorSpec:
        """Returns the spec of the part of a graph that holds its labels.

        Args:
            spec: spec of one transformed graph, labels included.

        Returns:
            Spec of a graph with only what `split_off_labels` needs.
        """

    @abc.abstractmethod
    def split_off_labels(self, graph: GraphTensor) -> tuple[GraphTensor, Any]:
        """Splits a transformed graph into the input of a model and the labels that it predicts.

        Args:
            graph: scalar graph with labels, any number of components, padded or not.

        Returns:
            The graph without labels, and the labels.
        """

    @abc.abstractmethod
    def counts(self, labels: Any, graph: GraphTensor, is_real_component: tf.Tensor) -> Any:
        """Returns which labels count in loss and metrics.

        Args:
            labels: as `split_off_labels` returns them.
            graph: the graph of the labels.
            is_real_component: bool [num_components]; False for padding.

        Returns:
            bool, one per weight: whether the label is known (a class in range, a finite number), and
            its component is not padding.
        """

    @abc.abstractmethod
    def weights(self, labels: Any) -> Any:
        """Returns the weight of each label in training.

        Evaluation weights all labels equally, as Keras does for `class_weight`.

        Args:
            labels: as `split_off_labels` returns them; may include unknown labels.

        Returns:
            float32, the class weight of each label; 1 without class weights.
        """

    @abc.abstractmethod
    def safe_labels(self, labels: Any) -> Any:
        """Replaces labels for which no loss can be computed.

        Args:
            labels: as `split_off_labels` returns them.

        Returns:
            Labels of the same shape that give a finite loss; labels that count are unchanged.
        """

    @abc.abstractmethod
    def check_output(self, output: Any, graph: GraphTensor) -> None:
        """Checks the output of a model.

        Args:
            output: what the model returned for the graph.
            graph: the graph.

        Raises:
            ValueError: if the output's structure, dtype or shape does not fit this task.
        """

    @abc.abstractmethod
    def loss(self) -> Any:
        """Makes the Keras loss; a dict of losses for MultiTask."""

    @abc.abstractmethod
    def weighted_metrics(self) -> Any:
        """Makes the Keras metrics: a list, or a dict of lists for MultiTask. They ignore rows of weight 0."""

    def compile_arguments(self) -> dict[str, Any]:
        """Makes the arguments of `Model.compile`: `loss`, `weighted_metrics` and for MultiTask `loss_weights`."""
        return {"loss": self.loss(), "weighted_metrics": self.weighted_metrics()}

    def output_layer(self, *, embeddings_name: str = "embeddings") -> OutputLayers | MultiOutputLayers:
        """Makes the final layers of a model.

        The readout, whose values are the embeddings, is a separate Keras layer with a name, so that a
        functional model can be cut after it. Links have two such layers, `source_<name>` and `target_<name>`. Tasks of
        a MultiTask with the same readout share it; if there are several readouts, a task name precedes each name.

        Args:
            embeddings_name: name of the readout layer.

        Returns:
            tf.Module that maps a scalar graph, whose node sets have "hidden_state", float
            [num_nodes, units], to the float32 output.
        """
        return self.output_layers(embeddings_name=embeddings_name)

    def output_layers(self, *, embeddings_name: str = "embeddings", output_name: str = "output") -> OutputLayers:
        """Makes the readout and the head of a single task.

        Args:
            embeddings_name: as for `output_layer`.
            output_name: name of the last Keras layer.

        Returns:
            The layers.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def served_outputs(self, output: Any, graph: GraphTensor) -> dict[str, tf.Tensor]:
        """Turns a model's output into a served response.

        Args:
            output: what the model returned for the graph.
            graph: scalar graph without padding.

        Returns:
            Tensors of shape [num_components, ...] by the names in `tfx_gnn.serving.model_interface`.
            MultiTask puts "<name of the task>/" before each name.
        """


POOLINGS = ("mean", "sum", "max")
"""Ways to pool the node states of a graph."""


def check_pooling(pooling: str) -> None:
    """Checks that `pooling` is one of `POOLINGS`, or several of them joined by "|"."""
    parts = pooling.split("|")
    if not set(parts) <= set(POOLINGS) or len(set(parts)) < len(parts):
        advice = did_you_mean(pooling, POOLINGS, otherwise="Write 'mean|max' for two of them.")
        raise ValueError(
            f"`pooling` must be one of {list(POOLINGS)}, or several different ones joined by '|'; got {pooling!r}. "
            f"{advice}"
        )


def check_feature_name(field: str, value: object, advice: str) -> None:
    """Checks that a field can name a feature or a vocabulary; `advice` ends the error message."""
    if not isinstance(value, str) or not value or value.startswith("#"):
        raise ValueError(f"`{field}` must be a name that does not begin with '#'; got {value!r}. {advice}")


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Checks that a field is one of the allowed words."""
    if value not in choices:
        raise ValueError(
            f"`{field}` must be one of {list(choices)}; got {value!r}. "
            f"{did_you_mean(value, choices, otherwise='Choose one of these.')}"
        )


def check_label_smoothing(share: float) -> None:
    """Checks that a share of label smoothing leaves the label the largest."""
    if not 0.0 <= share < 1.0:
        raise ValueError(f"`label_smoothing` must lie in [0, 1); got {share}. Usual is 0.1.")
