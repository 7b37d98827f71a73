"""Node and graph classification."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tfx_gnn.models.tasks.task import READOUT_NODE_SET, Task, Vocabulary, check_feature_name, check_pooling

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.objective import Objective
    from tfx_gnn.models.tasks.task import LabelSummary

BALANCED = "balanced"
"""Class weights that give all classes of the training split the same sum of weights."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Classification(Task):
    """See the tasks below, which say where the label lies."""

    label_feature: str
    class_vocabulary: str = ""
    num_classes: int = 0
    class_weights: str | dict[str, float] = ""
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        advice = f"Name the label of node set {READOUT_NODE_SET!r} and the vocabulary of its classes."
        check_feature_name("label_feature", self.label_feature, advice)
        if not self.num_classes or self.class_vocabulary:
            check_feature_name("class_vocabulary", self.class_vocabulary, advice)
        if self.num_classes < 0 or (self.num_classes and self.class_vocabulary) or self.num_classes == 1:
            raise ValueError(
                "`num_classes` must be at least 2, and only where no vocabulary tells it; got "
                f"num_classes={self.num_classes} and class_vocabulary={self.class_vocabulary!r}. Give one of them."
            )
        weights = self.class_weights
        if isinstance(weights, str):
            if weights not in ("", BALANCED):
                raise ValueError(
                    f"`class_weights` must be 'balanced', or a weight for each class; got {weights!r}. Leave it out "
                    "for equal weights."
                )
        elif not all(isinstance(name, str) and 0.0 < weight < float("inf") for name, weight in weights.items()):
            raise ValueError(
                f"`class_weights` must be positive numbers by names of classes; got {weights!r}. Leave examples out "
                "of the splits to give them no weight."
            )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"`label_smoothing` must lie in [0, 1); got {self.label_smoothing}. Usual is 0.1.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeClassification(_Classification):
    """One class for the seed node of each subgraph.

    Every example has exactly one node in node set `_readout`, which carries the
    label and is tied to the seed by edge set `_readout/seed`.

    Attributes:
        label_feature: feature of `_readout`. In raw examples the class itself, string or
            integer; after the transform its index, int64 in [0, number of classes).
        class_vocabulary: `vocab_filename` of the `tft.compute_and_apply_vocabulary` that
            made the index; the served model turns indices back into classes by it. Empty where the
            label is an integer in [0, num_classes) as it stands.
        num_classes: number of classes, at least 2, where there is no vocabulary.
        class_weights: "" for equal weights; "balanced" for n / (k * n_c) where n_c of the n training
            labels are of class c and k classes occur; or weights by class name, 1 for classes that are not named.
        label_smoothing: share of the target that all classes have in equal parts, in [0, 1).
    """

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes this task; see `Task`."""
        from tfx_gnn.models.tasks.class_objective import ClassObjective
        from tfx_gnn.models.tasks.label_places import ReadoutLabels

        return ClassObjective(self, ReadoutLabels(self.label_feature), vocabulary=vocabulary, summary=summary)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphClassification(_Classification):
    """One class for each graph.

    Attributes:
        label_feature: feature of the context; as for NodeClassification.
        class_vocabulary: as for NodeClassification.
        num_classes: as for NodeClassification.
        class_weights: as for NodeClassification.
        label_smoothing: as for NodeClassification.
        pooling: how the states of all nodes become one of the graph: "mean", "sum", "max", or several of them
            with "|" between.
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
        """Makes what computes this task; see `Task`."""
        from tfx_gnn.models.tasks.class_objective import ClassObjective
        from tfx_gnn.models.tasks.label_places import ContextLabels

        place = ContextLabels(self.label_feature, pooling=self.pooling)
        return ClassObjective(self, place, vocabulary=vocabulary, summary=summary)
