"""The block that mixes what a node has gathered into its next state."""

from __future__ import annotations

import tf_keras

from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.keras.layers.next_state import NextStateFromConcat, ResidualNextState

NORMALIZATIONS = ("layer", "none")
"""Ways to normalize states. Statistics of a batch are none of them: padding would count."""


def state_block(
    units: int, dropout_rate: float = 0.0, *, activation: str = "relu", normalization: str = "layer"
) -> tf_keras.Sequential:
    """Makes the block that mixes what a node has gathered: Dense, LayerNormalization, ReLU, Dropout.

    Args:
        units: width of the result, at least 1.
        dropout_rate: share of values that training leaves out, in [0, 1).
        activation: name of a Keras activation.
        normalization: "layer" or "none".

    Returns:
        Layer from [num_nodes, any] to [num_nodes, units].

    Raises:
        ValueError: if `units` is below 1, or there is no such normalization.
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
    """Makes the layer that mixes a node's own state and all that it heard by a `state_block`.

    Args:
        units: as for `state_block`.
        dropout_rate: as for `state_block`.
        activation: as for `state_block`.
        normalization: as for `state_block`.
        residual: whether the old state, of width `units`, is added.

    Returns:
        `NextStateFromConcat` or `ResidualNextState`.
    """
    block = state_block(units, dropout_rate, activation=activation, normalization=normalization)
    return ResidualNextState(block) if residual else NextStateFromConcat(block)


def check_normalization(normalization: str, known: tuple[str, ...] = NORMALIZATIONS) -> None:
    """Refuses unknown names.

    Args:
        normalization: the name.
        known: names that are allowed.

    Raises:
        ValueError: if it is not among them.
    """
    if normalization not in known:
        raise ValueError(f"`normalization` must be one of {known}; got {normalization!r}. Choose one of these.")
