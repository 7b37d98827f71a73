"""Errors of tensors that do not fit, of the types that TensorFlow's own operations raise.

Code that catches what TensorFlow raises need not know which of the checks came first: outside of
`tf.function` that is an InvalidArgumentError, and while a function is traced a ValueError for
shapes and a TypeError for dtypes.
"""

from __future__ import annotations

import tensorflow as tf


def wrong_shape(message: str) -> Exception:
    """Makes the error for a tensor of a shape that does not fit.

    Args:
        message: what is wrong.

    Returns:
        tf.errors.InvalidArgumentError in eager mode, else ValueError.
    """
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else ValueError(message)


def wrong_dtype(message: str) -> Exception:
    """Makes the error for a tensor of a dtype that does not fit.

    Args:
        message: what is wrong.

    Returns:
        tf.errors.InvalidArgumentError in eager mode, else TypeError.
    """
    return tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else TypeError(message)
