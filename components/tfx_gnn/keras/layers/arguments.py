"""Arguments that a layer takes at construction, at call time, or both."""

from __future__ import annotations

from typing import TypeVar

_Value = TypeVar("_Value")


def agreed(layer_name: str, argument: str, at_init: _Value | None, at_call: _Value | None) -> _Value | None:
    """Returns the value of an argument that may be given twice, but not differently.

    Args:
        layer_name: the layer to blame in the error.
        argument: name of the argument.
        at_init: its value when the layer was made, or None.
        at_call: its value in this call, or None.

    Raises:
        ValueError: if the values differ.
    """
    if at_init is None:
        return at_call
    if at_call is not None and at_call != at_init:
        raise ValueError(
            f"The {layer_name} layer was initialized with {argument}={at_init} "
            f"but called with {argument}={at_call}. Leave one of them out."
        )
    return at_init


def required(
    layer_name: str, argument: str, at_init: _Value | None, at_call: _Value | None, *, shown_as: str | None = None
) -> _Value:
    """Returns the value of an argument that must be given, and not differently, once or twice.

    Args:
        layer_name: the layer to blame in the error.
        argument: name of the argument.
        at_init: its value when the layer was made, or None.
        at_call: its value in this call, or None.
        shown_as: what the error calls a missing argument; by default its name.

    Raises:
        ValueError: if there is no value, or the values differ.
    """
    value = agreed(layer_name, argument, at_init, at_call)
    if value is None:
        raise ValueError(f"The {layer_name} layer requires {shown_as or argument} to be set at init or call time.")
    return value
