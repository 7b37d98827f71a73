"""Where the fields of a graph are stored in a tf.Example.

A scalar graph is stored with one feature per field: `context/<feature>`,
`nodes/<set>.<feature>`, `edges/<set>.<feature>`, and for the sets `#size`, `#source` and
`#target` in place of a feature name; the end of hyperedges with tag t is `#node.t`. The values
of a field are stored flat; a ragged dimension i (counted in the field, the items being
dimension 0) has its row lengths in `<key>.d<i>`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    CONTEXT,
    EDGES,
    HYPEREDGE_END_PREFIX,
    NODES,
    SIZE_NAME,
    SOURCE,
    SOURCE_NAME,
    TARGET,
    TARGET_NAME,
    FieldName,
    FieldSpec,
    SetName,
    SetType,
)
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class PieceKeys:
    """The fields of one piece of a graph and their keys.

    Attributes:
        set_type: CONTEXT, NODES or EDGES.
        set_name: name of the set; empty for the context.
        size_key: key of the sizes; empty for the context, whose sizes are not stored.
        features: feature names to keys.
        index_keys: tags of the ends of edges to keys, for edge sets.
    """

    set_type: SetType
    set_name: SetName
    size_key: str
    features: dict[FieldName, str]
    index_keys: dict[int, str]


def piece_keys(graph: Any, prefix: str | None) -> Iterator[PieceKeys]:
    """Yields the tf.Example keys of the context, each node set and each edge set of a graph or its spec."""
    start = prefix or ""
    is_spec = isinstance(graph, GraphTensorSpec)
    context = graph.context_spec if is_spec else graph.context
    yield PieceKeys(
        set_type=CONTEXT,
        set_name="",
        size_key="",
        features={name: f"{start}{CONTEXT}/{name}" for name in _features(context)},
        index_keys={},
    )
    node_sets = graph.node_sets_spec if is_spec else graph.node_sets
    edge_sets = graph.edge_sets_spec if is_spec else graph.edge_sets
    for set_type, sets in ((NODES, node_sets), (EDGES, edge_sets)):
        for name, piece in sets.items():
            base = f"{start}{set_type}/{name}."
            yield PieceKeys(
                set_type=set_type,
                set_name=name,
                size_key=f"{base}{SIZE_NAME}",
                features={feature: f"{base}{feature}" for feature in _features(piece)},
                index_keys=_index_keys(base, piece) if set_type == EDGES else {},
            )


def _features(piece: Any) -> list[FieldName]:
    features = piece.features_spec if hasattr(piece, "features_spec") else piece.features
    return list(features)


def _index_keys(base: str, edge_set: Any) -> dict[int, str]:
    spec = edge_set.adjacency_spec if hasattr(edge_set, "adjacency_spec") else edge_set.adjacency.spec
    if isinstance(spec, AdjacencySpec):
        return {SOURCE: f"{base}{SOURCE_NAME}", TARGET: f"{base}{TARGET_NAME}"}
    return {tag: f"{base}{HYPEREDGE_END_PREFIX}{tag}" for tag in spec.get_index_specs_dict()}


def stored_dtype(dtype: tf.DType, key: str) -> tf.DType:
    """Returns the dtype in which a tf.Example holds a field: tf.string, tf.int64 or tf.float32."""
    if dtype == tf.string:
        return tf.string
    if dtype.is_bool or (dtype.is_integer and not dtype.is_quantized):
        return tf.int64
    if dtype.is_floating:
        return tf.float32
    raise TypeError(
        f"Unsupported type {dtype} of field '{key}'. Supported types are boolean, (non-quantized) "
        "integer types, (non-quantized, non-complex) floating-point types and `string`."
    )


def from_stored(values: Any, dtype: tf.DType) -> Any:
    """Casts values read from a tf.Example to the dtype of their field."""
    if values.dtype == dtype:
        return values
    if dtype == tf.uint64 and isinstance(values, tf.Tensor):
        return tf.bitcast(values, dtype)
    return tf.cast(values, dtype)


def is_narrow(dtype: tf.DType) -> bool:
    """Returns whether a tf.Example can store values for a dtype that do not fit it.

    A bool can be read from any integer, and a uint64 from the bits of any integer.
    """
    wide = (tf.int64, tf.uint64) if dtype.is_integer else (tf.float32, tf.float64)
    return dtype != tf.string and not dtype.is_bool and dtype not in wide


def row_lengths_key(key: str, dimension: int) -> str:
    """Returns the key of the row lengths of a ragged dimension, counted in an unbatched field from 1."""
    return f"{key}.d{dimension}"


def ragged_dimensions(spec: FieldSpec) -> list[int]:
    """Returns the ragged dimensions of a field; dimension 0 is the item dimension."""
    if not isinstance(spec, tf.RaggedTensorSpec):
        return []
    return [i for i in range(1, spec.ragged_rank + 1) if spec.shape[i] is None]


def get_io_spec(
    spec: GraphTensorSpec,
    prefix: str | None = None,
    validate: bool = True,
) -> dict[str, tf.io.FixedLenFeature | tf.io.RaggedFeature]:
    """Describes the tf.Examples of a graph for `tf.io.parse_example`.

    `tfx_gnn.parse_example` reads the same features faster. This function is for code that needs
    the features as tensors, or reads other features in the same call.

    Args:
        spec: spec of the graph in one tf.Example.
        prefix: prefix of every key.
        validate: whether `tf.io.parse_example` checks that row lengths are consistent.

    Returns:
        Keys to a `tf.io.FixedLenFeature` if the number of items is static, else to a
        `tf.io.RaggedFeature`. Sizes, indices, bools and integers are int64, floating-point types
        float32. Row splits have the row splits dtype of `spec` for ragged features, and the dtype
        of indices for other features.

    Raises:
        TypeError: if a tf.Example cannot hold a feature of the given dtype.
        ValueError: if a feature has a dimension that is neither static nor ragged.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> sorted(tfx_gnn.get_io_spec(graph.spec))[:3]
        ['edges/edges.#size', 'edges/edges.#source', 'edges/edges.#target']
    """
    features: dict[str, tf.io.FixedLenFeature | tf.io.RaggedFeature] = {}

    def add(key: str, field_spec: FieldSpec, default: Any = None) -> None:
        features[key] = _io_feature(key, field_spec, spec.indices_dtype, validate, default)

    for layout in piece_keys(spec, prefix):
        piece = piece_spec(spec, layout)
        if layout.size_key:
            add(layout.size_key, piece.sizes_spec, 0)
        for tag, key in layout.index_keys.items():
            add(key, piece.adjacency_spec[tag])
        for name, key in layout.features.items():
            add(key, piece[name])
    return features


def piece_spec(spec: GraphTensorSpec, layout: PieceKeys) -> Any:
    """Returns the spec of the piece that `layout` describes."""
    if layout.set_type == CONTEXT:
        return spec.context_spec
    sets = spec.node_sets_spec if layout.set_type == NODES else spec.edge_sets_spec
    return sets[layout.set_name]


def check_inner_dimensions(key: str, spec: FieldSpec) -> None:
    """Refuses a field with an inner dimension whose size a tf.Example does not store."""
    first = spec.ragged_rank + 1 if isinstance(spec, tf.RaggedTensorSpec) else 1
    if not spec.shape[first:].is_fully_defined():
        raise ValueError(
            f"A dense feature must have static non-leading dimensions; got shape={spec.shape} of "
            f"'{key}'. Give their sizes, or make the dimensions ragged."
        )


def _io_feature(
    key: str, spec: FieldSpec, indices_dtype: tf.DType, validate: bool, default: Any
) -> tf.io.FixedLenFeature | tf.io.RaggedFeature:
    check_inner_dimensions(key, spec)
    dtype = stored_dtype(spec.dtype, key)
    ragged_rank = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
    if ragged_rank == 0 and spec.shape.is_fully_defined():
        default_value = None if default is None else tf.fill(spec.shape, tf.cast(default, dtype))
        return tf.io.FixedLenFeature(spec.shape, dtype, default_value)
    partitions: list[Any] = []
    for dimension in range(1, spec.shape.rank):
        size = spec.shape[dimension]
        if size is None:
            partitions.append(tf.io.RaggedFeature.RowLengths(row_lengths_key(key, dimension)))
        else:
            partitions.append(tf.io.RaggedFeature.UniformRowLength(size))
    return tf.io.RaggedFeature(
        dtype,
        value_key=key,
        partitions=tuple(partitions),
        row_splits_dtype=spec.row_splits_dtype if isinstance(spec, tf.RaggedTensorSpec) else indices_dtype,
        validate=validate,
    )
