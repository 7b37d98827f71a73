"""Whether examples that are sampled from an index hold what a model reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema


def schema_differences(wanted: GraphSchema, made: GraphSchema) -> Iterator[str]:
    """Describes what a model reads but examples of an index would lack, or have in another type.

    Args:
        wanted: schema of the model's requests.
        made: schema of the examples of the index.
    """
    groups: list[tuple[str, Mapping[str, Feature], Mapping[str, Feature] | None]] = [
        ("the context", wanted.context.features, made.context.features)
    ]
    for kind, of_wanted, of_made in (
        ("node set", wanted.node_sets, made.node_sets),
        ("edge set", wanted.edge_sets, made.edge_sets),
    ):
        groups += [
            (f"{kind} {name!r}", one.features, of_made[name].features if name in of_made else None)
            for name, one in of_wanted.items()
        ]
    for place, features, found in groups:
        if found is None:
            yield f"{place} is not sampled"
            continue
        for name, feature in features.items():
            if name not in found:
                yield f"{place} has no feature {name!r}"
            elif _kind(feature) != _kind(found[name]):
                yield f"feature {name!r} of {place} is {_kind(found[name])}, not {_kind(feature)}"


def _kind(feature: Feature) -> str:
    return f"{tf.as_dtype(feature.dtype).name} of shape {[dim.size for dim in feature.shape.dim]}"
