"""Shapes as messages tell them."""

from __future__ import annotations

import tensorflow as tf


def shape_in_words(shape: tf.TensorShape) -> str:
    """Writes the shape of something with one row a prediction.

    Args:
        shape: static shape, the number of rows first.

    Returns:
        The shape with words for what is not static.

    Example:
        >>> shape_in_words(tf.TensorShape([None, 2])), shape_in_words(tf.TensorShape([8, None]))
        ('[rows, 2]', '[8, any]')
    """
    if shape.rank is None:
        return "[any]"
    sizes = ["any" if size is None else str(size) for size in shape]
    if sizes and shape[0] is None:
        sizes[0] = "rows"
    return f"[{', '.join(sizes)}]"
