"""Degrees of nodes, isolated nodes and dangling edges, by split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.reports.statistics_files import Distance, SplitDistances, SplitStatistics, deciles_of, key_of, order_splits

_DEGREES = {"out_degree": "out-degree", "in_degree": "in-degree"}
_Feature: TypeAlias = statistics_pb2.FeatureNameStatistics


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
    key = key_of(feature)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class DegreeRow:
    """Degrees of the nodes at one end of an edge set in one split.

    Attributes:
        edge_set: the edge set.
        end: "out-degree" or "in-degree".
        split: the split.
        mean: mean degree.
        quantiles: smallest degree, deciles and largest degree, 11 in all; empty if they are not kept.
        zero_share: share of the nodes without such an edge.
        num_dangling: edges that point to a node that is not there; None if it is not kept.
        drift: distance from the degrees in the same split of earlier data; None if it was not measured.
    """

    edge_set: str
    end: str
    split: str
    mean: float
    quantiles: tuple[float, ...]
    zero_share: float
    num_dangling: int | None
    drift: Distance | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class IsolatedRow:
    """Nodes of a node set that no edge touches, in one split.

    Attributes:
        node_set: the node set.
        split: the split.
        num_isolated: nodes without edges in sampled graphs.
        share: their share of all nodes of the set.
    """

    node_set: str
    split: str
    num_isolated: int
    share: float


def degree_rows(
    statistics: SplitStatistics, distances: Mapping[str, SplitDistances], sizes: Mapping[str, int]
) -> list[DegreeRow]:
    """Lists the degrees by edge set, end and split; `sizes` gives the order of the splits."""
    rows = []
    for position, split in enumerate(order_splits(statistics, sizes)):
        for feature in statistics[split].features:
            custom = {stat.name: stat for stat in feature.custom_stats}
            name = next((name for name in _DEGREES if f"{name}_mean" in custom), "")
            key = key_of(feature)
            if not name or not key.startswith("edges/"):
                continue
            quantiles = custom.get(f"{name}_quantiles")
            dangling = custom.get("dangling_edges")
            row = DegreeRow(
                edge_set=key.removeprefix("edges/").rpartition(".")[0],
                end=_DEGREES[name],
                split=split,
                mean=custom[f"{name}_mean"].num,
                quantiles=() if quantiles is None else deciles_of(quantiles.histogram),
                zero_share=custom[f"{name}_zero_share"].num,
                num_dangling=None if dangling is None else int(dangling.num),
                drift=distances.get(split, SplitDistances()).drift.get(key),
            )
            rows.append((row.edge_set, key, position, row))
    return [row for *_, row in sorted(rows, key=lambda item: item[:3])]


def isolated_rows(statistics: SplitStatistics, sizes: Mapping[str, int]) -> list[IsolatedRow]:
    """Lists the nodes without edges by node set and split; `sizes` gives the order of the splits."""
    rows = []
    for position, split in enumerate(order_splits(statistics, sizes)):
        for feature in statistics[split].features:
            custom = {stat.name: stat.num for stat in feature.custom_stats}
            if "isolated_nodes" in custom:
                name = key_of(feature).removeprefix("nodes/").rpartition(".")[0]
                row = IsolatedRow(
                    node_set=name,
                    split=split,
                    num_isolated=int(custom["isolated_nodes"]),
                    share=custom["isolated_share"],
                )
                rows.append((name, position, row))
    return [row for *_, row in sorted(rows, key=lambda item: item[:2])]
