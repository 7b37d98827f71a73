"""An embedding table that trains on any accelerator."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DenseEmbedding(tf_keras.layers.Layer):
    """Looks rows up in a trained table.

    Its gradient is a dense tensor of the table's size. That of
    `tf_keras.layers.Embedding` is sparse, which makes the Adam optimizer call
    `tf.unique`, an operation of unknown output size that TPUs do not have. For
    tables that fit in memory several times the values are the same. A table too large
    for that can have a sparse gradient on CPUs, GPUs and parameter servers; one
    that a parameter server strategy has partitioned always does.

    The table is float32 under a policy of mixed precision too, and so is the sum of the
    gradients of a row; what is looked up has the policy's dtype.

    Shapes: indices, any integer dtype, [...], values in [0, num_rows); result float
    [..., units].

    Init args:
        num_rows: rows of the table.
        units: width of a row.
        embeddings_initializer: initializer of the table.
        embeddings_regularizer: regularizer of the table.
        sparse_gradient: whether the gradient holds the rows looked up only. Not for TPUs.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        indices: integers of shape [...].
        training: whether a gradient may be asked for.

    Returns:
        Float tensor of shape [..., units].

    Raises:
        ValueError: if `num_rows` or `units` is below 1.
    """

    def __init__(
        self,
        num_rows: int,
        units: int,
        *,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        sparse_gradient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if num_rows < 1 or units < 1:
            raise ValueError(
                f"`num_rows` and `units` must be at least 1; got {num_rows} and {units}. Take the number of rows from "
                "the vocabulary, with one more for what it lacks."
            )
        self._num_rows = num_rows
        self._units = units
        self._initializer = tf_keras.initializers.get(embeddings_initializer)
        self._regularizer = tf_keras.regularizers.get(embeddings_regularizer)
        self._sparse_gradient = sparse_gradient

    def build(self, input_shape: Any) -> None:
        """Makes the table.

        Args:
            input_shape: not used.
        """
        self._table = self.add_weight(
            "embeddings",
            (self._num_rows, self._units),
            initializer=self._initializer,
            regularizer=self._regularizer,
            experimental_autocast=False,
        )
        super().build(input_shape)

    def call(self, indices: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Looks the rows up; see the class for shapes.

        Args:
            indices: integers of shape [...].
            training: whether a gradient may be asked for.
        """
        if self._sparse_gradient or self._is_partitioned():
            rows = tf.nn.embedding_lookup(self._table, indices)
        elif training is False:
            # Nobody asks for a gradient; an exported model is free of custom ones.
            rows = tf.gather(self._table, indices)
        else:
            rows = _lookup(tf.convert_to_tensor(self._table), indices)
        return tf.cast(rows, self.compute_dtype)

    def _is_partitioned(self) -> bool:
        # Made a tensor, such a variable would be sent whole to each worker in each step.
        return not isinstance(self._table, tf.Variable)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "num_rows": self._num_rows,
            "units": self._units,
            "embeddings_initializer": tf_keras.initializers.serialize(self._initializer),
            "embeddings_regularizer": tf_keras.regularizers.serialize(self._regularizer),
            "sparse_gradient": self._sparse_gradient,
        }


@tf.custom_gradient
def _lookup(table: tf.Tensor, indices: tf.Tensor) -> Any:
    num_rows = table.shape[0]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.math.unsorted_segment_sum(upstream, indices, num_rows), None

    return tf.gather(table, indices), gradient
