"""Finds the labels among context features, as a graph schema marks them.

Labels of nodes and pairs lie in node set `_readout`, where there is nothing else. A context holds inputs, too; which of
its features are labels is in its `metadata.extra`, one entry of key "label_feature" for each:

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
    """Removes the marks of features that are no longer there."""
    for entry in list(schema.context.metadata.extra):
        if entry.key == LABEL_FEATURE_KEY and entry.value not in schema.context.features:
            schema.context.metadata.extra.remove(entry)


def context_labels(schema: GraphSchema) -> frozenset[str]:
    """Reads which features of the context are labels; refuses marks of other names."""
    marked = frozenset(entry.value for entry in schema.context.metadata.extra if entry.key == LABEL_FEATURE_KEY)
    unknown = sorted(marked - set(schema.context.features))
    if unknown:
        raise ValueError(
            f"`metadata.extra` must mark features of the context as {LABEL_FEATURE_KEY!r}; got {unknown}, where there "
            f"are {sorted(schema.context.features)}. Mend the graph schema."
        )
    return marked
