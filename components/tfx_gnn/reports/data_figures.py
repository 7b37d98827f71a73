"""What a page shows of the sets of a schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.schema.schema_spec import declared_dtype, dtype_name


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
