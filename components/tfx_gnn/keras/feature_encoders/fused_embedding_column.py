"""Several categorical columns that share one table and one lookup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import table_rows
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FusedEmbeddingColumn(PartitionableColumn):
    """Embeds several categories of equal dimension in one table, the rows of one below those of the other.

    Init args:
        name: name of the column.
        bucket_list: number of categories of each input.
        dimension: width of an embedding.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: one tensor of integers for each input, shape [num_items]. One outside of the input's categories
            gets its last row.

    Returns:
        Float tensor of shape [num_items, number of inputs * dimension].

    Raises:
        ValueError: if there is no input, or one without categories.

    Example:
        >>> column = FusedEmbeddingColumn("fused", [10, 20, 30], 8)
        >>> column([tf.zeros([4], tf.int64)] * 3).shape.as_list(), column.weights[0].shape.as_list()
        ([4, 24], [60, 8])
    """

    def __init__(self, name: str, bucket_list: Sequence[int], dimension: int, **kwargs: Any) -> None:
        if not bucket_list or min(bucket_list) < 1:
            raise ValueError(
                f"`bucket_list` must hold at least one number, each at least 1; got {list(bucket_list)} for {name!r}. "
                "Say how many categories each input has."
            )
        super().__init__(name, sum(bucket_list), dimension, **kwargs)
        self._bucket_list = list(bucket_list)

    def prepare(self, values: Sequence[Any]) -> tf.Tensor:
        """Shifts each input to its part of the table.

        Args:
            values: one tensor of integers for each input, shape [num_items].

        Returns:
            int32 tensor of shape [num_items, number of inputs].

        Raises:
            ValueError: if there are more or fewer tensors than inputs.
        """
        if len(values) != len(self._bucket_list):
            raise ValueError(
                f"`values` must have one tensor for each of {len(self._bucket_list)} inputs; got {len(values)} for "
                f"{self.name!r}. Give all of them."
            )
        begins = [sum(self._bucket_list[:position]) for position in range(len(values))]
        rows = [
            table_rows(tf.convert_to_tensor(value), size) + begin
            for value, size, begin in zip(values, self._bucket_list, begins, strict=True)
        ]
        return tf.stack(rows, axis=1)

    def encode(self, prepared: Any) -> tf.Tensor:
        """Looks all inputs up at once.

        Args:
            prepared: what `prepare` returned, [num_items, number of inputs].

        Returns:
            Float tensor of shape [num_items, number of inputs * dimension].
        """
        embeddings = super().encode(tf.reshape(prepared, [-1]))
        return tf.reshape(embeddings, [-1, len(self._bucket_list) * self.dimension])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "bucket_list": self._bucket_list, "dimension": self.dimension}
