"""All prediction tasks, as plain data. Imports no TensorFlow, so that options load fast."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.io.option_kinds import register_kinds
from tfx_gnn.models.tasks.task import Task, Vocabulary, check_pooling

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.task import LabelSummary, Objective


BALANCED = "balanced"
"""Class weights that give every class of the training split the same total weight."""


SCORINGS = ("dot", "hadamard", "distmult")
MATCHING_SCORINGS = ("dot", "hadamard", "difference")
LINK_LOSSES = ("sigmoid", "softmax")
REGRESSION_LOSSES = ("mse", "mae", "huber")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def _check_feature_name(field: str, value: object, advice: str) -> None:
    """Checks that a field can name a feature or a vocabulary; `advice` ends the error message."""
    if not isinstance(value, str) or not value or value.startswith("#"):
        raise ValueError(f"`{field}` must be a name that does not begin with '#'; got {value!r}. {advice}")


def _check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Checks that a field is one of the allowed words."""
    if value not in choices:
        raise ValueError(f"`{field}` must be one of {list(choices)}; got {value!r}. Choose one of these.")


def _check_label_smoothing(share: float) -> None:
    if not 0.0 <= share < 1.0:
        raise ValueError(f"`label_smoothing` must lie in [0, 1); got {share}. Usual is 0.1.")


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
        _check_feature_name("label_feature", self.label_feature, advice)
        if not self.num_classes or self.class_vocabulary:
            _check_feature_name("class_vocabulary", self.class_vocabulary, advice)
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
        _check_label_smoothing(self.label_smoothing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeClassification(_Classification):
    """Predicts one class for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is connected to the seed by edge set `_readout/seed`.

    Attributes:
        label_feature: feature of `_readout`. In raw examples it is the class itself, string or
            integer; after the transform it is the class index, int64 in [0, number of classes).
        class_vocabulary: `vocab_filename` of the `tft.compute_and_apply_vocabulary` call that
            makes the index; the served model uses the vocabulary to turn indices back into class names. Empty if
            the label already is an integer in [0, num_classes).
        num_classes: number of classes, at least 2; set only if there is no vocabulary.
        class_weights: "" for equal weights; "balanced" for n / (k * n_c), where n_c of the n training
            labels are of class c and k classes occur; or weights by class name, 1 for classes that are not named.
        label_smoothing: fraction of the target that is spread evenly over all classes, in [0, 1).

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

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import ClassObjective
        from tfx_gnn.models.tasks.label_places import ReadoutLabels

        return ClassObjective(self, ReadoutLabels(self.label_feature), vocabulary=vocabulary, summary=summary)


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
class GraphMatching(GraphClassification):
    """Predicts one of two classes for each pair of graphs, such as whether they are alike, from both together.

    An example is a pair: the node sets of the left graph and those of the right graph stand side by side. The states
    of each graph are pooled to a vector, and the two vectors are compared. To compare like with like, let a network
    treat both graphs alike: hyperparameter `shared_node_sets` of the ready networks, [["s", "t"]] for
    left=("s",) and right=("t",).

    Attributes:
        left: node sets of one graph.
        right: node sets of the other one, as many.
        scoring: how the vectors become a score: "dot", their inner product; "hadamard", a network over their
            elementwise product; "difference", a network over their elementwise absolute difference. A high score speaks
            for the second class.
        hidden_units: widths of the ReLU layers of that network; if empty, the score is a weighted sum.
        label_feature: feature of the context; otherwise as for NodeClassification.
        class_vocabulary: as for NodeClassification; of two classes.
        num_classes: 2, or 0 with a vocabulary.
        class_weights: as for NodeClassification.
        label_smoothing: as for NodeClassification.
        pooling: as for GraphClassification.

    Example:
        >>> task = GraphMatching(label_feature="alike", left=("s",), right=("t",), scoring="difference")
        >>> task.objective().num_classes
        2
    """

    num_classes: int = 2
    left: tuple[str, ...]
    right: tuple[str, ...]
    scoring: str = "hadamard"
    hidden_units: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("left", "right", "hidden_units"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_choice("scoring", self.scoring, MATCHING_SCORINGS)
        if self.num_classes not in (0, 2):
            raise ValueError(f"`num_classes` must be 2 for pairs of graphs; got {self.num_classes}.")
        if not self.left or len(self.left) != len(self.right) or set(self.left) & set(self.right):
            raise ValueError(
                f"`left` and `right` must name different node sets, as many; got {self.left} and {self.right}. Name "
                "those of each graph."
            )
        if min(self.hidden_units, default=1) < 1 or (self.hidden_units and self.scoring == "dot"):
            raise ValueError(
                f"`hidden_units` must be positive, and empty for scoring='dot'; got {self.hidden_units} for "
                f"{self.scoring!r}."
            )

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.matching_objective import MatchingObjective

        return MatchingObjective(self, vocabulary=vocabulary, summary=summary)


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
        _check_feature_name("label_feature", self.label_feature, "Name the feature that is predicted.")
        if self.num_outputs < 1:
            raise ValueError(f"`num_outputs` must be at least 1; got {self.num_outputs}. Count the label's numbers.")
        _check_choice("loss", self.loss, REGRESSION_LOSSES)
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

    Example:
        >>> from tfx_gnn.models.tasks import LabelSummary
        >>> task = NodeRegression(label_feature="price", standardize=True, loss="huber", missing_values=(-1.0,))
        >>> summary = LabelSummary(num_labels=10, num_counted=9, mean=(30.0,), std=(5.0,))
        >>> objective = task.objective(summary=summary)
        >>> objective.mean, objective.std, objective.loss().name
        ((30.0,), (5.0,), 'huber')
    """

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.label_objectives import RegressionObjective
        from tfx_gnn.models.tasks.label_places import ReadoutLabels

        return RegressionObjective(self, ReadoutLabels(self.label_feature), summary=summary)


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkPrediction(Task):
    """Predicts a score for each candidate pair of nodes.

    The `_readout` nodes of an example are its candidates. Edge sets `_readout/source` and
    `_readout/target` connect each candidate to the two ends of its pair. A sampling plan with negatives makes such
    examples: each has the true pair and some negatives.

    Attributes:
        label_feature: int64 feature of `_readout`: 1 for a true pair, 0 for a false one. Any other number
            excludes the candidate from losses and rankings, as "filtered" rankings exclude other true pairs.
        scoring: how two states become a score: "dot", their inner product; "hadamard", a network
            over their elementwise product; "distmult", their inner product weighted by a
            vector of the relation (arXiv:1412.6575).
        relation_feature: for "distmult" with several relations, the int64 feature of `_readout` with the
            relation number. Requests must have it, too.
        num_relations: number of relations; relation numbers are in [0, num_relations). 1 without `relation_feature`.
        hidden_units: for "hadamard", widths of the hidden layers between product and score; if empty, the
            score is a weighted sum.
        projects_states: whether each end gets its own linear map between state and score. The result of the
            map is then the embedding.
        loss: "sigmoid", cross entropy of each candidate by itself; or "softmax", cross entropy
            of the true pair among all candidates of its example, where an example counts once per true pair.
        label_smoothing: fraction of the target that is spread evenly over true and false ("sigmoid") or over all
            candidates ("softmax"), in [0, 1).
        hits_at: ranks k for which a metric gives the fraction of true pairs with rank k or better. A true pair
            without a negative in its example has no rank: it is counted as `unranked_pairs` and otherwise left out.

    Example:
        >>> task = LinkPrediction(scoring="distmult", relation_feature="relation", num_relations=5, loss="softmax")
        >>> objective = task.objective()
        >>> objective.input_features, objective.num_classes
        (('relation',), 2)
        >>> [metric.name for metric in objective.weighted_metrics()]
        ['mrr', 'hits_at_1', 'hits_at_3', 'hits_at_10', 'auc', 'average_precision', 'unranked_pairs']
    """

    label_feature: str = "label"
    scoring: str = "dot"
    relation_feature: str = ""
    num_relations: int = 1
    hidden_units: tuple[int, ...] = ()
    projects_states: bool = True
    loss: str = "sigmoid"
    label_smoothing: float = 0.0
    hits_at: tuple[int, ...] = (1, 3, 10)

    def __post_init__(self) -> None:
        _check_feature_name("label_feature", self.label_feature, "Name the feature that tells true from false pairs.")
        _check_choice("scoring", self.scoring, SCORINGS)
        _check_choice("loss", self.loss, LINK_LOSSES)
        object.__setattr__(self, "hidden_units", tuple(self.hidden_units))
        object.__setattr__(self, "hits_at", tuple(self.hits_at))
        if self.relation_feature:
            _check_feature_name("relation_feature", self.relation_feature, "Name the number of the relation.")
        if self.relation_feature and self.scoring != "distmult":
            raise ValueError(
                f"`relation_feature` must be empty unless scoring='distmult'; got {self.relation_feature!r} for "
                f"{self.scoring!r}. Leave it out, or choose distmult."
            )
        if self.num_relations < 1 or (self.num_relations > 1) != bool(self.relation_feature):
            raise ValueError(
                "`num_relations` must be at least 2 with `relation_feature` and 1 without; got "
                f"{self.num_relations} and {self.relation_feature!r}. Count the relations, and name the feature with "
                "the relation number."
            )
        if min(self.hidden_units, default=1) < 1 or (self.hidden_units and self.scoring != "hadamard"):
            raise ValueError(
                f"`hidden_units` must be positive, and only for scoring='hadamard'; got {self.hidden_units} for "
                f"{self.scoring!r}. Leave them out."
            )
        if min(self.hits_at, default=1) < 1:
            raise ValueError(f"`hits_at` must hold ranks from 1; got {self.hits_at}. Usual are 1, 3 and 10.")
        _check_label_smoothing(self.label_smoothing)

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        from tfx_gnn.models.tasks.link_objective import LinkObjective

        return LinkObjective(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiTask(Task):
    """Several tasks by name; labels, outputs, losses and metrics are dicts with the same names.

    Attributes:
        tasks: two or more tasks, none of them a MultiTask. A task that reads one `_readout` node per
            example cannot be combined with a task that reads several.
        loss_weights: factors, by task name, by which losses are multiplied before they are summed; 1
            for tasks that are not named.

    Example:
        >>> task = MultiTask(
        ...     tasks={
        ...         "energy": GraphRegression(label_feature="energy"),
        ...         "toxic": GraphClassification(label_feature="toxic", num_classes=2),
        ...     },
        ...     loss_weights={"energy": 0.1},
        ... )
        >>> objective = task.objective()
        >>> sorted(objective.parts), objective.compile_arguments()["loss_weights"]
        (['energy', 'toxic'], {'energy': 0.1, 'toxic': 1.0})
    """

    tasks: dict[str, Task]
    loss_weights: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.tasks) < 2:
            raise ValueError(
                f"`tasks` must hold at least two tasks; got {sorted(self.tasks)}. Give a single one as it is."
            )
        for name, task in self.tasks.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError(
                    f"`tasks` must have names of letters, digits and underscores; got {name!r}. They become names of "
                    "outputs."
                )
            if not isinstance(task, Task) or isinstance(task, MultiTask):
                raise ValueError(
                    f"`tasks` must hold single tasks; got {task!r} under the name {name!r}. Put all tasks in one dict."
                )
        labels = [(task.reads_context, getattr(task, "label_feature", "")) for task in self.tasks.values()]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"`tasks` must have a label each; got {sorted(label for _, label in labels)}. Copy the label in "
                "`preprocessing_fn` to predict it twice."
            )
        unknown = sorted(set(self.loss_weights) - set(self.tasks))
        if unknown or not all(0.0 < weight < math.inf for weight in self.loss_weights.values()):
            raise ValueError(
                f"`loss_weights` must be positive numbers by names among {sorted(self.tasks)}; got "
                f"{self.loss_weights}. Leave out tasks that should not be learned."
            )

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of these tasks; see `Task`."""
        from tfx_gnn.models.tasks.multi_objective import MultiObjective

        summaries = summary if isinstance(summary, Mapping) else {}
        return MultiObjective(
            self,
            {name: task.objective(vocabulary, summaries.get(name)) for name, task in sorted(self.tasks.items())},
        )


TASK_KINDS: dict[str, type[Task]] = {
    "graph_classification": GraphClassification,
    "graph_matching": GraphMatching,
    "graph_regression": GraphRegression,
    "link_prediction": LinkPrediction,
    "multi_task": MultiTask,
    "node_classification": NodeClassification,
    "node_regression": NodeRegression,
}
"""Every task by the name that JSON and the command line use for it."""

register_kinds(Task, TASK_KINDS, default="node_classification")
