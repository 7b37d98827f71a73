"""How seeds are divided into splits, and what one split may see of another.

The plan is data and travels as JSON; the module `seed_splits` executes it.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from tfx_gnn.io.suggestions import did_you_mean

_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DEFAULT_WEIGHTS = {"train": 8, "val": 1, "test": 1}
_DEFAULT_ORDER = ("train", "val", "test")
_VISIBILITIES = ("transductive", "inductive")
# Ranks of edges are int8 and go up to twice the number of splits.
_MAX_SPLITS = 60
# A hash is scaled to the sum of the weights in 64-bit arithmetic.
_MAX_TOTAL_WEIGHT = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """Rule by which each seed gets its split: by hash, by a column, or by time.

    The rule depends on the seed alone, so a seed keeps its split when other seeds are
    added or removed.

    By hash (the default): `weights` divide the range of hashes into consecutive parts.
    The hash of a node's id, or of the ids of both ends of an edge, falls into one of
    them. An edge, its parallel edges and its reverse edges in a reverse edge set share
    one split.

    By column: the seed's table has a column of split names, whether or not the schema
    declares it as a feature. Examples never carry it as a feature.

    By time: the integer feature `time_feature` is compared with `until`.

    Attributes:
        column: column with the name of each seed's split. Empty: another rule decides.
        weights: by split, its weight, a positive integer; only ratios matter: 8:1:1 means
            the same as 80:10:10. Empty when `column` or `time_feature` decides.
        time_feature: integer feature with the time of each seed. Empty: another rule decides.
        until: by split, the upper bound (exclusive) of its seeds' times. Splits are ordered
            by bound; a seed is in the first split whose bound is later than the seed's
            time. None means no bound; at most one split may have it, and it comes last.
        order: all splits, earlier ones first. Where edges or nodes are withheld, earlier
            splits do not see those of later splits. Empty: the order of `weights` or of
            the bounds, which is filled in here; for a column train, val, test, some of
            which may be missing from the column.
        group_column: column whose value is hashed instead of the id, so that all seeds
            with the same value share a split; only together with `weights`.
        unused_values: values of `column` whose rows are not seeds. These rows stay in the
            graph and every split sees them.
        hash_seed: in [0, 2**63); another number gives another division by hash.
        allows_empty_splits: whether a split named here may have no seeds, and then has
            empty files. Otherwise that is an error.
        visibility: in plans whose seeds are nodes, which nodes of the seed node set a
            subgraph may hold. "transductive": all nodes. "inductive": no node of a later
            split, and so no edge of such a node.
        disjoint_train_share: in plans whose seeds are edges, the fraction, in [0, 1), of
            the first split's edges that are supervision only: no subgraph of the first
            split holds them, and only they are seeds of that split. 0: every edge of the
            first split is a seed and is also visible to the other seeds.
    """

    column: str = ""
    weights: Mapping[str, int] = dataclasses.field(default_factory=lambda: dict(_DEFAULT_WEIGHTS))
    time_feature: str = ""
    until: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    order: tuple[str, ...] = ()
    group_column: str = ""
    unused_values: tuple[str, ...] = ()
    hash_seed: int = 0
    allows_empty_splits: bool = False
    visibility: Literal["transductive", "inductive"] = "transductive"
    disjoint_train_share: float = 0.0

    def __post_init__(self) -> None:
        self._check_values()
        self._check_one_rule()
        if self.column:
            self._check_column()
        elif self.time_feature:
            self._order_by(_times_in_order(self.until))
        else:
            _check_weights(self.weights)
            self._order_by(tuple(self.weights))
        if len(self.names) > _MAX_SPLITS:
            raise ValueError(f"`order` must have at most {_MAX_SPLITS} splits; got {len(self.names)}. Join some.")

    @property
    def rule(self) -> Literal["hash", "column", "time"]:
        """What decides a seed's split."""
        return "column" if self.column else "time" if self.time_feature else "hash"

    @property
    def names(self) -> tuple[str, ...]:
        """All splits that a seed can be in, earlier ones first; a split's code is its position here."""
        return self.order or _DEFAULT_ORDER

    @property
    def may_be_missing(self) -> bool:
        """Whether splits without seeds are left out, because the user named none of the splits."""
        return self.rule == "column" and not self.order

    def _check_values(self) -> None:
        for field in ("column", "time_feature", "group_column"):
            value = getattr(self, field)
            if not isinstance(value, str):
                raise TypeError(f"`{field}` must be a name; got {value!r}. Leave it empty if there is none.")
        for field in ("order", "unused_values"):
            value = getattr(self, field)
            if isinstance(value, str) or not all(isinstance(name, str) for name in value):
                raise ValueError(
                    f"`{field}` must be a tuple of strings; got {value!r}. Write ('name',) for a single one."
                )
            object.__setattr__(self, field, tuple(value))
        if not isinstance(self.hash_seed, int) or isinstance(self.hash_seed, bool) or not 0 <= self.hash_seed < 2**63:
            raise ValueError(f"`hash_seed` must be in [0, 2**63); got {self.hash_seed!r}. Choose another number.")
        if self.visibility not in _VISIBILITIES:
            raise ValueError(
                f"`visibility` must be one of {list(_VISIBILITIES)}; got {self.visibility!r}. "
                f"{did_you_mean(self.visibility, _VISIBILITIES, otherwise='Choose one of them.')}"
            )
        share = self.disjoint_train_share
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise ValueError(
                f"`disjoint_train_share` must be in [0, 1); got {share!r}. "
                "Leave some edges of the first split for message passing."
            )
        object.__setattr__(self, "disjoint_train_share", float(share))

    def _check_one_rule(self) -> None:
        if self.column and self.time_feature:
            raise ValueError(
                f"`time_feature` must be empty when `column` decides; got {self.time_feature!r} beside "
                f"{self.column!r}. Keep one of them."
            )
        if bool(self.time_feature) != bool(self.until):
            raise ValueError(
                f"`until` must have bounds if and only if `time_feature` is given; got {dict(self.until)} for "
                f"{self.time_feature!r}. Write until={{'train': 100, 'val': 200, 'test': None}}."
            )
        if self.column or self.time_feature:
            if self.weights and dict(self.weights) != _DEFAULT_WEIGHTS:
                raise ValueError(
                    f"`weights` must not be given when another rule decides; got {dict(self.weights)} beside "
                    f"{self.column or self.time_feature!r}. Keep one of them."
                )
            object.__setattr__(self, "weights", {})
            if self.group_column or self.hash_seed:
                raise ValueError(
                    "`group_column` and `hash_seed` must go with a division by hash; got "
                    f"{self.group_column!r} and {self.hash_seed} beside {self.column or self.time_feature!r}. "
                    "Leave them out."
                )
        if self.unused_values and not self.column:
            raise ValueError(
                f"`unused_values` must be values of `column`; got {self.unused_values} without one. Name the column."
            )
        object.__setattr__(self, "until", dict(self.until))

    def _check_column(self) -> None:
        _check_split_names("order", self.order)
        if len(set(self.order)) != len(self.order):
            raise ValueError(f"`order` must name each split once; got {self.order}. Remove the repetition.")
        both = sorted(set(self.names) & set(self.unused_values))
        if both:
            raise ValueError(
                f"`unused_values` must not be splits; got {both}, which are in {self.names}. Set `order` without them."
            )

    def _order_by(self, names: tuple[str, ...]) -> None:
        """Fills in `order` and sorts the mappings by it, because JSON keeps the order of a tuple only."""
        order = self.order or names
        if sorted(order) != sorted(names):
            raise ValueError(
                f"`order` must name each split once; got {order} for the splits {sorted(names)}. Correct it."
            )
        if self.until and order != names:
            raise ValueError(
                f"`order` must be that of the bounds in `until`; got {order} where time gives {names}. Leave it out."
            )
        object.__setattr__(self, "order", order)
        if self.until:
            object.__setattr__(self, "until", {name: self.until[name] for name in order})
        else:
            object.__setattr__(self, "weights", {name: self.weights[name] for name in order})


def _times_in_order(until: Mapping[str, int | None]) -> tuple[str, ...]:
    _check_split_names("until", until)
    for name, bound in until.items():
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise ValueError(
                f"`until` must hold integers, or None for no bound; got {bound!r} for {name!r}. "
                "Use the unit of the time feature."
            )
    open_ended = [name for name, bound in until.items() if bound is None]
    if len(open_ended) > 1:
        raise ValueError(
            f"`until` must leave at most one split without a bound; got {open_ended}. Give bounds to others."
        )
    bounded = sorted((bound, name) for name, bound in until.items() if bound is not None)
    for (bound, name), (next_bound, next_name) in itertools.pairwise(bounded):
        if bound == next_bound:
            raise ValueError(
                f"`until` must hold different bounds; got {bound} for {name!r} and {next_name!r}. "
                "The later of them would have no seeds."
            )
    return (*(name for _, name in bounded), *open_ended)


def _check_weights(weights: Mapping[str, int]) -> None:
    if not weights:
        raise ValueError("`weights` must name at least one split; got none. Use {'train': 1} for a single one.")
    _check_split_names("weights", weights)
    for name, weight in weights.items():
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
            raise ValueError(
                f"`weights` must be positive integers; got {weight!r} for {name!r}. Scale the shares to whole numbers."
            )
    if sum(weights.values()) > _MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"`weights` must sum to at most {_MAX_TOTAL_WEIGHT}; got {sum(weights.values())}. Scale the shares down."
        )


def _check_split_names(field: str, names: Iterable[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not _SPLIT_NAME.fullmatch(name):
            raise ValueError(
                f"`{field}` must name splits by letters, digits and '_.-'; got {name!r}. Rename the split."
            )
