"""Decides when graphs check themselves, statically or at run time, and makes the errors.

Static checks (shapes known before anything runs) are on by default. Run-time checks add
assertion ops to every new piece and are off by default; the parsers have checks of their own.
Both are switched for the whole process.

Errors have the types that TensorFlow's own operations raise, so that code that catches those need
not know which of the checks came first: outside of `tf.function` that is an InvalidArgumentError, and
while a function is traced a ValueError for shapes and a TypeError for dtypes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

import tensorflow as tf


def wrong_shape(message: str) -> Exception:
    """Makes the error for a wrong shape: InvalidArgumentError in eager mode, else ValueError."""
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else ValueError(message)


def wrong_dtype(message: str) -> Exception:
    """Makes the error for a wrong dtype: InvalidArgumentError in eager mode, else TypeError."""
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else TypeError(message)


_Value = TypeVar("_Value")


def after_checks(checks: Iterable[tf.Operation | None], value: _Value) -> _Value:
    """Returns a value whose use makes sure that assertions run first.

    None stands for an assertion that has run already, in eager mode.
    """
    operations = [check for check in checks if check is not None]
    if not operations:
        return value
    with tf.control_dependencies(operations):
        return tf.nest.map_structure(tf.identity, value, expand_composites=True)


@dataclasses.dataclass
class _Switches:
    static: bool = True
    runtime: bool = False


_switches = _Switches()


def enable_graph_tensor_validation() -> None:
    """Turns the static checks of new graph pieces on (the default)."""
    _switches.static = True


def disable_graph_tensor_validation() -> None:
    """Turns all checks of new graph pieces off, static ones and those at run time."""
    _switches.static = False
    _switches.runtime = False


def enable_graph_tensor_validation_at_runtime() -> None:
    """Turns all checks on: new graph pieces also hold assertions on sizes and indices.

    The assertions raise `tf.errors.InvalidArgumentError` when the values are known, that is at
    once in eager mode and when a traced function runs.
    """
    _switches.static = True
    _switches.runtime = True


def disable_graph_tensor_validation_at_runtime() -> None:
    """Turns the assertions at run time off (the default); static checks stay as they are."""
    _switches.runtime = False


def checks_statically() -> bool:
    """Tells whether static checks are wanted."""
    return _switches.static


def checks_at_runtime(validate: bool | None = None) -> bool:
    """Tells whether assertion ops are wanted, by the caller or, for None, by the process-wide switch.

    Without static checks there are none at run time either, whatever the caller asks for.
    """
    return _switches.static and (_switches.runtime if validate is None else validate)


def checks_sizes_statically(validate: bool | None = None) -> bool:
    """Tells whether static shapes should stand in for the assertions on sizes.

    That is, to find mistakes even if no assertions were asked for; but where there are assertions,
    they are to raise their own error.
    """
    return _switches.static and validate is not False and not checks_at_runtime(validate)
