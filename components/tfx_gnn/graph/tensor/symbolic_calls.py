"""Lets functions of the graph core be called with symbolic Keras tensors.

Keras' functional API passes placeholders around while a model is put together. Each function of
the core either becomes one layer of that model (`becomes_keras_layer`) or says that it cannot
(`refuses_keras_tensors`). `tfx_gnn.keras` installs the handler; it is imported as soon as a graph is made in a process
that has loaded Keras. Without Keras there are no placeholders, and calls go straight through.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., Any])


class SymbolicCallHandler(Protocol):
    """How `tfx_gnn.keras` deals with symbolic tensors."""

    def is_symbolic(self, value: object) -> bool:
        """Tells whether a value is a symbolic tensor."""
        ...

    def call_as_layer(self, function_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the registered function by way of a new Keras layer."""
        ...


# At most one; a list, so that installing does not rebind a global.
_handlers: list[SymbolicCallHandler] = []
_functions: dict[str, Callable[..., Any]] = {}


def install_handler(handler: SymbolicCallHandler) -> None:
    """Sets the process-wide handler of symbolic tensors."""
    _handlers[:] = [handler]


def load_handler() -> None:
    """Imports `tfx_gnn.keras` if Keras is loaded, as it is in any program that uses its functional API.

    Keras consults its registry of symbolic tensors right after a graph or its spec was made, so this is called then.
    The graph core alone does not load Keras, which takes seconds.
    """
    if not _handlers and "tf_keras" in sys.modules:
        # The import must not add operations to a graph that is being traced.
        with tf.init_scope():
            importlib.import_module("tfx_gnn.keras")


def registered_function(function_name: str) -> Callable[..., Any]:
    """Returns a function that was decorated with `becomes_keras_layer`."""
    if function_name not in _functions:
        # A loaded model names functions whose modules may not have been imported yet.
        package = importlib.import_module("tfx_gnn.graph")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    if function_name not in _functions:
        raise KeyError(
            f"`function_name` must name a function of tfx_gnn that can be a layer; got '{function_name}'. "
            f"Known are {sorted(_functions)}."
        )
    return _functions[function_name]


def becomes_keras_layer(function: _Function) -> _Function:
    """Lets a function be called with symbolic tensors: the call becomes a layer of the model."""
    _functions[function.__name__] = function

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        load_handler()
        for handler in _handlers:
            if _has_symbolic(handler, args, kwargs):
                return handler.call_as_layer(function.__name__, args, kwargs)
        return function(*args, **kwargs)

    return call


def refuses_keras_tensors(alternative: str = "") -> Callable[[_Function], _Function]:
    """Makes a function raise a helpful ValueError when it is called with symbolic tensors.

    `alternative` is what to use instead, such as the name of a layer.
    """

    def decorate(function: _Function) -> _Function:
        @tf.autograph.experimental.do_not_convert
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            load_handler()
            if any(_has_symbolic(handler, args, kwargs) for handler in _handlers):
                raise ValueError(
                    f"Calling `{function.__name__}()` using the Keras Functional API is not supported. "
                    "Consider calling this function from the `call()` method of a custom Keras Layer"
                    + (f" or {alternative} as an alternative." if alternative else "")
                )
            return function(*args, **kwargs)

        return call

    return decorate


def _has_symbolic(handler: SymbolicCallHandler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(handler.is_symbolic(value) for value in tf.nest.flatten([args, kwargs]))
