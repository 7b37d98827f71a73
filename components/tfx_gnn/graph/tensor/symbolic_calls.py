"""Lets functions of the graph core be called with symbolic Keras tensors.

The functional API of Keras builds models by calling functions with placeholders. Each function of
the core then either becomes a layer of the model (`becomes_keras_layer`) or raises an error
(`refuses_keras_tensors`). The handler is installed by `tfx_gnn.keras`, which is imported as soon as
a graph is made in a process that has loaded Keras. Without Keras there are no placeholders, and
functions are called directly.
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
        """Returns whether a value is a symbolic tensor."""
        ...

    def call_as_layer(self, function_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the registered function through a new Keras layer."""
        ...

    def writes_keras_file(self) -> bool:
        """Returns whether Keras is writing the configuration of a model into a `.keras` file, which is JSON."""
        ...


# At most one handler; it is a list so that installing a handler does not rebind a global.
_handlers: list[SymbolicCallHandler] = []
_functions: dict[str, Callable[..., Any]] = {}


def install_handler(handler: SymbolicCallHandler) -> None:
    """Sets the process-wide handler of symbolic tensors."""
    _handlers[:] = [handler]


def writes_keras_file() -> bool:
    """Returns whether a type spec is asked for a form that JSON can hold."""
    return any(handler.writes_keras_file() for handler in _handlers)


def load_handler() -> None:
    """Imports `tfx_gnn.keras` if Keras is loaded, as it is in any program that uses its functional API.

    It is called when a graph or its spec is made, because Keras consults its registry of symbolic tensors right
    afterwards. The graph core alone does not load Keras, which takes seconds.
    """
    if not _handlers and "tf_keras" in sys.modules:
        # The import must not add operations to a graph that is being traced.
        with tf.init_scope():
            importlib.import_module("tfx_gnn.keras")


def registered_function(function_name: str) -> Callable[..., Any]:
    """Returns a function that was decorated with `becomes_keras_layer`."""
    if function_name not in _functions:
        # A loaded model may name functions of modules that have not been imported yet.
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

    `alternative` names what to use instead, such as a layer.
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
