"""Converts the features of a graph to plain Python values."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import Field
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors


@refuses_keras_tensors()
def graph_tensor_to_values(graph: GraphTensor) -> dict[str, Any]:
    """Returns the features of a graph as nested lists.

    Args:
        graph: graph of any shape with known values, that is, in eager mode.

    Returns:
        Dict with keys "context", a dict of feature names to lists, and "node_sets" and
        "edge_sets", dicts of set names to such dicts. Strings that are UTF-8 come as `str`,
        others as `bytes`.

    Example:
        >>> from tfx_gnn.graph.tensor.pieces import NodeSet
        >>> paper = NodeSet.from_fields(features={"title": ["a", "b"]}, sizes=[2])
        >>> graph_tensor_to_values(GraphTensor.from_pieces(node_sets={"paper": paper}))["node_sets"]
        {'paper': {'title': ['a', 'b']}}
    """
    return {
        "context": _values_of(graph.context),
        "node_sets": {name: _values_of(piece) for name, piece in graph.node_sets.items()},
        "edge_sets": {name: _values_of(piece) for name, piece in graph.edge_sets.items()},
    }


def _values_of(piece: Any) -> dict[str, Any]:
    return {name: _list_of(feature) for name, feature in piece.features.items()}


def _list_of(field: Field) -> Any:
    values = field.to_list() if isinstance(field, tf.RaggedTensor) else field.numpy().tolist()
    return _decoded(values) if field.dtype == tf.string else values


def _decoded(values: Any) -> Any:
    if isinstance(values, list):
        return [_decoded(value) for value in values]
    try:
        return values.decode("utf-8")
    except UnicodeDecodeError:
        return values
