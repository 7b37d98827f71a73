"""What the statistics of a run say of each feature, with its splits beside each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.label_tables import text_shares
from tfx_gnn.reports.number_bins import number_shares
from tfx_gnn.reports.statistics_files import Distance, SplitDistances, SplitStatistics, deciles_of, key_of, order_splits

NOT_KEPT = (
    "Not kept by a run: how many distinct values numbers have and which of them are frequent, and strings after the "
    "1,000 most frequent of a split."
)
"""What the statistics of a run lack."""

_KINDS_OF_SETS = ("context", "nodes", "edges")
_SIZE = "#size"
_ID = "#id"
_ENDS = ("#source", "#target")
_READOUT_EDGES = "edges/_readout/"
_MAX_TEXTS = 10
_KINDS = {
    statistics_pb2.FeatureNameStatistics.INT: "integers",
    statistics_pb2.FeatureNameStatistics.FLOAT: "floats",
    statistics_pb2.FeatureNameStatistics.STRING: "strings",
}
Bars: TypeAlias = tuple[tuple[str, tuple[float | None, ...]], ...]
_Feature: TypeAlias = statistics_pb2.FeatureNameStatistics


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitFigures:
    """Figures of a feature in one split; None is a figure that the statistics do not keep.

    Attributes:
        num_examples: examples of the split.
        num_missing: examples without the feature.
        num_nan: values that are NaN; None for strings.
        num_distinct: number of distinct strings, estimated if there are many; None for numbers.
        mean: mean of the numbers.
        deviation: their standard deviation.
        quantiles: their minimum, deciles and maximum, 11 in all; empty for strings, and if deciles are not kept.
        top_values: the most frequent strings, at most 20, with their share of all values.
        skew: distance from the first split; None if it was not measured.
        drift: distance from the same split of earlier data; None if it was not measured.
    """

    num_examples: int
    num_missing: int
    num_nan: int | None
    num_distinct: int | None
    mean: float | None
    deviation: float | None
    quantiles: tuple[float, ...]
    top_values: tuple[tuple[str, float], ...]
    skew: Distance | None
    drift: Distance | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureFigures:
    """Figures of a feature in all splits.

    Attributes:
        set_name: "context", "nodes/<set>" or "edges/<set>".
        name: name of the feature, or "items per example" for the size of the set.
        kind: "integers", "floats" or "strings".
        splits: figures by split.
        bars: a histogram: (range or frequent string, its share of the values in each of `splits`); the share of a
            string is None where it is not kept.
    """

    set_name: str
    name: str
    kind: str
    splits: Mapping[str, SplitFigures]
    bars: Bars

    @property
    def largest_share(self) -> float:
        """The largest share of a bar in any split, 1 without one."""
        return max((share for _, shares in self.bars for share in shares if share is not None), default=0.0) or 1.0


def feature_figures(
    statistics: SplitStatistics, distances: Mapping[str, SplitDistances], sizes: Mapping[str, int]
) -> dict[str, list[FeatureFigures]]:
    """Lists the features of each set, by set.

    The positions of edges' ends are left out, because their degrees say more, and so is the number of the readout's
    edges. Ids that are numbers have neither moments nor quantiles nor bars: they are names.

    Args:
        statistics: statistics by split.
        distances: distances by split.
        sizes: number of examples by split; its order is that of the splits.
    """
    by_key: dict[str, dict[str, _Feature]] = {}
    num_examples: dict[str, int] = {}
    for split in order_splits(statistics, sizes):
        num_examples[split] = statistics[split].num_examples
        for feature in statistics[split].features:
            if feature.WhichOneof("stats") in ("num_stats", "string_stats"):
                by_key.setdefault(key_of(feature), {})[split] = feature
    found: dict[str, list[FeatureFigures]] = {}
    for key in sorted(by_key, key=_place_of):
        set_name, name = _names(key)
        if name in _ENDS or (name == _SIZE and key.startswith(_READOUT_EDGES)):
            continue
        # A split whose examples all lack the feature has no statistics of it.
        none = _empty_like(next(iter(by_key[key].values())))
        by_split = {split: by_key[key].get(split, none) for split in num_examples}
        figures = {
            split: _figures(feature, key, name, num_examples[split], distances.get(split, SplitDistances()))
            for split, feature in by_split.items()
        }
        found.setdefault(set_name, []).append(
            FeatureFigures(
                set_name=set_name,
                name="items per example" if name == _SIZE else name,
                kind=_KINDS[next(iter(by_split.values())).type],
                splits=figures,
                bars=_bars(by_split, name),
            )
        )
    return found


def _place_of(key: str) -> tuple[int, str]:
    """Sorts the context before node sets, and these before edge sets."""
    kind = key.partition("/")[0]
    return _KINDS_OF_SETS.index(kind) if kind in _KINDS_OF_SETS else len(_KINDS_OF_SETS), key


def _empty_like(feature: _Feature) -> _Feature:
    empty = _Feature(type=feature.type)
    (empty.string_stats if feature.WhichOneof("stats") == "string_stats" else empty.num_stats).SetInParent()
    return empty


def _names(key: str) -> tuple[str, str]:
    """Splits a tf.Example key into those of the set and of the feature, which may hold dots."""
    if key.startswith("context/"):
        return "context", key.removeprefix("context/")
    set_name, _, name = key.partition(".")
    return set_name, name


def _figures(feature: _Feature, key: str, name: str, num_examples: int, distances: SplitDistances) -> SplitFigures:
    numbers, strings = feature.num_stats, feature.string_stats
    is_text = feature.WhichOneof("stats") == "string_stats"
    common = strings.common_stats if is_text else numbers.common_stats
    histograms = [] if name == _ID else [one for one in numbers.histograms if one.buckets]
    return SplitFigures(
        num_examples=num_examples,
        num_missing=num_examples - common.num_non_missing,
        num_nan=None if is_text else max((one.num_nan for one in numbers.histograms), default=0),
        num_distinct=strings.unique if is_text else None,
        mean=numbers.mean if histograms else None,
        deviation=numbers.std_dev if histograms else None,
        quantiles=next(filter(None, map(deciles_of, histograms)), ()),
        top_values=_top_values(feature) if is_text else (),
        skew=distances.skew.get(key),
        drift=distances.drift.get(key),
    )


def _top_values(feature: _Feature) -> tuple[tuple[str, float], ...]:
    shares = text_shares(feature)
    return tuple((one.value, shares[one.value]) for one in feature.string_stats.top_values if one.value in shares)


def _bars(by_split: Mapping[str, _Feature], name: str) -> Bars:
    if any(feature.WhichOneof("stats") == "string_stats" for feature in by_split.values()):
        return _text_bars(by_split)
    if name == _ID:
        return ()
    shares = number_shares(by_split)
    ranges = dict.fromkeys(one for of_split in shares.values() for one in of_split)
    return tuple((one, tuple(of_split.get(one, 0.0) for of_split in shares.values())) for one in ranges)


def _text_bars(by_split: Mapping[str, _Feature]) -> Bars:
    """Shares of the strings that are the most frequent in the first split that has some."""
    shares = [text_shares(feature) for feature in by_split.values()]
    # A string that is not among the kept ones is absent only if all are kept.
    absent = [
        0.0 if feature.string_stats.unique <= len(of_split) else None
        for feature, of_split in zip(by_split.values(), shares, strict=True)
    ]
    texts = list(dict.fromkeys(text for of_split in shares for text in of_split))[:_MAX_TEXTS]
    return tuple(
        (text, tuple(of_split.get(text, none) for of_split, none in zip(shares, absent, strict=True))) for text in texts
    )
