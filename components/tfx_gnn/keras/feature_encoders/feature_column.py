"""GraphLearn's feature columns: how one feature is encoded."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import combine_embeddings
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import COMBINERS, MAX_DENSE_GRADIENT_ELEMENTS, Combiner


class FeatureColumn(tf_keras.layers.Layer):
    """Turns one column of raw values into numbers, in two parts.

    `prepare` hashes, splits and looks texts up; it has no trained variables, and is for the input pipeline where a
    model runs on a TPU, which knows no texts. `encode` makes floats of what comes out, on any
    device. Calling the column does both.

    A column that is called for several sets of nodes, such as source and neighbors, has one
    table for all of them.

    Init args:
        name: name of the column.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: raw values, shape [num_items].

    Returns:
        Float tensor of shape [num_items] or [num_items, dimension].
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def prepare(self, values: Any) -> Any:
        """Does what needs texts.

        Args:
            values: raw values, shape [num_items].

        Returns:
            Numbers: dense, or ragged where an item has several values.
        """
        return values

    def encode(self, prepared: Any) -> tf.Tensor:
        """Does what needs no texts.

        Args:
            prepared: what `prepare` returned.

        Returns:
            Float tensor of shape [num_items] or [num_items, dimension].

        Raises:
            NotImplementedError: if the class of the column does not say how.
        """
        raise NotImplementedError(f"`encode` must be written for {type(self).__name__}.")

    def call(self, values: Any) -> tf.Tensor:
        """Prepares and encodes values; see the class.

        Args:
            values: raw values, shape [num_items].
        """
        return self.encode(self.prepare(values))


class PartitionableColumn(FeatureColumn):
    """A column of categories, with a table of embeddings that can be partitioned.

    The strategy in whose scope the table is made partitions it. That of
    `StrategyOptions(kind="parameter_server", num_parameter_partitions=2)` keeps a table of
    [1024, 256] in two parts of 131072 elements each, the smallest that a part can be.

    Init args:
        name: name of the column.
        rows: rows of the table.
        dimension: width of an embedding.
        combiner: how several embeddings of one item become one: "mean" or "sum".
        max_dense_gradient_elements: rows times dimension up to which the gradient is dense, as TPUs need it.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: raw values, shape [num_items].

    Returns:
        Float tensor of shape [num_items, dimension].

    Raises:
        ValueError: if `rows` or `dimension` is below 1, or there is no such combiner.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        dimension: int,
        *,
        combiner: Combiner = "mean",
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
            raise ValueError(f"`combiner` must be one of {list(COMBINERS)}; got {combiner!r}. Choose one of these.")
        self.rows = rows
        self.dimension = dimension
        self.combiner: Combiner = combiner
        self._max_dense_gradient_elements = max_dense_gradient_elements
        self._tables: EmbeddingTables | None = None

    def encode(self, prepared: Any) -> tf.Tensor:
        """Looks embeddings up in the column's own table.

        Args:
            prepared: what `prepare` returned.

        Returns:
            Float tensor of shape [num_items, dimension].
        """
        if self._tables is None:
            # Made when needed: a FeatureHandler has the tables of all its columns itself.
            self._tables = EmbeddingTables(
                {self.name: (self.rows, self.dimension)},
                max_dense_gradient_elements=self._max_dense_gradient_elements,
                dtype=self.dtype_policy,
            )
        found = self._tables({self.name: [flat_categories(prepared)]})
        return combine_embeddings(found[self.name][0], prepared, self.combiner)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that all columns of categories have."""
        return {**super().get_config(), "max_dense_gradient_elements": self._max_dense_gradient_elements}


def flat_categories(values: Any) -> tf.Tensor:
    """Lines up all categories of all items.

    Args:
        values: integers of shape [num_items], [num_items, k] or ragged [num_items, (k)].

    Returns:
        Integers of shape [total].
    """
    return values.values if isinstance(values, tf.RaggedTensor) else tf.reshape(values, [-1])
