"""The values of labels, by split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.reports.number_bins import number_shares
from tfx_gnn.reports.statistics_files import SplitStatistics, key_of, order_splits

_LABEL_PREFIXES = (f"nodes/{READOUT_NODE_SET}.", "context/")
_MAX_LABELS = 60
_Feature: TypeAlias = statistics_pb2.FeatureNameStatistics


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelTable:
    """Values of a label by split.

    Attributes:
        feature: key of the feature in tf.Examples.
        splits: the splits, in the order of `rows`' shares.
        rows: (value, its share of each split's labels); strings with the most frequent in the first split first.
        largest: the largest share.
        num_not_shown: number of further values.
    """

    feature: str
    splits: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    largest: float
    num_not_shown: int


def label_tables(statistics: SplitStatistics, sizes: Mapping[str, int]) -> list[LabelTable]:
    """Lists the values of labels by split: strings of the readout and of the context, and their numbers."""
    splits = order_splits(statistics, sizes)
    by_key: dict[str, dict[str, _Feature]] = {}
    for split in splits:
        for feature in statistics[split].features:
            key = key_of(feature)
            if key.startswith(_LABEL_PREFIXES) and "#" not in key:
                by_key.setdefault(key, {})[split] = feature
    tables = (_label_table(key, by_split, splits) for key, by_split in sorted(by_key.items()))
    return [table for table in tables if table.rows]


def _label_table(key: str, by_split: Mapping[str, _Feature], splits: list[str]) -> LabelTable:
    is_text = any(feature.WhichOneof("stats") == "string_stats" for feature in by_split.values())
    shares = (
        {split: text_shares(by_split[split]) for split in splits if split in by_split}
        if is_text
        else number_shares(by_split)
    )
    values = dict.fromkeys(value for of_split in shares.values() for value in of_split)
    ordered = sorted(values, key=lambda value: -shares[next(iter(shares))].get(value, 0.0)) if is_text else list(values)
    rows = [(value, tuple(shares.get(split, {}).get(value, 0.0) for split in splits)) for value in ordered]
    return LabelTable(
        feature=key,
        splits=tuple(splits),
        rows=tuple(rows[:_MAX_LABELS]),
        largest=max((share for _, shares in rows for share in shares), default=0.0) or 1.0,
        num_not_shown=max(0, len(rows) - _MAX_LABELS),
    )


def text_shares(feature: _Feature) -> dict[str, float]:
    """Returns the share of each frequent string among all values, the most frequent first."""
    counts = {bucket.label: bucket.sample_count for bucket in feature.string_stats.rank_histogram.buckets}
    total = feature.string_stats.common_stats.tot_num_values or sum(counts.values()) or 1.0
    return {value: count / total for value, count in counts.items()}
