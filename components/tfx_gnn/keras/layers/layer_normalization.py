"""Layer normalization that is safe under concurrent requests."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

_HALF_PRECISIONS = (tf.float16, tf.bfloat16)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class LayerNormalization(tf_keras.layers.LayerNormalization):
    """Normalizes each item to mean 0 and variance 1 over its own values, then scales and shifts them.

    It has the arguments, weights and results of `tf_keras.layers.LayerNormalization`. Keras' layer traces to the
    operation FusedBatchNormV3, whose CPU kernel is not safe under concurrent calls in TensorFlow 2.16: a server of
    such a model aborts. This layer traces to means and products instead. Use it in every model that is exported.

    Under mixed precision, statistics are computed in float32. Zero items, and items without values, are allowed.

    Shapes: float values [num_items, *feature_shape], dense or ragged, in and out; `gamma` and `beta` have the shape of
    the normalized axes.

    Init args:
        axis: the axis to normalize over, or a list of axes; the last one by default.
        epsilon: added to the variance, so that equal values do not become infinite.
        center: whether there is an offset, `beta`.
        scale: whether there is a factor, `gamma`.
        beta_initializer: initializer of `beta`.
        gamma_initializer: initializer of `gamma`.
        beta_regularizer: regularizer of `beta`; None for none.
        gamma_regularizer: regularizer of `gamma`; None for none.
        beta_constraint: constraint on `beta`; None for none.
        gamma_constraint: constraint on `gamma`; None for none.

    Call args:
        inputs: float values of shape [num_items, *feature_shape], dense or ragged.

    Returns:
        Values of the same shape, in the layer's compute dtype.

    Example:
        >>> layer = tfx_gnn.keras.layers.LayerNormalization(epsilon=3.0, name="norm")
        >>> layer(tf.constant([[1.0, 3.0], [5.0, 5.0]])).numpy().tolist()
        [[-0.5, 0.5], [0.0, 0.0]]
        >>> [weight.name for weight in layer.weights]
        ['norm/gamma:0', 'norm/beta:0']
    """

    def call(self, inputs: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
        """Normalizes; see the class.

        Args:
            inputs: float values of shape [num_items, *feature_shape], dense or ragged.
        """
        if isinstance(inputs, tf.RaggedTensor):
            row_lengths = inputs.nested_row_lengths()
            return tf.RaggedTensor.from_tensor(self._normalized(inputs.to_tensor()), row_lengths)
        return self._normalized(inputs)

    def _normalized(self, inputs: tf.Tensor) -> tf.Tensor:
        values = tf.cast(inputs, self.compute_dtype)
        exact_dtype = tf.float32 if values.dtype in _HALF_PRECISIONS else values.dtype
        exact = tf.cast(values, exact_dtype)
        # The difference is used twice so that grappler does not recognize the pattern that it fuses to _MklLayerNorm.
        centered = exact - tf.reduce_mean(exact, self.axis, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), self.axis, keepdims=True)
        result = centered * tf.math.rsqrt(variance + tf.cast(self.epsilon, exact_dtype))
        if self.gamma is not None:
            result *= self._along_axes(self.gamma, exact)
        if self.beta is not None:
            result += self._along_axes(self.beta, exact)
        result = tf.cast(result, values.dtype)
        result.set_shape(inputs.shape)
        return result

    def _along_axes(self, weight: tf.Variable, values: tf.Tensor) -> tf.Tensor:
        """Reshapes a weight to the rank of the values."""
        shape = [values.shape[axis] if axis in self.axis else 1 for axis in range(values.shape.rank)]
        return tf.reshape(tf.cast(weight, values.dtype), shape)
