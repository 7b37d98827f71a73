"""Options of graph-level examples: tables of many small graphs, such as molecules."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.sampling.plan.graph_pairs import GraphPairs
from tfx_gnn.sampling.plan.plan import check_names
from tfx_gnn.sampling.plan.split_plan import SplitPlan


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLevelExamples:
    """How tables of many graphs are divided into graphs, and what their examples carry.

    Every table has a column with the id of the graph that each row belongs to. The
    context table has one row per graph. Node ids need to be unique only within a
    graph, and edges join nodes of the same graph. Nodes and edges keep the order of
    their tables.

    Without a context table, the graphs are those that the node tables name.

    With `pairs`, the examples are not the graphs but pairs of them; see `GraphPairs`.

    Attributes:
        graph_id_column: column with the id of the graph, in every table. It is never a
            feature of the examples, even if the schema declares it as one; the id is
            the context feature `#id`.
        label_features: context features to predict; with `pairs`, columns of that table. They stay in the
            context, and the schema marks them as labels: models do not see them, and requests
            need not have them.
        splits: which split each graph belongs to: by hash of its id, or by a column or
            a feature of the context table. For pairs see `GraphPairs.split_by`.
        excluded_features: by node set, edge set or "context", the features that the
            examples leave out.
        allows_empty_graphs: whether a graph may have no nodes. Otherwise that is an error.
        pairs: table of pairs of graphs, whose rows become the examples; None: each graph is an example.

    Example:
        >>> GraphLevelExamples(
        ...     label_features=("alike",), pairs=GraphPairs(filename="pairs.csv", features={"alike": "int64"})
        ... ).is_split_by_pair
        True
    """

    graph_id_column: str = "graph_id"
    label_features: tuple[str, ...] = ()
    splits: SplitPlan = dataclasses.field(default_factory=SplitPlan)
    excluded_features: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    allows_empty_graphs: bool = False
    pairs: GraphPairs | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.graph_id_column, str) or not self.graph_id_column:
            raise ValueError(
                f"`graph_id_column` must name a column of every table; got {self.graph_id_column!r}. "
                "Write it as a string."
            )
        if not isinstance(self.splits, SplitPlan):
            raise TypeError(f"`splits` must be a SplitPlan; got {self.splits!r}. Write SplitPlan(column=...) or so.")
        check_names("label_features", self.label_features)
        for name, features in self.excluded_features.items():
            check_names(f"excluded_features[{name!r}]", features)
        object.__setattr__(self, "label_features", tuple(self.label_features))
        object.__setattr__(self, "excluded_features", {k: tuple(v) for k, v in self.excluded_features.items()})
        if self.splits.visibility != "transductive" or self.splits.disjoint_train_share:
            raise ValueError(
                "`splits` must leave `visibility` and `disjoint_train_share` at their defaults for graph-level "
                f"examples, which share no nodes; got {self.splits.visibility!r} and "
                f"{self.splits.disjoint_train_share}. Leave them out."
            )
        if not isinstance(self.pairs, GraphPairs | None):
            raise TypeError(f"`pairs` must be a GraphPairs; got {self.pairs!r}. Write GraphPairs(filename=...) or so.")
        left_out = {self.graph_id_column, self.splits.column, *self.excluded_features.get("context", ())}
        if self.pairs is not None:
            left_out = {self.splits.column} if self.is_split_by_pair else set()
        lost = sorted(set(self.label_features) & left_out)
        if lost:
            raise ValueError(
                f"`label_features` must be features of the examples; got {lost}, which `excluded_features`, "
                "`splits` or `graph_id_column` remove from the context. Name other features."
            )

    @property
    def is_split_by_pair(self) -> bool:
        """Whether rows of a table of pairs belong to splits, rather than graphs."""
        return self.pairs is not None and self.pairs.split_by == "pair"

    @property
    def context_columns(self) -> tuple[str, ...]:
        """Columns to read as text from the context table, besides features."""
        of_splits = () if self.is_split_by_pair else (self.splits.column, self.splits.group_column)
        names = (self.graph_id_column, *of_splits)
        return tuple(dict.fromkeys(name for name in names if name))
