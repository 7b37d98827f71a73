"""Calls of graph functions with symbolic tensors, as layers of a functional model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.graph import symbolic_calls
from tfx_gnn.graph.graph_piece import GraphPiece
from tfx_gnn.graph.size_constraints import SizeConstraints
from tfx_gnn.keras.keras_tensors import is_symbolic, unique_layer_name


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphOperation(tf_keras.layers.Layer):
    """Calls one function of the graph core.

    Made by the functions themselves when they meet symbolic tensors; there is no need to make one
    by hand. A model that holds one can be saved and rebuilt from its config, as long as the
    function's other arguments are plain Python values.
    """

    def __init__(self, function_name: str, arguments: dict[str, Any], **kwargs: Any) -> None:
        """Remembers the call.

        Args:
            function_name: name of a function that was decorated with `becomes_keras_layer`.
            arguments: its arguments as `describe` tells them, with slots for tensors.
            **kwargs: for the base class.
        """
        super().__init__(autocast=False, **kwargs)
        self._function_name = function_name
        # A JSON-like value, which Keras shall not wrap or track.
        self._arguments = _Opaque(arguments)

    def call(self, tensors: Any) -> Any:
        """Calls the function.

        Args:
            tensors: what goes into the slots, in order; Keras passes a single one without a list
                when it rebuilds a model.
        """
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        return _call(self._function_name, self._arguments.value, list(tensors))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        _check_plain(self._arguments.value, self._function_name)
        return {
            **super().get_config(),
            "function_name": self._function_name,
            "arguments": self._arguments.value,
        }


class _Opaque:
    def __init__(self, value: Any) -> None:
        self.value = value


class _KerasHandler:
    """Lets the graph core recognize symbolic tensors and make layers of calls."""

    def is_symbolic(self, value: object) -> bool:
        return is_symbolic(value)

    def call_as_layer(self, function_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors: list[Any] = []
        arguments = _describe((args, kwargs), tensors)
        # The names that TF-GNN gives them, such as "pool" and "pool_1".
        return GraphOperation(function_name, arguments, name=unique_layer_name(function_name))(tensors)


@tf.autograph.experimental.do_not_convert
def _call(function_name: str, arguments: Any, tensors: list[Any]) -> Any:
    args, kwargs = _fill(arguments, tensors)
    return symbolic_calls.registered_function(function_name)(*args, **kwargs)


def _describe(value: Any, tensors: list[Any]) -> Any:
    """Replaces tensors by slots; containers are spelled so that JSON keeps their type."""
    if isinstance(value, np.ndarray):
        value = tf.convert_to_tensor(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if is_symbolic(value) or isinstance(value, (tf.Tensor, tf.RaggedTensor, GraphPiece)):
        tensors.append(value)
        return {"slot": len(tensors) - 1}
    if isinstance(value, SizeConstraints):
        return {"size_constraints": _describe(value._asdict(), tensors)}
    if isinstance(value, Mapping):
        return {"dict": [[key, _describe(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_describe(item, tensors) for item in value]}
    if isinstance(value, list):
        return {"list": [_describe(item, tensors) for item in value]}
    return value


def _fill(described: Any, tensors: list[Any]) -> Any:
    if not isinstance(described, Mapping):
        return described
    ((kind, content),) = described.items()
    if kind == "slot":
        return tensors[content]
    if kind == "size_constraints":
        return SizeConstraints(**_fill(content, tensors))
    if kind == "dict":
        return {key: _fill(item, tensors) for key, item in content}
    items = [_fill(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def _check_plain(described: Any, function_name: str) -> None:
    if isinstance(described, (list, tuple)):
        for item in described:
            _check_plain(item, function_name)
    elif isinstance(described, Mapping):
        for item in described.values():
            _check_plain(item, function_name)
    elif not (described is None or isinstance(described, (bool, int, float, str, tf.TensorShape))):
        raise ValueError(
            f"`get_config` requires plain arguments of {function_name}(); got a {type(described).__name__}. "
            "Call the function from a layer of your own to save the model by its config."
        )


symbolic_calls.install_handler(_KerasHandler())
