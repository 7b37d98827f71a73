"""One hop of a sampling plan: its edge set, direction, fan-out and strategy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from tfx_gnn.io.option_groups import check_choices

SEED = "seed"
"""Name of the root of a node plan: the seed node itself."""

ROOT_SOURCE = "source"
"""Name of a root of a link plan: the source of the seed pair."""

ROOT_TARGET = "target"
"""Name of a root of a link plan: the target of the seed pair, and of each negative pair."""

INDUCED_PREFIX = "induced/"
"""Name prefix of the hops that add induced edges; no hop of a plan may have it."""

_MAX_FAN_OUT = 2**31 - 1  # compared with int64 edge counts, and multiplied by numbers of requests
_MAX_DRAWS = 2**15 - 1  # draws are numbered in int16
_WITH_REPLACEMENT = ("uniform_with_replacement", "weighted_with_replacement", "in_degree_with_replacement")
_DEGREE_STRATEGIES = ("in_degree", "in_degree_with_replacement")
_WEIGHTED_STRATEGIES = ("weighted", "weighted_with_replacement", "top_k")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hop:
    """One step outward: from the nodes that earlier hops found, along one edge set.

    Up to `fan_out` edges are sampled for each input node. A node that several inputs
    found is expanded once. Only hops that name a root in `inputs` expand it, even
    where a path leads back to the root (unless the plan sets `expands_seed_again`).
    So a hop that must not reveal something about the seed leaves it out of `inputs`.

    Attributes:
        edge_set: edge set to follow.
        fan_out: maximum number of edges per input node: TF-GNN's `sample_size`, PyG's
            `num_neighbors`. In [1, 2**31); in [1, 2**15) with
            replacement; 0 for all edges with "full".
        inputs: where to start, at least one: roots ("seed" in a node plan; "source" and
            "target" in a link plan) or names of earlier hops. All must end in the node
            set where this hop starts.
        name: name for later hops and statistics. Empty: `SamplingPlan` chooses
            `<edge_set>`, or `<edge_set>_reverse` for a backward hop, and appends a
            number if that is taken.
        direction: "forward" starts at the edges' sources and finds their targets,
            "backward" starts at the targets and finds the sources. Sampled edges keep
            their own source and target either way.
        strategy: how a node's edges are chosen.
            "uniform": with equal probability, without replacement.
            "uniform_with_replacement": `fan_out` independent draws; an edge that is
            drawn twice is in the subgraph twice.
            "weighted": one at a time without replacement, each draw with probability
            proportional to the weights of the remaining edges (Efraimidis, Spirakis,
            2006). Edges of weight 0 are never chosen; weights that are negative
            or not finite are refused.
            "weighted_with_replacement": `fan_out` independent draws, each in proportion to
            the weights.
            "top_k": the edges of largest weight; ties go to the edge that comes first
            in the table.
            "in_degree": like "weighted"; the weight of an edge is the number of edges
            of the set that point to the same neighbor (backward: that leave it).
            "in_degree_with_replacement": the same with independent draws.
            "full": all edges; if `fan_out` is given, those that come first in the table.
        weight_feature: numeric scalar feature of the edge set that holds the weights;
            only for "weighted", "weighted_with_replacement" and "top_k".
        padding: in an ego plan, what stands in for missing neighbors of a node that has fewer than
            `fan_out`: "circular", its neighbors again; or "replicate", no node. A node without
            neighbors has no node in all places.
    """

    edge_set: str
    fan_out: int = 0
    inputs: tuple[str, ...] = (SEED,)
    name: str = ""
    direction: Literal["forward", "backward"] = "forward"
    strategy: Literal[
        "uniform",
        "uniform_with_replacement",
        "weighted",
        "weighted_with_replacement",
        "top_k",
        "in_degree",
        "in_degree_with_replacement",
        "full",
    ] = "uniform"
    weight_feature: str = ""
    padding: Literal["circular", "replicate"] = "circular"

    def __post_init__(self) -> None:
        if not isinstance(self.edge_set, str) or not self.edge_set:
            raise ValueError(
                f"`edge_set` must name an edge set; got {self.edge_set!r}. Use a name of the graph schema."
            )
        place = f" in the hop along {self.edge_set!r}"
        check_choices(self, place=place)
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

    @property
    def draws_with_replacement(self) -> bool:
        """Whether the draws are independent, so that an edge may be drawn twice."""
        return self.strategy in _WITH_REPLACEMENT

    @property
    def takes_all(self) -> bool:
        """Whether all edges are taken, however many they are."""
        return self.strategy == "full" and not self.fan_out

    @property
    def weighs_by_degree(self) -> bool:
        """Whether the weights are the degrees of the neighbors."""
        return self.strategy in _DEGREE_STRATEGIES

    @property
    def draws_by_weight(self) -> bool:
        """Whether edges are drawn in proportion to weights; edges of weight 0 are never drawn."""
        return self.weighs_by_degree or self.strategy in ("weighted", "weighted_with_replacement")

    def _check_fan_out(self, place: str) -> None:
        is_integer = isinstance(self.fan_out, int) and not isinstance(self.fan_out, bool)
        least = 0 if self.strategy == "full" else 1
        if not is_integer or self.fan_out < least:
            raise ValueError(
                f"`fan_out` must be an integer of at least {least}; got {self.fan_out!r}{place}. "
                "Leave a hop out to sample nothing."
            )
        if self.fan_out > (most := _MAX_DRAWS if self.draws_with_replacement else _MAX_FAN_OUT):
            raise ValueError(
                f"`fan_out` must be at most {most} with strategy {self.strategy!r}; got {self.fan_out}{place}. "
                "Choose strategy 'full' to take all edges."
            )


def name_hops(hops: Iterable[Hop]) -> tuple[Hop, ...]:
    """Names each unnamed hop; refuses repeated names."""
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
