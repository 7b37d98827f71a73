"""Reads and writes which value a graph schema declares for items without one, and which features are times.

node_sets { key: "user" value { features { key: "age" ... } metadata { extra { key: "default.age" value: "-1" } } } }
node_sets { key: "user" value { ... metadata { extra { key: "unit.joined" value: "seconds since 1970" } } } }
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, Feature, GraphSchema, NodeSet

DEFAULT_KEY = "default."
"""Beginning of the keys of these entries of `metadata.extra`."""

UNIT_KEY = "unit."
"""Beginning of the keys of entries that declare the unit of a feature."""

SECONDS_SINCE_1970 = "seconds since 1970"
"""Unit of times."""


def time_features(declared: NodeSet | EdgeSet | Context) -> set[str]:
    """Returns the features whose declared unit is that of times."""
    return {
        entry.key[len(UNIT_KEY) :]
        for entry in declared.metadata.extra
        if entry.key.startswith(UNIT_KEY) and entry.value == SECONDS_SINCE_1970
    }


def declare_time(declared: NodeSet | EdgeSet | Context, feature: str) -> None:
    """Declares that a feature holds times."""
    declared.metadata.extra.add(key=f"{UNIT_KEY}{feature}", value=SECONDS_SINCE_1970)


def feature_defaults(declared: NodeSet | EdgeSet | Context) -> dict[str, str]:
    """Returns the values by feature, spelled as in a CSV file."""
    return {
        entry.key[len(DEFAULT_KEY) :]: entry.value
        for entry in declared.metadata.extra
        if entry.key.startswith(DEFAULT_KEY)
    }


def fill_nulls(items: list[Any], feature: Feature, default: str | None) -> list[Any]:
    """Replaces None by the value that is declared for items without one; nothing if none is.

    Args:
        items: a value of each item, a list if the feature has a shape.
        feature: declares type and shape.
        default: the declared value, spelled as in a CSV file.

    Returns:
        The items.
    """
    if default is None or None not in items:
        return items
    dtype = tf.as_dtype(feature.dtype)
    item: Any = default
    if dtype.is_bool:
        item = default.lower() in ("true", "1")
    elif dtype.is_integer:
        item = int(default or 0)
    elif dtype.is_floating:
        item = float(default or 0)
    for dim in reversed(feature.shape.dim):
        item = [item] * max(dim.size, 0)
    return [item if one is None else one for one in items]


def copy_feature_defaults(copy: NodeSet | EdgeSet | Context, original: NodeSet | EdgeSet | Context) -> None:
    """Declares the same values and units for the features that a copy of a set has."""
    for entry in original.metadata.extra:
        key = next((key for key in (DEFAULT_KEY, UNIT_KEY) if entry.key.startswith(key)), None)
        if key is not None and entry.key[len(key) :] in copy.features:
            copy.metadata.extra.add(key=entry.key, value=entry.value)


def copy_all_feature_defaults(copy: GraphSchema, original: GraphSchema) -> None:
    """Declares the same values and units for all features that a copy of a schema has."""
    copy_feature_defaults(copy.context, original.context)
    for sets, originals in ((copy.node_sets, original.node_sets), (copy.edge_sets, original.edge_sets)):
        for name in set(sets) & set(originals):
            copy_feature_defaults(sets[name], originals[name])


def remove_feature_defaults(schema: GraphSchema) -> None:
    """Removes the values and units, which have no meaning after a transform."""
    all_declared: list[NodeSet | EdgeSet | Context] = [schema.context]
    all_declared += [*schema.node_sets.values(), *schema.edge_sets.values()]
    for declared in all_declared:
        for entry in list(declared.metadata.extra):
            if entry.key.startswith((DEFAULT_KEY, UNIT_KEY)):
                declared.metadata.extra.remove(entry)
