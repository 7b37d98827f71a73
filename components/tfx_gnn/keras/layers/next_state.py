"""Layers that compute a next state from the current state and the received inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import combine_values
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import as_layer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NextStateFromConcat(GraphLayer):
    """Concatenates all inputs and transforms the result.

    Init args:
        transformation: layer that maps [num_items, sum of input sizes] to the next state.

    Call args:
        inputs: tuple of the old state, the inputs from other sets and the inputs from the
            context, as passed by the set updates. Each is a tensor of shape [num_items, size] or a
            nest of such tensors; dicts are concatenated in the order of their sorted keys.

    Returns:
        The result of `transformation`, such as a tensor of shape [num_items, units].

    Example:
        >>> next_state = tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(2))
        >>> next_state((tf.zeros([3, 4]), {"edges": tf.zeros([3, 5])}, {})).shape.as_list()
        [3, 2]
    """

    def __init__(self, transformation: tf_keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._transformation = transformation

    def call(self, inputs: Any) -> Any:
        """Computes the next state.

        Args:
            inputs: the inputs of the update.
        """
        return self._transformation(combine_values(tf.nest.flatten(inputs), "concat"))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "transformation": self._transformation}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NextStateFromConcat:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "transformation": as_layer(config["transformation"])})


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ResidualNextState(GraphLayer):
    """Adds a transformation of all inputs to the old state, and applies an activation.

    An old state of size 0, as in a set without features, is left out of the sum.

    Init args:
        residual_block: layer that maps the concatenated inputs to the shape of the old state.
        activation: activation after the sum, as for `tf_keras.layers.Activation`; by default none.
        skip_connection_feature_name: if the old state is a dict, the key of the value to add to;
            by default the hidden state. Not allowed if it is a single tensor.

    Call args:
        inputs: as for `NextStateFromConcat`.

    Returns:
        Tensor of the shape of the old state.

    Example:
        >>> next_state = tfx_gnn.keras.layers.ResidualNextState(tf_keras.layers.Dense(4))
        >>> next_state((tf.zeros([3, 4]), {"edges": tf.zeros([3, 5])}, {})).shape.as_list()
        [3, 4]
    """

    def __init__(
        self,
        residual_block: tf_keras.layers.Layer,
        *,
        activation: Any = None,
        skip_connection_feature_name: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._residual_block = residual_block
        self._activation = (
            activation
            if isinstance(activation, tf_keras.layers.Layer)
            else tf_keras.layers.Activation(tf_keras.activations.get(activation))
        )
        self._skip_connection_feature_name = skip_connection_feature_name

    def call(self, inputs: Any) -> tf.Tensor:
        """Computes the next state.

        Args:
            inputs: the inputs of the update.

        Raises:
            KeyError: if the old state to add to is missing.
            ValueError: if the shape of the block's result differs from that of the old state.
        """
        old_state = self._skip_connection_input(inputs[0])
        net = self._residual_block(combine_values(tf.nest.flatten(inputs), "concat"))
        if old_state.shape[1:].num_elements() != 0:
            if not old_state.shape.is_compatible_with(net.shape):
                raise ValueError(
                    "ResidualNextState() requires a residual_block whose output has the same shape as the input "
                    f"state, but got output shape {net.shape.as_list()} vs input shape {old_state.shape.as_list()}. "
                    "Give its last layer as many units as the state has."
                )
            net = tf.add(net, old_state)
        return self._activation(net)

    def _skip_connection_input(self, old_state: Any) -> Any:
        name = self._skip_connection_feature_name
        if not isinstance(old_state, Mapping):
            if name is not None:
                raise KeyError(
                    f"ResidualNextState() invoked with explicit skip connection feature '{name}', but the "
                    "state of the updated graph piece is a single tensor, not a dictionary. Leave the name unset."
                )
            return old_state
        name = const.HIDDEN_STATE if name is None else name
        if name not in old_state:
            raise KeyError(
                f"ResidualNextState() could not find the skip connection feature '{name}' in the features "
                f"of the updated graph piece: {sorted(old_state)}. Set skip_connection_feature_name to one of them."
            )
        return old_state[name]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "residual_block": self._residual_block,
            "activation": self._activation,
            "skip_connection_feature_name": self._skip_connection_feature_name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ResidualNextState:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        layers = {name: as_layer(config[name]) for name in ("residual_block", "activation")}
        return cls(**{**config, **layers})


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SingleInputNextState(GraphLayer):
    """Replaces the old state by the only input.

    Call args:
        inputs: tuple of the old state, a dict with one input from another set, and an empty dict
            for the context.

    Returns:
        The input, of any shape.

    Example:
        >>> next_state = tfx_gnn.keras.layers.SingleInputNextState()
        >>> next_state((tf.zeros([2, 1]), {"edges": tf.ones([2, 1])}, {})).numpy().tolist()
        [[1.0], [1.0]]
    """

    def call(self, inputs: Any) -> Any:
        """Returns the input.

        Args:
            inputs: the inputs of the update.

        Raises:
            ValueError: if there is more than one input, or none.
        """
        if len(inputs) > 2 and any(tf.nest.flatten(value) for value in inputs[2:]):
            raise ValueError(
                "GraphPieceUpdate should only pass 2 inputs to SingleInputNextState, the state and one other; "
                "got inputs from the context or more sets, too. Use NextStateFromConcat to join them."
            )
        others = inputs[1]
        if not isinstance(others, Mapping) or len(others) != 1:
            raise ValueError(
                "Second input to SingleInputNextState had multiple values, or none. "
                "This layer should take only a single input, from one set. Use NextStateFromConcat to join several."
            )
        (value,) = others.values()
        return value
