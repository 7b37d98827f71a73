"""Base classes of graphs, contexts, node sets, edge sets and adjacencies, and of their type specs.

With the spec of a piece, TensorFlow can decompose the piece into tensors and rebuild it in tf.data,
tf.function, tf.distribute and SavedModel. The spec also makes graphs without nodes and edges, which
tf.distribute needs when data runs out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import ShapeLike
from tfx_gnn.graph.tensor import fields, symbolic_calls, tf_hooks
from tfx_gnn.graph.tensor.piece_parts import (
    Parts,
    PieceLike,
    arrange_leaves,
    check_batch_shape,
    check_index_dtype,
    leaf_with_batch_shape,
    leaves_of_parts,
    map_parts,
    merged_batch_shape,
    places_of_leaves,
)

_Spec = TypeVar("_Spec", bound="GraphPieceSpec")


class GraphPieceSpec(tf_hooks.BatchableTypeSpec, PieceLike):
    """Type spec of a graph piece: the specs of its parts, and its batch shape."""

    #: Set by the class of the values when it is defined.
    _VALUE_TYPE: ClassVar[type[Any]]

    def __init__(
        self,
        parts_spec: Parts,
        shape: tf.TensorShape,
        indices_dtype: tf.DType,
        row_splits_dtype: tf.DType,
        static: Mapping[str, str] | None = None,
    ) -> None:
        """For TensorFlow's deserialisation; make specs with the `from_...` class methods.

        Args:
            parts_spec: nest of specs.
            shape: batch shape of the piece.
            indices_dtype: dtype of sizes and indices.
            row_splits_dtype: dtype of row splits.
            static: non-tensor data of the piece, such as names of node sets.
        """
        super().__init__()
        self._parts_spec = parts_spec
        self._shape = tf.TensorShape(shape)
        self._indices_dtype = tf.as_dtype(indices_dtype)
        self._row_splits_dtype = tf.as_dtype(row_splits_dtype)
        self._static = None if static is None else dict(static)

    @classmethod
    def _assemble(
        cls: type[_Spec],
        parts_spec: Parts,
        *,
        shape: tf.TensorShape,
        static: Mapping[str, str] | None = None,
        row_splits_dtype: tf.DType | None = None,
    ) -> _Spec:
        """Makes a spec from parts after unifying their batch dimensions and dtypes."""
        shape = merged_batch_shape(parts_spec, shape)
        parts_spec = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, shape), parts_spec)
        parts_spec, indices, splits = cls._unify_dtypes(parts_spec, row_splits_dtype)
        return cls(parts_spec, shape, indices, splits, static)

    @property
    def shape(self) -> tf.TensorShape:
        """The batch shape; `[]` for a scalar piece."""
        return self._shape

    @property
    def rank(self) -> int:
        """The number of batch dimensions."""
        return int(self._shape.rank)

    @property
    def indices_dtype(self) -> tf.DType:
        """The dtype of sizes and indices, tf.int32 or tf.int64."""
        return self._indices_dtype

    @property
    def row_splits_dtype(self) -> tf.DType:
        """The dtype of the row splits of ragged fields, tf.int32 or tf.int64."""
        return self._row_splits_dtype

    @property
    def has_ragged_fields(self) -> bool:
        """Whether any field of the piece itself is ragged."""
        return any(fields.is_ragged(leaf) for _, leaf in leaves_of_parts(self._parts_spec))

    def with_indices_dtype(self: _Spec, dtype: tf.DType) -> _Spec:
        """Returns the spec with another dtype of sizes and indices.

        Args:
            dtype: tf.int32 or tf.int64.
        """
        dtype = check_index_dtype(dtype, "indices")
        if dtype == self._indices_dtype:
            return self
        parts_spec = self._cast_parts(self._parts_spec, dtype, None)
        return type(self)(parts_spec, self._shape, dtype, self._row_splits_dtype, self._static)

    def with_row_splits_dtype(self: _Spec, dtype: tf.DType) -> _Spec:
        """Returns the spec with another dtype of row splits.

        Args:
            dtype: tf.int32 or tf.int64.
        """
        dtype = check_index_dtype(dtype, "row_splits")
        if dtype == self._row_splits_dtype:
            return self
        parts_spec = self._cast_parts(self._parts_spec, None, dtype)
        return type(self)(parts_spec, self._shape, self._indices_dtype, dtype, self._static)

    def with_shape(self: _Spec, new_shape: ShapeLike) -> _Spec:
        """Returns the spec with the batch shape replaced.

        Args:
            new_shape: shape of the same rank, compatible with the current one; its unknown
                dimensions become unknown in the result.

        Raises:
            ValueError: if the rank differs, the shape is not compatible, or a dimension other than
                the first is unknown.
        """
        shape = tf.TensorShape(new_shape)
        if shape.rank != self._shape.rank:
            raise ValueError(
                f"`new_shape` must have the rank of the spec; got new_shape={shape}, rank="
                f"{self.rank}. Use tf.data's batch or unbatch to change the rank."
            )
        if not shape.is_compatible_with(self._shape):
            raise ValueError(
                f"`new_shape` must be compatible with the shape of the spec; got new_shape="
                f"{shape}, shape={self._shape}."
            )
        check_batch_shape(shape)
        if shape.as_list() == self._shape.as_list():
            return self
        parts_spec = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, shape), self._parts_spec)
        return type(self)(parts_spec, shape, self._indices_dtype, self._row_splits_dtype, self._static)

    @property
    def value_type(self) -> type[Any]:
        """The type of the values that this spec describes."""
        symbolic_calls.load_handler()
        return self._VALUE_TYPE

    @classmethod
    def from_value(cls, value: GraphPiece) -> Any:
        """Returns the spec of `value` with its current static shapes.

        Args:
            value: a graph or graph piece.
        """
        return value.spec

    # The protocol of tf.TypeSpec.

    def _serialize(self) -> tuple[Any, ...]:
        fields = (self._parts_spec, self._shape, self._indices_dtype, self._row_splits_dtype, self._static)
        return (tf_hooks.encoded_structure(fields),) if symbolic_calls.writes_keras_file() else fields

    @classmethod
    def _deserialize(cls, fields: tuple[Any, ...]) -> Any:
        return cls(*(tf_hooks.decoded_structure(fields[0]) if len(fields) == 1 else fields))

    @property
    def _component_specs(self) -> Parts:
        return self._parts_spec

    def _to_components(self, value: GraphPiece) -> Parts:
        return value._parts

    def _from_components(self, components: Parts) -> Any:
        return self._VALUE_TYPE(components, self)

    # What a tf.function does with its arguments and results. In TensorFlow's own versions of these two, the checks of
    # tf.nest are two fifths of the time of a call.

    def to_tensors(self, value: GraphPiece) -> list[tf.Tensor]:
        """Lists the tensors of a value, as arguments of a traced function.

        Args:
            value: a graph or graph piece of this spec.

        Returns:
            The tensors, in the order of `tf.nest`.
        """
        leaves = leaves_of_parts(value._parts)
        return [
            tensor for spec, (_, leaf) in zip(self._leaf_specs, leaves, strict=True) for tensor in spec.to_tensors(leaf)
        ]

    def from_tensors(self, tensors: Iterator[tf.Tensor]) -> Any:
        """Makes a value of the results of a traced function.

        Args:
            tensors: iterator of tensors of any shape, in the order of `to_tensors`; takes those of this value.

        Returns:
            The graph or graph piece.
        """
        leaves = [spec.from_tensors(tensors) for spec in self._leaf_specs]
        return self._from_components(arrange_leaves(self._places, leaves))

    def _to_legacy_output_types(self) -> Any:
        return self

    def _to_legacy_output_shapes(self) -> Any:
        return self

    def _to_legacy_output_classes(self) -> Any:
        return self

    # The protocol of batchable type specs. A dense field without a static number of items is
    # encoded as a ragged tensor; otherwise graphs of different sizes could not be stacked.

    def _batch(self: _Spec, batch_size: int | None) -> _Spec:
        if not self._shape.is_fully_defined():
            raise NotImplementedError(
                f"Batching a graph piece without fully defined shape={self._shape} is not "
                "supported: two consecutive calls of Dataset.batch() stack batches of different "
                "sizes. Use drop_remainder=True in the first."
            )

        def batch_leaf(_: str, leaf: Any) -> Any:
            if isinstance(leaf, GraphPieceSpec):
                return leaf._batch(batch_size)
            return fields.batch_field_spec(leaf, batch_size, self.rank, self._row_splits_dtype)

        return type(self)(
            map_parts(batch_leaf, self._parts_spec),
            tf.TensorShape([batch_size]).concatenate(self._shape),
            self._indices_dtype,
            self._row_splits_dtype,
            self._static,
        )

    def _unbatch(self: _Spec) -> _Spec:
        if self.rank == 0:
            raise ValueError("Could not unbatch scalar (rank=0) graph piece. Batch it first.")

        def unbatch_leaf(_: str, leaf: Any) -> Any:
            if isinstance(leaf, GraphPieceSpec):
                return leaf._unbatch()
            return fields.unbatch_field_spec(leaf)

        return type(self)(
            map_parts(unbatch_leaf, self._parts_spec),
            self._shape[1:],
            self._indices_dtype,
            self._row_splits_dtype,
            self._static,
        )

    #: Size of a component without items; None if the piece has no sizes.
    _EMPTY_SIZE: ClassVar[int | None] = None

    def _create_empty_value(self) -> Any:
        """Makes the smallest possible value, which tf.distribute gives to replicas that have run out of data."""

        def empty_leaf(part_name: str, leaf: Any) -> Any:
            if isinstance(leaf, GraphPieceSpec):
                return leaf._create_empty_value()
            return fields.empty_field(leaf, self._EMPTY_SIZE if self._is_index(part_name) else None)

        return self._from_components(map_parts(empty_leaf, self._parts_spec))

    # Cached, because tf.data and tf.function read these for every value and specs are immutable.

    @functools.cached_property
    def _leaf_specs(self) -> list[Any]:
        return [leaf for _, leaf in leaves_of_parts(self._parts_spec)]

    @functools.cached_property
    def _places(self) -> Parts:
        return places_of_leaves(self._parts_spec)

    @functools.cached_property
    def _boxed_leaf_specs(self) -> list[Any]:
        specs = []
        for leaf in self._leaf_specs:
            if isinstance(leaf, tf.TensorSpec) and leaf.shape[self.rank] is None:
                specs.append(tf.RaggedTensorSpec(leaf.shape, leaf.dtype, self.rank, self._row_splits_dtype))
            else:
                specs.append(leaf)
        return specs

    @functools.cached_property
    def _flat_tensor_specs(self) -> list[tf.TypeSpec]:
        return [flat for spec in self._boxed_leaf_specs for flat in spec._flat_tensor_specs]

    @functools.cached_property
    def _flat_tensor_counts(self) -> list[int]:
        return [tf_hooks.num_flat_tensors(spec) for spec in self._boxed_leaf_specs]

    def _to_tensor_list(self, value: GraphPiece) -> list[tf.Tensor]:
        return self._encode(value, batched=False)

    def _to_batched_tensor_list(self, value: GraphPiece) -> list[tf.Tensor]:
        if self.rank == 0:
            raise ValueError("Could not unbatch scalar (rank=0) graph piece. Batch it first.")
        return self._encode(value, batched=True)

    def _encode(self, value: GraphPiece, *, batched: bool) -> list[tf.Tensor]:
        tensors = []
        for spec, (_, leaf) in zip(self._boxed_leaf_specs, leaves_of_parts(value._parts), strict=True):
            if self.rank and fields.is_ragged(spec) and isinstance(leaf, tf.Tensor):
                leaf = tf.RaggedTensor.from_tensor(
                    leaf, ragged_rank=spec.ragged_rank, row_splits_dtype=spec.row_splits_dtype
                )
            tensors.extend(tf_hooks.to_flat_tensors(spec, leaf, batched))
        return tensors

    def _from_compatible_tensor_list(self, tensor_list: list[tf.Tensor]) -> Any:
        leaves = []
        start = 0
        for boxed, count, spec in zip(self._boxed_leaf_specs, self._flat_tensor_counts, self._leaf_specs, strict=True):
            leaf = tf_hooks.from_flat_tensors(boxed, tensor_list[start : start + count])
            if isinstance(spec, tf.TensorSpec) and isinstance(leaf, tf.RaggedTensor):
                leaf = leaf.to_tensor()
            leaves.append(leaf)
            start += count
        return self._from_components(arrange_leaves(self._places, leaves))


def check_relaxable(spec: GraphPieceSpec) -> None:
    """Refuses a batched spec, whose item dimension is not the first one."""
    if spec.rank:
        name = spec.value_type.__name__
        raise ValueError(
            f"{type(spec).__name__}.relax() requires a scalar {name}, that is, with `{name}.rank=0`, but got "
            f"`rank={spec.rank}`. Call GraphTensor.merge_batch_to_components() first."
        )


_Piece = TypeVar("_Piece", bound="GraphPiece")


class GraphPiece(tf_hooks.CompositeTensor, PieceLike):
    """A value that consists of fields: a graph, a context, a node set, an edge set or an adjacency."""

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]]

    def __init_subclass__(cls) -> None:
        """Links the class to its spec class."""
        super().__init_subclass__()
        if "_SPEC_TYPE" in cls.__dict__:
            cls._SPEC_TYPE._VALUE_TYPE = cls

    def __init__(self, parts: Parts, spec: GraphPieceSpec) -> None:
        """For TensorFlow's use; make pieces with the `from_...` class methods.

        Args:
            parts: nest of fields and pieces, as in `spec`.
            spec: type spec of the piece; static shapes of the parts may be more specific.
        """
        symbolic_calls.load_handler()
        self._parts = parts
        self._given_spec = spec
        self._current_spec: GraphPieceSpec | None = None

    @classmethod
    def _assemble(
        cls: type[_Piece],
        parts: Parts,
        *,
        shape: tf.TensorShape,
        static: Mapping[str, str] | None = None,
        row_splits_dtype: tf.DType | None = None,
    ) -> _Piece:
        """Makes a piece from parts after unifying their static batch dimensions and dtypes."""
        shape = merged_batch_shape(parts, shape)
        parts = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, shape), parts)
        parts, indices, splits = cls._unify_dtypes(parts, row_splits_dtype)
        parts_spec = map_parts(lambda _, leaf: _spec_of_leaf(leaf), parts)
        return cls(parts, cls._SPEC_TYPE(parts_spec, shape, indices, splits, static))

    @property
    def spec(self) -> Any:
        """The type spec, with the current static shapes of the parts."""
        if self._current_spec is None:
            self._current_spec = self._derive_spec()
        return self._current_spec

    def _derive_spec(self) -> GraphPieceSpec:
        given = self._given_spec
        leaves = [leaf for _, leaf in leaves_of_parts(self._parts)]
        if not all(isinstance(leaf, (tf.Tensor, tf.RaggedTensor, GraphPiece)) for leaf in leaves):
            # tf.nest also rebuilds pieces whose tensors were mapped to other values.
            return given
        shape = given.shape
        for leaf in leaves:
            prefix = leaf.shape[: given.rank]
            if shape.is_compatible_with(prefix):
                shape = shape.merge_with(prefix)
        parts_spec = map_parts(lambda _, leaf: _spec_of_leaf(leaf), self._parts)
        return type(given)(parts_spec, shape, given.indices_dtype, given.row_splits_dtype, given._static)

    @property
    def _type_spec(self) -> Any:
        return self.spec

    def _shape_invariant_to_type_spec(self, shape: tf.TensorShape) -> Any:
        return self.spec.with_shape(shape)

    @property
    def shape(self) -> tf.TensorShape:
        """The batch shape; `[]` for a scalar piece."""
        return self.spec.shape

    @property
    def rank(self) -> int:
        """The number of batch dimensions."""
        return self._given_spec.rank

    @property
    def indices_dtype(self) -> tf.DType:
        """The dtype of sizes and indices, tf.int32 or tf.int64."""
        return self._given_spec.indices_dtype

    @property
    def row_splits_dtype(self) -> tf.DType:
        """The dtype of the row splits of ragged fields, tf.int32 or tf.int64."""
        return self._given_spec.row_splits_dtype

    @property
    def has_ragged_fields(self) -> bool:
        """Whether any field of the piece itself is ragged."""
        return any(fields.is_ragged(leaf) for _, leaf in leaves_of_parts(self._parts))

    def with_indices_dtype(self: _Piece, dtype: tf.DType) -> _Piece:
        """Returns the piece with sizes and indices cast.

        Args:
            dtype: tf.int32 or tf.int64.
        """
        dtype = check_index_dtype(dtype, "indices")
        if dtype == self.indices_dtype:
            return self
        parts = self._cast_parts(self._parts, dtype, None)
        return type(self)(parts, self.spec.with_indices_dtype(dtype))

    def with_row_splits_dtype(self: _Piece, dtype: tf.DType) -> _Piece:
        """Returns the piece with the row splits of its ragged fields cast.

        Args:
            dtype: tf.int32 or tf.int64.
        """
        dtype = check_index_dtype(dtype, "row_splits")
        if dtype == self.row_splits_dtype:
            return self
        parts = self._cast_parts(self._parts, None, dtype)
        return type(self)(parts, self.spec.with_row_splits_dtype(dtype))

    def with_shape(self: _Piece, new_shape: ShapeLike) -> _Piece:
        """Returns the piece with static batch dimensions fixed.

        Args:
            new_shape: shape of the same rank, compatible with the current one.

        Raises:
            ValueError: if `new_shape` is not compatible.
        """
        spec = self.spec.with_shape(new_shape)
        if spec is self.spec:
            return self
        parts = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, spec.shape), self._parts)
        return type(self)(parts, spec)

    def set_shape(self: _Piece, new_shape: ShapeLike) -> _Piece:
        """Same as `with_shape`: returns a new piece, because pieces are immutable.

        Args:
            new_shape: shape of the same rank, compatible with the current one.
        """
        return self.with_shape(new_shape)


def _spec_of_leaf(leaf: Any) -> Any:
    return leaf.spec if isinstance(leaf, GraphPiece) else fields.spec_of_field(leaf)
