"""Reads the statistics of a run's splits, and the distances that GraphExampleValidator measured between them.

TensorFlow is imported only for folders of object stores.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from tfx_gnn.io.file_contents import file_exists, read_bytes

# The modules that write these files import TensorFlow.
STATISTICS_FILE = "FeatureStats.pb"
DISTANCES_FILE = "SchemaDiff.pb"

_SPLIT = "Split-"
_NUM_DECILES = 10
_M = TypeVar("_M", bound=Message)

SplitStatistics = Mapping[str, statistics_pb2.DatasetFeatureStatistics]
"""Statistics of the examples, by split."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance:
    """A distance between two distributions of a feature, or of the degrees at an end of an edge set.

    Attributes:
        measure: "Jensen-Shannon" or "L-infinity".
        value: the distance, in [0, 1].
        threshold: the largest one that the validator allowed.
    """

    measure: str
    value: float
    threshold: float

    @property
    def is_high(self) -> bool:
        """Whether the distance is above the threshold."""
        return self.value > self.threshold


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitDistances:
    """How far a split is from others, by tf.Example key; keys that were not compared are absent.

    Attributes:
        skew: distances from the first split.
        drift: distances from the same split of earlier data.
    """

    skew: Mapping[str, Distance] = dataclasses.field(default_factory=dict)
    drift: Mapping[str, Distance] = dataclasses.field(default_factory=dict)


_MEASURES = {
    anomalies_pb2.DriftSkewInfo.Measurement.JENSEN_SHANNON_DIVERGENCE: "Jensen-Shannon",
    anomalies_pb2.DriftSkewInfo.Measurement.L_INFTY: "L-infinity",
}


def split_files(folder: str, name: str) -> dict[str, str]:
    """Returns the paths of the files of a name in the folders of splits, by split; none if the folder is absent."""
    if "://" in folder:
        from tfx_gnn.io.folder_listing import list_entries

        entries = list_entries(folder)
    else:
        entries = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = {
        entry.removeprefix(_SPLIT): os.path.join(folder, entry, name) for entry in entries if entry.startswith(_SPLIT)
    }
    return {split: path for split, path in paths.items() if file_exists(path)}


def read_split_statistics(path: str) -> statistics_pb2.DatasetFeatureStatistics:
    """Reads the statistics of one split, in the format of TensorFlow Data Validation.

    Raises:
        ValueError: if the file does not hold the statistics of one data set.
    """
    datasets = _read_message(path, statistics_pb2.DatasetFeatureStatisticsList()).datasets
    if len(datasets) != 1:
        raise ValueError(
            f"{path} must hold statistics of one data set; got {len(datasets)}. Make the statistics again, without "
            "slices."
        )
    return datasets[0]


def read_split_distances(path: str) -> SplitDistances:
    """Reads what GraphExampleValidator measured of one split.

    Raises:
        ValueError: if the file does not hold anomalies in the format of TensorFlow Data Validation.
    """
    skew: dict[str, Distance] = {}
    drift: dict[str, Distance] = {}
    for info in _read_message(path, anomalies_pb2.Anomalies()).drift_skew_info:
        key = "".join(info.path.step)
        for found, measurements in ((skew, info.skew_measurements), (drift, info.drift_measurements)):
            for one in measurements:
                if one.type in _MEASURES:
                    found[key] = Distance(measure=_MEASURES[one.type], value=one.value, threshold=one.threshold)
    return SplitDistances(skew=skew, drift=drift)


def order_splits(statistics: SplitStatistics, sizes: Mapping[str, int]) -> list[str]:
    """Lists the splits that have statistics, in the order of `sizes`."""
    return [split for split in sizes if split in statistics] or list(statistics)


def key_of(feature: statistics_pb2.FeatureNameStatistics) -> str:
    """Returns the tf.Example key of a feature."""
    return "".join(feature.path.step) if feature.path.step else feature.name


def deciles_of(histogram: statistics_pb2.Histogram) -> tuple[float, ...]:
    """Returns minimum, deciles and maximum, 11 in all, of ten buckets of equal count; empty of another histogram."""
    if histogram.type != statistics_pb2.Histogram.QUANTILES or len(histogram.buckets) != _NUM_DECILES:
        return ()
    return (histogram.buckets[0].low_value, *(bucket.high_value for bucket in histogram.buckets))


def _read_message(path: str, message: _M) -> _M:
    content = read_bytes(path)
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise ValueError(
            f"{path} must hold a {message.DESCRIPTOR.name} message; got {len(content)} other bytes. Run "
            "GraphExampleValidator again."
        ) from error
    return message
