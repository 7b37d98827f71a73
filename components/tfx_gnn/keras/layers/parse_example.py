"""Layers that read graphs from serialized tf.Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.codec.example_parsing import parse_example, parse_single_example
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.layer_arguments import with_type_specs


class _Parse(tf_keras.layers.Layer):
    def __init__(
        self,
        graph_tensor_spec: GraphTensorSpec,
        *,
        prefix: str | None = None,
        validate: bool = True,
        default_values: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._spec = graph_tensor_spec
        self._prefix = prefix
        self._validate = validate
        self._default_values = None if default_values is None else dict(default_values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "graph_tensor_spec": self._spec,
            "prefix": self._prefix,
            "validate": self._validate,
            "default_values": None
            if self._default_values is None
            else {key: _plain(value) for key, value in self._default_values.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> _Parse:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "graph_tensor_spec": with_type_specs(config["graph_tensor_spec"])})

    def _options(self) -> dict[str, Any]:
        return {"prefix": self._prefix, "validate": self._validate, "default_values": self._default_values}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ParseExample(_Parse):
    """Reads a batch of graphs; the Keras layer for `parse_example`.

    Init args:
        graph_tensor_spec: spec of one graph.
        prefix: as for `parse_example`.
        validate: as for `parse_example`.
        default_values: as for `parse_example`.

    Call args:
        inputs: string tensor of shape [batch_size].

    Returns:
        Graph of shape [batch_size].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> tfx_gnn.keras.layers.ParseExample(graph.spec)(tf.constant([serialized] * 2)).shape.as_list()
        [2]
    """

    def call(self, inputs: tf.Tensor) -> GraphTensor:
        """Reads the graphs.

        Args:
            inputs: serialized tf.Examples, shape [batch_size].
        """
        return parse_example(self._spec, _with_rank(inputs, 1), **self._options())


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ParseSingleExample(_Parse):
    """Reads one graph; the Keras layer for `parse_single_example`.

    Init args:
        graph_tensor_spec: spec of one graph.
        prefix: as for `parse_single_example`.
        validate: as for `parse_single_example`.
        default_values: as for `parse_single_example`.

    Call args:
        inputs: string tensor of shape [].

    Returns:
        Scalar graph.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> tfx_gnn.keras.layers.ParseSingleExample(graph.spec)(tf.constant(serialized)).shape.as_list()
        []
    """

    def call(self, inputs: tf.Tensor) -> GraphTensor:
        """Reads the graph.

        Args:
            inputs: one serialized tf.Example, shape [].
        """
        return parse_single_example(self._spec, _with_rank(inputs, 0), **self._options())


def _with_rank(inputs: tf.Tensor, rank: int) -> tf.Tensor:
    """Sets the rank if it is unknown, as it is for Keras' scalar inputs; the parser checks a known rank."""
    return inputs if inputs.shape.rank is not None else tf.ensure_shape(inputs, [None] * rank)


def _plain(value: Any) -> Any:
    """Converts a default value to a form that JSON can hold."""
    if isinstance(value, bytes):
        return value.decode()
    return np.asarray(value).tolist()
