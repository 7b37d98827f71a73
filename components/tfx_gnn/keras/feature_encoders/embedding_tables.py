"""Several embedding tables, fused into as few lookups as possible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.category_values import table_rows
from tfx_gnn.keras.feature_encoders.dense_embedding import DenseEmbedding
from tfx_gnn.keras.feature_encoders.encoder_options import MAX_DENSE_GRADIENT_ELEMENTS, MAX_FUSED_ELEMENTS
from tfx_gnn.keras.initializers import clone_initializer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EmbeddingTables(tf_keras.layers.Layer):
    """Looks up categories in tables by name, in one step for all tables of equal width.

    Small tables of equal width lie one below the other in one variable, in the order of the mapping.
    One lookup then serves all their features, and the optimizer has one variable to
    update. A table with more than `MAX_FUSED_ELEMENTS` stands alone, and can be partitioned; one with
    more than `max_dense_gradient_elements` has a sparse gradient.

    Init args:
        tables: number of rows and width of each table by its name.
        fuse: whether tables share variables.
        max_dense_gradient_elements: rows times units up to which a table's gradient is dense.
        embeddings_initializer: initializer of every table.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        categories: tensors of integers by table, any number of them, each of shape [any]. A category
            outside of a table gets its last row.
        training: whether a gradient may be asked for.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._tables = {name: (int(rows), int(units)) for name, (rows, units) in tables.items()}
        self._fuse = fuse
        self._max_dense_gradient_elements = max_dense_gradient_elements
        self._initializer = tf_keras.initializers.get(embeddings_initializer)
        # Of each table: the variable that it lies in, and the row where it begins.
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

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        """Number of rows and width of each table by its name."""
        return dict(self._tables)

    def build(self, input_shape: Any) -> None:
        """Makes the tables, also those that are not looked up at first.

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
        """Looks categories up.

        Args:
            categories: tensors of integers by table, each of shape [any].
            training: whether a gradient may be asked for.
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
        """Arguments that make an equal layer."""
        return {
            **super().get_config(),
            "tables": {name: list(size) for name, size in self._tables.items()},
            "fuse": self._fuse,
            "max_dense_gradient_elements": self._max_dense_gradient_elements,
            "embeddings_initializer": tf_keras.initializers.serialize(self._initializer),
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
    """Makes a name that TensorFlow takes for the scope of variables.

    Args:
        name: any name, such as that of a set.

    Returns:
        The name with "_" for what is no letter, digit, "_", "-" or ".".

    Example:
        >>> as_scope("nodes/a paper")
        'nodes_a_paper'
    """
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name)
