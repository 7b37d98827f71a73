"""Copies initializers, so that none is used for two weights."""

from __future__ import annotations

from typing import Any

import tf_keras


def clone_initializer(initializer: Any) -> Any:
    """Copies an initializer, so that each weight gets random values of its own.

    An `Initializer` object fixes its seed when it is made: two weights that share one start
    equal.

    Args:
        initializer: whatever Keras takes for an initializer: an object, a name, a config or None.

    Returns:
        A new object of the same config for an `Initializer`; anything else unchanged.

    Example:
        >>> one = tf_keras.initializers.GlorotUniform()
        >>> clone_initializer(one) is one
        False
        >>> clone_initializer("zeros")
        'zeros'
    """
    if not isinstance(initializer, tf_keras.initializers.Initializer):
        return initializer
    return type(initializer).from_config(initializer.get_config())
