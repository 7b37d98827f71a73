"""Tasks that predict a label of nodes or whole graphs, as plain data. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.models.tasks.task import (
    Task,
    Vocabulary,
    check_choice,
    check_feature_name,
    check_label_smoothing,
    check_pooling,
)

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.task import LabelSummary, Objective


BALANCED = "balanced"
"""Class weights that give every class of the training split the same total weight."""

REGRESSION_LOSSES = ("mse", "mae", "huber")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Classification(Task):
    """The fields of both classification tasks; the subclasses define where the label is."""

    label_feature: str
    class_vocabulary: str = ""
    num_classes: int = 0
    class_weights: str | dict[str, float] = ""
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        advice = f"Name the label of node set {READOUT_NODE_SET!r} and the vocabulary of its classes."
        check_feature_name("label_feature", self.label_feature, advice)
        if not self.num_classes and not self.class_vocabulary:
            object.__setattr__(self, "class_vocabulary", self.label_feature)
        if self.class_vocabulary:
            check_feature_name("class_vocabulary", self.class_vocabulary, advice)
        if self.num_classes < 0 or (self.num_classes and self.class_vocabulary) or self.num_classes == 1:
            raise ValueError(
                "`num_classes` must be at least 2, and set only if there is no vocabulary; got "
                f"num_classes={self.num_classes} and class_vocabulary={self.class_vocabulary!r}. Give one of them."
            )
        weights = self.class_weights
        if isinstance(weights, str):
            if weights not in ("", BALANCED):
                raise ValueError(
                    f"`class_weights` must be 'balanced', or map class names to weights; got {weights!r}. Leave it out "
                    "for equal weights."
                )
        elif not all(isinstance(name, str) and 0.0 < weight < float("inf") for name, weight in weights.items()):
            raise ValueError(
                f"`class_weights` must map class names to positive numbers; got {weights!r}. Leave examples out "
                "of the splits to give them no weight."
            )
        check_label_smoothing(self.label_smoothing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeClassification(_Classification):
    """Predicts one class for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is connected to the seed by edge set `_readout/seed`.

    Attributes:
        label_feature: feature of `_readout`. In raw examples it is the class itself, string or
            integer; after the transform it is the class index, int64 in [0, number of classes).
        class_vocabulary: `vocab_filename` of the `tft.compute_and_apply_vocabulary` call that
            makes the index; the served model uses the vocabulary to turn indices back into class names. Empty: the
            name of the label; or none, if `num_classes` says that the label already is an integer in
            [0, num_classes).
        num_classes: number of classes, at least 2; set only if there is no vocabulary.
        class_weights: "" for equal weights; "balanced" for n / (k * n_c), where n_c of the n training
            labels are of class c and k classes occur; or weights by class name, 1 for classes that are not named.
        label_smoothing: fraction of the target that is spread evenly over all classes, in [0, 1).
        pooling: what a prediction is read from. Empty: the state of the seed. "mean", "sum", "max", or several of them
            joined by "|": the pooled states of all nodes of the subgraph, which is then classified as a whole.

    Example:
        >>> task = NodeClassification(label_feature="topic", class_vocabulary="topics", class_weights={"law": 3.0})
        >>> objective = task.objective(lambda vocab_filename: [b"art", b"law"])
        >>> objective.class_names, objective.num_classes
        ((b'art', b'law'), 2)
        >>> objective.weights(np.array([0, 1, 1])).numpy().tolist()
        [1.0, 3.0, 3.0]
        >>> [metric.name for metric in objective.weighted_metrics()]
        ['accuracy', 'macro_f1']
    """

    pooling: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling:
            check_pooling(self.pooling)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import ClassObjective
        from tfx_gnn.models.tasks.label_places import ReadoutLabels

        place = ReadoutLabels(self.label_feature, pooling=self.pooling)
        return ClassObjective(self, place, vocabulary=vocabulary, summary=summary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphClassification(_Classification):
    """Predicts one class for each graph.

    Attributes:
        label_feature: feature of the context; otherwise as for NodeClassification.
        class_vocabulary: as for NodeClassification.
        num_classes: as for NodeClassification.
        class_weights: as for NodeClassification.
        label_smoothing: as for NodeClassification.
        pooling: how the node states of a graph are pooled: "mean", "sum", "max", or several of them joined by "|".

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     context_features={"toxic": tf.constant([1], tf.int64)})
        >>> objective = GraphClassification(label_feature="toxic", num_classes=2, pooling="mean|max").objective()
        >>> graph, labels = objective.split_off_labels(graph)
        >>> labels.numpy().tolist(), sorted(graph.context.features)
        ([1], [])
        >>> logits = objective.output_layer()(graph)
        >>> logits.shape.as_list(), sorted(objective.served_outputs(logits, graph))
        ([1, 2], ['label', 'logits', 'probabilities', 'score'])
    """

    reads_context: ClassVar[bool] = True

    pooling: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pooling(self.pooling)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import ClassObjective
        from tfx_gnn.models.tasks.label_places import ContextLabels

        place = ContextLabels(self.label_feature, pooling=self.pooling)
        return ClassObjective(self, place, vocabulary=vocabulary, summary=summary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Regression(Task):
    """The fields of both regression tasks; the subclasses define where the label is."""

    label_feature: str
    num_outputs: int = 1
    loss: str = "mse"
    standardize: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    missing_values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_feature_name("label_feature", self.label_feature, "Name the feature that is predicted.")
        if self.num_outputs < 1:
            raise ValueError(f"`num_outputs` must be at least 1; got {self.num_outputs}. Count the label's numbers.")
        check_choice("loss", self.loss, REGRESSION_LOSSES)
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "std", tuple(float(value) for value in self.std))
        object.__setattr__(self, "missing_values", tuple(float(value) for value in self.missing_values))
        if not all(map(math.isfinite, self.missing_values)):
            raise ValueError(
                f"`missing_values` must be finite numbers; got {self.missing_values}. NaN is a missing label anyway."
            )
        if (self.mean or self.std) and not len(self.mean) == len(self.std) == self.num_outputs:
            raise ValueError(
                f"`mean` and `std` must hold one number for each of {self.num_outputs} outputs; got {self.mean} and "
                f"{self.std}. Give the numbers that `preprocessing_fn` scaled the label by, or none."
            )
        if not all(math.isfinite(mean) and 0.0 < std < math.inf for mean, std in zip(self.mean, self.std, strict=True)):
            raise ValueError(
                f"`mean` and `std` must be finite, and `std` positive; got {self.mean} and {self.std}. Give the "
                "numbers that `preprocessing_fn` scaled the label by."
            )
        if self.standardize and self.mean:
            raise ValueError(
                f"`standardize` must be False if the transform has scaled the label by `mean` and `std`; got "
                f"{self.mean} and {self.std} as well. Leave one of them out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeRegression(_Regression):
    """Predicts numbers for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is connected to the seed by edge set `_readout/seed`. A NaN label is missing and does
    not count; with several outputs, the other labels of the example still count.

    Attributes:
        label_feature: float32 feature of `_readout`, one number or a vector of `num_outputs`.
        num_outputs: how many numbers are predicted.
        loss: "mse", "mae", or "huber" (quadratic up to an error of 1, linear beyond).
        standardize: whether the model learns (label - mean) / std, with the mean and standard deviation of the
            training split. Metrics and served responses are in the label's own unit.
        mean: what `preprocessing_fn` subtracted from the label, one number per output, so that the
            served model can respond in the original unit; empty if the label was not scaled.
        std: what `preprocessing_fn` then divided the label by, one number per output.
        missing_values: numbers that mark a missing label in tables and raw examples, which cannot hold NaN.
            Evaluation ignores these labels. So does training, unless `mean` and `std` say that the label was scaled:
            then `preprocessing_fn` must have replaced them by NaN.
        pooling: as for NodeClassification.

    Example:
        >>> from tfx_gnn.models.tasks import LabelSummary
        >>> task = NodeRegression(label_feature="price", standardize=True, loss="huber", missing_values=(-1.0,))
        >>> summary = LabelSummary(num_labels=10, num_counted=9, mean=(30.0,), std=(5.0,))
        >>> objective = task.objective(summary=summary)
        >>> objective.mean, objective.std, objective.loss().name
        ((30.0,), (5.0,), 'huber')
    """

    pooling: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling:
            check_pooling(self.pooling)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import RegressionObjective
        from tfx_gnn.models.tasks.label_places import ReadoutLabels

        place = ReadoutLabels(self.label_feature, pooling=self.pooling)
        return RegressionObjective(self, place, summary=summary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphRegression(_Regression):
    """Predicts numbers for each graph.

    Attributes:
        label_feature: float32 feature of the context, one number or a vector of `num_outputs`.
        num_outputs: as for NodeRegression.
        loss: as for NodeRegression.
        standardize: as for NodeRegression.
        mean: as for NodeRegression.
        std: as for NodeRegression.
        missing_values: as for NodeRegression.
        pooling: how the node states of a graph are pooled: "mean", "sum", "max", or several of them joined by "|".
            Use "sum" for a quantity that grows with the graph.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     context_features={"energy": tf.constant([2.5])})
        >>> objective = GraphRegression(label_feature="energy", pooling="sum").objective()
        >>> graph, labels = objective.split_off_labels(graph)
        >>> labels.numpy().tolist()
        [[2.5]]
        >>> objective.output_layer()(graph).shape.as_list()
        [1, 1]
    """

    reads_context: ClassVar[bool] = True

    pooling: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pooling(self.pooling)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import RegressionObjective
        from tfx_gnn.models.tasks.label_places import ContextLabels

        return RegressionObjective(self, ContextLabels(self.label_feature, pooling=self.pooling), summary=summary)
