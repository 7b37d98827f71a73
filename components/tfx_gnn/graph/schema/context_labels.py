"""Reads and writes which context features a graph schema marks as labels.

Labels of nodes and pairs are stored in node set `_readout`, which holds nothing else. A context also holds input
features, so its `metadata.extra` has an entry with the key "label_feature" for each feature that is a label:

    context { metadata { extra { key: "label_feature" value: "is_toxic" } } }
"""

from __future__ import annotations

from collections.abc import Iterable

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema

LABEL_FEATURE_KEY = "label_feature"
"""Key of the entries of `metadata.extra`."""


def mark_context_labels(schema: GraphSchema, names: Iterable[str]) -> None:
    """Marks features as labels."""
    for name in names:
        schema.context.metadata.extra.add(key=LABEL_FEATURE_KEY, value=name)


def remove_lost_marks(schema: GraphSchema) -> None:
    """Removes the marks of features that no longer exist."""
    for entry in list(schema.context.metadata.extra):
        if entry.key == LABEL_FEATURE_KEY and entry.value not in schema.context.features:
            schema.context.metadata.extra.remove(entry)


def context_labels(schema: GraphSchema) -> frozenset[str]:
    """Returns which context features are labels; refuses marks of unknown features."""
    marked = frozenset(entry.value for entry in schema.context.metadata.extra if entry.key == LABEL_FEATURE_KEY)
    unknown = sorted(marked - set(schema.context.features))
    if unknown:
        raise ValueError(
            f"`metadata.extra` must mark features of the context as {LABEL_FEATURE_KEY!r}; got {unknown}. Known are "
            f"{sorted(schema.context.features)}. Fix the graph schema."
        )
    return marked
