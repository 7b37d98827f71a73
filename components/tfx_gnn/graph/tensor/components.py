"""The component index of each node or edge."""

from __future__ import annotations

import tensorflow as tf


def component_indices(sizes: tf.Tensor, total_size: int | tf.Tensor) -> tf.Tensor:
    """Returns the component of each item of a set of a scalar graph, of shape [total_size], not decreasing.

    Items of a component are contiguous, and components follow each other in order. Legal for XLA, and of static shape,
    if `total_size` is static.

    Example:
        >>> component_indices(tf.constant([2, 0, 3]), 5).numpy().tolist()
        [0, 0, 2, 2, 2]
    """
    ends = tf.cumsum(sizes)
    if tf.get_static_value(total_size) is not None:
        # XLA sums up long vectors slowly, so it had better search in the short one.
        positions = tf.range(tf.cast(total_size, sizes.dtype), dtype=sizes.dtype)
        return tf.searchsorted(ends, positions, side="right", out_type=sizes.dtype)
    # TensorFlow Lite knows no search.
    steps = tf.scatter_nd(
        ends[:-1, tf.newaxis], tf.ones_like(ends[:-1]), [tf.cast(total_size, sizes.dtype) + tf.ones([], sizes.dtype)]
    )
    return tf.cumsum(steps)[:-1]
