"""Puts the histograms of splits into common bins, so that their shares can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tensorflow_metadata.proto.v0 import statistics_pb2

_NUM_BINS = 10
_MAX_INTEGERS = 12
_Bucket: TypeAlias = statistics_pb2.Histogram.Bucket


def number_shares(by_split: Mapping[str, statistics_pb2.FeatureNameStatistics]) -> dict[str, dict[str, float]]:
    """Finds the share of each range of values, by split.

    The buckets of a split's histogram depend on its smallest and largest value. Here all splits get the same ranges;
    within a bucket, values count as spread evenly. At most 12 integers get a row each instead.

    Args:
        by_split: statistics of a feature with numbers, in each split that has it.

    Returns:
        For each split, its share in each range, in ascending order; without the integers that no split has.
    """
    buckets = {split: _buckets(feature) for split, feature in by_split.items()}
    known = [bucket for of_split in buckets.values() for bucket in of_split]
    if not known:
        return {split: {} for split in by_split}
    is_integer = all(feature.type == statistics_pb2.FeatureNameStatistics.INT for feature in by_split.values())
    low, high = min(one.low_value for one in known), max(one.high_value for one in known)
    if is_integer:
        edges, names = _integer_bins(math.ceil(low), math.floor(high))
    else:
        edges = np.linspace(low, high, _NUM_BINS + 1) if high > low else np.array([low, low])
        names = [_range(*pair) for pair in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    counts = {split: _counts(of_split, edges, is_integer=is_integer) for split, of_split in buckets.items()}
    is_shown = np.sum(list(counts.values()), axis=0) > 0 if is_integer else np.ones(len(names), dtype=bool)
    return {
        split: {
            name: float(count / (of_split.sum() or 1.0))
            for name, count, shown in zip(names, of_split, is_shown, strict=True)
            if shown
        }
        for split, of_split in counts.items()
    }


def _buckets(feature: statistics_pb2.FeatureNameStatistics) -> Sequence[_Bucket]:
    for histogram in feature.num_stats.histograms:
        if histogram.type == statistics_pb2.Histogram.STANDARD:
            return [
                bucket
                for bucket in histogram.buckets
                if math.isfinite(bucket.low_value) and math.isfinite(bucket.high_value)
            ]
    return []


def _integer_bins(low: int, high: int) -> tuple[NDArray[np.float64], list[str]]:
    """Edges between integers, each at a half, and the names of the bins."""
    width = 1 if high - low < _MAX_INTEGERS else math.ceil((high - low + 1) / _NUM_BINS)
    starts = list(range(low, high + 1, width))
    names = [_range(start, min(start + width - 1, high)) for start in starts]
    return np.array([*starts, high + 1], dtype=float) - 0.5, names


def _range(low: float, high: float) -> str:
    if low == high:
        return f"{low:.6g}"
    return f"{low:.4g} to {high:.4g}" if isinstance(low, float) else f"{low:,} to {high:,}"


def _counts(buckets: Sequence[_Bucket], edges: NDArray[np.float64], *, is_integer: bool) -> NDArray[np.float64]:
    """Spreads the buckets' counts over the bins between `edges`."""
    counts = np.zeros(len(edges) - 1, dtype=np.float64)
    for position, bucket in enumerate(buckets):
        low, high = bucket.low_value, bucket.high_value
        if is_integer:
            # The integers of a bucket: all below its upper end, which belongs to the last bucket only.
            is_last = position == len(buckets) - 1 or low == high
            low, high = math.ceil(low) - 0.5, (math.floor(high) + 0.5 if is_last else math.ceil(high) - 0.5)
        if high > low:
            overlap = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
            counts += bucket.sample_count * np.maximum(overlap, 0.0) / (high - low)
        else:
            counts[min(int(np.searchsorted(edges, low, side="right")) - 1, len(counts) - 1)] += bucket.sample_count
    return counts
