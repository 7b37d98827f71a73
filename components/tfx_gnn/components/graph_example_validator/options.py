"""Options of GraphExampleValidator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.components.graph_example_validator.check_names import SEVERITIES
from tfx_gnn.io.suggestions import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphExampleValidatorOptions:
    """The guarantees that examples are checked for.

    Attributes:
        splits: splits to read; empty for all.
        split_order: splits from the first, which is used for training, to the last. It must name every split that is
            read and may name others. An earlier split must not reveal what a later split is tested on.
        label_features: label features of `_readout`, or of the context if `_readout` lacks them. No feature of the
            seed or the context may be a copy of a label. Homophily is reported for the first label.
            `seed_time_feature` is never treated as a label, even if it is named here.
        seed_edge_set: edge set whose edges are predicted. Examples must not hold the edges that they, or
            examples of a later split, predict. Leave it empty if the seed's edge is in its example on purpose,
            or if pairs recur over time.
        reverse_edge_sets: edge sets that hold the predicted edges with reversed direction. They may include
            `seed_edge_set` itself, and may be given without it if the examples have no edges of that set.
        pair_label_feature: integer feature of `_readout` that is 0 for negative pairs, to which no guarantee
            applies ("label" if the plan draws negatives); empty if there are no negatives.
        seed_time_feature: integer feature of `_readout`, of the seed node set, or of the context, with the time
            of each seed: no seed may be newer than a seed of a later split. Two seeds are the same if both their ids
            and their times are equal. Empty to skip these checks.
        edge_time_features: by edge set, the integer feature with the time of each edge: no edge may be newer than
            the seed. Needs `seed_time_feature`.
        only_earlier_edges: whether edges with a time must be older than the seed. If so, edges with the same time as
            the seed are refused too; the seed's own edge may be one of them.
        inductive: whether nodes that are seeds of a later split must be absent from earlier splits.
        required_sets: sets, such as "nodes/paper", that must have items in every example, in addition to `_readout`.
        max_l_infinity_drift: largest allowed change in the relative frequency of a string value between the baseline
            and the current data, in [0, 1].
        max_jensen_shannon_drift: largest allowed Jensen-Shannon divergence of a numeric feature, and of the degrees of
            the sampled nodes by edge set and direction, between the baseline and the current data, in [0, 1].
        max_structure_drift: largest allowed change of the number of rows of a table, and of the mean degree of an edge
            set in each direction, between the baseline and the current data, in [0, 1]: 1 - smaller / larger.
        compares_with_latest_blessed: in a pipeline, whether the baseline is the data that the latest blessed model was
            trained on. GraphPusher then pushes their statistics with each model.
        max_l_infinity_skew: as `max_l_infinity_drift`, but between the first split and each other split.
        max_jensen_shannon_skew: as `max_jensen_shannon_drift`, but between the first split and each other split. The
            numbers of nodes and edges are left out where edges have times, because later seeds see more of them.
        accepted_features: tf.Example keys of features that may reveal the label, such as "nodes/flight.dep_delay",
            because they are known before it; any other one that copies or determines it is an error.
        unstable_features: tf.Example keys that are excluded from drift and skew; for degrees, those of the sources or
            targets of an edge set. Features with times are always
            excluded.
        severities: "error", "warning" or "off" by name of a check, to override the default. Errors
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
    max_structure_drift: float = 0.5
    compares_with_latest_blessed: bool = False
    max_l_infinity_skew: float = 0.3
    max_jensen_shannon_skew: float = 0.3
    accepted_features: tuple[str, ...] = ()
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
            "max_structure_drift",
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
        self._check_severities()

    def _check_severities(self) -> None:
        if not self.severities:
            return
        # Checks are slow to import: they bring TensorFlow.
        from tfx_gnn.components.graph_example_validator.checks import CHECKS

        unknown = sorted(set(self.severities) - set(CHECKS))
        if unknown:
            raise ValueError(
                f"`severities` must be of known checks; got {unknown}. They are {sorted(CHECKS)}. "
                f"{did_you_mean(next(iter(unknown)), CHECKS)}"
            )
        wrong = {check: severity for check, severity in self.severities.items() if severity not in SEVERITIES}
        if wrong:
            raise ValueError(
                f"`severities` must be one of {list(SEVERITIES)}; got {wrong}. "
                f"{did_you_mean(next(iter(wrong.values())), SEVERITIES, otherwise='Correct the spelling.')}"
            )
