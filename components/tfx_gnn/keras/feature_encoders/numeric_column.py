"""A column of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.keras.feature_encoders.feature_column import FeatureColumn


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NumericColumn(FeatureColumn):
    """Uses numbers as they are, as floats.

    Init args:
        name: name of the column.
        normalizer_func: applied to the numbers first, such as `lambda x: (x - 1) / 2`; None: nothing is. A
            function that shall be saved with the layer must be registered with Keras.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        values: integers or floats, shape [num_items].

    Returns:
        float32 tensor (the policy's dtype under mixed precision) of shape [num_items].

    Example:
        >>> NumericColumn("age", lambda x: (x - 1) / 2)(tf.constant([1, 2, 3])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """

    def __init__(self, name: str, normalizer_func: Callable[[Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._normalizer_func = normalizer_func

    def encode(self, prepared: Any) -> tf.Tensor:
        """Normalizes and casts numbers.

        Args:
            prepared: integers or floats, shape [num_items].

        Returns:
            Floats of the same shape.
        """
        values = prepared if self._normalizer_func is None else self._normalizer_func(prepared)
        return tf.cast(values, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "normalizer_func": tf_keras.utils.serialize_keras_object(self._normalizer_func),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NumericColumn:
        """Makes the layer from what `get_config` returned.

        Args:
            config: the config.

        Returns:
            An equal layer.
        """
        function = config["normalizer_func"]
        if function is not None and not callable(function):
            function = tf_keras.utils.deserialize_keras_object(function)
        return cls(**{**config, "normalizer_func": function})
