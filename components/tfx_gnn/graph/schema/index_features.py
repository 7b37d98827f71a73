"""Reads and writes which features of a graph schema hold indices of nodes.

They are marked in `metadata.extra` of their set, by a key that ends with the name of the feature and a value that names
the node set, or the node sets of the columns, separated by commas:

    context { metadata { extra { key: "index_feature/root" value: "docs" } } }
    edge_sets { key: "cites" value { metadata { extra { key: "index_feature/between" value: "docs,authors" } } } }
"""

from __future__ import annotations

from typing import Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.schema.schema_io import iter_sets
from tfx_gnn.graph.schema.schema_spec import declared_dtype
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_feature, iter_index_features

INDEX_FEATURE_KEY = "index_feature/"
"""Beginning of the keys of these entries of `metadata.extra`."""

_Set = Union[schema_pb2.Context, schema_pb2.NodeSet, schema_pb2.EdgeSet]


def mark_index_features(schema: schema_pb2.GraphSchema, features: IndexFeatures) -> None:
    """Declares which features hold indices of nodes.

    Their values are 0 for the first node of the graph in the node set, and -1 for no node. Parsing, batching, padding,
    training and exported models then treat them like the ends of edges: values are checked, and shifted when graphs
    are merged. GraphTransform passes them on unchanged.

    Args:
        schema: the graph schema, which is changed.
        features: by set ("context", "nodes/<set>" or "edges/<set>") and name of the feature, the node set of all
            values, or a tuple with the node set of each column, the last dimension.

    Raises:
        ValueError: if the schema lacks a set or feature, the dtype is neither int32 nor int64, or node sets and columns
            differ in number.

    Example:
        >>> schema = tfx_gnn.parse_schema('''
        ...     context { features { key: "root" value { dtype: DT_INT64 } } }
        ...     node_sets { key: "docs" value {} }''')
        >>> tfx_gnn.mark_index_features(schema, {"context": {"root": "docs"}})
        >>> tfx_gnn.index_features(schema)
        {'context': {'root': 'docs'}}
    """
    sets = sets_by_key(schema)
    _check(schema, features)
    for one in iter_index_features(features):
        key = f"{INDEX_FEATURE_KEY}{one.name}"
        extra = sets[one.set_key].metadata.extra
        for entry in [entry for entry in extra if entry.key == key]:
            extra.remove(entry)
        # The comma at the end distinguishes one column from a feature without columns.
        value = ",".join(one.node_sets) + ("," if one.is_by_column and len(one.node_sets) == 1 else "")
        extra.add(key=key, value=value)


def index_features(schema: schema_pb2.GraphSchema) -> dict[str, dict[const.FieldName, str | tuple[str, ...]]]:
    """Returns the features that a schema declares to hold indices of nodes.

    Args:
        schema: the graph schema.

    Returns:
        The argument of `mark_index_features`; empty if nothing is declared.

    Raises:
        ValueError: if a mark does not fit the schema.
    """
    found: dict[str, dict[const.FieldName, str | tuple[str, ...]]] = {}
    for set_key, one_set in sets_by_key(schema).items():
        for entry in one_set.metadata.extra:
            if entry.key.startswith(INDEX_FEATURE_KEY):
                names = entry.value.split(",")
                node_sets = entry.value if len(names) == 1 else tuple(filter(None, names))
                name = entry.key[len(INDEX_FEATURE_KEY) :]
                if name in found.setdefault(set_key, {}):
                    raise ValueError(
                        f"`metadata.extra` must mark each index feature once; got {entry.key!r} again in {set_key!r}. "
                        "Remove all marks but one."
                    )
                found[set_key][name] = node_sets
    _check(schema, found)
    return found


def sets_by_key(schema: schema_pb2.GraphSchema) -> dict[str, _Set]:
    """Returns the sets of a schema by "context", "nodes/<set>" and "edges/<set>"."""
    return {kind if kind == const.CONTEXT else f"{kind}/{name}": one_set for kind, name, one_set in iter_sets(schema)}


def _check(schema: schema_pb2.GraphSchema, features: IndexFeatures) -> None:
    sets = sets_by_key(schema)
    for one in iter_index_features(features):
        if one.set_key not in sets or one.name not in sets[one.set_key].features:
            raise ValueError(
                "`index_features` must name features of the graph schema, by 'context', 'nodes/<set>' or "
                f"'edges/<set>'; got {one.name!r} of {one.set_key!r}. The schema has {sorted(sets)}"
                + (f" and there {sorted(sets[one.set_key].features)}." if one.set_key in sets else ".")
            )
        with_comma = sorted(name for name in one.node_sets if "," in name)
        if with_comma:
            raise ValueError(
                f"`index_features` must refer to node sets without a comma in their names; got {with_comma} for {one}. "
                "The graph schema separates names by commas: rename the node set."
            )
        feature = sets[one.set_key].features[one.name]
        sizes = [None if dim.size < 0 else dim.size for dim in feature.shape.dim]
        check_index_feature(one, declared_dtype(feature.dtype) or tf.string, sizes, schema.node_sets)
