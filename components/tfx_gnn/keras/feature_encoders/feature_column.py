"""GraphLearn's feature columns, which encode one feature each, and groups of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.feature_encoders.category_values import (
    OUT_OF_RANGE,
    OutOfRange,
    categories_in_range,
    combine_embeddings,
    flat_categories,
)
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import COMBINERS, MAX_DENSE_GRADIENT_ELEMENTS, Combiner


class FeatureColumn(tf_keras.layers.Layer):
    """Encodes one column of raw values, in two parts.

    `prepare` hashes, splits and looks up strings. It has no trained variables, and belongs in the input pipeline if
    the model runs on a TPU, which has no strings. `encode` turns the result into floats, on any
    device. Calling the column runs both.

    A class may instead override `forward`, GraphLearn's method, which does both; then `prepare` is not used, and a
    `FeatureGroup` calls it in the model.

    A column that is called for several sets of nodes, such as source and neighbors, uses one
    table for all of them.

    Init args:
        name: name of the column; None for a name made of that of the class.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: raw values, shape [num_items].

    Returns:
        Float tensor of shape [num_items] or [num_items, dimension].

    Example:
        >>> class LengthColumn(FeatureColumn):
        ...     def prepare(self, values):
        ...         return tf.strings.length(values)
        ...     def encode(self, prepared):
        ...         return tf.cast(prepared, tf.float32)
        >>> LengthColumn("length")(tf.constant(["Bern", "Rome", "Oslo!"])).numpy().tolist()
        [4.0, 4.0, 5.0]
    """

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def prepare(self, values: Any) -> Any:
        """Runs the part that needs strings.

        Args:
            values: raw values, shape [num_items].

        Returns:
            Numbers: dense, or ragged if items have several values.
        """
        return values

    def encode(self, prepared: Any) -> tf.Tensor:
        """Runs the part that needs no strings.

        Args:
            prepared: the result of `prepare`.

        Returns:
            Float tensor of shape [num_items] or [num_items, dimension].

        Raises:
            NotImplementedError: if the class of the column does not implement it.
        """
        raise NotImplementedError(f"`encode` or `forward` must be written for {type(self).__name__}.")

    def forward(self, x: Any) -> tf.Tensor:
        """Prepares and encodes values: GraphLearn's method, to be overridden.

        Args:
            x: raw values, shape [num_items].

        Returns:
            Float tensor of shape [num_items] or [num_items, dimension].
        """
        return self.encode(self.prepare(x))

    def call(self, values: Any) -> tf.Tensor:
        """Calls `forward`; see the class.

        Args:
            values: raw values, shape [num_items].
        """
        return self.forward(values)

    @property
    def is_whole(self) -> bool:
        """Whether the class overrides `forward` or `call`, so that it has no part for the input pipeline."""
        return type(self).forward is not FeatureColumn.forward or type(self).call is not FeatureColumn.call


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NumericColumn(FeatureColumn):
    """Uses numbers as they are, as floats.

    Init args:
        name: name of the column.
        normalizer_func: function applied to the numbers first, such as `lambda x: (x - 1) / 2`; None for none. It
            gets floats: of integers, float64. It must be registered with Keras if it is to be saved with the layer.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: integers or floats, shape [num_items].

    Returns:
        float32 tensor (the policy's dtype under mixed precision) of shape [num_items].

    Example:
        >>> NumericColumn("age", lambda x: (x - 1) * 0.5)(tf.constant([1, 2, 3])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """

    def __init__(self, name: str, normalizer_func: Callable[[Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._normalizer_func = normalizer_func

    def prepare(self, values: Any) -> tf.Tensor:
        """Normalizes numbers.

        Args:
            values: integers or floats, shape [num_items].

        Returns:
            Numbers of the same shape.
        """
        if self._normalizer_func is None:
            return values
        values = tf.convert_to_tensor(values)
        if not values.dtype.is_floating:
            # Timestamps and other large integers do not fit into float32 before they are normalized. TPUs lack float64,
            # which is why this is in the part that input pipelines run.
            values = tf.cast(values, tf.float64)
        return tf.cast(self._normalizer_func(values), tf.float32)

    def encode(self, prepared: Any) -> tf.Tensor:
        """Casts numbers.

        Args:
            prepared: the result of `prepare`.

        Returns:
            Floats of the same shape.
        """
        return tf.cast(prepared, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "normalizer_func": tf_keras.utils.serialize_keras_object(self._normalizer_func),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NumericColumn:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.

        Returns:
            An equal layer.
        """
        function = config["normalizer_func"]
        if function is not None and not callable(function):
            function = tf_keras.utils.deserialize_keras_object(function)
        return cls(**{**config, "normalizer_func": function})


class PartitionableColumn(FeatureColumn):
    """A column of categories, with a table of embeddings that can be partitioned.

    The table is partitioned by the distribution strategy in whose scope it is made. For example,
    `StrategyOptions(kind="parameter_server", num_parameter_partitions=2)` stores a table of
    [1024, 256] in two parts of 131072 elements each, the smallest size of a part.

    Init args:
        name: name of the column.
        rows: rows of the table.
        dimension: width of an embedding.
        combiner: how several embeddings of one item are combined: "mean" or "sum".
        out_of_range: what becomes of integers outside of [0, rows): "error" refuses them, "hash" hashes them to
            the rows, as decimal strings, "oov" gives them one more row after the others, and "last" the last row, which
            they share with its category. "error" is a check of `prepare`: where that part is compiled by XLA, which has
            no assertions, they get the last row, so let the input pipeline run it for TPUs.
        owner: name of what the column belongs to, for messages.
        max_dense_gradient_elements: largest number of elements, rows times dimension, of a table with a dense
            gradient, which TPUs need.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: raw values, shape [num_items].

    Returns:
        Float tensor of shape [num_items, dimension].

    Raises:
        ValueError: if `rows` or `dimension` is below 1, or the combiner is unknown.

    Example:
        >>> column = PartitionableColumn("color", rows=3, dimension=2, combiner="sum")
        >>> column(tf.constant([0, 2, 1])).shape.as_list(), column.weights[0].shape.as_list()
        ([3, 2], [3, 2])
        >>> column(tf.ragged.constant([[0, 1], [], [2]])).numpy()[1].tolist()
        [0.0, 0.0]
    """

    def __init__(
        self,
        name: str,
        rows: int,
        dimension: int,
        *,
        combiner: Combiner = "mean",
        out_of_range: OutOfRange = "error",
        owner: str = "",
        max_dense_gradient_elements: int = MAX_DENSE_GRADIENT_ELEMENTS,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        if rows < 1 or dimension < 1:
            raise ValueError(
                f"`bucket_size` and `dimension` must be at least 1; got {rows} and {dimension} for {name!r}. Correct "
                "them."
            )
        if combiner not in COMBINERS:
            raise ValueError(
                f"`combiner` must be one of {list(COMBINERS)}; got {combiner!r}. "
                f"{did_you_mean(combiner, COMBINERS, otherwise='Choose one of these.')}"
            )
        if out_of_range not in OUT_OF_RANGE:
            raise ValueError(
                f"`out_of_range` must be one of {list(OUT_OF_RANGE)}; got {out_of_range!r} for {name!r}. "
                f"{did_you_mean(out_of_range, OUT_OF_RANGE, otherwise='Choose one of these.')}"
            )
        self.rows = rows + (out_of_range == "oov")
        self.dimension = dimension
        self.out_of_range: OutOfRange = out_of_range
        self._owner = owner
        self.combiner: Combiner = combiner
        self._max_dense_gradient_elements = max_dense_gradient_elements
        self._tables: EmbeddingTables | None = None

    def prepare(self, values: Any) -> Any:
        """Checks integers, or gives those out of range a row, as `out_of_range` says.

        Args:
            values: integers, shape [num_items], or several for each item.

        Returns:
            Integers of the same shape.
        """
        return self.in_range(values, self.rows - (self.out_of_range == "oov"))

    def in_range(self, values: Any, num_categories: int, what: str = "") -> Any:
        """Checks integers, or gives those out of range a row, as `out_of_range` says.

        Args:
            values: integers of any shape, dense or ragged.
            num_categories: number of categories; with "oov", the row after them.
            what: name of the values, for messages; that of the column by default.

        Returns:
            Integers of the same shape.
        """
        column = what or (f"{self.name} of {self._owner}" if self._owner else self.name)
        return categories_in_range(values, num_categories, self.out_of_range, column)

    def encode(self, prepared: Any) -> tf.Tensor:
        """Looks up embeddings in the column's own table.

        Args:
            prepared: the result of `prepare`.

        Returns:
            Float tensor of shape [num_items, dimension].
        """
        if self._tables is None:
            # Made only when needed: a FeatureHandler holds the tables of all its columns itself.
            self._tables = EmbeddingTables(
                {self.name: (self.rows, self.dimension)},
                max_dense_gradient_elements=self._max_dense_gradient_elements,
                dtype=self.dtype_policy,
            )
        found = self._tables({self.name: [flat_categories(prepared)]})
        return combine_embeddings(found[self.name][0], prepared, self.combiner)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments that all columns of categories have."""
        return {
            **super().get_config(),
            "out_of_range": self.out_of_range,
            "owner": self._owner,
            "max_dense_gradient_elements": self._max_dense_gradient_elements,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FeatureGroup(tf_keras.layers.Layer):
    """Encodes each column and concatenates the results.

    Init args:
        columns: the feature columns, one for each column of the values.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: tensor of shape [num_items, number of columns], or a list with one tensor of shape [num_items] per
            column; a column with several values per item may be ragged.

    Returns:
        Float tensor of shape [num_items, sum of the dimensions]; a number has dimension 1.

    Raises:
        ValueError: if there is no column.

    Example:
        >>> from tfx_gnn.keras.feature_encoders import EmbeddingColumn
        >>> group = FeatureGroup([NumericColumn("age"), EmbeddingColumn("city", 10, 4)])
        >>> group(tf.constant([[31, 2], [42, 7]])).shape.as_list()
        [2, 5]
        >>> group([tf.constant([0.5, 1.5]), tf.constant(["Bern", "Rome"])]).shape.as_list()
        [2, 5]
    """

    def __init__(self, columns: Sequence[FeatureColumn], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not columns:
            raise ValueError("`columns` must hold at least one column; got none. Leave the group out.")
        self._columns = [
            tf_keras.layers.deserialize(column) if isinstance(column, dict) else column for column in columns
        ]

    @property
    def columns(self) -> tuple[FeatureColumn, ...]:
        """The columns in their order."""
        return tuple(self._columns)

    def prepare(self, values: Any) -> list[Any]:
        """Runs the part that needs strings; see `FeatureColumn`.

        Args:
            values: as for calls.

        Returns:
            The result of `prepare` of each column.

        Raises:
            ValueError: if the number of columns of `values` is not that of the feature columns.
        """
        parts = split_columns(values)
        if len(parts) != len(self._columns):
            raise ValueError(
                f"`values` must have one column for each of {len(self._columns)} feature columns; got {len(parts)}. "
                "Give a tensor of shape [num_items, number of columns], or a list."
            )
        return [
            part if column.is_whole else column.prepare(part) for column, part in zip(self._columns, parts, strict=True)
        ]

    def encode(self, prepared: Sequence[Any]) -> tf.Tensor:
        """Runs the part that needs no strings.

        Args:
            prepared: the result of `prepare`.

        Returns:
            As for calls.
        """
        encoded = [
            column(part) if column.is_whole else column.encode(part)
            for column, part in zip(self._columns, prepared, strict=True)
        ]
        return tf.concat([as_columns(part) for part in encoded], axis=-1)

    def call(self, values: Any) -> tf.Tensor:
        """Encodes the columns; see the class.

        Args:
            values: tensor of shape [num_items, number of columns], or a list with one tensor per column.
        """
        return self.encode(self.prepare(values))

    def forward(self, values: Any) -> tf.Tensor:
        """Calls the group; GraphLearn's name for it.

        Args:
            values: as for calls.

        Returns:
            As for calls.
        """
        return self(values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "columns": [tf_keras.layers.serialize(column) for column in self._columns]}


def split_columns(values: Any) -> list[Any]:
    """Splits values of shape [num_items, num_columns] by column; a list of columns stays as it is."""
    if isinstance(values, (list, tuple)):
        return list(values)
    values = tf.convert_to_tensor(values)
    return [values[:, position] for position in range(values.shape[1])] if values.shape.rank == 2 else []


def as_columns(values: tf.Tensor) -> tf.Tensor:
    """Reshapes one number per item, [num_items], to [num_items, 1]."""
    return values[:, tf.newaxis] if values.shape.rank == 1 else values
