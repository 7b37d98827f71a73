"""Contexts: features that belong to a whole component of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph import fields, tf_hooks
from tfx_gnn.graph.feature_piece import FeaturePiece
from tfx_gnn.graph.feature_piece_spec import FEATURES_PART, SIZES_PART, ContextSpec, first_by_raggedness
from tfx_gnn.graph.graph_constants import (
    DEFAULT_INDICES_DTYPE,
    Field,
    FieldName,
    Fields,
    ShapeLike,
)
from tfx_gnn.graph.graph_piece_spec import GraphPieceSpec
from tfx_gnn.graph.piece_parts import check_index_dtype, check_mapping, refuse_positional_arguments


class Context(FeaturePiece):
    """Features with one value per component of a graph, or of each graph of a batch.

    The items of a context are the components, so its `sizes` are all 1.
    """

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = ContextSpec

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_fields(
        cls,
        *args: Any,
        features: Fields | None = None,
        sizes: Field | None = None,
        shape: ShapeLike | None = None,
        indices_dtype: tf.DType | None = None,
        validate: bool | None = None,
    ) -> Context:
        """Makes a context.

        Args:
            *args: nothing; what follows are keyword arguments.
            features: feature names to values of shape [*shape, num_components, ...].
            sizes: ones of shape [*shape, num_components]. By default made from the features;
                without features there are no components.
            shape: batch shape; by default that of `sizes`, or `[]`. Without `sizes` only its rank
                counts where there are features.
            indices_dtype: dtype of the sizes; by default that of `sizes`, or int32.
            validate: whether to assert at run time that sizes fit; None for the process-wide setting.

        Raises:
            ValueError: if features disagree on the number of components or on the batch shape.

        Example:
            >>> int(Context.from_fields(features={"label": [3, 5]}).total_num_components)
            2
        """
        refuse_positional_arguments(args)
        check_mapping(features, "features", "values of all items")
        feature_fields = {
            name: fields.as_field(value, f"features[{name!r}]") for name, value in (features or {}).items()
        }
        batch_shape = None if shape is None else tf.TensorShape(shape)
        if sizes is None:
            size_field = _component_sizes(
                feature_fields,
                tf.TensorShape([]) if batch_shape is None else batch_shape,
                check_index_dtype(indices_dtype or DEFAULT_INDICES_DTYPE, "indices"),
            )
        else:
            size_field = fields.as_field(sizes, "sizes")
            if indices_dtype is not None:
                size_field = fields.with_dtype(size_field, check_index_dtype(indices_dtype, "indices"))
            if batch_shape is not None:
                _check_sizes_shape(size_field, batch_shape)
        return cls._from_features_and_sizes(feature_fields, size_field, validate)

    def with_sizes(self, sizes: Field) -> Context:
        """Returns the context with other sizes, unchecked against the features at run time.

        Args:
            sizes: ones of shape [*batch_shape, num_components].
        """
        return self._assemble(
            {SIZES_PART: sizes, FEATURES_PART: self._parts[FEATURES_PART]},
            shape=sizes.shape[:-1],
            row_splits_dtype=self.row_splits_dtype,
        )

    def merge_batch(self) -> Context:
        """Concatenates the components of all graphs of a batch into one scalar context."""
        return self._assemble(self._merged_parts(), shape=tf.TensorShape([]), row_splits_dtype=self.row_splits_dtype)

    def __repr__(self) -> str:
        return self._describe(f"shape={self.shape}", f"indices_dtype={self.indices_dtype!r}")


def _check_sizes_shape(sizes: Field, shape: tf.TensorShape) -> None:
    """Refuses sizes that do not fit the batch shape that is given beside them."""
    if sizes.shape.rank != shape.rank + 1:
        raise ValueError(
            "The `sizes` must have one dimension more than `shape`, but their `rank != shape.rank + 1`; got "
            f"sizes.shape={sizes.shape}, shape={shape}."
        )
    if not shape.is_compatible_with(sizes.shape[: shape.rank]):
        raise ValueError(
            f"The `sizes` is not compatible with the `shape`: got sizes.shape={sizes.shape}, shape={shape}. "
            "All but the last dimension of the sizes are batch dimensions."
        )


def _component_sizes(features: Mapping[FieldName, Field], shape: tf.TensorShape, dtype: tf.DType) -> Field:
    """Returns a one for each component that the least ragged feature has a value for."""
    rank = shape.rank
    feature = first_by_raggedness(features)
    if feature is None:
        return tf.zeros([size or 0 for size in shape.as_list()] + [0], dtype)
    if feature.shape.rank is None or feature.shape.rank <= rank:
        raise ValueError(
            f"Field rank must be greater than the batch rank: field shape={feature.shape}, batch_rank={rank} of a "
            "context feature. Give one more dimension, for the components of each graph."
        )
    return _ones_per_item(feature, rank, dtype)


def _ones_per_item(feature: Field, rank: int, dtype: tf.DType) -> Field:
    if rank and isinstance(feature, tf.RaggedTensor):
        return feature.with_values(_ones_per_item(feature.values, rank - 1, dtype))
    if isinstance(feature, tf.RaggedTensor):
        return tf.ones([fields.num_items(feature)], dtype)
    dimensions = feature.shape[: rank + 1]
    if dimensions.is_fully_defined():
        return tf.ones(dimensions, dtype)
    return tf.ensure_shape(tf.ones(tf.shape(feature)[: rank + 1], dtype), dimensions)
