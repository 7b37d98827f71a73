"""Finds the vocabularies that a saved transform looks original ids up in, to say which ids it has no row for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.transform.application import SavedGraphTransform

_LOOKUP = "LookupTableFindV2"
_UNCHANGED = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims"})
"""Operations that may lie between an id and its lookup."""


def find_id_tables(transform: SavedGraphTransform) -> dict[str, list[tf.Tensor]]:
    """Finds the lookup tables of vocabularies whose keys are original ids, as they are in the examples.

    Args:
        transform: the saved transform.

    Returns:
        Handles of tables by node set. Sets whose ids are in no vocabulary are absent, and so are those whose ids are
        changed before they are looked up.
    """
    handles = {inner.ref(): outer for outer, inner in transform.captures}
    found: dict[str, list[tf.Tensor]] = {}
    sets = {
        values.ref(): key.removeprefix(f"{const.NODES}/").removesuffix(f".{ID_NAME}")
        for key, values in transform.placeholders.items()
        if key.startswith(f"{const.NODES}/") and key.endswith(f".{ID_NAME}")
    }
    for table, keys in _lookups(transform.graph):
        source = keys
        while source.ref() not in sets and source.op.type in _UNCHANGED:
            source = source.op.inputs[0]
        if source.ref() in sets and table.ref() in handles:
            found.setdefault(sets[source.ref()], []).append(handles[table.ref()])
    return found


def are_unseen(ids: tf.Tensor, tables: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns which ids are in none of the tables.

    Args:
        ids: original ids of one node set, any shape.
        tables: what `find_id_tables` found for the set, at least one.

    Returns:
        Bool tensor of the same shape.
    """
    missing = tf.constant(-1, tf.int64)
    is_seen = [tf.raw_ops.LookupTableFindV2(table_handle=one, keys=ids, default_value=missing) >= 0 for one in tables]
    # The shape of what is looked up is not known to the operation.
    return tf.ensure_shape(tf.logical_not(tf.reduce_any(tf.stack(is_seen), axis=0)), ids.shape)


def _lookups(graph: tf.Graph) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yields the table and the keys of each lookup."""
    for operation in graph.get_operations():
        if operation.type == _LOOKUP:
            table, keys, _ = operation.inputs
            yield table, keys
