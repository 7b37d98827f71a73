"""Blocks that combine a node's state with the messages of its convolutions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.ops.broadcasting import combine_values
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.keras.layers.next_state import NextStateFromConcat, ResidualNextState

NORMALIZATIONS = ("layer", "none")
"""Ways to normalize states. There is no batch normalization, because its statistics would include padding."""


def state_block(
    units: int, dropout_rate: float = 0.0, *, activation: str = "relu", normalization: str = "layer"
) -> tf_keras.Sequential:
    """Makes the block that mixes the inputs of a node: Dense, LayerNormalization, activation, Dropout.

    Args:
        units: width of the result, at least 1.
        dropout_rate: fraction of values that training drops, in [0, 1).
        activation: name of a Keras activation.
        normalization: "layer" or "none".

    Returns:
        Layer that maps [num_nodes, any] to [num_nodes, units].

    Raises:
        ValueError: if `units` is below 1, or `normalization` is unknown.

    Example:
        >>> block = state_block(8, dropout_rate=0.1)
        >>> block(tf.ones([3, 4])).shape.as_list()
        [3, 8]
        >>> [type(layer).__name__ for layer in block.layers]
        ['Dense', 'LayerNormalization', 'Activation', 'Dropout']
        >>> len(state_block(8, activation="gelu", normalization="none").layers)
        3
    """
    if units < 1:
        raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
    check_normalization(normalization)
    layers = [tf_keras.layers.Dense(units)]
    if normalization == "layer":
        layers.append(LayerNormalization())
    return tf_keras.Sequential([*layers, tf_keras.layers.Activation(activation), tf_keras.layers.Dropout(dropout_rate)])


def next_state_from_block(
    units: int, dropout_rate: float, *, activation: str, normalization: str, residual: bool
) -> tf_keras.layers.Layer:
    """Makes the layer that combines a node's state and its messages in a `state_block`.

    With `residual`, the old state is added; it must have width `units`.
    """
    block = state_block(units, dropout_rate, activation=activation, normalization=normalization)
    return ResidualNextState(block) if residual else NextStateFromConcat(block)


def check_normalization(normalization: str, known: tuple[str, ...] = NORMALIZATIONS) -> None:
    """Checks that a normalization is known."""
    if normalization not in known:
        raise ValueError(
            f"`normalization` must be one of {known}; got {normalization!r}. "
            f"{did_you_mean(normalization, known, otherwise='Choose one of these.')}"
        )


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NextStateFromConvolutions(tf_keras.layers.Layer):
    """Transforms the own state, and combines it with inputs that convolutions have already transformed.

    With the defaults and normalization="l2", this is lines 5 and 7 of algorithm 1 of GraphSAGE
    (arXiv:1706.02216): the paper's single matrix over the concatenation equals a matrix for the own state plus one in
    each convolution. It matches tensorflow-gnn's `GraphSAGENextState`.

    Shapes: own state [num_nodes, any], and any number of inputs [num_nodes, units]; result
    [num_nodes, units], or for combine_type="concat" [num_nodes, units * (1 + number of inputs)].

    Init args:
        units: width of the transformed own state.
        own_state: whether the own state is used. A node set that receives no messages needs it, or there is
            nothing to compute a state from.
        combine_type: "sum" or "concat".
        use_bias: whether a bias is added before the normalization.
        normalization: "layer" before the activation, "l2" after it, or "none".
        activation: name of a Keras activation.
        dropout_rate: fraction of the new state's values that training drops, in [0, 1).
        residual: whether the old state is added at the end; it must be as wide as the new one.

    Call args:
        inputs: tuple of the own state, the inputs by edge set and the (empty) input from the context.

    Returns:
        The next state.

    Example:
        >>> own, received = tf.ones([3, 4]), {"cites": tf.ones([3, 8]), "writes": tf.ones([3, 8])}
        >>> next_state = NextStateFromConvolutions(8, normalization="layer")
        >>> next_state((own, received, {})).shape.as_list()
        [3, 8]
        >>> NextStateFromConvolutions(8, combine_type="concat")((own, received, {})).shape.as_list()
        [3, 24]
        >>> summed = NextStateFromConvolutions(8, own_state=False, use_bias=False)
        >>> summed((own, received, {}))[0].numpy().tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """

    def __init__(
        self,
        units: int,
        *,
        own_state: bool = True,
        combine_type: str = "sum",
        use_bias: bool = True,
        normalization: str = "none",
        activation: str = "relu",
        dropout_rate: float = 0.0,
        residual: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_normalization(normalization, (*NORMALIZATIONS, "l2"))
        if combine_type not in ("concat", "sum"):
            raise ValueError(f"`combine_type` must be 'sum' or 'concat'; got {combine_type!r}. The paper uses 'sum'.")
        self._arguments: dict[str, Any] = {
            "units": units,
            "own_state": own_state,
            "combine_type": combine_type,
            "use_bias": use_bias,
            "normalization": normalization,
            "activation": activation,
            "dropout_rate": dropout_rate,
            "residual": residual,
        }
        self._transform = (
            tf_keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="own_state")
            if own_state
            else None
        )
        self._normalize = LayerNormalization(dtype=self.dtype_policy) if normalization == "layer" else None
        self._activate = tf_keras.layers.Activation(activation, dtype=self.dtype_policy)
        self._dropout = tf_keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)
        self._bias: tf.Variable | None = None

    def build(self, input_shape: Any) -> None:
        """Makes the bias, whose width depends on the number of inputs."""
        width = self._arguments["units"]
        if self._arguments["combine_type"] == "concat":
            inputs = tf.nest.flatten(input_shape[1])
            width = sum(shape[-1] for shape in inputs) + (width if self._transform is not None else 0)
        if self._arguments["use_bias"]:
            self._bias = self.add_weight("bias", (width,), initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: Any) -> tf.Tensor:
        """Computes the next state.

        Args:
            inputs: as for the class.

        Raises:
            ValueError: if there is neither an own state nor an input.
        """
        old_state, from_edges, _ = inputs
        parts = tf.nest.flatten(from_edges)
        if self._transform is not None:
            parts = [self._transform(old_state), *parts]
        if not parts:
            raise ValueError(
                "`inputs` must hold an input from an edge set; got a node set that receives along no edge set. "
                "Set own_state=True."
            )
        state = combine_values([tf.cast(part, self.compute_dtype) for part in parts], self._arguments["combine_type"])
        if self._bias is not None:
            state += self._bias
        if self._normalize is not None:
            state = self._normalize(state)
        state = self._activate(state)
        if self._arguments["normalization"] == "l2":
            state = tf.math.l2_normalize(state, axis=-1)
        state = self._dropout(state)
        return state + tf.cast(old_state, state.dtype) if self._arguments["residual"] else state

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}
