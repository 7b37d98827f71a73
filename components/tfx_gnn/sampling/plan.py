"""What to sample around a seed: a plan of hops along named edge sets.

The plan is data, not code. Samplers of any kind execute it, and it travels as
JSON between machines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # At run time this would cost the import of TensorFlow.
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

SEED = "seed"
"""Name under which hops refer to the seed node itself."""

_DIRECTIONS = ("forward", "backward")
_STRATEGIES = ("uniform",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hop:
    """One step outward: from the nodes that earlier hops found, along one edge set.

    Every input node gets up to `fan_out` of its edges, each edge at most once. A
    node that several inputs found is expanded once. The seed is expanded by the
    hops that name "seed" and by no other, even where a path leads back to it: a
    hop that must not reveal something about the seed leaves it out of `inputs`.

    Attributes:
        edge_set: edge set to follow.
        fan_out: most edges that one input node gets, at least 1.
        inputs: where to start: "seed" or names of earlier hops, at least one, all
            of which end in the node set where this hop starts.
        name: name for later hops and statistics. Empty: `SamplingPlan` chooses
            `<edge_set>`, or `<edge_set>_reverse` for a backward hop, with a number
            behind it if that is taken.
        direction: "forward" starts at the edges' sources and finds their targets,
            "backward" starts at the targets. The sampled edges point from their
            own source to their own target either way.
        strategy: "uniform" chooses among the edges of a node with equal chances,
            without replacement.
    """

    edge_set: str
    fan_out: int
    inputs: tuple[str, ...] = (SEED,)
    name: str = ""
    direction: Literal["forward", "backward"] = "forward"
    strategy: Literal["uniform"] = "uniform"

    def __post_init__(self) -> None:
        if not isinstance(self.edge_set, str) or not self.edge_set:
            raise ValueError(
                f"`edge_set` must name an edge set; got {self.edge_set!r}. Use a name of the graph schema."
            )
        place = f" in the hop along {self.edge_set!r}"
        if not isinstance(self.fan_out, int) or isinstance(self.fan_out, bool) or self.fan_out < 1:
            raise ValueError(
                f"`fan_out` must be an integer of at least 1; got {self.fan_out!r}{place}. "
                "Leave a hop out to sample nothing."
            )
        if isinstance(self.inputs, str) or not self.inputs or not all(isinstance(name, str) for name in self.inputs):
            raise ValueError(
                f"`inputs` must be a tuple of hop names, at least one; got {self.inputs!r}{place}. "
                f"Use ({SEED!r},) to start from the seed."
            )
        if len(set(self.inputs)) != len(self.inputs):
            raise ValueError(f"`inputs` must name each hop once; got {self.inputs!r}{place}. Remove the repetition.")
        if self.name == SEED:
            raise ValueError(
                f"`name` must not be {SEED!r}, which means the seed node; got it{place}. Choose another name."
            )
        _check_choice("direction", self.direction, _DIRECTIONS, place)
        _check_choice("strategy", self.strategy, _STRATEGIES, place)
        object.__setattr__(self, "inputs", tuple(self.inputs))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingPlan:
    """Which subgraph to cut out around each seed, and what its examples carry.

    Attributes:
        seed_node_set: every node of this set becomes the seed of one subgraph.
        hops: steps outward, each after the hops that it starts from. None at all
            leaves the seed alone. Every hop has a name once the plan is made.
        label_features: features of the seed node set that are moved to the
            `_readout` node set. No ordinary node carries them, so a label cannot
            leak to a neighbour.
        split_column: column of the seed node set's table with the name of each
            seed's split. It is no feature of the examples, declared as one or not.
            Empty: the split follows from a hash of the seed's id.
        excluded_features: by name of a node set or edge set, the features that the
            examples leave out.
    """

    seed_node_set: str
    hops: tuple[Hop, ...] = ()
    label_features: tuple[str, ...] = ()
    split_column: str = ""
    excluded_features: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.seed_node_set, str) or not self.seed_node_set:
            raise ValueError(
                f"`seed_node_set` must name a node set; got {self.seed_node_set!r}. Use a name of the graph schema."
            )
        _check_names("label_features", self.label_features)
        for set_name, names in self.excluded_features.items():
            _check_names(f"excluded_features[{set_name!r}]", names)
        both = set(self.label_features) & set(self.excluded_features.get(self.seed_node_set, ()))
        if both:
            raise ValueError(
                f"`excluded_features` must not name a label feature; got {sorted(both)} of {self.seed_node_set!r}. "
                "Labels leave the seed node set already."
            )
        if self.split_column and self.split_column in self.label_features:
            raise ValueError(
                f"`split_column` must not be a label feature; got {self.split_column!r}. "
                "Name the column that assigns splits."
            )
        hops = None if isinstance(self.hops, Hop) else tuple(self.hops)
        if hops is None or not all(isinstance(hop, Hop) for hop in hops):
            raise TypeError(
                f"`hops` must be a tuple of Hop; got {self.hops!r}. Write (Hop(edge_set=..., fan_out=...),) for one."
            )
        object.__setattr__(self, "hops", _named(hops))
        object.__setattr__(self, "label_features", tuple(self.label_features))
        object.__setattr__(self, "excluded_features", {k: tuple(v) for k, v in self.excluded_features.items()})
        known = {SEED}
        for hop in self.hops:
            for name in hop.inputs:
                if name not in known:
                    raise ValueError(
                        f"`inputs` must name {SEED!r} or an earlier hop; got {name!r} in hop {hop.name!r}, "
                        f"before which there are {sorted(known)}. Correct the name or the order of the hops."
                    )
            known.add(hop.name)

    @property
    def edge_set_names(self) -> tuple[str, ...]:
        """Names of the edge sets that hops follow, in alphabetical order."""
        return tuple(sorted({hop.edge_set for hop in self.hops}))


def reached_node_sets(plan: SamplingPlan, schema: GraphSchema) -> tuple[str, ...]:
    """Lists the node sets that the plan's subgraphs consist of.

    Args:
        plan: a plan that fits the schema.
        schema: the graph's schema.

    Returns:
        Names in alphabetical order: the seed node set and both ends of every hop.
    """
    names = {plan.seed_node_set}
    for edge_set_name in plan.edge_set_names:
        edge_set = schema.edge_sets[edge_set_name]
        names.update((edge_set.source, edge_set.target))
    return tuple(sorted(names))


def check_plan(plan: SamplingPlan, schema: GraphSchema) -> None:
    """Checks that every name in the plan means something in the graph, and fits.

    Args:
        plan: the plan.
        schema: the graph's schema.

    Raises:
        ValueError: if a node set, edge set or feature is unknown, or a hop starts
            at another node set than one of its inputs ends in.
    """
    _check_known("seed_node_set", plan.seed_node_set, schema.node_sets)
    ends = {SEED: plan.seed_node_set}
    for hop in plan.hops:
        _check_known("edge_set", hop.edge_set, schema.edge_sets, f" in hop {hop.name!r}")
        start, end = hop_ends(hop, schema)
        for name in hop.inputs:
            if ends[name] != start:
                raise ValueError(
                    f"`inputs` must end in node set {start!r}, where edge set {hop.edge_set!r} starts when followed "
                    f"{hop.direction}; got {name!r}, which ends in {ends[name]!r}, in hop {hop.name!r}. "
                    "Change `inputs` or `direction`."
                )
        ends[hop.name] = end
    for name in plan.label_features:
        _check_known(
            "label_features", name, schema.node_sets[plan.seed_node_set].features, f" for {plan.seed_node_set!r}"
        )
    reached = {*reached_node_sets(plan, schema), *plan.edge_set_names}
    for set_name, feature_names in plan.excluded_features.items():
        _check_known("excluded_features", set_name, reached, " among the sets that the plan reaches")
        features = {
            *(schema.node_sets[set_name].features if set_name in schema.node_sets else ()),
            *(schema.edge_sets[set_name].features if set_name in schema.edge_sets else ()),
        }
        for name in feature_names:
            _check_known("excluded_features", name, features, f" for {set_name!r}")


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


def _named(hops: tuple[Hop, ...]) -> tuple[Hop, ...]:
    taken = {hop.name for hop in hops if hop.name}
    given = [hop.name for hop in hops if hop.name]
    if len(taken) != len(given):
        repeated = sorted({name for name in given if given.count(name) > 1})
        raise ValueError(f"`hops` must have different names; got {repeated} more than once. Rename one of each.")
    named = []
    for hop in hops:
        if not hop.name:
            base = hop.edge_set if hop.direction == "forward" else f"{hop.edge_set}_reverse"
            name, number = base, 1
            while name in taken or name == SEED:
                number += 1
                name = f"{base}_{number}"
            taken.add(name)
            named.append(dataclasses.replace(hop, name=name))
        else:
            named.append(hop)
    return tuple(named)


def _check_choice(field: str, value: str, choices: tuple[str, ...], place: str) -> None:
    if value not in choices:
        raise ValueError(f"`{field}` must be one of {list(choices)}; got {value!r}{place}. Choose one of them.")


def _check_names(field: str, names: Iterable[str]) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            f"`{field}` must be a tuple of feature names; got {names!r}. Write ('name',) for a single one."
        )


def _check_known(field: str, name: str, known: Iterable[str], place: str = "") -> None:
    if name not in known:
        raise ValueError(f"`{field}` must be one of {sorted(known)}{place}; got {name!r}. Check the spelling.")
