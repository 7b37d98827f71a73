"""Drift from span to span, and skew from split to split, of the features of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.stages.examples.graph_layout import ID_NAME, GraphLayout
from tfx_gnn.stages.validation.checks import DRIFT, SKEW
from tfx_gnn.stages.validation.distribution_distance import JENSEN_SHANNON, L_INFINITY, distance

_MEASURES = {L_INFINITY: "L-infinity distance", JENSEN_SHANNON: "Jensen-Shannon divergence"}

Datasets = Mapping[str, statistics_pb2.DatasetFeatureStatistics]
"""Statistics by split."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shift:
    """How far a feature has moved.

    Attributes:
        check: `DRIFT` or `SKEW`.
        split: the split that was compared.
        key: tf.Example key of the feature.
        measure: `DriftSkewInfo.Measurement.Type` of TensorFlow Metadata.
        value: distance, in [0, 1].
        threshold: the largest distance that is allowed.
    """

    check: str
    split: str
    key: str
    measure: anomalies_pb2.DriftSkewInfo.Measurement.Type.ValueType
    value: float
    threshold: float

    @property
    def is_high(self) -> bool:
        """Whether the distance is above the threshold."""
        return self.value > self.threshold

    @property
    def words(self) -> str:
        """Measure, value and threshold."""
        return f"{_MEASURES[self.measure]} {self.value:.4f}, allowed {self.threshold:g}"


def comparable_keys(layout: GraphLayout, unstable: Collection[str]) -> list[str]:
    """Lists the keys of which distributions mean something.

    Args:
        layout: the keys of the schema.
        unstable: keys that are expected to differ, such as times.

    Returns:
        Keys of sizes and features; not those of ids, node indices and row lengths.
    """
    keys = [one_set.size_key for one_set in layout.sets if one_set.set_type != const.CONTEXT]
    keys += [key for key, column in layout.features.items() if column.name != ID_NAME]
    return sorted(set(keys) - set(unstable))


def drift_of(
    current: Datasets, earlier: Datasets, keys: Collection[str], thresholds: tuple[float, float]
) -> list[Shift]:
    """Compares each split with the same split of earlier data.

    Args:
        current: statistics of the data.
        earlier: statistics of the earlier data; splits that they lack are left out.
        keys: features to compare.
        thresholds: the largest L-infinity distance and Jensen-Shannon divergence that are allowed.

    Returns:
        Distances of all features that have values in both.
    """
    return [
        shift
        for split, dataset in current.items()
        if split in earlier
        for shift in _compare(dataset, earlier[split], keys, thresholds, check=DRIFT, split=split)
    ]


def skew_of(current: Datasets, first: str, keys: Collection[str], thresholds: tuple[float, float]) -> list[Shift]:
    """Compares each split with the first one.

    Args:
        current: statistics of the data.
        first: name of the first split.
        keys: features to compare.
        thresholds: the largest L-infinity distance and Jensen-Shannon divergence that are allowed.

    Returns:
        Distances of all features that have values in both.
    """
    return [
        shift
        for split, dataset in current.items()
        if split != first
        for shift in _compare(dataset, current[first], keys, thresholds, check=SKEW, split=split)
    ]


def _compare(
    one: statistics_pb2.DatasetFeatureStatistics,
    other: statistics_pb2.DatasetFeatureStatistics,
    keys: Collection[str],
    thresholds: tuple[float, float],
    *,
    check: str,
    split: str,
) -> list[Shift]:
    of_one, of_other = (
        {feature.path.step[0]: feature for feature in dataset.features if feature.path.step} for dataset in (one, other)
    )
    shifts = []
    for key in keys:
        measured = distance(of_one[key], of_other[key]) if key in of_one and key in of_other else None
        if measured is not None:
            threshold = thresholds[0] if measured[0] == L_INFINITY else thresholds[1]
            shifts.append(
                Shift(check=check, split=split, key=key, measure=measured[0], value=measured[1], threshold=threshold)
            )
    return shifts
