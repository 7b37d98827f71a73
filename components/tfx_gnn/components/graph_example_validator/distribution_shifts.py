"""Drift between spans and skew between splits, for each feature.

Both measures are those of TensorFlow Data Validation and lie in [0, 1]: the L-infinity
distance of the relative frequencies of categories, and the Jensen-Shannon divergence (with logarithms to
base 2) of histograms. The histograms have buckets of equal count: buckets of equal width reveal little about
values that are concentrated in one place and have a long tail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.split_statistics import DEGREE_QUANTILES

DRIFT = "drift"
SKEW = "skew"

L_INFINITY = anomalies_pb2.DriftSkewInfo.Measurement.L_INFTY
JENSEN_SHANNON = anomalies_pb2.DriftSkewInfo.Measurement.JENSEN_SHANNON_DIVERGENCE

_POINT_WIDTH = 1e-9
_FAR = 1e150


def distance(
    one: statistics_pb2.FeatureNameStatistics, other: statistics_pb2.FeatureNameStatistics
) -> tuple[anomalies_pb2.DriftSkewInfo.Measurement.Type.ValueType, float] | None:
    """Compares a feature in two data sets; returns the measure, depending on the feature's type, and its value.

    None if the feature has no values in one of them, or is a string in one and a number in the other.
    """
    kinds = {one.WhichOneof("stats"), other.WhichOneof("stats")}
    if kinds == {"string_stats"}:
        shares, other_shares = _shares(one), _shares(other)
        if not shares or not other_shares:
            return None
        names = shares.keys() | other_shares.keys()
        return L_INFINITY, max(abs(shares.get(name, 0.0) - other_shares.get(name, 0.0)) for name in names)
    if kinds == {"num_stats"}:
        histogram, other_histogram = _histogram(one), _histogram(other)
        if histogram is None or other_histogram is None:
            return None
        return JENSEN_SHANNON, jensen_shannon(histogram, other_histogram)
    return None


def jensen_shannon(one: statistics_pb2.Histogram, other: statistics_pb2.Histogram) -> float:
    """Computes the Jensen-Shannon divergence of two histograms, in [0, 1].

    Each histogram holds at least one value. Values are assumed to be uniform within a bucket; buckets may differ.
    """
    buckets = [_buckets(histogram) for histogram in (one, other)]
    edges = np.unique(np.concatenate([part[side] for part in buckets for side in (0, 1)]))
    parts = [np.diff(_cumulative(*part, edges)) for part in buckets]
    # NaNs get a bucket of their own.
    nans = np.array([one.num_nan, other.num_nan], float)
    shares = [np.append(part, nan) / (part.sum() + nan) for part, nan in zip(parts, nans, strict=True)]
    middle = (shares[0] + shares[1]) / 2
    return float(np.clip(sum(_relative_entropy(share, middle) for share in shares) / 2, 0.0, 1.0))


def _relative_entropy(shares: npt.NDArray[np.float64], middle: npt.NDArray[np.float64]) -> float:
    used = shares > 0
    return float((shares[used] * np.log2(shares[used] / middle[used])).sum())


def _buckets(
    histogram: statistics_pb2.Histogram,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Lower and upper edges of the buckets, and the number of values in each; float64 [num_buckets]."""
    # Other tools' statistics also have buckets with infinite bounds.
    low = np.clip(np.array([bucket.low_value for bucket in histogram.buckets], np.float64), -_FAR, _FAR)
    high = np.clip(np.array([bucket.high_value for bucket in histogram.buckets], np.float64), -_FAR, _FAR)
    # A bucket that holds a single value would have zero width.
    width = np.where(low == high, np.maximum(np.abs(low), 1.0) * _POINT_WIDTH, 0.0)
    return low - width, high + width, np.array([bucket.sample_count for bucket in histogram.buckets], np.float64)


def _cumulative(
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    counts: npt.NDArray[np.float64],
    points: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Number of values below each point; float64 [num_points]."""
    shares = np.clip((points[:, np.newaxis] - low) / (high - low), 0.0, 1.0)
    below: npt.NDArray[np.float64] = shares @ counts
    return below


def _shares(feature: statistics_pb2.FeatureNameStatistics) -> dict[str, float]:
    buckets = feature.string_stats.rank_histogram.buckets
    total = sum(bucket.sample_count for bucket in buckets)
    return {bucket.label: bucket.sample_count / total for bucket in buckets} if total else {}


def _histogram(feature: statistics_pb2.FeatureNameStatistics) -> statistics_pb2.Histogram | None:
    for histogram in feature.num_stats.histograms:
        if histogram.type == statistics_pb2.Histogram.QUANTILES and histogram.buckets:
            return histogram
    return None


_MEASURES = {L_INFINITY: "L-infinity distance", JENSEN_SHANNON: "Jensen-Shannon divergence"}

Datasets = Mapping[str, statistics_pb2.DatasetFeatureStatistics]
"""Statistics by split."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shift:
    """The distance between two distributions of a feature.

    Attributes:
        check: `DRIFT` or `SKEW`.
        split: the split that was compared.
        key: tf.Example key of the feature.
        measure: `DriftSkewInfo.Measurement.Type` of TensorFlow Metadata.
        value: distance, in [0, 1].
        threshold: largest allowed distance.
        of_degrees: whether the degrees of nodes are compared, and not values of the key.
    """

    check: str
    split: str
    key: str
    measure: anomalies_pb2.DriftSkewInfo.Measurement.Type.ValueType
    value: float
    threshold: float
    of_degrees: bool = False

    @property
    def is_high(self) -> bool:
        """Whether the distance is above the threshold."""
        return self.value > self.threshold

    @property
    def words(self) -> str:
        """Measure, value and threshold."""
        measured = f"{_MEASURES[self.measure]} {self.value:.4f}, allowed {self.threshold:g}"
        return f"degrees, {measured}" if self.of_degrees else measured


def list_comparable_keys(layout: GraphLayout, unstable: Collection[str]) -> list[str]:
    """Lists the keys with meaningful distributions: sizes and features, but not ids, node indices and row lengths."""
    keys = [one_set.size_key for one_set in layout.sets if one_set.set_type != const.CONTEXT]
    keys += [key for key, column in layout.features.items() if column.name != ID_NAME]
    return sorted(set(keys) - set(unstable))


def list_degree_keys(layout: GraphLayout, unstable: Collection[str]) -> list[str]:
    """Lists the keys of the sources and targets of edge sets that the tables have."""
    edge_sets = [one for one in layout.sets if one.set_type == const.EDGES and not one.name.startswith("_")]
    return sorted({key for one in edge_sets for key in (one.source_key, one.target_key)} - set(unstable))


def measure_drift(
    current: Datasets, earlier: Datasets, keys: Collection[str], thresholds: tuple[float, float]
) -> list[Shift]:
    """Compares each split with the same split of earlier data, if it is there.

    `thresholds` are the largest allowed L-infinity distance and Jensen-Shannon divergence.
    """
    return [
        shift
        for split, dataset in current.items()
        if split in earlier
        for shift in _compare(dataset, earlier[split], keys, thresholds, check=DRIFT, split=split)
    ]


def measure_degree_drift(current: Datasets, earlier: Datasets, keys: Collection[str], threshold: float) -> list[Shift]:
    """Compares the degrees of nodes in each split with those in the same split of earlier data, if it is there.

    `keys` are those of the sources and targets of edge sets, and `threshold` is the largest allowed Jensen-Shannon
    divergence.
    """
    shifts = []
    for split in current:
        now, before = _degrees(current[split]), _degrees(earlier[split]) if split in earlier else {}
        shifts += [
            Shift(
                check=DRIFT,
                split=split,
                key=key,
                measure=JENSEN_SHANNON,
                value=jensen_shannon(now[key], before[key]),
                threshold=threshold,
                of_degrees=True,
            )
            for key in keys
            if key in now and key in before
        ]
    return shifts


def _degrees(dataset: statistics_pb2.DatasetFeatureStatistics) -> dict[str, statistics_pb2.Histogram]:
    """Histograms of degrees, by the key of the sources or targets."""
    return {
        feature.path.step[0]: custom.histogram
        for feature in dataset.features
        for custom in feature.custom_stats
        if feature.path.step and custom.name.endswith(DEGREE_QUANTILES)
    }


def measure_skew(current: Datasets, first: str, keys: Collection[str], thresholds: tuple[float, float]) -> list[Shift]:
    """Compares each split with the first one.

    `thresholds` are the largest allowed L-infinity distance and Jensen-Shannon divergence.
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
