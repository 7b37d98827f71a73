"""Batches of graphs as flat collections of fields, to be joined and cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.context import Context
from tfx_gnn.graph.edge_set import EdgeSet
from tfx_gnn.graph.feature_piece_spec import ADJACENCY_PART
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.node_set import NodeSet

_Key = tuple[const.SetType, const.SetName, "const.FieldName | tuple[str, str]"]


def map_fields(function: Callable[..., const.Field], *graphs: GraphTensor) -> GraphTensor:
    """Applies a function to corresponding fields of graphs of one type.

    Args:
        function: maps fields (features, sizes and node indices), one of each graph, to a field.
        *graphs: graphs with the same sets and features, of rank 1.

    Returns:
        Graph made of the results.
    """
    spec = graphs[0].spec
    fields = [_fields(graph) for graph in graphs]
    return _from_fields(spec, {key: function(*(field[key] for field in fields)) for key in fields[0]})


def empty_batch(spec: GraphTensorSpec) -> GraphTensor:
    """Makes a batch of no graphs.

    Args:
        spec: spec of a batch, of shape [None].

    Returns:
        Graph of shape [0].
    """
    return _from_fields(spec, {key: _empty_field(field_spec) for key, field_spec in _field_specs(spec).items()})


def _fields(graph: GraphTensor) -> dict[_Key, const.Field]:
    fields: dict[_Key, const.Field] = {}
    for key, piece in _pieces(graph.context, graph.node_sets, graph.edge_sets):
        fields.update({(*key, const.SIZE_NAME): piece.sizes})
        fields.update({(*key, name): value for name, value in piece.features.items()})
        if isinstance(piece, EdgeSet):
            fields.update({(*key, (ADJACENCY_PART, part)): index for part, index in piece.adjacency._parts.items()})
    return fields


def _field_specs(spec: GraphTensorSpec) -> dict[_Key, const.FieldSpec]:
    specs: dict[_Key, const.FieldSpec] = {}
    for key, piece in _pieces(spec.context_spec, spec.node_sets_spec, spec.edge_sets_spec):
        specs.update({(*key, const.SIZE_NAME): piece.sizes_spec})
        specs.update({(*key, name): value for name, value in piece.features_spec.items()})
        if key[0] == const.EDGES:
            indices = piece.adjacency_spec._parts_spec
            specs.update({(*key, (ADJACENCY_PART, part)): index for part, index in indices.items()})
    return specs


def _from_fields(spec: GraphTensorSpec, fields: Mapping[_Key, const.Field]) -> GraphTensor:
    def arguments(kind: str, name: str, features_spec: const.FieldsSpec) -> dict[str, Any]:
        return {
            "sizes": fields[kind, name, const.SIZE_NAME],
            "features": {feature: fields[kind, name, feature] for feature in features_spec},
        }

    edge_sets = {}
    for name, edge_set_spec in spec.edge_sets_spec.items():
        adjacency_spec = edge_set_spec.adjacency_spec
        parts = {part: fields[const.EDGES, name, (ADJACENCY_PART, part)] for part in adjacency_spec._parts_spec}
        edge_sets[name] = EdgeSet.from_fields(
            **arguments(const.EDGES, name, edge_set_spec.features_spec),
            # Edges that are sorted stay so, graph by graph.
            adjacency=adjacency_spec.value_type._assemble(
                parts, shape=tf.TensorShape([None]), static=adjacency_spec._static
            ),
        )
    return GraphTensor.from_pieces(
        context=Context.from_fields(**arguments(const.CONTEXT, "", spec.context_spec.features_spec)),
        node_sets={
            name: NodeSet.from_fields(**arguments(const.NODES, name, node_set_spec.features_spec))
            for name, node_set_spec in spec.node_sets_spec.items()
        },
        edge_sets=edge_sets,
    )


def _pieces(context: Any, node_sets: Mapping[str, Any], edge_sets: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [
        ((const.CONTEXT, ""), context),
        *(((const.NODES, name), piece) for name, piece in node_sets.items()),
        *(((const.EDGES, name), piece) for name, piece in edge_sets.items()),
    ]


def _empty_field(spec: const.FieldSpec) -> const.Field:
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([0, *(size or 0 for size in spec.shape[1:].as_list())], spec.dtype)
    inner = [size or 0 for size in spec.shape[spec.ragged_rank + 1 :].as_list()]
    field: Any = tf.zeros([0, *inner], spec.dtype)
    for size in reversed(spec.shape[1 : spec.ragged_rank + 1].as_list()):
        if size is None:
            field = tf.RaggedTensor.from_row_splits(field, tf.zeros([1], spec.row_splits_dtype))
        else:
            field = tf.RaggedTensor.from_uniform_row_length(
                field, tf.constant(size, spec.row_splits_dtype), nrows=tf.zeros([], spec.row_splits_dtype)
            )
    return field
