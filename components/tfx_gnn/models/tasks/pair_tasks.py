"""Tasks that predict something of a pair of nodes or graphs, as plain data. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.models.tasks.label_tasks import GraphClassification
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


SCORINGS = ("dot", "hadamard", "distmult", "seal")
MATCHING_SCORINGS = ("dot", "hadamard", "difference")
LINK_LOSSES = ("sigmoid", "softmax")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphMatching(GraphClassification):
    """Predicts one of two classes for each pair of graphs, such as whether they are alike, from both together.

    An example is a pair: the node sets of the left graph and those of the right graph stand side by side. The states
    of each graph are pooled to a vector, and the two vectors are compared. To compare like with like, let a network
    treat both graphs alike: hyperparameter `shared_node_sets` of the ready networks, [["s", "t"]] for
    left=("s",) and right=("t",). `tfx_gnn.sampling.GraphPairs` makes such examples from a table of pairs, and
    `tfx_gnn.records.write_graph_data` from pairs in memory.

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
        check_choice("scoring", self.scoring, MATCHING_SCORINGS)
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
class LinkPrediction(Task):
    """Predicts a score for each candidate pair of nodes.

    The `_readout` nodes of an example are its candidates. Edge sets `_readout/source` and
    `_readout/target` connect each candidate to the two ends of its pair. A sampling plan with negatives makes such
    examples: each has the true pair and some negatives.

    With scoring "seal" (arXiv:1802.09691), an example has a single candidate, whose score is computed from the states
    of all nodes around it. A plan with `structure_labels`, whose negatives have `own_subgraphs`, makes such examples.

    Attributes:
        label_feature: int64 feature of `_readout`: 1 for a true pair, 0 for a false one. Any other number
            excludes the candidate from losses and rankings, as "filtered" rankings exclude other true pairs.
        scoring: how two states become a score: "dot", their inner product; "hadamard", a network
            over their elementwise product; "distmult", their inner product weighted by a
            vector of the relation (arXiv:1412.6575); "seal", a network over the pooled states of all nodes.
        relation_feature: for "distmult" with several relations, the int64 feature of `_readout` with the
            relation number. Requests must have it, too.
        num_relations: number of relations; relation numbers are in [0, num_relations). 1 without `relation_feature`.
        hidden_units: for "hadamard" and "seal", widths of the hidden layers between product or pooled states and
            score; if empty, the score is a weighted sum.
        pooling: for "seal", how states are pooled: "mean", "sum", "max", or several of them joined by "|"; "sum" if
            it is empty. Empty for others.
        projects_states: whether each end gets its own linear map between state and score. The result of the
            map is then the embedding. Without effect on "seal".
        loss: "sigmoid", cross entropy of each candidate by itself; or "softmax", cross entropy
            of the true pair among all candidates of its example, where an example counts once per true pair. Only
            "sigmoid" for "seal".
        label_smoothing: fraction of the target that is spread evenly over true and false ("sigmoid") or over all
            candidates ("softmax"), in [0, 1).
        hits_at: ranks k for which a metric gives the fraction of true pairs with rank k or better. A true pair
            without a negative in its example has no rank: it is counted as `unranked_pairs` and otherwise left out.
            For "seal", training shows AUC and average precision only; GraphEvaluator ranks a true pair among the
            negatives with its source or target that follow it.

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
    pooling: str = ""
    projects_states: bool = True
    loss: str = "sigmoid"
    label_smoothing: float = 0.0
    hits_at: tuple[int, ...] = (1, 3, 10)

    def __post_init__(self) -> None:
        check_feature_name("label_feature", self.label_feature, "Name the feature that tells true from false pairs.")
        check_choice("scoring", self.scoring, SCORINGS)
        check_choice("loss", self.loss, LINK_LOSSES)
        object.__setattr__(self, "hidden_units", tuple(self.hidden_units))
        object.__setattr__(self, "hits_at", tuple(self.hits_at))
        if self.relation_feature:
            check_feature_name("relation_feature", self.relation_feature, "Name the number of the relation.")
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
        if min(self.hidden_units, default=1) < 1 or (self.hidden_units and self.scoring not in ("hadamard", "seal")):
            raise ValueError(
                "`hidden_units` must be positive, and only for scoring='hadamard' or 'seal'; got "
                f"{self.hidden_units} for {self.scoring!r}. Leave them out."
            )
        self._check_seal()
        if min(self.hits_at, default=1) < 1:
            raise ValueError(f"`hits_at` must hold ranks from 1; got {self.hits_at}. Usual are 1, 3 and 10.")
        check_label_smoothing(self.label_smoothing)

    def _check_seal(self) -> None:
        if self.scoring != "seal":
            if self.pooling:
                raise ValueError(
                    f"`pooling` must be empty unless scoring='seal'; got {self.pooling!r} for {self.scoring!r}. Leave "
                    "it out."
                )
            return
        object.__setattr__(self, "pooling", self.pooling or "sum")
        check_pooling(self.pooling)
        if self.loss != "sigmoid":
            raise ValueError(
                f"`loss` must be 'sigmoid' for scoring='seal', whose examples have one candidate each; got "
                f"{self.loss!r}. Leave it out."
            )

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes the objective of this task; see `Task`."""
        if self.scoring == "seal":
            from tfx_gnn.models.tasks.seal_objective import SealObjective

            return SealObjective(self)
        from tfx_gnn.models.tasks.link_objective import LinkObjective

        return LinkObjective(self)
