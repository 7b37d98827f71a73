"""The sampling plan: hops along named edge sets around a seed.

The plan is data, not code: every kind of sampler executes it, and it travels between
machines as JSON. It also describes times and a table of seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED, Hop, name_hops
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.plan.split_plan import SplitPlan

if TYPE_CHECKING:
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

_SEED_DTYPES = ("int64", "float32", "string")
_STRUCTURE_LABELS = ("", "common_neighbor", "distance", "drnl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Temporal:
    """Hides edges that are newer than the seed.

    Attributes:
        seed_time: integer feature of the seed node set or seed edge set, or int64
            column of the seed table, with the time of each seed.
        edge_times: by edge set, the integer feature with the time of each edge, in the
            unit of `seed_time`; at least one entry. Other edge sets are not filtered.
            `excluded_features` may keep the features out of the examples.
        inclusive: whether an edge with exactly the seed's time is visible.
    """

    seed_time: str
    edge_times: Mapping[str, str]
    inclusive: bool = False

    def __post_init__(self) -> None:
        _check_text("seed_time", self.seed_time, " in `temporal`")
        _check_texts("edge_times", self.edge_times, " in `temporal`")
        if not self.edge_times:
            raise ValueError(
                "`edge_times` must name at least one edge set in `temporal`; got none. "
                "Leave `temporal` out to see edges of all times."
            )
        object.__setattr__(self, "edge_times", dict(self.edge_times))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedTable:
    """A table of seeds: each row is the seed of one subgraph.

    Attributes:
        filename: file next to the graph schema, in any format that tables may have.
        columns: actual column names, keyed by the standard names: "id" (node plans), or
            "source" and "target" (link plans).
        features: type of each column: "int64", "float32" or "string". Columns that
            `label_features` names become features of `_readout`; a column may also be
            the plan's `seed_time` or split column.
        identity_features: the integer or string `features` that distinguish seeds of the same nodes,
            such as the relation where several relations may link two nodes. Seeds with equal nodes,
            times and identity features are refused.
        splits_edges: whether the split rule also assigns splits to the edges of the seed edge set and of
            reverse edge sets, so that edges of later splits are hidden from earlier ones. Their tables must
            then have the columns that the rule reads. False: edges belong to no split and every split sees
            them; for tables that hold training edges only. The pairs that are read out are hidden either way.
        is_forecast: whether the pairs of a link plan are what comes about later than the seed's time. Edges that
            `temporal` shows are earlier, and so none of them is hidden, also between the pairs that are read out.
        input_features: the `features` that models may read, such as the time of the seed: each example and each
            request has them as features of its context. Labels are none.
        now_feature: the one of `input_features` that is the time of the seed in seconds since 1970, UTC, so that a
            request by id may leave it out to ask as of now. Empty: such requests must give all of them.
    """

    filename: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    identity_features: tuple[str, ...] = ()
    splits_edges: bool = True
    is_forecast: bool = False
    input_features: tuple[str, ...] = ()
    now_feature: str = ""

    def __post_init__(self) -> None:
        _check_text("filename", self.filename, " in `seed_table`")
        _check_texts("columns", self.columns, " in `seed_table`")
        _check_texts("features", self.features, " in `seed_table`")
        for name, dtype in self.features.items():
            if dtype not in _SEED_DTYPES:
                raise ValueError(
                    f"`features` must have one of the types {list(_SEED_DTYPES)}; got {dtype!r} for {name!r} in "
                    f"`seed_table`. {did_you_mean(dtype, _SEED_DTYPES, otherwise='Choose one of them.')}"
                )
        _check_distinct_names("identity_features", self.identity_features)
        unfit = [name for name in self.identity_features if self.features.get(name, "float32") == "float32"]
        if unfit:
            raise ValueError(
                "`identity_features` must be integers or strings that `features` declares; got "
                f"{unfit} in `seed_table`. Declare them, or name others."
            )
        self._check_inputs()
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "features", dict(self.features))
        object.__setattr__(self, "identity_features", tuple(self.identity_features))
        object.__setattr__(self, "input_features", tuple(self.input_features))

    def _check_inputs(self) -> None:
        _check_distinct_names("input_features", self.input_features)
        unknown = [name for name in self.input_features if name not in self.features]
        if unknown:
            raise ValueError(
                f"`input_features` must be among those that `features` declares; got {unknown} in `seed_table`. "
                f"{did_you_mean(unknown[0], self.features, otherwise='Declare them, or leave them out.')}"
            )
        now = self.now_feature
        if now and (now not in self.input_features or self.features[now] != "int64"):
            raise ValueError(
                "`now_feature` must be an int64 column that `input_features` names; got "
                f"{now!r} for {tuple(self.input_features)} in `seed_table`. Name it there, or leave it out."
            )


def _check_text(field: str, value: str, place: str) -> None:
    """Checks that a field is a name; `place` says where it is, as a phrase appended to the message."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{field}` must be a name{place}; got {value!r}. Write it as a string.")


def _check_texts(field: str, values: Mapping[str, str], place: str) -> None:
    """Checks that a field maps names to names; `place` says where it is, as a phrase appended to the message."""
    if not isinstance(values, Mapping) or not all(
        isinstance(text, str) and text for pair in values.items() for text in pair
    ):
        raise ValueError(f"`{field}` must map names to names{place}; got {values!r}. Write {{'name': 'name'}}.")


def check_names(field: str, names: Iterable[str]) -> None:
    """Checks that a field is a tuple of names."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`{field}` must be a tuple of names; got {names!r}. Write ('name',) for a single one.")


def check_known(field: str, name: str, known: Iterable[str], place: str = "") -> None:
    """Checks that a name is known; `place` says where it is, as a phrase appended to the message."""
    if name not in known:
        known = sorted(known)
        raise ValueError(f"`{field}` must be one of {known}{place}; got {name!r}. {did_you_mean(name, known)}")


def _check_distinct_names(field: str, names: Iterable[str]) -> None:
    check_names(field, names)
    if len(set(names)) != len(tuple(names)):
        raise ValueError(f"`{field}` must name each once; got {tuple(names)!r}. Remove the repetition.")


LABEL_FEATURE = "label"
"""Feature of `_readout`, 1 for positive and 0 for negative pairs, where a plan draws negatives."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingPlan:
    """Which subgraph to sample around each seed, and what its examples carry.

    A node plan has `seed_node_set`; its subgraphs have one root, "seed". A link plan
    has `seed_edge_set`; its roots are "source" and "target".

    A link plan without `keeps_seed_edge` hides the pairs that a subgraph reads out: no
    hop follows an edge of `seed_edge_set` or `reverse_edge_sets` between them. In edge
    sets that `temporal` filters without `inclusive`, or for pairs that are a forecast, time does
    this: the seed edge is not older than itself, and edges between the pair that are older stay
    visible.

    Attributes:
        seed_node_set: every node of this set, or every row of `seed_table`, becomes the
            seed of one subgraph.
        seed_edge_set: every edge of this set, or every pair of `seed_table`, becomes the
            seed of one subgraph. Exactly one of the two is given.
        seed_table: table of the seeds; None: all of the seed set.
        hops: steps outward, each listed after the hops that it starts from. Empty:
            subgraphs have no nodes but the roots. Hops without a name get one.
        label_features: features of the seed node set, the seed edge set or the seed
            table that `_readout` carries. Ordinary nodes and edges do not carry them, so
            a label cannot leak to a neighbor.
        excluded_features: by node set or edge set, the features that the examples leave
            out.
        splits: which split each seed belongs to. The split column is never a feature of
            the examples, even if the schema declares it as one.
        temporal: hides edges that are newer than the seed.
        induced_edge_sets: edge sets of which all edges between sampled nodes are added.
        expands_seed_again: whether a hop also expands a root that a path leads back to,
            as TF-GNN's samplers do.
        negatives: pairs to draw for each seed pair; for link plans.
        reverse_edge_sets: edge sets that hold the seed edges in the reverse direction;
            `seed_edge_set` itself if it holds both directions.
        keeps_seed_edge: whether the seed edge is part of the subgraph and
            `_readout/seed` reads from it, through `_shadow/<seed_edge_set>`: to classify
            edges rather than to predict them.
        context_features: features of the graph's context, the same in every example.
        is_ego: whether examples also hold the neighbors that each hop found as a tree of fixed size: context features
            `hop_0`, `hop_1` and so on, with the positions of k_0, k_0 * k_1, ... nodes, where k_i is the
            fan-out of the i-th hop, or -1 for no node. The children of the j-th node of a hop are at j * k
            to (j + 1) * k. For node plans whose hops follow each other, and with `expands_seed_again`.
        structure_labels: for link plans with one pair in each example; what the int64 feature `structure_label` of
            all nodes tells of their place relative to the pair, as SEAL uses it (arXiv:1802.09691).
            "common_neighbor": 0 for a node of the pair, 1 for a neighbor of both, 2 for others. "distance": two
            distances, to source and target, up to 10; 11 if there is no path. "drnl": double radius node labeling,
            1 for a node of the pair, then one number for each two distances, 2 for (1, 1), 3 for (1, 2); 0 if
            there is no path. Paths take the edges of the subgraph in both directions, but none between the pair.
            Empty: no such feature.
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
    is_ego: bool = False
    structure_labels: Literal["", "common_neighbor", "distance", "drnl"] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.seed_node_set, str) or bool(self.seed_node_set) == bool(self.seed_edge_set):
            raise ValueError(
                "`seed_node_set` must name a node set, or `seed_edge_set` an edge set, and only one of them; got "
                f"{self.seed_node_set!r} and {self.seed_edge_set!r}. Use a name of the graph schema for one."
            )
        self._check_types()
        for field in ("label_features", "induced_edge_sets", "reverse_edge_sets", "context_features"):
            _check_distinct_names(field, getattr(self, field))
            object.__setattr__(self, field, tuple(getattr(self, field)))
        for set_name, names in self.excluded_features.items():
            _check_distinct_names(f"excluded_features[{set_name!r}]", names)
        object.__setattr__(self, "excluded_features", {k: tuple(v) for k, v in self.excluded_features.items()})
        object.__setattr__(self, "hops", name_hops(self.hops))
        self._check_labels()
        self._check_links()
        self._check_inputs()
        if self.is_ego:
            self._check_ego()
        self._check_structure_labels()

    @property
    def ego_hops(self) -> Mapping[str, Hop]:
        """The hops by the context features that hold their trees; none unless `is_ego`."""
        return {f"hop_{number}": hop for number, hop in enumerate(self.hops)} if self.is_ego else {}

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
        return (ROOT_SOURCE, ROOT_TARGET) if self.is_link_plan else (SEED,)

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
    def seed_inputs(self) -> tuple[str, ...]:
        """Columns of the seed table that the context of each example has."""
        return self.seed_table.input_features if self.seed_table else ()

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
        known = sorted(set(self.label_features) & set(self.seed_inputs))
        if known:
            raise ValueError(
                f"`input_features` must not name a label feature; got {known} in `seed_table`. A model would read what "
                "it is to predict: leave it out."
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
                    f"`negatives`; got {of_edges or [LABEL_FEATURE]}. A negative pair is not an edge and has no "
                    f"features; {LABEL_FEATURE!r} distinguishes it from a positive one."
                )
        keys = set(self.root_names) if self.is_link_plan else {"id"}
        taken = sorted(set(self.seed_inputs) & {*self.context_features, *self.ego_hops})
        if taken:
            raise ValueError(
                f"`input_features` must not be named as other features of the context; got {taken} in `seed_table`. "
                "Rename them."
            )
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
                "`splits.disjoint_train_share` must be 0 in a node plan, whose supervision does not come from edges; "
                f"got {self.splits.disjoint_train_share}. Leave it out."
            )
        if self.splits.disjoint_train_share and self.seed_table:
            raise ValueError(
                "`splits.disjoint_train_share` must be 0 in a plan with a seed table, whose rows are all seeds; got "
                f"{self.splits.disjoint_train_share}. Leave it out."
            )
        if self.splits.visibility == "inductive" and self.is_link_plan:
            raise ValueError(
                "`splits.visibility` must be 'transductive' in a link plan, which splits edges, not nodes; got "
                "'inductive'. Leave it out: edges of later splits are hidden from earlier ones."
            )
        if self.seed_table and not self.seed_table.splits_edges and not self.is_link_plan:
            raise ValueError(
                "`splits_edges` must be left out of the `seed_table` of a node plan; got False. Its edges belong to "
                "no split anyway."
            )
        if self.seed_table and self.seed_table.is_forecast and not (self.is_link_plan and self.temporal):
            raise ValueError(
                "`is_forecast` must be left out of the `seed_table` of a plan without `seed_edge_set` and `temporal`; "
                "got True. Without times, an edge between a pair may be the one that is to be predicted."
            )
        if self.negatives and self.negatives.time_feature and not self.temporal:
            raise ValueError(
                "`time_feature` must be left out of the `negatives` of a plan without `temporal`, whose seeds have no "
                f"time; got {self.negatives.time_feature!r}. Say there what the times of seeds and edges are."
            )
        if self.keeps_seed_edge and (self.seed_table or self.negatives):
            raise ValueError(
                "`keeps_seed_edge` must not be set in a plan with `seed_table` or `negatives`, "
                f"whose pairs are not rows of the edge table; got {self.keeps_seed_edge!r}. Leave one of them out."
            )

    def _check_ego(self) -> None:
        follows = [*self.root_names[:1], *(hop.name for hop in self.hops)]
        are_chained = all(hop.inputs == (name,) for hop, name in zip(self.hops, follows, strict=False))
        if self.is_link_plan or not self.hops or not are_chained or any(hop.strategy == "full" for hop in self.hops):
            raise ValueError(
                "`hops` must follow each other from the seed of a node plan, each with a fan-out, where `is_ego` is "
                f"set; got {[(hop.name, hop.inputs, hop.strategy) for hop in self.hops]}. Name the hop before in the "
                "`inputs` of each."
            )
        if not self.expands_seed_again:
            raise ValueError(
                "`expands_seed_again` must be set where `is_ego` is set; got False. Otherwise the seed would have "
                "no neighbors where a path leads back to it."
            )
        taken = sorted(set(self.ego_hops) & set(self.context_features))
        if taken:
            raise ValueError(f"`context_features` must not be named as the trees of hops; got {taken}. Rename them.")

    def _check_structure_labels(self) -> None:
        if self.structure_labels not in _STRUCTURE_LABELS:
            raise ValueError(
                f"`structure_labels` must be one of {list(_STRUCTURE_LABELS)}; got {self.structure_labels!r}. "
                f"{did_you_mean(self.structure_labels, _STRUCTURE_LABELS, otherwise='Choose one of them.')}"
            )
        if not self.structure_labels:
            return
        if not self.is_link_plan or self.keeps_seed_edge:
            raise ValueError(
                "`structure_labels` must be left out unless a link plan hides its seed edges; got "
                f"{self.structure_labels!r} for {self.seed_set!r}, `keeps_seed_edge` {self.keeps_seed_edge}. Name a "
                "`seed_edge_set`, and leave `keeps_seed_edge` out."
            )
        if self.negatives and not self.negatives.own_subgraphs:
            raise ValueError(
                "`negatives` must have `own_subgraphs` in a plan with `structure_labels`, which describe one pair; got "
                "several pairs in an example. Set Negatives(own_subgraphs=True)."
            )

    def _check_inputs(self) -> None:
        used = {name for hop in self.hops for name in hop.inputs}
        for number, hop in enumerate(self.hops):
            earlier = [one.name for one in self.hops[:number]]
            known = sorted({*self.root_names, *earlier})
            for name in hop.inputs:
                if name not in known:
                    roots = " or ".join(repr(root) for root in self.root_names)
                    unused = [one for one in earlier if one not in used]
                    # It lost its name, or its edge set was changed.
                    remedy = "Check the spelling."
                    if len(unused) == 1:
                        remedy = f"Check the spelling, or hop {unused[0]!r}, from which no hop starts."
                    raise ValueError(
                        f"`inputs` must name {roots} or an earlier hop; got {name!r} in hop {hop.name!r}, before which "
                        f"there are {known}. {did_you_mean(name, known, otherwise=remedy)} A hop without `name` is "
                        "called after its edge set; hops name only those before them."
                    )


def reached_node_sets(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    """Lists the node sets of the plan's subgraphs.

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
    """Names the node set of each root: of "seed", or of "source" and "target"."""
    if not plan.is_link_plan:
        return {SEED: plan.seed_node_set}
    edge_set = schema.edge_sets[plan.seed_edge_set]
    return {ROOT_SOURCE: edge_set.source, ROOT_TARGET: edge_set.target}


def hop_ends(hop: Hop, schema: GraphSchema) -> tuple[str, str]:
    """Names the node sets where a hop starts and where it ends: for a backward hop, (target, source)."""
    edge_set = schema.edge_sets[hop.edge_set]
    if hop.direction == "forward":
        return edge_set.source, edge_set.target
    return edge_set.target, edge_set.source
