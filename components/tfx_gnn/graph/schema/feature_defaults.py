"""Reads and writes which value a graph schema declares for items without one.

node_sets { key: "user" value { features { key: "age" ... } metadata { extra { key: "default.age" value: "-1" } } } }
"""

from __future__ import annotations

from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, NodeSet

DEFAULT_KEY = "default."
"""Beginning of the keys of these entries of `metadata.extra`."""


def feature_defaults(declared: NodeSet | EdgeSet | Context) -> dict[str, str]:
    """Returns the values by feature, spelled as in a CSV file."""
    return {
        entry.key[len(DEFAULT_KEY) :]: entry.value
        for entry in declared.metadata.extra
        if entry.key.startswith(DEFAULT_KEY)
    }


def copy_feature_defaults(copy: NodeSet | EdgeSet | Context, original: NodeSet | EdgeSet | Context) -> None:
    """Declares the same values for the features that a copy of a set has."""
    for name, value in feature_defaults(original).items():
        if name in copy.features:
            copy.metadata.extra.add(key=f"{DEFAULT_KEY}{name}", value=value)
