"""Writes graphs to tf.Examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.graph_constants import CONTEXT, NODES, Field
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors


@refuses_keras_tensors()
def write_example(graph: GraphTensor, prefix: str | None = None) -> tf.train.Example:
    """Writes a graph to a tf.Example that `parse_single_example` reads back.

    Floating-point types are stored as float32, integers and bools as int64. A batched graph is
    written as if its first dimension were the item dimension.

    Args:
        graph: eager graph of any shape.
        prefix: prefix of the key of every feature.

    Returns:
        The example. Call its `SerializeToString(deterministic=True)` for the same bytes each
        time.

    Raises:
        TypeError: if a tf.Example cannot hold a feature of the graph.
        ValueError: if the values are not known.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> sorted(tfx_gnn.write_example(graph).features.feature)[:3]
        ['edges/edges.#size', 'edges/edges.#source', 'edges/edges.#target']
    """
    example = tf.train.Example()
    for layout in example_layout.piece_keys(graph, prefix):
        piece: Any
        if layout.set_type == CONTEXT:
            piece = graph.context
        else:
            sets = graph.node_sets if layout.set_type == NODES else graph.edge_sets
            piece = sets[layout.set_name]
        if layout.size_key:
            _add(example, layout.size_key, piece.sizes)
        for tag, key in layout.index_keys.items():
            _add(example, key, piece.adjacency[tag])
        for name, key in layout.features.items():
            _add(example, key, piece[name])
    return example


def _add(example: tf.train.Example, key: str, field: Field) -> None:
    stored = example_layout.stored_dtype(field.dtype, key)
    flat = field.flat_values if isinstance(field, tf.RaggedTensor) else field
    if not hasattr(flat, "numpy"):
        raise ValueError(
            f"`graph` must have known values; got a symbolic tensor for '{key}'. Call "
            "write_example() outside of tf.function and Dataset.map()."
        )
    feature = example.features.feature[key]
    if stored == tf.string:
        feature.bytes_list.value.extend(flat.numpy().reshape([-1]).tolist())
    elif stored == tf.float32:
        feature.float_list.value.extend(tf.cast(flat, tf.float32).numpy().reshape([-1]).tolist())
    else:
        values = flat.numpy().reshape([-1])
        # tf.Examples hold signed numbers; large unsigned numbers keep their bits.
        feature.int64_list.value.extend(values.astype(np.int64).tolist())
    dimension = 1
    while isinstance(field, tf.RaggedTensor):
        if field.uniform_row_length is None:
            lengths = example.features.feature[example_layout.row_lengths_key(key, dimension)]
            lengths.int64_list.value.extend(field.row_lengths().numpy().tolist())
        field = field.values
        dimension += 1
