"""Takes graphs out of a batch, and divides a scalar graph between its components.

A batch is indexed like a tensor along its first dimension. Eager graphs are divided in one pass over each tensor,
because an operation for each graph and field would take a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.graph_constants import Field, NodeSetName
from tfx_gnn.graph.tensor import fields, tf_hooks
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency
from tfx_gnn.graph.tensor.graph_piece import GraphPiece
from tfx_gnn.graph.tensor.graph_tensor_spec import CONTEXT_PART, EDGE_SETS_PART, NODE_SETS_PART
from tfx_gnn.graph.tensor.piece_parts import map_parts
from tfx_gnn.graph.tensor.piece_specs import ADJACENCY_PART, FEATURES_PART, SIZES_PART
from tfx_gnn.graph.tensor.run_time_checks import after_checks
from tfx_gnn.graph.tensor.sorted_adjacency import ORDER_PART, SOURCE_PART, TARGET_PART, SortedAdjacency

_Piece = TypeVar("_Piece", bound=GraphPiece)
_Offsets = TypeVar("_Offsets")
_Counts = npt.NDArray[np.int64]


#: More than anybody writes by hand: only a loop without an end asks a batch of unknown size for so many graphs in turn.
_MOST_IN_TURN = 100


def take_items(graph: _Piece, key: Any) -> _Piece:
    """Returns `graph[key]`: one graph of a batch for an index, a batch for a slice, mask or vector of indices."""
    _check_is_batch(graph)
    if isinstance(key, int) and not isinstance(key, bool):
        return _take_item(graph, key)
    if isinstance(key, slice):
        num_rows = graph.shape[0]
        rows = tf.range(_num_rows(graph) if num_rows is None else num_rows)[key]
        return _take_rows(graph, rows)
    index = _as_index(key)
    if index.dtype == tf.bool:
        return _take_rows(graph, _rows_of_mask(graph, index))
    index = _checked_index(graph, index)
    if index.shape.rank == 1:
        return _take_rows(graph, index)
    return _take_at(graph, index)


def unstack(graph: _Piece) -> list[_Piece]:
    """Returns the graphs of a batch."""
    _check_is_batch(graph)
    size = graph.shape[0]
    if size is None and not tf.executing_eagerly():
        raise _unknown_size(graph)
    if _is_split_in_one_pass(graph):
        merged: Any = graph
        return split_graph(merged.merge_batch_to_components(), merged.num_components.numpy().astype(np.int64))
    size = int(_num_rows(graph)) if size is None else size
    return [_take_at(graph, tf.constant(position, tf.int64)) for position in range(size)]


def _take_item(graph: Any, position: int) -> Any:
    """Returns a graph of a batch; a loop, which asks for one after another, has them all made in one pass."""
    is_next = position == graph._num_in_turn
    graph._num_in_turn = position + 1 if is_next or position == 0 else 0
    if tf.executing_eagerly():
        # Graphs that were made before a tape are not connected to the batch for it.
        if tf_hooks.is_recording_gradients():
            graph._unstacked = None
        elif position == 1 and is_next and graph._unstacked is None and _is_split_in_one_pass(graph):
            graph._unstacked = unstack(graph)
        unstacked = graph._unstacked
        if unstacked is not None and 0 <= position < len(unstacked):
            return unstacked[position]
        graph._unstacked = None
    elif graph.shape[0] is None and graph._num_in_turn > _MOST_IN_TURN:
        raise _unknown_size(graph)
    return _take_at(graph, _checked_index(graph, tf.constant(position, tf.int64)))


def _take_at(graph: _Piece, index: tf.Tensor) -> _Piece:
    return _map_fields(graph, lambda field: _take_row(field, index), graph.shape[1:])


def _unknown_size(graph: GraphPiece) -> TypeError:
    return TypeError(
        "`graph` must have a static batch size for a loop or unstack() in a tf.function; got shape "
        f"{graph.shape}. Batch with drop_remainder=True, or loop over tf.range(tf.shape(graph.context.sizes)[0])."
    )


def _is_split_in_one_pass(graph: Any) -> bool:
    has_sorted_edges = any(isinstance(edge_set.adjacency, SortedAdjacency) for edge_set in graph.edge_sets.values())
    return graph.rank == 1 and tf.executing_eagerly() and not has_sorted_edges


def _check_is_batch(graph: GraphPiece) -> None:
    if graph.rank == 0:
        raise TypeError(
            "`graph` must be a batch for indexing and iteration; got a scalar graph. For its components, call "
            "tfx_gnn.split_components() or tfx_gnn.unmerge_components()."
        )


def _num_rows(graph: Any) -> tf.Tensor:
    return fields.num_items(graph._parts[CONTEXT_PART].sizes)


def _as_index(key: Any) -> tf.Tensor:
    """Converts a key to an integer tensor of rank 0 or 1, or a bool vector."""
    index = key
    if not isinstance(key, (tf.Tensor, tuple, bool)) and (
        np.asarray(key).dtype.kind in "biu" or (isinstance(key, list) and not key)
    ):
        # numpy makes floats of an empty list.
        index = tf.convert_to_tensor(np.asarray(key, np.int64 if isinstance(key, list) and not key else None))
    is_index = isinstance(index, tf.Tensor) and (
        index.dtype.is_integer or (index.dtype == tf.bool and index.shape.rank)
    )
    if not is_index or index.shape.rank not in (0, 1):
        raise TypeError(
            "`graph[...]` takes an integer, a slice, a bool mask, or a list, array or tensor of integers; got "
            f"{key!r}. Sets and features are at graph.node_sets, graph.edge_sets and graph.context."
        )
    return index


def _rows_of_mask(graph: GraphPiece, mask: tf.Tensor) -> tf.Tensor:
    size = graph.shape[0]
    message = "`graph[mask]` must have one bool per graph of the batch. Compare their numbers."
    if size is not None and not mask.shape.is_compatible_with([size]):
        raise IndexError(f"`mask` must have one bool per graph of the batch; got {mask.shape[0]} for {size} graphs.")
    check = tf.debugging.assert_equal(tf.shape(mask)[0], tf.cast(_num_rows(graph), tf.int32), message=message)
    return tf.where(after_checks([check], mask))[:, 0]


def _checked_index(graph: GraphPiece, index: tf.Tensor) -> tf.Tensor:
    """Makes negative indices count from the end; refuses those outside of the batch."""
    index = tf.cast(index, tf.int64)
    static_size = graph.shape[0]
    size = tf.cast(_num_rows(graph), tf.int64) if static_size is None else tf.constant(static_size, tf.int64)
    known, known_size = tf.get_static_value(index), tf.get_static_value(size)
    if known is not None and known_size is not None:
        wrong = known[(known < -known_size) | (known >= known_size)]
        if np.size(wrong):
            raise IndexError(
                f"`graph[i]` must have i in [-{known_size}, {known_size}), for a batch of {known_size} graphs; got "
                f"{np.ravel(wrong)[0]}."
            )
    else:
        message = "`graph[i]` must have i in [-n, n), for a batch of n graphs."
        index = after_checks(
            [
                tf.debugging.assert_less(index, size, message=message),
                tf.debugging.assert_greater_equal(index, -size, message=message),
            ],
            index,
        )
    return tf.where(index < 0, index + size, index)


def _take_rows(graph: _Piece, rows: tf.Tensor) -> _Piece:
    shape = tf.TensorShape([rows.shape[0]]).concatenate(graph.shape[1:])
    return _map_fields(graph, lambda field: gather_rows(field, rows), shape)


def _map_fields(piece: _Piece, function: Callable[[Field], Field], shape: tf.TensorShape) -> _Piece:
    """Applies a function to all fields of a piece and of the pieces in it."""
    parts = map_parts(
        lambda _, leaf: _map_fields(leaf, function, shape) if isinstance(leaf, GraphPiece) else function(leaf),
        piece._parts,
    )
    return piece._assemble(
        parts, shape=shape, static=piece._given_spec._static, row_splits_dtype=piece.row_splits_dtype
    )


def _take_row(field: Field, index: tf.Tensor) -> Field:
    if not isinstance(field, tf.RaggedTensor):
        return tf.gather(field, index)
    index = tf.cast(index, field.row_splits.dtype)
    start, limit = field.row_splits[index], field.row_splits[index + 1]
    if isinstance(field.values, tf.RaggedTensor):
        row: Field = gather_rows(field.values, tf.range(start, limit))
    else:
        row = field.values[start:limit]
    length = field.uniform_row_length
    static_length = None if length is None else tf.get_static_value(length)
    return row if static_length is None else fields.with_item_count(row, int(static_length))


def gather_rows(field: Field, rows: tf.Tensor) -> Field:
    """Returns some rows of a field, like `tf.gather`, but keeps the uniform dimensions of ragged fields."""
    if not isinstance(field, tf.RaggedTensor):
        return tf.gather(field, rows)
    dtype = field.row_splits.dtype
    rows = tf.cast(rows, dtype)
    starts = tf.gather(field.row_splits, rows)
    lengths = tf.gather(field.row_splits, rows + 1) - starts
    values = gather_rows(field.values, tf.ragged.range(starts, starts + lengths).flat_values)
    if field.uniform_row_length is not None:
        return tf.RaggedTensor.from_uniform_row_length(
            values, field.uniform_row_length, nrows=tf.size(rows, dtype), validate=False
        )
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)


def index_offsets(
    adjacency: HyperAdjacency, node_offsets: Mapping[NodeSetName, _Offsets], edge_offsets: _Offsets
) -> dict[str, _Offsets]:
    """Returns for each field of an adjacency the offsets of what it counts: nodes or, for an order, edges."""
    names = adjacency._given_spec._static
    assert names is not None
    offsets = {key: node_offsets[name] for key, name in names.items()}
    if isinstance(adjacency, SortedAdjacency):
        offsets[ORDER_PART] = edge_offsets
        offsets[SOURCE_PART] = node_offsets[adjacency.source_name]
        offsets[TARGET_PART] = node_offsets[adjacency.target_name]
    return offsets


def split_graph(graph: Any, num_components: _Counts, kept: npt.NDArray[np.bool_] | None = None) -> list[Any]:
    """Divides an eager scalar graph into graphs with the given numbers of components, and returns those to keep.

    Refuses edges that lead out of a graph to keep.
    """
    if kept is None:
        kept = np.ones(len(num_components), bool)
    spec = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    specs = spec._parts_spec
    contexts = _split_piece(
        graph.context, specs[CONTEXT_PART], num_components, _item_counts(graph.context, num_components)
    )
    node_counts = {name: _item_counts(node_set, num_components) for name, node_set in graph.node_sets.items()}
    node_sets = {
        name: _split_piece(node_set, specs[NODE_SETS_PART][name], num_components, node_counts[name])
        for name, node_set in graph.node_sets.items()
    }
    edge_sets = {
        name: _split_edge_set(
            name,
            edge_set,
            specs[EDGE_SETS_PART][name],
            num_components=num_components,
            node_counts=node_counts,
            kept=kept,
        )
        for name, edge_set in graph.edge_sets.items()
    }
    return [
        type(graph)(
            {
                CONTEXT_PART: context,
                NODE_SETS_PART: {name: pieces[position] for name, pieces in node_sets.items()},
                EDGE_SETS_PART: {name: pieces[position] for name, pieces in edge_sets.items()},
            },
            spec,
        )
        for position, context in enumerate(contexts)
        if kept[position]
    ]


def _item_counts(piece: Any, num_components: _Counts) -> _Counts:
    """Counts the items of each of the graphs that a piece is divided into."""
    return np.diff(_starts(piece.sizes.numpy())[_starts(num_components)])


def _starts(counts: npt.NDArray[Any]) -> _Counts:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _split_piece(piece: Any, spec: Any, num_components: _Counts, counts: _Counts, **more: list[Any]) -> list[Any]:
    sizes = _split_field(piece.sizes, num_components)
    features = {name: _split_field(feature, counts) for name, feature in piece.features.items()}
    return [
        type(piece)(
            {
                SIZES_PART: size,
                FEATURES_PART: {name: values[position] for name, values in features.items()},
                **{name: pieces[position] for name, pieces in more.items()},
            },
            spec,
        )
        for position, size in enumerate(sizes)
    ]


def _split_edge_set(
    name: str,
    edge_set: Any,
    spec: Any,
    *,
    num_components: _Counts,
    node_counts: Mapping[NodeSetName, _Counts],
    kept: npt.NDArray[np.bool_],
) -> list[Any]:
    adjacency, adjacency_spec = edge_set.adjacency, spec._parts_spec[ADJACENCY_PART]
    counts = _item_counts(edge_set, num_components)
    positions = np.repeat(np.arange(len(counts)), counts)
    offsets = index_offsets(
        adjacency, {node_set: _starts(sizes)[:-1] for node_set, sizes in node_counts.items()}, _starts(counts)[:-1]
    )
    limits = index_offsets(adjacency, node_counts, counts)
    indices = {}
    for key, index in adjacency._parts.items():
        local = index.numpy() - offsets[key][positions]
        if (((local < 0) | (local >= limits[key][positions])) & kept[positions]).any():
            raise ValueError(
                f"The edge set {name} must join nodes of the same component; got edges between two. If these are "
                "padding components, give the mask of the real ones as `component_mask`."
            )
        indices[key] = _split_field(tf.constant(local, index.dtype), counts)
    adjacencies = [
        type(adjacency)({key: values[position] for key, values in indices.items()}, adjacency_spec)
        for position in range(len(counts))
    ]
    return _split_piece(edge_set, spec, num_components, counts, **{ADJACENCY_PART: adjacencies})


def _split_field(field: Field, counts: _Counts) -> list[Field]:
    if not len(counts):
        return []
    if not isinstance(field, tf.RaggedTensor):
        return tf.raw_ops.SplitV(value=field, size_splits=counts, axis=0, num_split=len(counts))
    dtype = field.row_splits.dtype
    if (length := field.uniform_row_length) is not None:
        rows = _split_field(field.values, counts * int(length))
        return [
            tf.RaggedTensor.from_uniform_row_length(values, length, nrows=tf.constant(count, dtype), validate=False)
            for values, count in zip(rows, counts, strict=True)
        ]
    lengths = field.row_lengths()
    num_values = np.diff(_starts(lengths.numpy())[_starts(counts)])
    return [
        tf.RaggedTensor.from_row_lengths(values, some, validate=False)
        for values, some in zip(_split_field(field.values, num_values), _split_field(lengths, counts), strict=True)
    ]
