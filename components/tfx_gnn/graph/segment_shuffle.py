"""Random permutations that keep each index within its segment."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph.run_time_checks import after_checks
from tfx_gnn.graph.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def segment_random_index_shuffle(*, segment_ids: tf.Tensor, seed: int | None = None) -> tf.Tensor:
    """Draws a random permutation of indices that moves each only within its segment.

    Args:
        segment_ids: int32 or int64 tensor, shape [n], not decreasing: the segment of each index.
        seed: seed of the random operation, as for `tf.random.shuffle`.

    Returns:
        Tensor `result` of the same shape and dtype: a permutation of 0, ..., n-1, uniformly drawn
        from those with `segment_ids[result[i]] == segment_ids[i]` for all i. Legal for XLA.

    Raises:
        ValueError: if `segment_ids` has another rank or dtype.
        tf.errors.InvalidArgumentError: at run time, if `segment_ids` are not sorted.

    Example:
        >>> shuffled = tfx_gnn.experimental.segment_random_index_shuffle(segment_ids=tf.constant([0, 0, 1, 2, 2]))
        >>> sorted(shuffled.numpy()[:2].tolist()), int(shuffled[2])
        ([0, 1], 2)
    """
    segment_ids = tf.convert_to_tensor(segment_ids)
    if segment_ids.shape.rank != 1:
        raise ValueError(f"`segment_ids` must have rank=1, got {segment_ids.shape.rank}. Flatten it.")
    if segment_ids.dtype not in (tf.int32, tf.int64):
        raise ValueError(f"`segment_ids` must have dtype tf.int32 or tf.int64, got {segment_ids.dtype.name}. Cast it.")
    check = tf.debugging.assert_greater_equal(
        segment_ids[1:], segment_ids[:-1], message="`segment_ids` must be sorted in ascending order."
    )
    segment_ids = after_checks([check], segment_ids)
    # Sorting the shuffled ids, with ties in their shuffled order, undoes the shuffle between segments only.
    shuffled = tf.random.shuffle(tf.range(tf.size(segment_ids, segment_ids.dtype)), seed=seed)
    order = tf.argsort(tf.gather(segment_ids, shuffled), stable=True)
    return tf.ensure_shape(tf.gather(shuffled, order), segment_ids.shape)
