"""Puts assertions before the use of a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import tensorflow as tf

_Value = TypeVar("_Value")


def after_checks(checks: Iterable[tf.Operation | None], value: _Value) -> _Value:
    """Returns a value whose use makes sure that assertions run first.

    Args:
        checks: assertion ops; None stands for one that has run already, in eager mode.
        value: tensor, ragged tensor or graph.

    Returns:
        The value itself if there is nothing to wait for, else a copy that waits.
    """
    operations = [check for check in checks if check is not None]
    if not operations:
        return value
    with tf.control_dependencies(operations):
        return tf.nest.map_structure(tf.identity, value, expand_composites=True)
