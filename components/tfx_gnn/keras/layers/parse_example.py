"""Layers that read graphs from serialized tf.Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.codec.example_parsing import parse_example, parse_single_example
from tfx_gnn.graph.graph_constants import NODES
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import with_type_specs

_MISSING_LABELS = {tf.string: b"", tf.int8: -1, tf.int16: -1, tf.int32: -1, tf.int64: -1}


class _Parse(GraphLayer):
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
        defaults = {**_missing_labels(self._spec), **(self._default_values or {})}
        return {"prefix": self._prefix, "validate": self._validate, "default_values": defaults or None}


def _missing_labels(spec: GraphTensorSpec) -> dict[str, Any]:
    """Returns values that stand for missing labels in readouts, whose dtypes have one that is no label."""
    found: dict[str, Any] = {}
    for set_name, node_set in spec.node_sets_spec.items():
        if set_name.partition(":")[0] != READOUT_NODE_SET:
            continue
        for name, feature in node_set.features_spec.items():
            if name.startswith("#") or not isinstance(feature, tf.TensorSpec):
                continue
            if feature.dtype.is_floating:
                found[f"{NODES}/{set_name}.{name}"] = float("nan")
            elif feature.dtype in _MISSING_LABELS:
                found[f"{NODES}/{set_name}.{name}"] = _MISSING_LABELS[feature.dtype]
    return found


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ParseExample(_Parse):
    """Reads a batch of graphs; the Keras layer for `parse_example`.

    Init args:
        graph_tensor_spec: spec of one graph.
        prefix: as for `parse_example`.
        validate: as for `parse_example`.
        default_values: as for `parse_example`. Labels in a readout need none: where an example lacks them, as it
            does at serving time, they are NaN, -1 or the empty string, which losses refuse or ignore. Other dtypes
            have no such value.

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
        default_values: as for `parse_single_example`. Labels in a readout need none: where an example lacks them, as it
            does at serving time, they are NaN, -1 or the empty string, which losses refuse or ignore. Other dtypes
            have no such value.

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
