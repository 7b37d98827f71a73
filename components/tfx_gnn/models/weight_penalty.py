"""L2 regularization of a whole model."""

from __future__ import annotations

import tensorflow as tf
import tf_keras


def penalized_weights(model: tf_keras.Model) -> list[tf.Variable]:
    """Lists the trained matrices of a model, such as kernels and embedding tables; biases and scales are vectors."""
    return [weight for weight in model.trainable_variables if weight.shape.rank is not None and weight.shape.rank > 1]


def add_weight_penalty(model: tf_keras.Model, l2: float) -> None:
    """Adds `l2` times the sum of squares of the trained matrices to a model's loss, also in evaluation.

    Args:
        model: a model that has its variables.
        l2: factor; the gradient of a weight grows by twice this factor times the weight.
    """
    weights = penalized_weights(model)

    def penalty() -> tf.Tensor:
        return l2 * tf.add_n([tf.reduce_sum(tf.square(tf.convert_to_tensor(weight))) for weight in weights])

    if weights:
        model.add_loss(penalty)
