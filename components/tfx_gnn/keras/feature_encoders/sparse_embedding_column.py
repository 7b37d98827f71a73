"""Embedding columns with any number of categories per item."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import Values, hash_to_buckets, pad_values, split_values
from tfx_gnn.keras.feature_encoders.dynamic_categories import DynamicCategories, Vocabulary
from tfx_gnn.keras.feature_encoders.encoder_options import Combiner
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn


class _SparseColumn(PartitionableColumn):
    """Splits, numbers and, if asked for, pads the values of each item."""

    def __init__(
        self,
        name: str,
        rows: int,
        dimension: int,
        delimiter: str,
        *,
        combiner: Combiner,
        max_values: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, rows, dimension, combiner=combiner, **kwargs)
        if not delimiter or max_values < 0:
            raise ValueError(
                f"`delimiter` must have a character, `max_values` must be at least 0; got {delimiter!r} and "
                f"{max_values} for {name!r}. Correct them."
            )
        self._delimiter = delimiter
        self._max_values = max_values

    def _number(self, values: Values) -> Values:
        raise NotImplementedError

    def prepare(self, values: Any) -> Values:
        """Splits texts and numbers their values.

        Args:
            values: texts, shape [num_items]; or values that are split already, ragged, [num_items, (num_values)].

        Returns:
            int64, ragged [num_items, (num_values)]; with `max_values` dense, [num_items, max_values].
        """
        if not isinstance(values, tf.RaggedTensor):
            values = split_values(tf.convert_to_tensor(values), self._delimiter)
        numbered = self._number(values)
        return pad_values(numbered, self._max_values) if self._max_values else numbered

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that all columns of several categories have."""
        return {
            **super().get_config(),
            "dimension": self.dimension,
            "delimiter": self._delimiter,
            "combiner": self.combiner,
            "max_values": self._max_values,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SparseEmbeddingColumn(_SparseColumn):
    """Splits texts into values, hashes each to a category, and combines their embeddings.

    Nothing is skipped: an empty text has the one value "".

    Init args:
        name: name of the column.
        bucket_size: number of categories, rows of the table.
        dimension: width of an embedding.
        delimiter: what parts the values.
        combiner: "mean", or "sum".
        max_values: width to which `prepare` pads, for devices that want static shapes; an item with more is an error.
            0: ragged.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: texts, shape [num_items], or split already, ragged.

    Returns:
        Float tensor of shape [num_items, dimension].

    Example:
        >>> SparseEmbeddingColumn("tags", 10, 8, ",")(tf.constant(["hi,gl,and,tf"])).shape.as_list()
        [1, 8]
    """

    def __init__(
        self,
        name: str,
        bucket_size: int,
        dimension: int,
        delimiter: str = ",",
        *,
        combiner: Combiner = "mean",
        max_values: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, bucket_size, dimension, delimiter, combiner=combiner, max_values=max_values, **kwargs)

    def _number(self, values: Values) -> Values:
        return hash_to_buckets(values, self.rows)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "bucket_size": self.rows}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DynamicSparseEmbeddingColumn(_SparseColumn):
    """As `SparseEmbeddingColumn`, without a known number of values: by a vocabulary, or hashed to many rows.

    `DynamicCategories` tells the two ways.

    Init args:
        name: name of the column.
        dimension: width of an embedding.
        delimiter: what parts the values.
        combiner: "mean", or "sum".
        max_values: as for `SparseEmbeddingColumn`.
        vocabulary: values, or the path of a file with one on each line, such as that of tf.Transform.
        num_oov_buckets: rows for values that the vocabulary lacks.
        num_buckets: rows for all values, without a vocabulary; 0: 131072.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: texts, shape [num_items], or split already, ragged.

    Returns:
        Float tensor of shape [num_items, dimension].
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        delimiter: str = ",",
        *,
        combiner: Combiner = "mean",
        max_values: int = 0,
        vocabulary: Vocabulary = (),
        num_oov_buckets: int = 1,
        num_buckets: int = 0,
        **kwargs: Any,
    ) -> None:
        categories = DynamicCategories(vocabulary, num_oov_buckets=num_oov_buckets, num_buckets=num_buckets)
        super().__init__(
            name, categories.num_categories, dimension, delimiter, combiner=combiner, max_values=max_values, **kwargs
        )
        self._categories = categories
        self._table = categories.table

    def _number(self, values: Values) -> Values:
        return self._categories(values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), **self._categories.as_arguments()}
