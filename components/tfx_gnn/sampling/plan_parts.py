"""The parts of a sampling plan that are made by themselves: times, a table of seeds, negatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal

_SEED_DTYPES = ("int64", "float32", "string")
_DISTRIBUTIONS = ("uniform", "in_degree")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Temporal:
    """Hides edges that are newer than the seed.

    Attributes:
        seed_time: integer feature of the seed node set or seed edge set, or int64
            column of the seed table, with the time of each seed.
        edge_times: by edge set, its integer feature with the time of each edge, in the
            unit of `seed_time`; at least one. Edge sets that are not named are not
            filtered. `excluded_features` may keep the features out of the examples.
        inclusive: whether an edge of the very time of the seed is visible.
    """

    seed_time: str
    edge_times: Mapping[str, str]
    inclusive: bool = False

    def __post_init__(self) -> None:
        check_text("seed_time", self.seed_time, " in `temporal`")
        check_texts("edge_times", self.edge_times, " in `temporal`")
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
        filename: file beside the graph schema, of any format that tables may have.
        columns: other names of the columns "id" (node plans) or "source" and "target"
            (link plans), by these names.
        features: by column, its type: "int64", "float32" or "string". Those that
            `label_features` names become features of `_readout`; they may also be the
            plan's `seed_time` or split column.
        identity_features: those of `features`, integers or strings, that tell seeds of the same
            nodes apart, as the relation does where two nodes may be linked by several. Seeds that are
            equal in all of this are refused.
        splits_edges: whether the rule for splits also divides the edges of the seed edge set and of reverse
            edge sets, so that those of later splits are hidden from earlier ones: their tables must then have
            what the rule looks at. False: edges are of no split, and visible from all, as those of tables
            that hold nothing but the edges of training. The pairs that are read out are hidden either way.
    """

    filename: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    identity_features: tuple[str, ...] = ()
    splits_edges: bool = True

    def __post_init__(self) -> None:
        check_text("filename", self.filename, " in `seed_table`")
        check_texts("columns", self.columns, " in `seed_table`")
        check_texts("features", self.features, " in `seed_table`")
        for name, dtype in self.features.items():
            if dtype not in _SEED_DTYPES:
                raise ValueError(
                    f"`features` must have one of the types {list(_SEED_DTYPES)}; got {dtype!r} for {name!r} in "
                    "`seed_table`. Choose one of them."
                )
        check_names("identity_features", self.identity_features)
        unfit = [name for name in self.identity_features if self.features.get(name, "float32") == "float32"]
        if unfit:
            raise ValueError(
                "`identity_features` must be integers or strings that `features` declares; got "
                f"{unfit} in `seed_table`. Declare them, or name others."
            )
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "features", dict(self.features))
        object.__setattr__(self, "identity_features", tuple(self.identity_features))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Negatives:
    """Pairs that are no edges, drawn for each seed pair from the same source.

    Attributes:
        num_per_positive: how many for one seed pair, at least 1.
        distribution: "uniform" over the target nodes, or in proportion to their
            "in_degree" in the seed edge set.
        same_feature: feature of the target node set; if given, only nodes with the
            value of the true target are drawn.
        excludes_neighbors: never draws a true neighbor of the source.
        num_draws: draws for each negative; if all of them are refused, the negative is
            missing, which is counted.
    """

    num_per_positive: int
    distribution: Literal["uniform", "in_degree"] = "uniform"
    same_feature: str = ""
    excludes_neighbors: bool = True
    num_draws: int = 8

    def __post_init__(self) -> None:
        for field, value in (("num_per_positive", self.num_per_positive), ("num_draws", self.num_draws)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"`{field}` must be an integer of at least 1; got {value!r} in `negatives`. "
                    "Leave `negatives` out to draw none."
                )
        if self.distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"`distribution` must be one of {list(_DISTRIBUTIONS)}; got {self.distribution!r} in `negatives`. "
                "Choose one of them."
            )


def check_text(field: str, value: str, place: str) -> None:
    """Checks that a field is a name.

    Args:
        field: the field.
        value: its value.
        place: where it is, in words that follow others.

    Raises:
        ValueError: if it is none.
    """
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{field}` must be a name{place}; got {value!r}. Write it as a string.")


def check_texts(field: str, values: Mapping[str, str], place: str) -> None:
    """Checks that a field maps names to names.

    Args:
        field: the field.
        values: its value.
        place: where it is, in words that follow others.

    Raises:
        ValueError: if it does not.
    """
    if not isinstance(values, Mapping) or not all(
        isinstance(text, str) and text for pair in values.items() for text in pair
    ):
        raise ValueError(f"`{field}` must map names to names{place}; got {values!r}. Write {{'name': 'name'}}.")


def check_names(field: str, names: Iterable[str]) -> None:
    """Checks that a field is a tuple of different names.

    Args:
        field: the field.
        names: its value.

    Raises:
        ValueError: if it is something else.
    """
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`{field}` must be a tuple of names; got {names!r}. Write ('name',) for a single one.")
    if len(set(names)) != len(tuple(names)):
        raise ValueError(f"`{field}` must name each once; got {tuple(names)!r}. Remove the repetition.")
