"""The base of graphs, contexts, node sets, edge sets and adjacencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import ShapeLike
from tfx_gnn.graph.tensor import fields, symbolic_calls, tf_hooks
from tfx_gnn.graph.tensor.graph_piece_spec import GraphPieceSpec
from tfx_gnn.graph.tensor.piece_parts import (
    Parts,
    PieceLike,
    check_index_dtype,
    leaf_with_batch_shape,
    leaves_of_parts,
    map_parts,
    merged_batch_shape,
)

_Piece = TypeVar("_Piece", bound="GraphPiece")


class GraphPiece(tf_hooks.CompositeTensor, PieceLike):
    """A value made of fields: a graph, its context, a node set, an edge set or an adjacency."""

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]]

    def __init_subclass__(cls) -> None:
        """Ties the class to the class of its specs."""
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
        """Makes a piece of parts after unifying their static batch dimensions and dtypes."""
        shape = merged_batch_shape(parts, shape)
        parts = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, shape), parts)
        parts, indices, splits = cls._unify_dtypes(parts, row_splits_dtype)
        parts_spec = map_parts(lambda _, leaf: _spec_of_leaf(leaf), parts)
        return cls(parts, cls._SPEC_TYPE(parts_spec, shape, indices, splits, static))

    @property
    def spec(self) -> Any:
        """The type spec, with all that is known of the shapes of the parts now."""
        if self._current_spec is None:
            self._current_spec = self._derive_spec()
        return self._current_spec

    def _derive_spec(self) -> GraphPieceSpec:
        given = self._given_spec
        leaves = [leaf for _, leaf in leaves_of_parts(self._parts)]
        if not all(isinstance(leaf, (tf.Tensor, tf.RaggedTensor, GraphPiece)) for leaf in leaves):
            # tf.nest rebuilds pieces around whatever it mapped the tensors to.
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
            ValueError: if it is not.
        """
        spec = self.spec.with_shape(new_shape)
        if spec is self.spec:
            return self
        parts = map_parts(lambda _, leaf: leaf_with_batch_shape(leaf, spec.shape), self._parts)
        return type(self)(parts, spec)

    def set_shape(self: _Piece, new_shape: ShapeLike) -> _Piece:
        """Same as `with_shape`: a piece is never changed in place.

        Args:
            new_shape: shape of the same rank, compatible with the current one.
        """
        return self.with_shape(new_shape)


def _spec_of_leaf(leaf: Any) -> Any:
    return leaf.spec if isinstance(leaf, GraphPiece) else fields.spec_of_field(leaf)
