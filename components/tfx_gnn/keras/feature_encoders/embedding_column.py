"""Embedding columns with one category per item."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import hash_to_buckets
from tfx_gnn.keras.feature_encoders.dynamic_categories import DynamicCategories, Vocabulary
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EmbeddingColumn(PartitionableColumn):
    """Embeds a category of a known number.

    Init args:
        name: name of the column.
        bucket_size: number of categories, rows of the table.
        dimension: width of an embedding.
        need_hash: whether integers are hashed to `bucket_size` categories first, as decimal texts. If not, one
            outside of [0, bucket_size) gets the last row. Texts are always hashed.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: integers or texts, shape [num_items].

    Returns:
        Float tensor of shape [num_items, dimension].

    Example:
        >>> EmbeddingColumn("city", 20, 8, need_hash=True)(tf.constant([21, 22, 3000])).shape.as_list()
        [3, 8]
    """

    def __init__(self, name: str, bucket_size: int, dimension: int, need_hash: bool = False, **kwargs: Any) -> None:
        super().__init__(name, bucket_size, dimension, **kwargs)
        self._need_hash = need_hash

    def prepare(self, values: Any) -> tf.Tensor:
        """Hashes what is to be hashed.

        Args:
            values: integers or texts, shape [num_items].

        Returns:
            Integers of the same shape.
        """
        values = tf.convert_to_tensor(values)
        return hash_to_buckets(values, self.rows) if self._need_hash or values.dtype == tf.string else values

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "bucket_size": self.rows,
            "dimension": self.dimension,
            "need_hash": self._need_hash,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DynamicEmbeddingColumn(PartitionableColumn):
    """Embeds a category without a known number of values: by a vocabulary, or hashed to many rows.

    `DynamicCategories` tells the two ways.

    Init args:
        name: name of the column.
        dimension: width of an embedding.
        is_string: whether the values are texts rather than integers; GraphLearn's, and not needed here.
        vocabulary: values, or the path of a file with one on each line, such as that of tf.Transform.
        num_oov_buckets: rows for values that the vocabulary lacks.
        num_buckets: rows for all values, without a vocabulary; 0: 131072.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: integers or texts, shape [num_items].

    Returns:
        Float tensor of shape [num_items, dimension].

    Example:
        >>> column = DynamicEmbeddingColumn("city", 4, is_string=True, vocabulary=["Bern", "Rome"])
        >>> column.prepare(tf.constant(["Rome", "Oslo", "Bern"])).numpy().tolist()
        [1, 2, 0]
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        is_string: bool = False,
        *,
        vocabulary: Vocabulary = (),
        num_oov_buckets: int = 1,
        num_buckets: int = 0,
        **kwargs: Any,
    ) -> None:
        categories = DynamicCategories(vocabulary, num_oov_buckets=num_oov_buckets, num_buckets=num_buckets)
        super().__init__(name, categories.num_categories, dimension, **kwargs)
        self._is_string = is_string
        self._categories = categories
        self._table = categories.table

    def prepare(self, values: Any) -> tf.Tensor:
        """Numbers the values.

        Args:
            values: integers or texts, shape [num_items].

        Returns:
            int64 of the same shape.
        """
        return self._categories(tf.convert_to_tensor(values))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "dimension": self.dimension,
            "is_string": self._is_string,
            **self._categories.as_arguments(),
        }
