"""Options of GraphExampleValidator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.components.graph_example_validator.checks import CHECKS, SEVERITIES


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphExampleValidatorOptions:
    """What the examples are promised to be.

    Attributes:
        splits: splits to read; empty for all.
        split_order: splits from the first, which is trained on, to the last; each split that is read is
            named, others may be. An earlier split must not show what a later one is tested on.
        label_features: features of `_readout`, or else of the context, that are labels; no feature of the seed
            or the context may be a copy of one. Homophily is told of the first. `seed_time_feature` is none,
            named here or not.
        seed_edge_set: edge set whose edges are predicted; examples must not hold those that they, or
            examples of a later split, are about. Leave it empty where the seed's edge is in its example on purpose,
            or where pairs recur over time.
        reverse_edge_sets: edge sets that hold predicted edges the other way round; they may name `seed_edge_set`
            itself, and stand alone where examples have no edges of it.
        pair_label_feature: integer feature of `_readout` that is 0 for negative pairs, about which nothing is
            promised ("label" where a plan draws negatives); empty if there are none.
        seed_time_feature: integer feature of `_readout`, of the seed node set, or of the context, with the time
            of each seed: no seed may be newer than one of a later split. Seeds are the same if ids and times are.
            Empty for no promise.
        edge_time_features: by edge set, its integer feature with the time of each edge: no edge may be newer than
            the seed. Needs `seed_time_feature`.
        only_earlier_edges: whether edges with a time must be older than the seed: those of its very time, of
            which the seed itself may be one, are refused too.
        inductive: whether nodes that are seeds of a later split are unseen in earlier ones.
        required_sets: sets, as in "nodes/paper", that must have items in every example, beside `_readout`.
        max_l_infinity_drift: largest difference of the share of a string between the baseline and now, in [0, 1].
        max_jensen_shannon_drift: largest Jensen-Shannon divergence of a number between them, in [0, 1].
        max_l_infinity_skew: the same as `max_l_infinity_drift` between the first and each other split.
        max_jensen_shannon_skew: the same as `max_jensen_shannon_drift` between them.
        unstable_features: tf.Example keys that are left out of drift and skew; features with times always are.
        severities: "error", "warning" or "off" by name of a check, where the default is not wanted. Errors
            withhold the blessing.
    """

    splits: tuple[str, ...] = ()
    split_order: tuple[str, ...] = ("train", "val", "test")
    label_features: tuple[str, ...] = ()
    seed_edge_set: str = ""
    reverse_edge_sets: tuple[str, ...] = ()
    pair_label_feature: str = ""
    seed_time_feature: str = ""
    edge_time_features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    only_earlier_edges: bool = False
    inductive: bool = False
    required_sets: tuple[str, ...] = ()
    max_l_infinity_drift: float = 0.3
    max_jensen_shannon_drift: float = 0.3
    max_l_infinity_skew: float = 0.3
    max_jensen_shannon_skew: float = 0.3
    unstable_features: tuple[str, ...] = ()
    severities: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.split_order)) != len(self.split_order) or not self.split_order:
            raise ValueError(
                f"`split_order` must name splits, each once; got {self.split_order}. Name them from first to last."
            )
        for name in (
            "max_l_infinity_drift",
            "max_jensen_shannon_drift",
            "max_l_infinity_skew",
            "max_jensen_shannon_skew",
        ):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"`{name}` must lie in [0, 1]; got {getattr(self, name)}. Give 1 to allow everything.")
        if self.only_earlier_edges and not self.edge_time_features:
            raise ValueError(
                "`edge_time_features` must be given with `only_earlier_edges`; got none. "
                "Name the feature with the time of the edges."
            )
        if self.edge_time_features and not self.seed_time_feature:
            raise ValueError(
                "`seed_time_feature` must be given with `edge_time_features`; got only "
                f"{dict(self.edge_time_features)}. Name the feature with the time of each seed."
            )
        unknown = sorted(set(self.severities) - set(CHECKS))
        if unknown:
            raise ValueError(f"`severities` must be of known checks; got {unknown}. They are {sorted(CHECKS)}.")
        wrong = {check: severity for check, severity in self.severities.items() if severity not in SEVERITIES}
        if wrong:
            raise ValueError(f"`severities` must be one of {list(SEVERITIES)}; got {wrong}. Correct the spelling.")
