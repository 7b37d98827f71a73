"""Link prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.models.tasks.task import Task, Vocabulary, check_choice, check_feature_name

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.objective import Objective
    from tfx_gnn.models.tasks.task import LabelSummary

SCORINGS = ("dot", "hadamard", "distmult")
LINK_LOSSES = ("sigmoid", "softmax")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkPrediction(Task):
    """A score for each candidate pair of nodes.

    The `_readout` nodes of an example are its candidates, tied to both ends of each pair by
    edge sets `_readout/source` and `_readout/target`. A sampling plan with negatives makes such
    examples: the true pair, and some drawn beside it.

    Attributes:
        label_feature: int64 feature of `_readout`: 1 for a true pair, 0 for a false one. Any other number
            leaves the candidate out of losses and of rankings, as "filtered" rankings do with other true pairs.
        scoring: how two states become a score: "dot", their inner product; "hadamard", a network
            over their product element by element; "distmult", their inner product weighed by a
            vector of the relation (arXiv:1412.6575).
        relation_feature: for "distmult" with several relations, the int64 feature of `_readout` with the
            relation's number. Requests must have it, too.
        num_relations: numbers of relations lie in [0, num_relations); 1 without `relation_feature`.
        hidden_units: for "hadamard", widths of hidden layers between the product and the score; none
            makes the score a weighted sum.
        projects_states: whether each end gets a linear map of its own between its state and the score. What
            comes out of it is the embedding.
        loss: "sigmoid", cross entropy of each candidate by itself; or "softmax", cross entropy
            of the true pair among all candidates of its example, for which every example counts once a true pair.
        label_smoothing: share of the target that goes in equal parts to both answers ("sigmoid") or to all
            candidates ("softmax"), in [0, 1).
        hits_at: ranks for which the metrics have the share of true pairs that reach them. A true pair without a
            false one in its example has no rank: metrics count it as `unranked_pairs` and leave it out.
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
        check_feature_name("label_feature", self.label_feature, "Name the feature that tells true from false pairs.")
        check_choice("scoring", self.scoring, SCORINGS)
        check_choice("loss", self.loss, LINK_LOSSES)
        object.__setattr__(self, "hidden_units", tuple(self.hidden_units))
        object.__setattr__(self, "hits_at", tuple(self.hits_at))
        if self.relation_feature:
            check_feature_name("relation_feature", self.relation_feature, "Name the number of the relation.")
        if self.relation_feature and self.scoring != "distmult":
            raise ValueError(
                f"`relation_feature` must be empty but for scoring='distmult'; got {self.relation_feature!r} for "
                f"{self.scoring!r}. Leave it out, or choose distmult."
            )
        if self.num_relations < 1 or (self.num_relations > 1) != bool(self.relation_feature):
            raise ValueError(
                "`num_relations` must be at least 2 with `relation_feature` and 1 without; got "
                f"{self.num_relations} and {self.relation_feature!r}. Count the relations, and name the feature that "
                "tells them apart."
            )
        if min(self.hidden_units, default=1) < 1 or (self.hidden_units and self.scoring != "hadamard"):
            raise ValueError(
                f"`hidden_units` must be positive, and only for scoring='hadamard'; got {self.hidden_units} for "
                f"{self.scoring!r}. Leave them out."
            )
        if min(self.hits_at, default=1) < 1:
            raise ValueError(f"`hits_at` must hold ranks from 1; got {self.hits_at}. Usual are 1, 3 and 10.")
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"`label_smoothing` must lie in [0, 1); got {self.label_smoothing}. Usual is 0.1.")

    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes this task; see `Task`."""
        from tfx_gnn.models.tasks.link_objective import LinkObjective

        return LinkObjective(self)
