"""Which negative pairs a sampling plan draws for link prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from tfx_gnn.io.option_groups import check_choices
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET

SHARE_TOLERANCE = 1e-6
"""How far the sum of shares may exceed 1: three times 1/3, written with six digits, is 1."""

_MAX_DRAWS = 2**15 - 1  # draws are numbered in int16
_NODE_WEIGHT = "node_weight"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Negatives:
    """Pairs that are not edges, drawn for each seed pair by replacing one of its ends.

    Attributes:
        num_per_positive: negatives per seed pair, at least 1.
        side: the end that is replaced, "target" or "source". Features below are those of its node set.
        distribution: "uniform" over the nodes of that set, or in proportion to their
            "in_degree", the number of edges of the seed edge set at this end of theirs, or to their "node_weight".
        weight_feature: feature with the weights of "node_weight", numbers in [0, 2**20] that
            count in steps of 2**-20.
        same_feature: if given, only nodes with the true node's value of this feature are
            drawn: short for `conditions={same_feature: 1.0}`.
        conditions: by feature, the share of the negatives that have the true node's value of it, in (0, 1]; other
            negatives have no condition. Shares add up to at most 1 and become numbers of negatives by largest
            remainder. The negatives of a pair are in the alphabetical order of these features, those without condition
            last.
        unique: whether the negatives of a pair differ from each other.
        excludes_neighbors: whether true neighbors of the end that is kept are never drawn.
        time_feature: integer feature with the time since which a node is there, in the unit of the plan's `temporal`:
            nodes that come about after the seed's time are not drawn. Empty: all are always there.
        num_draws: draws for each negative, at least 1; if all are refused, the negative
            is missing and is counted as such. No condition is given up for it.
        own_subgraphs: whether each negative has an example of its own, with label 0, rather than being
            one more pair in the example of its true pair. These examples follow that of the
            true pair, which is hidden from them, too; edges are drawn alike in all of them.
    """

    num_per_positive: int
    side: Literal["target", "source"] = "target"
    distribution: Literal["uniform", "in_degree", "node_weight"] = "uniform"
    weight_feature: str = ""
    same_feature: str = ""
    conditions: Mapping[str, float] = dataclasses.field(default_factory=dict)
    unique: bool = True
    excludes_neighbors: bool = True
    time_feature: str = ""
    num_draws: int = 8
    own_subgraphs: bool = False

    def __post_init__(self) -> None:
        for field, value in (("num_per_positive", self.num_per_positive), ("num_draws", self.num_draws)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"`{field}` must be an integer of at least 1; got {value!r} in `negatives`. "
                    "Leave `negatives` out to draw none."
                )
        if self.num_draws > _MAX_DRAWS:
            raise ValueError(
                f"`num_draws` must be at most {_MAX_DRAWS}; got {self.num_draws} in `negatives`. "
                "Draw fewer times: if so many draws are refused, hardly any node qualifies."
            )
        for field in ("unique", "excludes_neighbors", "own_subgraphs"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(
                    f"`{field}` must be True or False; got {getattr(self, field)!r} in `negatives`. Write one of them."
                )
        check_choices(self, place=" in `negatives`")
        if bool(self.weight_feature) != (self.distribution == _NODE_WEIGHT):
            raise ValueError(
                f"`weight_feature` must name a feature for distribution {_NODE_WEIGHT!r}, and be empty for others; got "
                f"{self.weight_feature!r} with {self.distribution!r} in `negatives`. Change one of the two."
            )
        self._check_conditions()

    @property
    def kept_side(self) -> str:
        """The end of the seed pair that negatives have, too: "source" or "target"."""
        return ROOT_SOURCE if self.side == ROOT_TARGET else ROOT_TARGET

    @property
    def condition_features(self) -> tuple[str, ...]:
        """Names of the features that some negatives have in common with the true node."""
        return (self.same_feature,) if self.same_feature else tuple(self.conditions)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Runs of negatives with one condition, in their order: pairs of a feature, or "", and their number."""
        if self.same_feature:
            return ((self.same_feature, self.num_per_positive),)
        counts = counts_of_shares(tuple(self.conditions.values()), self.num_per_positive)
        without = self.num_per_positive - sum(counts)
        return (*zip(self.conditions, counts, strict=True), *((("", without),) if without else ()))

    @property
    def part_of_negative(self) -> tuple[int, ...]:
        """Position in `parts` of each negative of a pair."""
        return tuple(number for number, (_, count) in enumerate(self.parts) for _ in range(count))

    @property
    def sums_weights(self) -> bool:
        """Whether the weights that draws are relative to are only known once they have been added up."""
        return bool(self.condition_features or self.weight_feature)

    def _check_conditions(self) -> None:
        conditions = self.conditions
        if not isinstance(conditions, Mapping) or not all(isinstance(name, str) and name for name in conditions):
            raise ValueError(
                f"`conditions` must map features to shares; got {conditions!r} in `negatives`. Write {{'color': 0.5}}."
            )
        if self.same_feature and conditions:
            raise ValueError(
                "`conditions` must be left out beside `same_feature`, which is a condition on all negatives; got "
                f"{dict(conditions)} beside {self.same_feature!r} in `negatives`. Leave out one of them."
            )
        for name, share in conditions.items():
            if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 < share <= 1:
                raise ValueError(
                    f"`conditions` must hold shares in (0, 1]; got {share!r} for {name!r} in `negatives`. Correct it, "
                    "or leave the feature out."
                )
        total = sum(conditions.values())
        if total > 1 + SHARE_TOLERANCE:
            raise ValueError(
                f"`conditions` must have shares that add up to at most 1; got {total:g} in `negatives`. Lower some."
            )
        # JSON does not keep an order.
        object.__setattr__(self, "conditions", {name: float(conditions[name]) for name in sorted(conditions)})
        idle = [name for name, count in self.parts if not count]
        if idle:
            raise ValueError(
                "`conditions` must leave a negative for each feature; got none for "
                f"{idle[0]!r}, whose share is {conditions[idle[0]]:g} of {self.num_per_positive}, in `negatives`. Draw "
                "more negatives, or leave the feature out."
            )


def counts_of_shares(shares: Sequence[float], number: int) -> tuple[int, ...]:
    """Returns how many of `number` items each share gets; what is missing from 1 gets the rest.

    The shares and the rest are rounded by largest remainder; ties go to the earlier share.

    Example:
        >>> counts_of_shares((0.5, 0.25), 5)
        (3, 1)
    """
    rest = max(1 - sum(shares), 0.0)
    everything = [*shares, rest if rest > SHARE_TOLERANCE else 0.0]
    total = sum(everything)
    # Rounded, so that 0.1 * 30 has no remainder.
    quotas = [round(number * share / total, 9) for share in everything]
    counts = [int(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda one: counts[one] - quotas[one])
    for one in by_remainder[: number - sum(counts)]:
        counts[one] += 1
    return tuple(counts[:-1])
