"""Statistics of a split's features and graphs, in TensorFlow Data Validation's format, and their files.

The standard fields describe the values of tf.Examples. Statistics that only a graph has (degrees,
isolated nodes, edges that join equal labels) are in `custom_stats` of the set's features, so that
stock tools find no feature that is missing from the schema. Summaries of numbers and of strings can
be merged, and have bounded size whatever they summarize.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx_bsl import sketches

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.records.example_batches import BYTES, FLOATS, Column, ExampleBatch, flat_index
from tfx_gnn.records.examples_folder import split_dir
from tfx_gnn.records.graph_layout import GraphLayout, SetLayout

STATISTICS_FILE = "FeatureStats.pb"

_READOUT_EDGES = f"{const.EDGES}/{READOUT_NODE_SET}/"
_OUT, _IN = "out_degree", "in_degree"
DEGREE_QUANTILES = "_quantiles"
"""Ends the names of the custom statistics with histograms of degrees whose buckets have equal counts."""
_QUANTILE_ERROR = 0.01
_MANY_VALUES = 1 << 32
_FINE_QUANTILES = 1000
_NUM_BUCKETS = 10
_UNIQUE_BUCKETS = 1 << 14
_FREQUENT_BUCKETS = 1 << 12
_RANKS = 1000
_TOP_VALUES = 20
_NO_TEXT = "__BYTES_VALUE__"
_LONG_TEXT = "__LARGE_BYTES__"
_MAX_TEXT_BYTES = 1024


@dataclasses.dataclass(kw_only=True)
class NumberSummary:
    """Moments, extremes and quantiles of numbers.

    Attributes:
        count: number of finite numbers; all other fields except `num_nan` describe these.
        num_nan: number of NaNs.
        num_zeros: number of zeros.
        mean: mean.
        squares: sum of the squared differences from the mean.
        minimum: smallest number.
        maximum: largest number.
        sketch: quantile sketch from tfx_bsl.
    """

    count: int = 0
    num_nan: int = 0
    num_zeros: int = 0
    mean: float = 0.0
    squares: float = 0.0
    minimum: float = float("inf")
    maximum: float = float("-inf")
    sketch: Any = dataclasses.field(default_factory=lambda: sketches.QuantilesSketch(_QUANTILE_ERROR, _MANY_VALUES, 1))

    def add(self, values: npt.NDArray[np.generic]) -> None:
        """Adds numbers of any dtype."""
        numbers = values.astype(np.float64)
        self.num_nan += int(np.isnan(numbers).sum())
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            return
        mean = float(finite.mean())
        self._add_moments(len(finite), mean, float(((finite - mean) ** 2).sum()))
        self.num_zeros += int((finite == 0.0).sum())
        self.minimum = min(self.minimum, float(finite.min()))
        self.maximum = max(self.maximum, float(finite.max()))
        self.sketch.AddValues(pa.array(finite))

    def merge(self, other: NumberSummary) -> None:
        """Adds the numbers of another summary, which is unchanged."""
        self.num_nan += other.num_nan
        if not other.count:
            return
        self._add_moments(other.count, other.mean, other.squares)
        self.num_zeros += other.num_zeros
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.sketch.Merge(other.sketch)

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        # Chan, Golub and LeVeque's update: plain sums of squares would cancel if the mean is large.
        total = self.count + count
        step = mean - self.mean
        self.squares += squares + step * step * self.count * count / total
        self.mean += step * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """Returns the standard deviation, 0 without numbers."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0

    def histograms(self) -> list[statistics_pb2.Histogram]:
        """Makes histograms of the quantile sketch, with buckets of equal width and of equal count, in this order.

        Nothing can be added afterwards.
        """
        equal_width = statistics_pb2.Histogram(num_nan=self.num_nan, type=statistics_pb2.Histogram.STANDARD)
        equal_count = statistics_pb2.Histogram(num_nan=self.num_nan, type=statistics_pb2.Histogram.QUANTILES)
        if self.count:
            values, weights = self._distribution()
            num_buckets = 1 if self.minimum == self.maximum else _NUM_BUCKETS
            edges = np.linspace(self.minimum, self.maximum, num_buckets + 1)
            # Buckets include their lower edge; the last one includes both.
            below = np.concatenate([[0.0], weights])[np.searchsorted(values, edges, side="left")]
            below[-1] = self.count
            _add_buckets(equal_width, edges, np.diff(below))
            deciles = values[_FINE_QUANTILES // _NUM_BUCKETS * np.arange(_NUM_BUCKETS + 1)]
            _add_buckets(equal_count, deciles, np.full(_NUM_BUCKETS, self.count / _NUM_BUCKETS))
        return [equal_width, equal_count]

    def median(self) -> float:
        """Returns the median, 0 without numbers; nothing can be added afterwards."""
        return float(self._distribution()[0][_FINE_QUANTILES // 2]) if self.count else 0.0

    def _distribution(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Returns quantiles, and the number of values up to each one: both float64 [_FINE_QUANTILES + 1]."""
        values, weights = self.sketch.GetQuantilesAndCumulativeWeights(_FINE_QUANTILES)
        return values.flatten().to_numpy(), weights.flatten().to_numpy()


@dataclasses.dataclass(kw_only=True)
class StringSummary:
    """Lengths, number of distinct values and most frequent values of strings.

    Attributes:
        count: number of strings.
        num_bytes: bytes of all strings.
        unique: sketch of distinct strings from tfx_bsl.
        frequent: sketch of frequent strings from tfx_bsl.
    """

    count: int = 0
    num_bytes: int = 0
    unique: Any = dataclasses.field(default_factory=lambda: sketches.KmvSketch(_UNIQUE_BUCKETS))
    frequent: Any = dataclasses.field(
        default_factory=lambda: sketches.MisraGriesSketch(
            _FREQUENT_BUCKETS,
            invalid_utf8_placeholder=_NO_TEXT,
            large_string_threshold=_MAX_TEXT_BYTES,
            large_string_placeholder=_LONG_TEXT,
        )
    )

    def add(self, values: pa.Array) -> None:
        """Adds strings: a large_binary array without nulls."""
        if not len(values):
            return
        self.count += len(values)
        self.num_bytes += int(pc.sum(pc.binary_length(values)).as_py())
        self.unique.AddValues(values)
        self.frequent.AddValues(values)

    def merge(self, other: StringSummary) -> None:
        """Adds the strings of another summary, which is unchanged."""
        self.count += other.count
        self.num_bytes += other.num_bytes
        self.unique.Merge(other.unique)
        self.frequent.Merge(other.frequent)

    def write(self, stats: statistics_pb2.StringStatistics) -> None:
        """Writes all statistics except the common ones."""
        if not self.count:
            return
        stats.unique = self.unique.Estimate()
        stats.avg_length = self.num_bytes / self.count
        ranked = [(item["values"].decode(), item["counts"]) for item in self.frequent.Estimate().to_pylist()[:_RANKS]]
        for rank, (text, frequency) in enumerate(ranked):
            if rank < _TOP_VALUES:
                stats.top_values.add(value=text, frequency=frequency)
            stats.rank_histogram.buckets.add(low_rank=rank, high_rank=rank, label=text, sample_count=frequency)


def _add_buckets(
    histogram: statistics_pb2.Histogram, edges: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]
) -> None:
    for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True):
        histogram.buckets.add(low_value=low, high_value=high, sample_count=count)


@dataclasses.dataclass(kw_only=True)
class FeatureSummary:
    """Summary of one tf.Example key.

    Attributes:
        num_present: examples that have the key.
        values_per_example: numbers of values in these examples.
        numbers: summary of the values, if they are numbers.
        strings: summary of the values, if they are strings.
    """

    num_present: int = 0
    values_per_example: NumberSummary = dataclasses.field(default_factory=NumberSummary)
    numbers: NumberSummary | None = None
    strings: StringSummary | None = None
    is_float: bool = False

    def add(self, column: Column) -> None:
        """Adds the values of a batch, always of the same kind."""
        self.num_present += int(column.is_present.sum())
        self.values_per_example.add(column.lengths[column.is_present])
        if column.kind == BYTES:
            self.strings = self.strings or StringSummary()
            self.strings.add(column.values)
        else:
            self.is_float = column.kind == FLOATS
            self.numbers = self.numbers or NumberSummary()
            self.numbers.add(column.numbers)

    def merge(self, other: FeatureSummary) -> None:
        """Adds the values of another summary, which is unchanged."""
        self.num_present += other.num_present
        self.values_per_example.merge(other.values_per_example)
        self.is_float |= other.is_float
        if other.strings is not None:
            self.strings = self.strings or StringSummary()
            self.strings.merge(other.strings)
        if other.numbers is not None:
            self.numbers = self.numbers or NumberSummary()
            self.numbers.merge(other.numbers)


@dataclasses.dataclass(kw_only=True)
class SplitSummary:
    """Summary of all features and graphs of a split, or of a part of it.

    Attributes:
        num_examples: number of examples.
        features: summaries by tf.Example key.
        degrees: degrees of all nodes at an end of an edge set, by the key of that end.
        num_nodes: nodes by prefix of the node set.
        num_isolated: nodes without edges, not counting edges of the readout, by prefix of the node set.
        num_self_loops: edges from a node to itself, by prefix of the edge set.
    """

    num_examples: int = 0
    features: dict[str, FeatureSummary] = dataclasses.field(default_factory=dict)
    degrees: dict[str, NumberSummary] = dataclasses.field(default_factory=dict)
    num_nodes: dict[str, int] = dataclasses.field(default_factory=dict)
    num_isolated: dict[str, int] = dataclasses.field(default_factory=dict)
    num_self_loops: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, batch: ExampleBatch, layout: GraphLayout) -> None:
        """Adds examples that match the schema; keys that it lacks are left out."""
        self.num_examples += batch.num_examples
        for key, column in batch.columns.items():
            if column.kind and key in layout.set_of_key:
                self.features.setdefault(key, FeatureSummary()).add(column)
        node_sets = [one_set for one_set in layout.sets if one_set.set_type == const.NODES]
        is_joined = {}
        for one_set in node_sets:
            num_nodes = batch.column(one_set.size_key).numbers.sum()
            is_joined[one_set.prefix] = np.zeros(int(num_nodes), bool)
        for one_set in layout.sets:
            if one_set.set_type == const.EDGES and not one_set.prefix.startswith(_READOUT_EDGES):
                self._add_edges(batch, one_set, is_joined)
        for prefix, joined in is_joined.items():
            self.num_nodes[prefix] = self.num_nodes.get(prefix, 0) + len(joined)
            self.num_isolated[prefix] = self.num_isolated.get(prefix, 0) + int((~joined).sum())

    def merge(self, other: SplitSummary) -> None:
        """Adds the examples of another summary, which is unchanged."""
        self.num_examples += other.num_examples
        for key, feature in other.features.items():
            self.features.setdefault(key, FeatureSummary()).merge(feature)
        for key, degrees in other.degrees.items():
            self.degrees.setdefault(key, NumberSummary()).merge(degrees)
        for counts, more in (
            (self.num_nodes, other.num_nodes),
            (self.num_isolated, other.num_isolated),
            (self.num_self_loops, other.num_self_loops),
        ):
            for prefix, count in more.items():
                counts[prefix] = counts.get(prefix, 0) + count

    def _add_edges(self, batch: ExampleBatch, one_set: SetLayout, is_joined: dict[str, npt.NDArray[np.bool_]]) -> None:
        ends = []
        for key, node_set in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target)):
            prefix = f"{const.NODES}/{node_set}"
            index = flat_index(batch, key, node_set)
            degrees = np.bincount(index, minlength=len(is_joined[prefix]))
            is_joined[prefix] |= degrees > 0
            self.degrees.setdefault(key, NumberSummary()).add(degrees)
            ends.append(index)
        loops = int((ends[0] == ends[1]).sum()) if one_set.source == one_set.target else 0
        self.num_self_loops[one_set.prefix] = self.num_self_loops.get(one_set.prefix, 0) + loops


def to_dataset_statistics(
    summary: SplitSummary, split: str, layout: GraphLayout
) -> statistics_pb2.DatasetFeatureStatistics:
    """Writes a summary, unusable afterwards, in the format of TensorFlow Data Validation; keys are sorted."""
    dataset = statistics_pb2.DatasetFeatureStatistics(name=split, num_examples=summary.num_examples)
    for key in sorted(summary.features):
        feature = dataset.features.add()
        feature.path.step.append(key)
        write_feature(feature, summary.features[key], summary.num_examples)
        _write_graph_statistics(feature, key, summary, layout)
    return dataset


def write_feature(feature: statistics_pb2.FeatureNameStatistics, summary: FeatureSummary, num_examples: int) -> None:
    """Writes the statistics of one tf.Example key, except its path. The summary is unusable afterwards."""
    if summary.strings is not None:
        feature.type = statistics_pb2.FeatureNameStatistics.STRING
        common = feature.string_stats.common_stats
        summary.strings.write(feature.string_stats)
    else:
        assert summary.numbers is not None
        kinds = statistics_pb2.FeatureNameStatistics
        feature.type = kinds.FLOAT if summary.is_float else kinds.INT
        common = feature.num_stats.common_stats
        _write_numbers(feature.num_stats, summary.numbers)
    lengths = summary.values_per_example
    common.num_non_missing = summary.num_present
    common.num_missing = num_examples - summary.num_present
    if lengths.count:
        common.min_num_values = int(lengths.minimum)
        common.max_num_values = int(lengths.maximum)
        common.avg_num_values = lengths.mean
        common.tot_num_values = round(lengths.mean * lengths.count)
        common.num_values_histogram.CopyFrom(lengths.histograms()[1])


def _write_numbers(stats: statistics_pb2.NumericStatistics, numbers: NumberSummary) -> None:
    if numbers.count:
        stats.mean, stats.std_dev = numbers.mean, numbers.deviation
        stats.num_zeros = numbers.num_zeros
        stats.min, stats.median, stats.max = numbers.minimum, numbers.median(), numbers.maximum
    if numbers.count or numbers.num_nan:
        stats.histograms.extend(numbers.histograms())


def _write_graph_statistics(
    feature: statistics_pb2.FeatureNameStatistics, key: str, summary: SplitSummary, layout: GraphLayout
) -> None:
    one_set = layout.set_of_key[key]
    if key in summary.degrees and summary.degrees[key].count:
        name = _OUT if key == one_set.source_key else _IN
        degrees = summary.degrees[key]
        feature.custom_stats.add(name=f"{name}_mean", num=degrees.mean)
        feature.custom_stats.add(name=f"{name}_max", num=degrees.maximum)
        feature.custom_stats.add(name=f"{name}_zero_share", num=degrees.num_zeros / degrees.count)
        for suffix, histogram in zip(("", DEGREE_QUANTILES), degrees.histograms(), strict=True):
            histogram.name = f"{name}{suffix}"
            feature.custom_stats.add(name=histogram.name, histogram=histogram)
    if one_set.set_type != const.CONTEXT and key == one_set.size_key:
        prefix = one_set.prefix
        if prefix in summary.num_self_loops:
            feature.custom_stats.add(name="self_loops", num=summary.num_self_loops[prefix])
        if summary.num_nodes.get(prefix) and not one_set.name.startswith("_"):
            isolated = summary.num_isolated[prefix]
            feature.custom_stats.add(name="isolated_nodes", num=isolated)
            feature.custom_stats.add(name="isolated_share", num=isolated / summary.num_nodes[prefix])


def write_statistics(folder: str, dataset: statistics_pb2.DatasetFeatureStatistics, split: str) -> None:
    """Writes the statistics of a split into the folder of an ExampleStatistics artifact."""
    tf.io.gfile.makedirs(split_dir(folder, split))
    content = statistics_pb2.DatasetFeatureStatisticsList(datasets=[dataset])
    with tf.io.gfile.GFile(_statistics_path(folder, split), "wb") as file:
        file.write(content.SerializeToString(deterministic=True))


def read_statistics(folder: str, split: str) -> statistics_pb2.DatasetFeatureStatistics | None:
    """Reads the statistics of a split; None if the folder has none."""
    path = _statistics_path(folder, split)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    try:
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
    except DecodeError as error:
        raise ValueError(
            f"`folder` must hold serialized DatasetFeatureStatisticsList messages; got {len(content)} other bytes in "
            f"{path!r}. Point at statistics that StatisticsGen or GraphExampleValidator made."
        ) from error
    if len(found.datasets) != 1:
        raise ValueError(
            f"`folder` must hold statistics of one data set per split; got {len(found.datasets)} in {path!r}. "
            "Point at statistics without slices."
        )
    return found.datasets[0]


def _statistics_path(folder: str, split: str) -> str:
    return os.path.join(split_dir(folder, split), STATISTICS_FILE)
