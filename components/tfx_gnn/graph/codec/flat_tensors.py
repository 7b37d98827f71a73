"""Graphs as flat dicts of plain tensors, for APIs that do not accept composite tensors.

Examples are the datasets of `tf.distribute.ParameterServerStrategy`, and SavedModel signatures
with stable names. The keys are those of graphs in tf.Examples: `context/<feature>`,
`nodes/<set>.<feature>`, `edges/<set>.<feature>`, and `#size`, `#source` and `#target` in place
of a feature name. A ragged field is stored as its flat values, and the row splits of its
dimension i (counted in the field, from 1) under `<key>.splits<i>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES, SIZE_NAME, SOURCE, SOURCE_NAME, TARGET, TARGET_NAME
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec, HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_piece import GraphPieceSpec
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import EDGE_SETS_PART, NODE_SETS_PART, GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import FEATURES_PART, SIZES_PART
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def graph_to_flat_tensors(graph: GraphTensor) -> dict[str, tf.Tensor]:
    """Converts a graph to plain tensors; `graph_from_flat_tensors` converts them back.

    Args:
        graph: graph of any shape.

    Returns:
        Dict with the tensors of all sizes, node indices and features, of the dtypes and shapes of
        `graph_flat_tensor_specs(graph.spec)`. The tensors are shared with the graph.

    Raises:
        ValueError: if two fields have the same key, such as the feature "x.splits1" next to the
            ragged feature "x".

    Example:
        >>> from tfx_gnn.graph.tensor.pieces import NodeSet
        >>> paper = NodeSet.from_fields(sizes=[2], features={"words": tf.ragged.constant([["a"], []])})
        >>> flat = graph_to_flat_tensors(GraphTensor.from_pieces(node_sets={"paper": paper}))
        >>> sorted(flat)
        ['context/#size', 'nodes/paper.#size', 'nodes/paper.words', 'nodes/paper.words.splits1']
    """
    keys = graph_flat_tensor_specs(graph.spec)
    return dict(zip(keys, tf.nest.flatten(graph, expand_composites=True), strict=True))


@becomes_keras_layer
def graph_from_flat_tensors(spec: GraphTensorSpec, tensors: Mapping[str, tf.Tensor]) -> GraphTensor:
    """Makes a graph from plain tensors.

    Args:
        spec: type spec of the graph, such as the `element_spec` of the dataset before
            `graph_to_flat_tensors` was mapped over it.
        tensors: the result of `graph_to_flat_tensors` for a graph of this spec, with the keys,
            dtypes and shapes of `graph_flat_tensor_specs(spec)`.

    Returns:
        Graph of the type and shape of `spec`.

    Raises:
        ValueError: if a tensor is missing, not part of the graph, or differs from the spec in
            dtype or static shape.
        tf.errors.InvalidArgumentError: if a size that only the spec knows statically differs from
            the actual size.

    Example:
        >>> from tfx_gnn.graph.tensor.pieces import NodeSet
        >>> paper = NodeSet.from_fields(sizes=[2], features={"x": [1.0, 2.0]})
        >>> graph = GraphTensor.from_pieces(node_sets={"paper": paper})
        >>> flat = graph_to_flat_tensors(graph)
        >>> graph_from_flat_tensors(graph.spec, flat).node_sets["paper"]["x"].numpy().tolist()
        [1.0, 2.0]
    """
    specs = graph_flat_tensor_specs(spec)
    missing, unknown = sorted(specs.keys() - tensors.keys()), sorted(tensors.keys() - specs.keys())
    if missing or unknown:
        raise ValueError(
            "`tensors` must hold the tensors that `graph_flat_tensor_specs(spec)` describes; got none for "
            f"{missing} and others for {unknown}. Take labels and the like out before."
        )
    flat = [_with_static_shape(key, tensors[key], tensor_spec) for key, tensor_spec in specs.items()]
    graph: GraphTensor = tf.nest.pack_sequence_as(spec, flat, expand_composites=True)
    return graph


def graph_flat_tensor_specs(spec: GraphTensorSpec) -> dict[str, tf.TensorSpec]:
    """Describes the plain tensors of a graph, for the signature of a tf.function or for Keras inputs.

    Args:
        spec: type spec of a graph of any shape.

    Returns:
        Keys to tensor specs, in the order in which `tf.nest` flattens a graph.

    Raises:
        TypeError: if `spec` is not a GraphTensorSpec.
        ValueError: if two fields have the same key.
    """
    if not isinstance(spec, GraphTensorSpec):
        raise TypeError(
            f"`spec` must be a GraphTensorSpec; got {type(spec).__name__}. Use the `spec` of a graph, or the "
            "`element_spec` of a dataset of graphs."
        )
    keys = [f"{key}{suffix}" for key, field_spec in _keyed_fields(spec) for suffix in _suffixes(field_spec)]
    if len(set(keys)) < len(keys):
        twice = sorted(key for key in set(keys) if keys.count(key) > 1)
        raise ValueError(f"`spec` must have one field for each key; got several for {twice}. Rename these features.")
    return dict(zip(keys, tf.nest.flatten(spec, expand_composites=True), strict=True))


def _keyed_fields(spec: Any) -> Iterator[tuple[str, Any]]:
    """Yields keys and specs of all fields in the order of `tf.nest`."""
    for part_name, part in sorted(spec._parts_spec.items()):
        if part_name == NODE_SETS_PART:
            for name, piece in sorted(part.items()):
                yield from _fields_of_piece(f"{NODES}/{name}.", piece)
        elif part_name == EDGE_SETS_PART:
            for name, piece in sorted(part.items()):
                yield from _fields_of_piece(f"{EDGES}/{name}.", piece)
        else:
            yield from _fields_of_piece(f"{CONTEXT}/", part)


def _fields_of_piece(start: str, piece: GraphPieceSpec) -> Iterator[tuple[str, Any]]:
    for part_name, part in sorted(piece._parts_spec.items()):
        if part_name == FEATURES_PART:
            for name, field_spec in sorted(part.items()):
                yield f"{start}{name}", field_spec
        elif part_name == SIZES_PART:
            yield f"{start}{SIZE_NAME}", part
        else:
            for end, index_spec in sorted(part._parts_spec.items()):
                yield f"{start}{_end_name(part, end)}", index_spec


def _end_name(adjacency: HyperAdjacencySpec, end: str) -> str:
    """Names a part of an adjacency: one end of the edges, or other stored data such as their order."""
    if isinstance(adjacency, AdjacencySpec) and end.isdigit():
        return {SOURCE: SOURCE_NAME, TARGET: TARGET_NAME}[int(end)]
    return f"#index.{end}" if end.isdigit() else f"#{end}"


def _suffixes(field_spec: Any) -> list[str]:
    ragged_rank = field_spec.ragged_rank if isinstance(field_spec, tf.RaggedTensorSpec) else 0
    return ["", *(f".splits{dimension}" for dimension in range(1, ragged_rank + 1))]


def _with_static_shape(key: str, value: Any, spec: tf.TensorSpec) -> tf.Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype != spec.dtype or not spec.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"`tensors['{key}']` must have dtype={spec.dtype.name}, shape={spec.shape}; got "
            f"dtype={tensor.dtype.name}, shape={tensor.shape}. Use the spec of the graph that was taken apart."
        )
    known = tensor.shape
    return tensor if spec.shape.merge_with(known).as_list() == known.as_list() else tf.ensure_shape(tensor, spec.shape)
