"""What to sample around a seed: a plan of hops along named edge sets.

The plan is data, not code. Samplers of any kind execute it, and it travels as
JSON between machines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfx_gnn.sampling.hop import SEED, SOURCE, TARGET, Hop, name_hops
from tfx_gnn.sampling.plan_parts import Negatives, SeedTable, Temporal, check_names
from tfx_gnn.sampling.split_plan import SplitPlan

if TYPE_CHECKING:
    # At run time this would cost the import of TensorFlow.
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

__all__ = [
    "LABEL_FEATURE",
    "SEED",
    "SOURCE",
    "TARGET",
    "Hop",
    "Negatives",
    "SamplingPlan",
    "SeedTable",
    "SplitPlan",
    "Temporal",
    "hop_ends",
    "reached_node_sets",
    "root_node_sets",
]

LABEL_FEATURE = "label"
"""Feature of `_readout` that tells positive (1) from negative pairs (0) where a plan draws negatives."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingPlan:
    """Which subgraph to cut out around each seed, and what its examples carry.

    A node plan has `seed_node_set`; its subgraphs have one root, "seed". A link plan
    has `seed_edge_set`; its roots are "source" and "target". The pairs that a
    subgraph reads out are hidden from it: no edge of `seed_edge_set` or of
    `reverse_edge_sets` between them is followed. What hides them otherwise is the
    time, for edge sets that `temporal` filters without `inclusive`.

    Attributes:
        seed_node_set: every node of this set, or every row of `seed_table`, becomes the
            seed of one subgraph.
        seed_edge_set: every edge of this set, or every pair of `seed_table`, becomes the
            seed of one subgraph. Exactly one of the two is given.
        seed_table: where the seeds are, if not all of the seed set.
        hops: steps outward, each after the hops that it starts from. None at all
            leaves the roots alone. Every hop has a name once the plan is made.
        label_features: features of the seed node set, the seed edge set or the seed
            table that `_readout` carries. No ordinary node or edge does, so a label
            cannot leak to a neighbor.
        excluded_features: by name of a node set or edge set, the features that the
            examples leave out.
        splits: which split each seed belongs to. The split column is no feature of the
            examples, declared as one or not.
        temporal: hides edges that are newer than the seed.
        induced_edge_sets: edge sets of which all edges between sampled nodes are added.
        expands_seed_again: whether a hop expands a root also where a path leads back to
            it, as TF-GNN's samplers do.
        negatives: pairs to draw beside each seed pair; for link plans.
        reverse_edge_sets: edge sets that hold the seed edges the other way round;
            `seed_edge_set` itself if it holds both directions.
        keeps_seed_edge: whether the seed edge is part of the subgraph and
            `_readout/seed` reads from it, through `_shadow/<seed_edge_set>`: to classify
            edges rather than to predict them.
        context_features: features of the graph's context, the same in every example.
    """

    seed_node_set: str = ""
    seed_edge_set: str = ""
    seed_table: SeedTable | None = None
    hops: tuple[Hop, ...] = ()
    label_features: tuple[str, ...] = ()
    excluded_features: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    splits: SplitPlan = dataclasses.field(default_factory=SplitPlan)
    temporal: Temporal | None = None
    induced_edge_sets: tuple[str, ...] = ()
    expands_seed_again: bool = False
    negatives: Negatives | None = None
    reverse_edge_sets: tuple[str, ...] = ()
    keeps_seed_edge: bool = False
    context_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.seed_node_set, str) or bool(self.seed_node_set) == bool(self.seed_edge_set):
            raise ValueError(
                "`seed_node_set` must name a node set, or `seed_edge_set` an edge set, and only one of them; got "
                f"{self.seed_node_set!r} and {self.seed_edge_set!r}. Use a name of the graph schema for one."
            )
        self._check_types()
        for field in ("label_features", "induced_edge_sets", "reverse_edge_sets", "context_features"):
            check_names(field, getattr(self, field))
            object.__setattr__(self, field, tuple(getattr(self, field)))
        for set_name, names in self.excluded_features.items():
            check_names(f"excluded_features[{set_name!r}]", names)
        object.__setattr__(self, "excluded_features", {k: tuple(v) for k, v in self.excluded_features.items()})
        object.__setattr__(self, "hops", name_hops(self.hops))
        self._check_labels()
        self._check_links()
        self._check_inputs()

    @property
    def is_link_plan(self) -> bool:
        """Whether the seeds are pairs of nodes."""
        return bool(self.seed_edge_set)

    @property
    def seed_set(self) -> str:
        """Name of the node set or edge set that the seeds are from."""
        return self.seed_node_set or self.seed_edge_set

    @property
    def root_names(self) -> tuple[str, ...]:
        """Names of the roots: ("seed",) of a node plan, ("source", "target") of a link plan."""
        return (SOURCE, TARGET) if self.is_link_plan else (SEED,)

    @property
    def edge_set_names(self) -> tuple[str, ...]:
        """Names of the edge sets that subgraphs have, in alphabetical order."""
        names = {hop.edge_set for hop in self.hops} | set(self.induced_edge_sets)
        return tuple(sorted(names | ({self.seed_edge_set} if self.keeps_seed_edge else set())))

    @property
    def table_edge_sets(self) -> tuple[str, ...]:
        """Names of the edge sets whose tables sampling needs, in alphabetical order."""
        return tuple(sorted({*self.edge_set_names, *((self.seed_edge_set,) if self.is_link_plan else ())}))

    @property
    def split_edge_sets(self) -> tuple[str, ...]:
        """Names of the edge sets whose edges belong to splits, in alphabetical order; none of a node plan."""
        if not self.is_link_plan or (self.seed_table and not self.seed_table.splits_edges):
            return ()
        return tuple(sorted({self.seed_edge_set, *self.reverse_edge_sets} & set(self.table_edge_sets)))

    @property
    def seed_table_features(self) -> Mapping[str, str]:
        """Types of the seed table's features, by name; none without a seed table."""
        return self.seed_table.features if self.seed_table else {}

    def _check_types(self) -> None:
        for field, kind in (("seed_table", SeedTable), ("temporal", Temporal), ("negatives", Negatives)):
            if not isinstance(getattr(self, field), kind | None):
                raise TypeError(f"`{field}` must be a {kind.__name__} or None; got {getattr(self, field)!r}. Make one.")
        if not isinstance(self.splits, SplitPlan):
            raise TypeError(f"`splits` must be a SplitPlan; got {self.splits!r}. Write SplitPlan(column=...) or so.")
        if isinstance(self.hops, Hop) or not all(isinstance(hop, Hop) for hop in self.hops):
            raise TypeError(
                f"`hops` must be a tuple of Hop; got {self.hops!r}. Write (Hop(edge_set=..., fan_out=...),) for one."
            )

    def _check_labels(self) -> None:
        both = set(self.label_features) & set(self.excluded_features.get(self.seed_set, ()))
        if both:
            raise ValueError(
                f"`excluded_features` must not name a label feature; got {sorted(both)} of {self.seed_set!r}. "
                "Labels leave the seed set already."
            )
        if self.splits.column and self.splits.column in self.label_features:
            raise ValueError(
                f"`splits.column` must not be a label feature; got {self.splits.column!r}. "
                "Name the column that assigns splits."
            )
        if self.negatives:
            of_edges = sorted(set(self.label_features) - set(self.seed_table_features))
            if of_edges or LABEL_FEATURE in self.label_features:
                raise ValueError(
                    f"`label_features` must be columns of the seed table other than {LABEL_FEATURE!r} in a plan with "
                    f"`negatives`; got {of_edges or [LABEL_FEATURE]}. A negative pair is no edge and has no features; "
                    f"{LABEL_FEATURE!r} tells it from a positive one."
                )
        keys = set(self.root_names) if self.is_link_plan else {"id"}
        unknown = set(self.seed_table.columns if self.seed_table else ()) - keys
        if unknown:
            raise ValueError(
                f"`columns` must give names for some of {sorted(keys)} in `seed_table`; got {sorted(unknown)}. "
                "Declare other columns in `features`."
            )

    def _check_links(self) -> None:
        for field in ("negatives", "reverse_edge_sets", "keeps_seed_edge"):
            if getattr(self, field) and not self.is_link_plan:
                raise ValueError(
                    f"`{field}` must be left out of a node plan; got {getattr(self, field)!r}. "
                    "Name a `seed_edge_set` to make a link plan."
                )
        if self.splits.disjoint_train_share and not self.is_link_plan:
            raise ValueError(
                "`splits.disjoint_train_share` must be 0 in a node plan, whose supervision are no edges; got "
                f"{self.splits.disjoint_train_share}. Leave it out."
            )
        if self.splits.disjoint_train_share and self.seed_table:
            raise ValueError(
                "`splits.disjoint_train_share` must be 0 in a plan with a seed table, whose rows are all seeds; got "
                f"{self.splits.disjoint_train_share}. Leave it out."
            )
        if self.splits.visibility == "inductive" and self.is_link_plan:
            raise ValueError(
                "`splits.visibility` must be 'transductive' in a link plan, whose splits are of edges; got "
                "'inductive'. Leave it out: edges of later splits are hidden from earlier ones."
            )
        if self.seed_table and not self.seed_table.splits_edges and not self.is_link_plan:
            raise ValueError(
                "`splits_edges` must be left out of the `seed_table` of a node plan; got False. Its edges are of no "
                "split anyway."
            )
        if self.keeps_seed_edge and (self.seed_table or self.negatives):
            raise ValueError(
                "`keeps_seed_edge` must not be set in a plan with `seed_table` or `negatives`, "
                f"whose pairs are no rows of the edge table; got {self.keeps_seed_edge!r}. Leave one of them out."
            )

    def _check_inputs(self) -> None:
        known = set(self.root_names)
        for hop in self.hops:
            for name in hop.inputs:
                if name not in known:
                    roots = " or ".join(repr(root) for root in self.root_names)
                    raise ValueError(
                        f"`inputs` must name {roots} or an earlier hop; got {name!r} in hop {hop.name!r}, "
                        f"before which there are {sorted(known)}. Correct the name or the order of the hops."
                    )
            known.add(hop.name)


def reached_node_sets(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    """Lists the node sets that the plan's subgraphs consist of.

    Args:
        plan: a plan that fits the schema.
        schema: the graph's schema.

    Returns:
        Names in alphabetical order: those of the roots and both ends of every edge set.
    """
    names = set(root_node_sets(plan, schema).values())
    for edge_set_name in plan.edge_set_names:
        edge_set = schema.edge_sets[edge_set_name]
        names.update((edge_set.source, edge_set.target))
    return tuple(sorted(names))


def root_node_sets(plan: SamplingPlan, schema: GraphSchema) -> dict[str, str]:
    """Names the node set of each root.

    Args:
        plan: a plan that fits the schema.
        schema: the graph's schema.

    Returns:
        Node set by "seed", or by "source" and "target".
    """
    if not plan.is_link_plan:
        return {SEED: plan.seed_node_set}
    edge_set = schema.edge_sets[plan.seed_edge_set]
    return {SOURCE: edge_set.source, TARGET: edge_set.target}


def hop_ends(hop: Hop, schema: GraphSchema) -> tuple[str, str]:
    """Names the node sets where a hop starts and where it ends.

    Args:
        hop: a hop along an edge set of the schema.
        schema: the graph's schema.

    Returns:
        The pair (start, end): for a backward hop, (target, source) of the edge set.
    """
    edge_set = schema.edge_sets[hop.edge_set]
    if hop.direction == "forward":
        return edge_set.source, edge_set.target
    return edge_set.target, edge_set.source
