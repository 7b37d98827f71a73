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
    """Marks features as labels.

    Args:
        schema: schema to change; the features are in its context.
        names: the features.
    """
    for name in names:
        schema.context.metadata.extra.add(key=LABEL_FEATURE_KEY, value=name)


def remove_lost_marks(schema: GraphSchema) -> None:
    """Removes the marks of features that are no longer there.

    Args:
        schema: schema to change.
    """
    for entry in list(schema.context.metadata.extra):
        if entry.key == LABEL_FEATURE_KEY and entry.value not in schema.context.features:
            schema.context.metadata.extra.remove(entry)


def context_labels(schema: GraphSchema) -> frozenset[str]:
    """Reads which features of the context are labels.

    Args:
        schema: schema of graphs.

    Returns:
        Names of features that `mark_context_labels` marked.

    Raises:
        ValueError: if a mark is of no feature of the context.
    """
    marked = frozenset(entry.value for entry in schema.context.metadata.extra if entry.key == LABEL_FEATURE_KEY)
    unknown = sorted(marked - set(schema.context.features))
    if unknown:
        raise ValueError(
            f"`metadata.extra` must mark features of the context as {LABEL_FEATURE_KEY!r}; got {unknown}, where there "
            f"are {sorted(schema.context.features)}. Mend the graph schema."
        )
    return marked
