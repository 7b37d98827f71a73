"""One hop of a sampling plan: its edge set, direction, fan-out and strategy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

SEED = "seed"
"""Name of the root of a node plan: the seed node itself."""

ROOT_SOURCE = "source"
"""Name of a root of a link plan: the source of the seed pair."""

ROOT_TARGET = "target"
"""Name of a root of a link plan: the target of the seed pair, and of each negative pair."""

INDUCED_PREFIX = "induced/"
"""Name prefix of the hops that add induced edges; no hop of a plan may have it."""

_MAX_FAN_OUT = 2**31 - 1  # is compared with int64 counts of edges, and multiplied by numbers of requests
_MAX_DRAWS = 2**15 - 1  # draws are numbered in int16
_DIRECTIONS = ("forward", "backward")
_WITH_REPLACEMENT = "uniform_with_replacement"
_STRATEGIES = ("uniform", _WITH_REPLACEMENT, "weighted", "top_k", "in_degree", "full")
_WEIGHTED_STRATEGIES = ("weighted", "top_k")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hop:
    """One step outward: from the nodes that earlier hops found, along one edge set.

    Every input node gets up to `fan_out` of its edges. A node that several inputs
    found is expanded once. A root is expanded by the hops that name it and by no
    other, even where a path leads back to it (unless the plan says
    `expands_seed_again`): a hop that must not reveal something about the seed
    leaves it out of `inputs`.

    Attributes:
        edge_set: edge set to follow.
        fan_out: most edges that one input node gets, in [1, 2**31); in [1, 2**15) with
            "uniform_with_replacement"; 0 with "full".
        inputs: where to start: roots ("seed" in a node plan; "source" and "target" in
            a link plan) or names of earlier hops, at least one, all of which end in
            the node set where this hop starts.
        name: name for later hops and statistics. Empty: `SamplingPlan` chooses
            `<edge_set>`, or `<edge_set>_reverse` for a backward hop, with a number
            behind it if that is taken.
        direction: "forward" starts at the edges' sources and finds their targets,
            "backward" starts at the targets. The sampled edges point from their
            own source to their own target either way.
        strategy: how a node's edges are chosen.
            "uniform": with equal chances, without replacement.
            "uniform_with_replacement": `fan_out` independent draws; an edge that is
            drawn twice is in the subgraph twice.
            "weighted": one after the other without replacement, each time with
            chances in proportion to the weights of the edges that are left
            (Efraimidis, Spirakis, 2006). Edges whose weight is not positive are
            never chosen.
            "top_k": those of largest weight; of equal ones, the first in the table.
            "in_degree": as "weighted"; the weight of an edge is the number of edges of
            the set that point to the same neighbor (backward: that leave it).
            "full": all.
        weight_feature: numeric scalar feature of the edge set that holds the weights;
            for "weighted" and "top_k", and for no other.
    """

    edge_set: str
    fan_out: int = 0
    inputs: tuple[str, ...] = (SEED,)
    name: str = ""
    direction: Literal["forward", "backward"] = "forward"
    strategy: Literal["uniform", "uniform_with_replacement", "weighted", "top_k", "in_degree", "full"] = "uniform"
    weight_feature: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.edge_set, str) or not self.edge_set:
            raise ValueError(
                f"`edge_set` must name an edge set; got {self.edge_set!r}. Use a name of the graph schema."
            )
        place = f" in the hop along {self.edge_set!r}"
        _check_choice("direction", self.direction, _DIRECTIONS, place)
        _check_choice("strategy", self.strategy, _STRATEGIES, place)
        self._check_fan_out(place)
        if isinstance(self.inputs, str) or not self.inputs or not all(isinstance(name, str) for name in self.inputs):
            raise ValueError(
                f"`inputs` must be a tuple of hop names, at least one; got {self.inputs!r}{place}. "
                f"Use ({SEED!r},) to start from the seed."
            )
        if len(set(self.inputs)) != len(self.inputs):
            raise ValueError(f"`inputs` must name each hop once; got {self.inputs!r}{place}. Remove the repetition.")
        if self.name in (SEED, ROOT_SOURCE, ROOT_TARGET):
            raise ValueError(
                f"`name` must not be {self.name!r}, which means a root; got it{place}. Choose another name."
            )
        if bool(self.weight_feature) != (self.strategy in _WEIGHTED_STRATEGIES):
            raise ValueError(
                f"`weight_feature` must name an edge feature for the strategies {list(_WEIGHTED_STRATEGIES)} and be "
                f"empty for others; got {self.weight_feature!r} with {self.strategy!r}{place}. Change one of the two."
            )
        object.__setattr__(self, "inputs", tuple(self.inputs))

    def _check_fan_out(self, place: str) -> None:
        is_integer = isinstance(self.fan_out, int) and not isinstance(self.fan_out, bool)
        if self.strategy == "full":
            if not is_integer or self.fan_out != 0:
                raise ValueError(
                    f"`fan_out` must be left out with strategy 'full'; got {self.fan_out!r}{place}. "
                    "Choose 'uniform' to limit the edges of a node."
                )
        elif not is_integer or self.fan_out < 1:
            raise ValueError(
                f"`fan_out` must be an integer of at least 1; got {self.fan_out!r}{place}. "
                "Leave a hop out to sample nothing."
            )
        elif self.fan_out > (most := _MAX_DRAWS if self.strategy == _WITH_REPLACEMENT else _MAX_FAN_OUT):
            raise ValueError(
                f"`fan_out` must be at most {most} with strategy {self.strategy!r}; got {self.fan_out}{place}. "
                "Choose strategy 'full' to take all edges."
            )


def name_hops(hops: Iterable[Hop]) -> tuple[Hop, ...]:
    """Gives a name to each hop that has none; refuses names that repeat."""
    hops = tuple(hops)
    given = [hop.name for hop in hops if hop.name]
    taken = {SEED, ROOT_SOURCE, ROOT_TARGET, *given}
    if len(set(given)) != len(given):
        repeated = sorted({name for name in given if given.count(name) > 1})
        raise ValueError(f"`hops` must have different names; got {repeated} more than once. Rename one of each.")
    for name in given:
        if name.startswith(INDUCED_PREFIX):
            raise ValueError(f"`hops` must not be named {INDUCED_PREFIX}...; got {name!r}. Choose another name.")
    named = []
    for hop in hops:
        name = hop.name
        if not name:
            base = hop.edge_set if hop.direction == "forward" else f"{hop.edge_set}_reverse"
            name, number = base, 1
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            taken.add(name)
        named.append(dataclasses.replace(hop, name=name))
    return tuple(named)


def _check_choice(field: str, value: str, choices: tuple[str, ...], place: str) -> None:
    if value not in choices:
        raise ValueError(f"`{field}` must be one of {list(choices)}; got {value!r}{place}. Choose one of them.")
