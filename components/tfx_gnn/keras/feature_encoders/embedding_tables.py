"""Embedding tables that train on any accelerator, fused into as few lookups as possible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import table_rows
from tfx_gnn.keras.feature_encoders.encoder_options import MAX_DENSE_GRADIENT_ELEMENTS, MAX_FUSED_ELEMENTS
from tfx_gnn.keras.layer_arguments import clone_initializer
from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declare_weight_index


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class DenseEmbedding(tf_keras.layers.Layer):
    """Looks up rows of a trained table.

    The gradient is a dense tensor of the table's size. That of
    `tf_keras.layers.Embedding` is sparse, which makes the Adam optimizer call
    `tf.unique`, an operation of unknown output size that TPUs lack. The values are
    the same. A dense gradient needs memory for several copies of the table. A table
    too large for that can have a sparse gradient on CPUs, GPUs and parameter servers; a
    table that a parameter server strategy has partitioned always does.

    Under mixed precision, the table and the sum of a row's gradients are still float32,
    while the result has the policy's dtype.

    Shapes: indices, any integer dtype, [...], values in [0, num_rows); result float
    [..., units].

    Init args:
        num_rows: rows of the table.
        units: width of a row.
        embeddings_initializer: initializer of the table.
        embeddings_regularizer: regularizer of the table.
        sparse_gradient: whether the gradient holds only the rows that were looked up. Not for TPUs.
        vocabulary: name of tf.Transform's vocabulary that numbers the first rows, for trainings that start from an
            earlier model; "" if a row means the same in every training, None if that is not known.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        indices: integers of shape [...].
        training: whether a gradient may be needed.

    Returns:
        Float tensor of shape [..., units].

    Raises:
        ValueError: if `num_rows` or `units` is below 1.

    Example:
        >>> embed = DenseEmbedding(5, 2, embeddings_initializer="ones")
        >>> embed(tf.constant([[0, 4, 4]])).shape.as_list()
        [1, 3, 2]
        >>> with tf.GradientTape() as tape:
        ...     loss = tf.reduce_sum(embed(tf.constant([0, 4, 4])))
        >>> tape.gradient(loss, embed.trainable_weights[0]).numpy().tolist()
        [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]
    """

    def __init__(
        self,
        num_rows: int,
        units: int,
        *,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        sparse_gradient: bool = False,
        vocabulary: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if num_rows < 1 or units < 1:
            raise ValueError(
                f"`num_rows` and `units` must be at least 1; got {num_rows} and {units}. Take the number of rows from "
                "the vocabulary, plus one for unknown values."
            )
        self._num_rows = num_rows
        self._units = units
        self._initializer = tf_keras.initializers.get(embeddings_initializer)
        self._regularizer = tf_keras.regularizers.get(embeddings_regularizer)
        self._sparse_gradient = sparse_gradient
        self._vocabulary = vocabulary
        rows = IndexBlock(name="", size=num_rows, vocabulary=vocabulary)
        declare_weight_index(self, WeightIndex(axis=0, blocks=(rows,)))

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
        """Looks up rows; see the class for shapes.

        Args:
            indices: integers of shape [...].
            training: whether a gradient may be needed.
        """
        if self._sparse_gradient or self._is_partitioned():
            rows = tf.nn.embedding_lookup(self._table, indices)
        elif training is False:
            # No gradient is needed, and an exported model must not have custom gradients.
            rows = tf.gather(self._table, indices)
        else:
            rows = _lookup(tf.convert_to_tensor(self._table), indices)
        return tf.cast(rows, self.compute_dtype)

    def _is_partitioned(self) -> bool:
        # If converted to a tensor, a partitioned variable would be sent to each worker in full at each step.
        return not isinstance(self._table, tf.Variable)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_rows": self._num_rows,
            "units": self._units,
            "embeddings_initializer": tf_keras.initializers.serialize(self._initializer),
            "embeddings_regularizer": tf_keras.regularizers.serialize(self._regularizer),
            "sparse_gradient": self._sparse_gradient,
            "vocabulary": self._vocabulary,
        }


@tf.custom_gradient
def _lookup(table: tf.Tensor, indices: tf.Tensor) -> Any:
    num_rows = table.shape[0]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.math.unsorted_segment_sum(upstream, indices, num_rows), None

    return tf.gather(table, indices), gradient


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EmbeddingTables(tf_keras.layers.Layer):
    """Looks up categories in tables by name, with one lookup for all small tables of equal width.

    Small tables of equal width are stacked in one variable, in the order of the mapping.
    One lookup then serves all their features, and the optimizer has a single variable to
    update. A table with more than `MAX_FUSED_ELEMENTS` has its own variable, which can be partitioned; a
    table with more than `max_dense_gradient_elements` has a sparse gradient.

    Init args:
        tables: number of rows and width of each table, by name.
        fuse: whether small tables share variables.
        max_dense_gradient_elements: largest number of elements, rows times units, of a table with a dense gradient.
        embeddings_initializer: initializer of every table.
        vocabularies: name of tf.Transform's vocabulary that numbers the first rows, by table; "" for tables whose rows
            mean the same in every training. Of other tables it is not known.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        categories: any number of integer tensors by table, each of shape [any]. A category
            outside a table gets the table's last row.
        training: whether a gradient may be needed.

    Returns:
        The same structure of float tensors of shape [any, units].

    Example:
        >>> tables = EmbeddingTables({"age": (100, 12), "gender": (50, 12)})
        >>> found = tables({"age": [tf.constant([28])], "gender": [tf.constant([0, 1])]})
        >>> found["gender"][0].shape.as_list(), tables.weights[0].shape.as_list()
        ([2, 12], [150, 12])
    """

    def __init__(
        self,
        tables: Mapping[str, Sequence[int]],
        *,
        fuse: bool = True,
        max_dense_gradient_elements: int = MAX_DENSE_GRADIENT_ELEMENTS,
        embeddings_initializer: Any = "uniform",
        vocabularies: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._vocabularies = dict(vocabularies or {})
        self._tables = {name: (int(rows), int(units)) for name, (rows, units) in tables.items()}
        self._fuse = fuse
        self._max_dense_gradient_elements = max_dense_gradient_elements
        self._initializer = tf_keras.initializers.get(embeddings_initializer)
        # For each table: its variable, and the row where it begins there.
        self._places: dict[str, tuple[str, int]] = {}
        sizes: dict[str, tuple[int, int]] = {}
        for name, (rows, units) in self._tables.items():
            is_small = rows * units <= min(MAX_FUSED_ELEMENTS, max_dense_gradient_elements)
            variable = f"fused/{units}" if fuse and is_small else f"table/{name}"
            begin, _ = sizes.get(variable, (0, units))
            self._places[name] = (variable, begin)
            sizes[variable] = (begin + rows, units)
        self._lookups = {
            variable: DenseEmbedding(
                rows,
                units,
                embeddings_initializer=clone_initializer(self._initializer),
                dtype=self.dtype_policy,
                sparse_gradient=variable.startswith("table/") and rows * units > max_dense_gradient_elements,
                name=as_scope(variable),
            )
            for variable, (rows, units) in sizes.items()
        }
        for variable, lookup in self._lookups.items():
            blocks = tuple(
                IndexBlock(name=name, size=self._tables[name][0], vocabulary=self._vocabularies.get(name))
                for name, (place, _) in self._places.items()
                if place == variable
            )
            declare_weight_index(lookup, WeightIndex(axis=0, blocks=blocks))

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        """Number of rows and width of each table, by name."""
        return dict(self._tables)

    def build(self, input_shape: Any) -> None:
        """Makes all tables, including those that the first call does not use.

        Args:
            input_shape: not used.
        """
        for lookup in self._lookups.values():
            with tf.name_scope(lookup.name):
                lookup.build(None)
        super().build(input_shape)

    def call(
        self, categories: Mapping[str, Sequence[tf.Tensor]], training: bool | None = None
    ) -> dict[str, list[tf.Tensor]]:
        """Looks up categories.

        Args:
            categories: tensors of integers by table, each of shape [any].
            training: whether a gradient may be needed.
        """
        by_variable: dict[str, list[str]] = {}
        for name in categories:
            by_variable.setdefault(self._places[name][0], []).append(name)
        found: dict[str, list[tf.Tensor]] = {}
        for variable, names in by_variable.items():
            rows = [self._rows(name, values) for name in names for values in categories[name]]
            merged = rows[0] if len(rows) == 1 else tf.concat(rows, axis=0)
            answers = iter(_split(self._lookups[variable](merged, training=training), rows))
            found.update({name: [next(answers) for _ in categories[name]] for name in names})
        return found

    def _rows(self, name: str, values: tf.Tensor) -> tf.Tensor:
        rows = table_rows(values, self._tables[name][0])
        begin = self._places[name][1]
        return rows + begin if begin else rows

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "tables": {name: list(size) for name, size in self._tables.items()},
            "fuse": self._fuse,
            "max_dense_gradient_elements": self._max_dense_gradient_elements,
            "embeddings_initializer": tf_keras.initializers.serialize(self._initializer),
            "vocabularies": dict(self._vocabularies),
        }


def _split(found: tf.Tensor, rows: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    if len(rows) == 1:
        return [found]
    sizes = [row.shape[0] for row in rows]
    if None in sizes:
        sizes = tf.stack([tf.size(row) for row in rows])
    parts: Sequence[tf.Tensor] = tf.split(found, sizes, num=len(rows))
    return parts


def as_scope(name: str) -> str:
    """Converts a name to one that TensorFlow allows for scopes, such as "nodes/a paper" to 'nodes_a_paper'."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
