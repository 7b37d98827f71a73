"""What contexts, node sets and edge sets share: features and sizes."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf

from tfx_gnn.graph import fields, validation_mode
from tfx_gnn.graph.feature_piece_spec import (
    FEATURES_PART,
    SIZES_PART,
    check_item_counts,
    check_sizes_rank,
)
from tfx_gnn.graph.frozen_mapping import FrozenMapping
from tfx_gnn.graph.graph_constants import Field, FieldName, Fields
from tfx_gnn.graph.graph_piece import GraphPiece
from tfx_gnn.graph.piece_parts import Parts, check_batch_shape, check_index_dtype, check_mapping

_Piece = TypeVar("_Piece", bound="FeaturePiece")


class FeaturePiece(GraphPiece):
    """A piece with items: nodes, edges, or the components of a graph.

    `sizes` holds the number of items of each component; every feature has one value per item,
    the items of the first component first.
    """

    _INDEX_PARTS = frozenset({SIZES_PART})

    @classmethod
    def _from_features_and_sizes(
        cls: type[_Piece],
        features: Fields | None,
        sizes: Field,
        validate: bool | None,
        row_splits_dtype: tf.DType | None = None,
        **more_parts: GraphPiece,
    ) -> _Piece:
        check_mapping(features, "features", "values of all items")
        sizes = fields.as_field(sizes, "sizes")
        check_index_dtype(sizes.dtype, "`sizes`")
        rank = check_sizes_rank(sizes)
        feature_fields = {
            name: fields.as_field(value, f"features[{name!r}]") for name, value in (features or {}).items()
        }
        parts: Parts = {SIZES_PART: sizes, FEATURES_PART: feature_fields, **more_parts}
        piece = cls._assemble(parts, shape=sizes.shape[:rank], row_splits_dtype=row_splits_dtype)
        if validation_mode.checks_statically():
            check_batch_shape(piece.shape)
            check_item_counts(feature_fields, rank)
        if validation_mode.checks_at_runtime(validate):
            piece._assert_sizes_match()
        return piece

    def _assert_sizes_match(self) -> list[tf.Operation]:
        """Asserts that every feature has as many items as the sizes say."""
        expected = self._items_per_graph()
        checks = []
        for name, feature in self._parts[FEATURES_PART].items():
            message = (
                f"The number of graph items for feature {name} is incompatible with piece `sizes`: each graph of the "
                f"{type(self).__name__} must have the sum of its sizes."
            )
            found = fields.items_per_graph(feature, self.rank, self.indices_dtype)
            checks.append(tf.debugging.assert_equal(found, expected, message=message))
        return [check for check in checks if check is not None]

    def _items_per_graph(self) -> tf.Tensor:
        """Returns the number of items of each graph, of shape [total number of graphs]."""
        return tf.reshape(_dense(tf.reduce_sum(self.sizes, axis=-1)), [-1])

    @property
    def features(self) -> FrozenMapping[Field]:
        """Feature names to values of shape [*batch_shape, items, ...]."""
        return FrozenMapping(self._parts[FEATURES_PART])

    @property
    def sizes(self) -> Field:
        """The number of items of each component, shape [*batch_shape, num_components]."""
        return self._parts[SIZES_PART]

    def __getitem__(self, feature_name: FieldName) -> Field:
        """Returns a feature, of shape [*batch_shape, items, ...].

        Args:
            feature_name: its name.

        Raises:
            KeyError: if there is none of this name.
        """
        return self._parts[FEATURES_PART][feature_name]

    def get_features_dict(self) -> dict[FieldName, Field]:
        """Returns a new dict of the features, free to be changed."""
        return dict(self._parts[FEATURES_PART])

    def replace_features(self: _Piece, features: Fields) -> _Piece:
        """Returns the piece with exactly the given features.

        Args:
            features: feature names to values of shape [*batch_shape, items, ...].

        Raises:
            ValueError: if features disagree on the number of items or on the batch shape.
        """
        more_parts = {name: part for name, part in self._parts.items() if name not in (SIZES_PART, FEATURES_PART)}
        return type(self)._from_features_and_sizes(
            features,
            self.sizes,
            None,
            row_splits_dtype=self.row_splits_dtype,
            **more_parts,
        )

    @property
    def num_components(self) -> tf.Tensor:
        """The number of components of each graph: a tensor of the batch shape."""
        sizes = self.sizes
        count = fields.item_dimension(sizes, self.rank)
        if count is not None and isinstance(sizes, tf.Tensor):
            batch_shape = sizes.shape[:-1]
            dims = batch_shape if batch_shape.is_fully_defined() else tf.shape(sizes)[:-1]
            return tf.fill(dims, tf.constant(count, self.indices_dtype))
        return _dense(tf.reduce_sum(tf.ones_like(sizes), axis=-1))

    @property
    def total_num_components(self) -> tf.Tensor:
        """The number of components of all graphs together: a scalar tensor."""
        total = self.spec.total_num_components
        if total is not None:
            return tf.constant(total, self.indices_dtype)
        sizes = self.sizes
        flat = sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else sizes
        return tf.size(flat, out_type=self.indices_dtype)

    @property
    def total_size(self) -> tf.Tensor:
        """The number of items of all graphs together: a scalar tensor."""
        total = self.spec.total_size
        if total is not None:
            return tf.constant(total, self.indices_dtype)
        sizes = self.sizes
        return tf.reduce_sum(sizes.flat_values if isinstance(sizes, tf.RaggedTensor) else sizes)

    def _merged_parts(self) -> Parts:
        """Returns features and sizes with batch dimensions merged into the item dimension."""
        rank = self.rank
        features = {
            name: fields.merge_outer_dimensions(feature, rank) for name, feature in self._parts[FEATURES_PART].items()
        }
        total = self.spec.total_size
        if total is not None:
            features = {name: fields.with_item_count(feature, total) for name, feature in features.items()}
        return {
            SIZES_PART: fields.merge_outer_dimensions(self.sizes, rank),
            FEATURES_PART: features,
        }

    def _describe(self, *more: str) -> str:
        features = ", ".join(
            f"{name!r}: {fields.describe_field(value)}" for name, value in self._parts[FEATURES_PART].items()
        )
        entries = [f"features={{{features}}}", f"sizes={self.sizes}", *more]
        return f"{type(self).__name__}({', '.join(entries)})"


def _dense(field: Field) -> tf.Tensor:
    """Returns the tensor behind a field of which no dimension is really ragged."""
    return field.to_tensor() if isinstance(field, tf.RaggedTensor) else field
