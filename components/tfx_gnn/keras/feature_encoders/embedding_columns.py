"""Embedding columns, for one category per item, several fused categories or any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import (
    DynamicCategories,
    Values,
    Vocabulary,
    hash_to_buckets,
    pad_values,
    split_values,
    table_rows,
)
from tfx_gnn.keras.feature_encoders.encoder_options import Combiner
from tfx_gnn.keras.feature_encoders.feature_column import PartitionableColumn


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EmbeddingColumn(PartitionableColumn):
    """Embeds a feature with a known number of categories.

    Init args:
        name: name of the column.
        bucket_size: number of categories, and of rows of the table.
        dimension: width of an embedding.
        need_hash: whether integers are first hashed to `bucket_size` categories, as decimal strings. Strings are always
            hashed. Other integers must be in [0, bucket_size), unless `out_of_range` says otherwise.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: integers or strings, shape [num_items].

    Returns:
        Float tensor of shape [num_items, dimension].

    Example:
        >>> EmbeddingColumn("city", 20, 8, need_hash=True)(tf.constant([21, 22, 3000])).shape.as_list()
        [3, 8]
    """

    def __init__(self, name: str, bucket_size: int, dimension: int, need_hash: bool = False, **kwargs: Any) -> None:
        super().__init__(name, bucket_size, dimension, **kwargs)
        self._bucket_size = bucket_size
        self._need_hash = need_hash

    def prepare(self, values: Any) -> tf.Tensor:
        """Hashes strings, and integers if `need_hash` is set; checks other integers.

        Args:
            values: integers or strings, shape [num_items].

        Returns:
            Integers of the same shape.
        """
        values = values if isinstance(values, tf.RaggedTensor) else tf.convert_to_tensor(values)
        if self._need_hash or values.dtype == tf.string:
            return hash_to_buckets(values, self._bucket_size)
        return super().prepare(values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "bucket_size": self._bucket_size,
            "dimension": self.dimension,
            "need_hash": self._need_hash,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DynamicEmbeddingColumn(PartitionableColumn):
    """Embeds a feature with an unknown number of categories: by a vocabulary, or hashed to many rows.

    `DynamicCategories` describes the two ways.

    Init args:
        name: name of the column.
        dimension: width of an embedding.
        is_string: whether the values are strings rather than integers; an argument of GraphLearn that is not used.
        vocabulary: values, or the path of a file with one value per line, such as that of tf.Transform.
        num_oov_buckets: rows for values that the vocabulary lacks.
        num_buckets: rows for all values if there is no vocabulary; 0: 131072.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: integers or strings, shape [num_items].

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
            values: integers or strings, shape [num_items].

        Returns:
            int64 of the same shape.
        """
        return self._categories(tf.convert_to_tensor(values))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "dimension": self.dimension,
            "is_string": self._is_string,
            **self._categories.as_arguments(),
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FusedEmbeddingColumn(PartitionableColumn):
    """Embeds several features of equal dimension in one table, in which their rows are stacked.

    Init args:
        name: name of the column.
        bucket_list: number of categories of each input.
        dimension: width of an embedding.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: one tensor of integers for each input, shape [num_items]. With `out_of_range` "oov", each input has one
            row more.

    Returns:
        Float tensor of shape [num_items, number of inputs * dimension].

    Raises:
        ValueError: if there is no input, or an input has no categories.

    Example:
        >>> column = FusedEmbeddingColumn("fused", [10, 20, 30], 8)
        >>> column([tf.zeros([4], tf.int64)] * 3).shape.as_list(), column.weights[0].shape.as_list()
        ([4, 24], [60, 8])
    """

    def __init__(self, name: str, bucket_list: Sequence[int], dimension: int, **kwargs: Any) -> None:
        if not bucket_list or min(bucket_list) < 1:
            raise ValueError(
                f"`bucket_list` must hold at least one number, each at least 1; got {list(bucket_list)} for {name!r}. "
                "List the number of categories of each input."
            )
        self._num_more = int(kwargs.get("out_of_range") == "oov")
        super().__init__(name, sum(bucket_list), dimension, **kwargs)
        self._bucket_list = list(bucket_list)
        self.rows = sum(bucket_list) + len(bucket_list) * self._num_more

    def prepare(self, values: Sequence[Any]) -> tf.Tensor:
        """Maps each input to rows in its part of the table.

        Args:
            values: one tensor of integers for each input, shape [num_items].

        Returns:
            int32 tensor of shape [num_items, number of inputs].

        Raises:
            ValueError: if the number of tensors is not that of the inputs.
        """
        if len(values) != len(self._bucket_list):
            raise ValueError(
                f"`values` must have one tensor for each of {len(self._bucket_list)} inputs; got {len(values)} for "
                f"{self.name!r}. Give all of them."
            )
        sizes = [size + self._num_more for size in self._bucket_list]
        begins = [sum(sizes[:position]) for position in range(len(values))]
        rows = [
            table_rows(self.in_range(value, size - self._num_more, f"{self.name}[{position}]"), size) + begin
            for position, (value, size, begin) in enumerate(zip(values, sizes, begins, strict=True))
        ]
        return tf.stack(rows, axis=1)

    def encode(self, prepared: Any) -> tf.Tensor:
        """Looks up all inputs at once.

        Args:
            prepared: the result of `prepare`, [num_items, number of inputs].

        Returns:
            Float tensor of shape [num_items, number of inputs * dimension].
        """
        embeddings = super().encode(tf.reshape(prepared, [-1]))
        return tf.reshape(embeddings, [-1, len(self._bucket_list) * self.dimension])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "bucket_list": self._bucket_list, "dimension": self.dimension}


class _SparseColumn(PartitionableColumn):
    """Splits, numbers and optionally pads the values of each item."""

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
        """Splits strings and numbers their values.

        Args:
            values: strings, shape [num_items]; or values that are already split, ragged, [num_items, (num_values)].

        Returns:
            int64, ragged [num_items, (num_values)]; with `max_values`, dense [num_items, max_values].
        """
        if not isinstance(values, tf.RaggedTensor):
            values = split_values(tf.convert_to_tensor(values), self._delimiter)
        numbered = self._number(values)
        return pad_values(numbered, self._max_values) if self._max_values else numbered

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments that all columns with several categories per item have."""
        return {
            **super().get_config(),
            "dimension": self.dimension,
            "delimiter": self._delimiter,
            "combiner": self.combiner,
            "max_values": self._max_values,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SparseEmbeddingColumn(_SparseColumn):
    """Splits strings into values, hashes each value to a category, and combines the embeddings.

    Nothing is skipped: an empty string has the single value "".

    Init args:
        name: name of the column.
        bucket_size: number of categories, and of rows of the table.
        dimension: width of an embedding.
        delimiter: separator of values.
        combiner: "mean" or "sum".
        max_values: width to which `prepare` pads, for devices that need static shapes; an item with more values is
            an error. 0: values stay ragged.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: strings, shape [num_items], or already split, ragged.

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
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "bucket_size": self.rows}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DynamicSparseEmbeddingColumn(_SparseColumn):
    """`SparseEmbeddingColumn` for an unknown number of categories: by a vocabulary, or hashed to many rows.

    `DynamicCategories` describes the two ways.

    Init args:
        name: name of the column.
        dimension: width of an embedding.
        delimiter: separator of values.
        combiner: "mean" or "sum".
        max_values: as for `SparseEmbeddingColumn`.
        vocabulary: values, or the path of a file with one value per line, such as that of tf.Transform.
        num_oov_buckets: rows for values that the vocabulary lacks.
        num_buckets: rows for all values if there is no vocabulary; 0: 131072.
        **kwargs: arguments of `PartitionableColumn`.

    Call args:
        values: strings, shape [num_items], or already split, ragged.

    Returns:
        Float tensor of shape [num_items, dimension].

    Example:
        >>> column = DynamicSparseEmbeddingColumn("tags", 8, vocabulary=["art", "law"])
        >>> column.prepare(tf.constant(["law,art", "tax"])).to_list()
        [[1, 0], [2]]
        >>> column(tf.constant(["law,art", "tax"])).shape.as_list()
        [2, 8]
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
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._categories.as_arguments()}
