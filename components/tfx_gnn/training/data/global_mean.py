"""The mean over the real rows of a global batch, however they are spread over replicas.

Keras divides the loss of a replica by its number of rows, padding included, and by the number of replicas. Its
gradient is thus a mean over replicas in which the real rows of a nearly empty batch count more than those of a
full one. The weights of this module undo that: the gradient is the mean over all real rows of the step, each as
much as its class weighs, and is the same for any number of replicas. Padding, and replicas that got nothing but
padding, weigh 0.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def counted_rows(weights: Any) -> tf.Tensor:
    """Counts the rows that weigh something.

    Args:
        weights: float tensor, or nested structure of such, one for each output.

    Returns:
        int64 [number of outputs], in the order of `tf.nest.flatten`.
    """
    return tf.stack([tf.math.count_nonzero(weight) for weight in tf.nest.flatten(weights)])


def weights_of_global_mean(weights: Any, num_counted: tf.Tensor, num_replicas: int) -> Any:
    """Scales the weights of one replica.

    Args:
        weights: of the rows of this replica, as for `counted_rows`.
        num_counted: `counted_rows` of all replicas, added up.
        num_replicas: replicas by which Keras divides the loss.

    Returns:
        Weights of the same structure, by which Keras' loss becomes the mean; 0 where no row counts.

    Example:
        >>> two_of_three = tf.constant([1.0, 1.0, 0.0])
        >>> weights_of_global_mean(two_of_three, tf.constant([4], tf.int64), num_replicas=2).numpy().tolist()
        [1.5, 1.5, 0.0]
    """
    counts = tf.unstack(tf.maximum(tf.cast(num_counted, tf.float32), 1.0), num=len(tf.nest.flatten(weights)))
    scaled = [
        weight * (tf.cast(tf.size(weight), tf.float32) * num_replicas / count)
        for weight, count in zip(tf.nest.flatten(weights), counts, strict=True)
    ]
    return tf.nest.pack_sequence_as(weights, scaled)
