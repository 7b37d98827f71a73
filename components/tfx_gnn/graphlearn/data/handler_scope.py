"""Tells `transform` of a data object which feature handlers to use: those of the enclosing model."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

_Graph = TypeVar("_Graph")


class Handlers(Protocol):
    """What encodes the attributes of a graph, such as `FeatureHandlers`."""

    def transform(self, graph: Any, transform_func: Callable[[Any], Any] | None = None) -> Any:
        """Returns the graph with encoded attributes.

        Args:
            graph: the graph.
            transform_func: applied to the graph first.
        """


_current: contextvars.ContextVar[Handlers | None] = contextvars.ContextVar("handlers", default=None)


@contextlib.contextmanager
def use_handlers(handlers: Handlers) -> Iterator[None]:
    """Lets `graph.transform()` use the handlers in this context, in this thread.

    Args:
        handlers: the handlers of a model.
    """
    token = _current.set(handlers)
    try:
        yield
    finally:
        _current.reset(token)


def transform_in_scope(graph: _Graph, transform_func: Callable[[_Graph], _Graph] | None) -> _Graph:
    """Transforms a graph with the handlers of the enclosing model.

    Args:
        graph: a data object with attributes to encode.
        transform_func: applied to the graph first.

    Returns:
        The transformed graph.

    Raises:
        RuntimeError: if no model encloses the call.
    """
    handlers = _current.get()
    if handlers is None:
        raise RuntimeError(
            "`transform()` must be called where a model's feature handlers are in use; got a call elsewhere, which "
            "would make new variables each time. Let the model hold "
            "`handlers = tfx_gnn.keras.feature_encoders.FeatureHandlers()`, and call `handlers.transform(graph)`, or "
            "`graph.transform()` inside of `with handlers.in_use():`."
        )
    transformed: _Graph = handlers.transform(graph, transform_func)
    return transformed
