"""Several feature columns side by side, and one feature handler per type.

Source and neighbor nodes of one type share their tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graphlearn.feature_spec import FeatureSpec
from tfx_gnn.keras.feature_encoders.feature_column import FeatureColumn
from tfx_gnn.keras.feature_encoders.feature_handler import FeatureHandler


@dataclasses.dataclass
class FeatureHandlers:
    """One handler per type of nodes or edges: requests by the same name share its tables.

    Attributes:
        fuse_embedding: as for `FeatureHandler`.
        handlers: the handlers by name, for a model to hold.
    """

    fuse_embedding: bool = True
    handlers: dict[str, FeatureHandler] = dataclasses.field(default_factory=dict)

    def get(self, name: str, feature_spec: FeatureSpec) -> FeatureHandler:
        """Finds or makes the handler of a type.

        Args:
            name: name of the type.
            feature_spec: how its attributes are encoded.

        Returns:
            The same handler for the same name.

        Raises:
            ValueError: if there is one of this name with another spec.
        """
        if name not in self.handlers:
            self.handlers[name] = FeatureHandler(name, feature_spec, self.fuse_embedding)
        if not self.handlers[name].has_spec(feature_spec):
            raise ValueError(
                f"`feature_spec` must be the same wherever a type is encoded; got another for {name!r}. Give it "
                "another name."
            )
        return self.handlers[name]

    def encode(self, node_schema: Sequence[tuple[str, FeatureSpec]], nodes: Sequence[Any]) -> list[tf.Tensor]:
        """Encodes the source nodes and the neighbors of each hop.

        Args:
            node_schema: name of the type and feature spec, of the source and of each hop.
            nodes: their attributes, as `FeatureHandler` takes them.

        Returns:
            One float tensor of shape [num_items, dimension] for each.

        Raises:
            ValueError: if there are more or fewer of one than of the other.
        """
        if len(node_schema) != len(nodes):
            raise ValueError(
                f"`node_schema` must have one item for the source and one for each hop; got {len(node_schema)} for "
                f"{len(nodes)} `nodes`. Give as many."
            )
        return [self.get(name, spec)(data) for (name, spec), data in zip(node_schema, nodes, strict=True)]


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FeatureGroup(tf_keras.layers.Layer):
    """Encodes each column and concatenates the results.

    Init args:
        columns: one for each column of the values.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: tensor of shape [num_items, number of columns], or a list of one of shape [num_items] for each
            column; a column of several values may be ragged.

    Returns:
        Float tensor of shape [num_items, sum of the dimensions]; a number has dimension 1.

    Raises:
        ValueError: if there is no column.
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
        """Does what needs texts; see `FeatureColumn`.

        Args:
            values: as for calls.

        Returns:
            What each column prepares.

        Raises:
            ValueError: if there are more or fewer columns of values than columns.
        """
        if isinstance(values, (list, tuple)):
            parts = list(values)
        else:
            values = tf.convert_to_tensor(values)
            parts = [values[:, position] for position in range(values.shape[1])] if values.shape.rank == 2 else []
        if len(parts) != len(self._columns):
            raise ValueError(
                f"`values` must have one column for each of {len(self._columns)} feature columns; got {len(parts)}. "
                "Give a tensor of shape [num_items, number of columns], or a list."
            )
        return [column.prepare(part) for column, part in zip(self._columns, parts, strict=True)]

    def encode(self, prepared: Sequence[Any]) -> tf.Tensor:
        """Does what needs no texts.

        Args:
            prepared: what `prepare` returned.

        Returns:
            As a call.
        """
        encoded = [column.encode(part) for column, part in zip(self._columns, prepared, strict=True)]
        return tf.concat([part[:, tf.newaxis] if part.shape.rank == 1 else part for part in encoded], axis=-1)

    def call(self, values: Any) -> tf.Tensor:
        """Encodes the columns; see the class.

        Args:
            values: tensor of shape [num_items, number of columns], or a list of one for each column.
        """
        return self.encode(self.prepare(values))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "columns": [tf_keras.layers.serialize(column) for column in self._columns]}
