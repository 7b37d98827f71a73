"""What a page shows of a run's data: sets, degrees and labels by split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema.schema_spec import declared_dtype, dtype_name
from tfx_gnn.reports.number_bins import number_shares
from tfx_gnn.reports.run_contents import SplitStatistics

_DEGREES = {"out_degree": "out-degree", "in_degree": "in-degree"}
_LABEL_PREFIXES = (f"nodes/{READOUT_NODE_SET}.", "context/")
_MAX_LABELS = 60
_Feature: TypeAlias = statistics_pb2.FeatureNameStatistics


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetRow:
    """One set of the schema, and how large it is in the examples.

    Attributes:
        kind: "node set", "edge set" or "context".
        name: its name.
        ends: "source to target" of an edge set.
        description: what the schema says of it.
        features: (name, dtype with shape, description) of its features.
        mean: mean number of items in an example; None if unknown.
        largest: largest number of items in an example; None if unknown.
    """

    kind: str
    name: str
    ends: str
    description: str
    features: tuple[tuple[str, str, str], ...]
    mean: float | None
    largest: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DegreeHistogram:
    """Degrees of all nodes at one end of an edge set.

    Attributes:
        edge_set: the edge set.
        end: "out-degree" or "in-degree".
        split: the split that was counted.
        mean: mean degree.
        largest: largest degree.
        zero_share: share of the nodes without such an edge.
        bars: (low, high, share of the nodes, height relative to the highest bar).
    """

    edge_set: str
    end: str
    split: str
    mean: float
    largest: float
    zero_share: float
    bars: tuple[tuple[float, float, float, float], ...]


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


def set_rows(schema: GraphSchema, sampling: Mapping[str, Any]) -> list[SetRow]:
    """Lists the context, the node sets and the edge sets of a schema."""
    statistics = sampling.get("statistics", {})
    rows = []
    if schema.context.features:
        rows.append(
            SetRow(
                kind="context",
                name="context",
                ends="",
                description="",
                features=_features(schema.context.features),
                mean=None,
                largest=None,
            )
        )
    ends = {name: f"{one.source} to {one.target}" for name, one in schema.edge_sets.items()}
    for kind, names, sets, sizes in (
        ("node set", {}, schema.node_sets, statistics.get("node_sets", {})),
        ("edge set", ends, schema.edge_sets, statistics.get("edge_sets", {})),
    ):
        for name in sorted(sets):
            size = sizes.get(name, {})
            one = sets[name]
            rows.append(
                SetRow(
                    kind=kind,
                    name=name,
                    ends=names.get(name, ""),
                    description=one.description,
                    features=_features(one.features),
                    mean=size.get("mean"),
                    largest=size.get("max"),
                )
            )
    return rows


def _features(features: Mapping[str, Feature]) -> tuple[tuple[str, str, str], ...]:
    rows = []
    for name in sorted(features):
        feature = features[name]
        dims = [dim.size for dim in feature.shape.dim]
        shape = f" [{', '.join('?' if size < 0 else str(size) for size in dims)}]" if dims else ""
        rows.append((name, shown_dtype(feature) + shape, feature.description))
    return tuple(rows)


def shown_dtype(feature: Feature) -> str:
    """Names the dtype of a feature, as in "int64"."""
    dtype = declared_dtype(feature.dtype)
    return str(dtype.name) if dtype is not None else dtype_name(feature.dtype)


def degree_histograms(statistics: SplitStatistics, sizes: Mapping[str, int]) -> list[DegreeHistogram]:
    """Finds the degrees of the largest split that has some."""
    for split in sizes or statistics:
        if split in statistics:
            found = [_degrees(feature, split) for feature in statistics[split].features]
            if any(found):
                return [one for one in found if one is not None]
    return []


def _degrees(feature: _Feature, split: str) -> DegreeHistogram | None:
    custom = {stat.name: stat for stat in feature.custom_stats}
    name = next((name for name in _DEGREES if name in custom), "")
    key = _key(feature)
    if not name or not key.startswith("edges/"):
        return None
    buckets = custom[name].histogram.buckets
    total = sum(bucket.sample_count for bucket in buckets) or 1.0
    highest = max((bucket.sample_count for bucket in buckets), default=0.0) or 1.0
    return DegreeHistogram(
        edge_set=key.removeprefix("edges/").rpartition(".")[0],
        end=_DEGREES[name],
        split=split,
        mean=custom[f"{name}_mean"].num,
        largest=custom[f"{name}_max"].num,
        zero_share=custom[f"{name}_zero_share"].num,
        bars=tuple(
            (bucket.low_value, bucket.high_value, bucket.sample_count / total, bucket.sample_count / highest)
            for bucket in buckets
        ),
    )


def label_tables(statistics: SplitStatistics, sizes: Mapping[str, int]) -> list[LabelTable]:
    """Lists the values of labels by split: strings of the readout and of the context, and their numbers."""
    splits = [split for split in sizes if split in statistics] or list(statistics)
    by_key: dict[str, dict[str, _Feature]] = {}
    for split in splits:
        for feature in statistics[split].features:
            key = _key(feature)
            if key.startswith(_LABEL_PREFIXES) and "#" not in key:
                by_key.setdefault(key, {})[split] = feature
    tables = (_label_table(key, by_split, splits) for key, by_split in sorted(by_key.items()))
    return [table for table in tables if table.rows]


def _label_table(key: str, by_split: Mapping[str, _Feature], splits: list[str]) -> LabelTable:
    is_text = any(feature.WhichOneof("stats") == "string_stats" for feature in by_split.values())
    shares = (
        {split: _text_shares(by_split[split]) for split in splits if split in by_split}
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


def _text_shares(feature: _Feature) -> dict[str, float]:
    counts = {bucket.label: bucket.sample_count for bucket in feature.string_stats.rank_histogram.buckets}
    total = feature.string_stats.common_stats.tot_num_values or sum(counts.values()) or 1.0
    return {value: count / total for value, count in counts.items()}


def _key(feature: _Feature) -> str:
    return "".join(feature.path.step) if feature.path.step else feature.name
