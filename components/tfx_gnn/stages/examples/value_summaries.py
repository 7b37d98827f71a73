"""Mergeable summaries of numbers and of strings, of bounded size whatever they summarize."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx_bsl import sketches

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
        count: numbers that are neither infinite nor NaN; all but `num_nan` is of those.
        num_nan: NaNs.
        num_zeros: zeros.
        mean: their mean.
        squares: sum of the squared differences to the mean.
        minimum: smallest one.
        maximum: largest one.
        sketch: quantile sketch of tfx_bsl.
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
        """Takes more numbers in.

        Args:
            values: numbers of any dtype, shape [n].
        """
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
        """Takes the numbers of another summary in, which stays as it is."""
        self.num_nan += other.num_nan
        if not other.count:
            return
        self._add_moments(other.count, other.mean, other.squares)
        self.num_zeros += other.num_zeros
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.sketch.Merge(other.sketch)

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        total = self.count + count
        step = mean - self.mean
        self.squares += squares + step * step * self.count * count / total
        self.mean += step * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """Standard deviation, 0 without numbers."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0

    def histograms(self) -> list[statistics_pb2.Histogram]:
        """Makes histograms with buckets of equal width and of equal count.

        Nothing can be added afterwards.

        Returns:
            Both, in this order; counts are those of the quantile sketch.
        """
        equal_width = statistics_pb2.Histogram(num_nan=self.num_nan, type=statistics_pb2.Histogram.STANDARD)
        equal_count = statistics_pb2.Histogram(num_nan=self.num_nan, type=statistics_pb2.Histogram.QUANTILES)
        if self.count:
            values, weights = self._distribution()
            num_buckets = 1 if self.minimum == self.maximum else _NUM_BUCKETS
            edges = np.linspace(self.minimum, self.maximum, num_buckets + 1)
            # Buckets hold their lower edge; the last one holds both.
            below = np.concatenate([[0.0], weights])[np.searchsorted(values, edges, side="left")]
            below[-1] = self.count
            _add_buckets(equal_width, edges, np.diff(below))
            deciles = values[_FINE_QUANTILES // _NUM_BUCKETS * np.arange(_NUM_BUCKETS + 1)]
            _add_buckets(equal_count, deciles, np.full(_NUM_BUCKETS, self.count / _NUM_BUCKETS))
        return [equal_width, equal_count]

    def median(self) -> float:
        """The middle number, 0 without numbers; nothing can be added afterwards."""
        return float(self._distribution()[0][_FINE_QUANTILES // 2]) if self.count else 0.0

    def _distribution(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Quantiles, and how many numbers are at most that: both float64 [_FINE_QUANTILES + 1]."""
        values, weights = self.sketch.GetQuantilesAndCumulativeWeights(_FINE_QUANTILES)
        return values.flatten().to_numpy(), weights.flatten().to_numpy()


@dataclasses.dataclass(kw_only=True)
class StringSummary:
    """Lengths, number of different ones and the most frequent of strings.

    Attributes:
        count: strings.
        num_bytes: bytes of all.
        unique: sketch of tfx_bsl of the different ones.
        frequent: sketch of tfx_bsl of the frequent ones.
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
        """Takes more strings in.

        Args:
            values: large_binary array without nulls.
        """
        if not len(values):
            return
        self.count += len(values)
        self.num_bytes += int(pc.sum(pc.binary_length(values)).as_py())
        self.unique.AddValues(values)
        self.frequent.AddValues(values)

    def merge(self, other: StringSummary) -> None:
        """Takes the strings of another summary in, which stays as it is."""
        self.count += other.count
        self.num_bytes += other.num_bytes
        self.unique.Merge(other.unique)
        self.frequent.Merge(other.frequent)

    def write(self, stats: statistics_pb2.StringStatistics) -> None:
        """Writes all but the common statistics.

        Args:
            stats: proto message to fill.
        """
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
