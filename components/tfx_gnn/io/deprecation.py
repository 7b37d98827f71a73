"""How an old name goes: it warns for at least one minor version, says what to write instead, and is then removed.

docs/versions.md states the rule; a test fails when the project's version reaches one at which something should be gone.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def deprecated(
    *, since: str, removed_in: str, use: str, argument: str | None = None
) -> Callable[[_Decorated], _Decorated]:
    """Makes a function, a class, or one argument of them warn where it is used.

    It is a FutureWarning, which Python shows by default, in the line of the caller. The docstring says it first.

    Args:
        since: the first version that warns, such as "0.4".
        removed_in: the first version without it, at least one minor version later.
        use: what to write instead, such as "`partition_graph`".
        argument: an argument that is deprecated, by name, of a function or class that is not. It must have a default
            or be one of `**kwargs`, and warns where a call passes it, by name or by position.

    Returns:
        A decorator. A class stays the same object; a function is wrapped.

    Raises:
        ValueError: if `removed_in` is not at least one minor version after `since`.
        TypeError: if what is decorated has no such argument, or is a class without an `__init__`.

    Example:
        >>> @deprecated(since="0.4", removed_in="0.5", use="`mean`")
        ... def average(values):
        ...     return sum(values) / len(values)
        >>> average.__doc__
        'Deprecated since 0.4, will be removed in 0.5: use `mean`.'
    """
    if _minor_version(removed_in) <= _minor_version(since):
        raise ValueError(
            "`removed_in` must be at least one minor version after `since`; got "
            f"since={since!r}, removed_in={removed_in!r}. Users need one version that warns."
        )
    period = f"deprecated since {since}, will be removed in {removed_in}: use {use}."

    def decorate(decorated: _Decorated) -> _Decorated:
        if argument is None:
            message = f"`{decorated.__qualname__}` is {period}"
            note = f"D{period[1:]}"
        else:
            message = f"`{argument}` of `{decorated.__qualname__}` is {period}"
            note = f"`{argument}` is {period}"
        decorated.__doc__ = "\n\n".join(filter(None, [note, inspect.cleandoc(decorated.__doc__ or "")]))
        is_used = _always if argument is None else _passes(decorated, argument)
        if inspect.isclass(decorated):
            cls = cast("Any", decorated)
            if cls.__init__ is object.__init__:
                raise TypeError(
                    f"A deprecated class must have an `__init__`; got {cls.__qualname__} without one. Add it, or "
                    "deprecate the function that makes its objects."
                )
            cls.__init__ = _warning_call(cls.__init__, message, lambda args, kwargs: is_used(args[1:], kwargs))
            return cls
        return cast("_Decorated", _warning_call(decorated, message, is_used))

    return decorate


def _warning_call(
    function: Callable[..., Any], message: str, is_used: Callable[[tuple[Any, ...], dict[str, Any]], bool]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_used(args, kwargs):
            warnings.warn(message, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return call


def _always(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> bool:
    return True


def _passes(decorated: Callable[..., Any], argument: str) -> Callable[[tuple[Any, ...], dict[str, Any]], bool]:
    """Returns what tells whether a call passes the argument."""
    parameters = inspect.signature(decorated).parameters
    takes_others = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if argument not in parameters and not takes_others:
        raise TypeError(
            f"`argument` must be one of {decorated.__qualname__}; got {argument!r}, of {list(parameters)}. Keep it in "
            "the signature while it is deprecated."
        )
    positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    place = positional.index(argument) if argument in positional else None
    return lambda args, kwargs: argument in kwargs or (place is not None and len(args) > place)


def _minor_version(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
