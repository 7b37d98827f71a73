"""Convolutions on trees of fixed size: each node has the same number of neighbors, and a mask says which exist.

They are GraphLearn's EgoSAGEConv, EgoGATConv and EgoGINConv. Their weights are those of `SAGEConv`, `GATv2Conv` and
`GINConv`, so that a network gives the same results on trees and on the subgraphs from which they were copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.models.convolutions.attention import check_heads
from tfx_gnn.models.state_blocks import check_normalization

_AGGREGATORS = ("mean", "sum", "max", "pool")


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EgoSAGEConv(GraphLayer):
    """Aggregates the neighbors' states and transforms the result, as `SAGEConv` does along edges.

    Shapes: own states [n, any], neighbors' states [n, k, any] and mask [n, k]; result [n, units], zeros where no
    neighbor exists. The own states are not used: the next-state layer adds them.

    Init args:
        units: width of the result.
        aggregator: "mean", "sum", "max", or "pool", the maximum after a layer is applied to each neighbor's state.
        hidden_units: width of the layer of "pool", by default `units`; None for other aggregators.
        activation: Keras activation of the layer of "pool".
        use_bias: whether the layer of "pool" has a bias.

    Call args:
        inputs: own states, neighbors' states and mask.

    Raises:
        ValueError: if the aggregator is unknown, or `hidden_units` is given without "pool".

    Example:
        >>> convolution = EgoSAGEConv(8)
        >>> mask = tf.constant([[True, False, True], [False, False, False]])
        >>> received = convolution((tf.ones([2, 4]), tf.ones([2, 3, 4]), mask))
        >>> received.shape.as_list(), received[1].numpy().tolist()
        ([2, 8], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        units: int,
        *,
        aggregator: str = "mean",
        hidden_units: int | None = None,
        activation: Any = "relu",
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if aggregator not in _AGGREGATORS:
            advice = did_you_mean(aggregator, _AGGREGATORS, otherwise="Usual is 'mean'.")
            raise ValueError(f"`aggregator` must be one of {_AGGREGATORS}; got {aggregator!r}. {advice}")
        if hidden_units is not None and aggregator != "pool":
            raise ValueError(
                f"`hidden_units` must be None for aggregator={aggregator!r}; got {hidden_units}. "
                "Only 'pool' has a layer before the aggregation."
            )
        self._arguments = {
            "units": units,
            "aggregator": aggregator,
            "hidden_units": hidden_units,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "use_bias": use_bias,
        }
        self._before = None
        if aggregator == "pool":
            self._before = tf_keras.layers.Dense(
                hidden_units or units, activation=activation, use_bias=use_bias, dtype=self.dtype_policy, name="pool"
            )
        self._after = tf_keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="neighbors")

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Aggregates neighbors; see the class.

        Args:
            inputs: own states, neighbors' states and mask.

        Returns:
            Tensor of shape [n, units].
        """
        _, neighbors, mask = inputs
        states = tf.cast(neighbors, self.compute_dtype)
        if self._before is not None:
            states = self._before(states)
        if self._arguments["aggregator"] in ("mean", "sum"):
            pooled = masked_sum(states, mask, is_mean=self._arguments["aggregator"] == "mean")
        else:
            lowest = tf.where(mask[:, :, tf.newaxis], states, states.dtype.min)
            exists = tf.reduce_any(mask, axis=1, keepdims=True)
            pooled = tf.where(exists, tf.reduce_max(lowest, axis=1), tf.zeros([], states.dtype))
        return self._after(pooled)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EgoGATConv(GraphLayer):
    """Sums the neighbors' messages with attention weights, as `GATv2Conv` does along edges (arXiv:2105.14491).

    Shapes: own states [n, any], neighbors' states [n, k, any] and mask [n, k]; result
    [n, num_heads * per_head_channels], or [n, per_head_channels] for the mean of heads; the activation of zeros where
    no neighbor exists.

    Init args:
        num_heads: number of attention heads, at least 1.
        per_head_channels: width of each head, at least 1.
        use_bias: whether queries and values have a bias.
        edge_dropout: fraction of the softmax weights that training drops, in [0, 1).
        attention_activation: Keras activation inside the softmax; "leaky_relu" has slope 0.2.
        heads_merge_type: "concat" or "mean".
        activation: Keras activation of the result.

    Call args:
        inputs: own states, neighbors' states and mask.
        training: whether weights are dropped.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> convolution = EgoGATConv(num_heads=2, per_head_channels=4)
        >>> convolution((tf.ones([2, 4]), tf.ones([2, 3, 4]), tf.ones([2, 3], tf.bool))).shape.as_list()
        [2, 8]
    """

    def __init__(
        self,
        *,
        num_heads: int,
        per_head_channels: int,
        use_bias: bool = True,
        edge_dropout: float = 0.0,
        attention_activation: Any = "leaky_relu",
        heads_merge_type: str = "concat",
        activation: Any = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_heads(num_heads, per_head_channels, edge_dropout, heads_merge_type)
        self._arguments = {
            "num_heads": num_heads,
            "per_head_channels": per_head_channels,
            "use_bias": use_bias,
            "edge_dropout": edge_dropout,
            "attention_activation": tf_keras.activations.serialize(tf_keras.activations.get(attention_activation)),
            "heads_merge_type": heads_merge_type,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
        }
        self._attention_activation = tf_keras.activations.get(attention_activation)
        self._activation = tf_keras.activations.get(activation)
        self._dropout = tf_keras.layers.Dropout(edge_dropout, dtype="float32")
        self._query, self._value_node = (
            tf_keras.layers.Dense(num_heads * per_head_channels, use_bias=use_bias, dtype=self.dtype_policy, name=name)
            for name in ("query", "value_node")
        )

    def build(self, input_shape: Any) -> None:
        """Makes the attention vector of every head."""
        shape = (self._arguments["per_head_channels"], self._arguments["num_heads"])
        self._attention = self.add_weight("attention_logits", shape, initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:  # noqa: FBT001 - Keras
        """Attends to neighbors; see the class.

        Args:
            inputs: own states, neighbors' states and mask.
            training: whether weights are dropped.

        Returns:
            Tensor of shape [n, width].
        """
        own, neighbors, mask = inputs
        heads, channels = self._arguments["num_heads"], self._arguments["per_head_channels"]
        fan_out = neighbors.shape[1]
        values = self._value_node(tf.cast(neighbors, self.compute_dtype))
        queries = self._query(tf.cast(own, self.compute_dtype))[:, tf.newaxis]
        compared = tf.reshape(self._attention_activation(queries + values), [-1, fan_out, heads, channels])
        logits = tf.reduce_sum(compared * tf.transpose(tf.cast(self._attention, compared.dtype)), axis=-1)
        logits = tf.cast(logits, tf.float32)
        is_there = mask[:, :, tf.newaxis]
        logits = tf.where(is_there, logits, tf.float32.min)
        highest = tf.stop_gradient(tf.reduce_max(logits, axis=1, keepdims=True))
        weights = tf.where(is_there, tf.exp(logits - highest), 0.0)
        total = tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)[:, :, tf.newaxis]
        messages = tf.cast(tf.reshape(values, [-1, fan_out, heads, channels]), tf.float32)
        kept = tf.cast(self._dropout(weights, training=training), tf.float32)
        pooled = tf.cast(tf.einsum("nkh,nkhc->nhc", kept, messages) / total, values.dtype)
        if self._arguments["heads_merge_type"] == "mean":
            return self._activation(tf.reduce_mean(pooled, axis=1))
        return self._activation(tf.reshape(pooled, [-1, heads * channels]))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EgoGINConv(GraphLayer):
    """Sums the own and the neighbors' states and applies two layers, as `GINConv` does along edges (arXiv:1810.00826).

    Shapes: own states [n, any], neighbors' states [n, k, any] of the same width and mask [n, k]; result [n, units].

    Init args:
        units: width of the result.
        hidden_units: width of the first layer, by default `units`.
        epsilon: weight of the own state, less 1.
        learn_epsilon: whether `epsilon` is only the initial value of a weight.
        activation: Keras activation of the first layer.
        normalization: "layer" or "none", of the result.

    Call args:
        inputs: own states, neighbors' states and mask.

    Raises:
        ValueError: if the normalization is unknown, or, when called, if the states differ in width.

    Example:
        >>> convolution = EgoGINConv(8, hidden_units=16)
        >>> convolution((tf.ones([2, 4]), tf.ones([2, 3, 4]), tf.ones([2, 3], tf.bool))).shape.as_list()
        [2, 8]
    """

    def __init__(
        self,
        units: int,
        *,
        hidden_units: int | None = None,
        epsilon: float = 0.0,
        learn_epsilon: bool = False,
        activation: Any = "relu",
        normalization: str = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_normalization(normalization)
        self._arguments = {
            "units": units,
            "hidden_units": hidden_units,
            "epsilon": epsilon,
            "learn_epsilon": learn_epsilon,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "normalization": normalization,
        }
        self._hidden = tf_keras.layers.Dense(
            hidden_units or units, activation=activation, dtype=self.dtype_policy, name="hidden"
        )
        self._output = tf_keras.layers.Dense(units, dtype=self.dtype_policy, name="output")
        self._normalize = LayerNormalization(dtype=self.dtype_policy) if normalization == "layer" else None

    def build(self, input_shape: Any) -> None:
        """Makes the weight `epsilon`, if it is learned."""
        self._epsilon = self._arguments["epsilon"]
        if self._arguments["learn_epsilon"]:
            self._epsilon = self.add_weight(
                "epsilon", (), initializer=tf_keras.initializers.Constant(self._arguments["epsilon"])
            )
        super().build(input_shape)

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Sums states; see the class.

        Args:
            inputs: own states, neighbors' states and mask.

        Returns:
            Tensor of shape [n, units].
        """
        own, neighbors, mask = inputs
        if own.shape[-1] != neighbors.shape[-1]:
            raise ValueError(
                f"`inputs` must have states of one width; got {own.shape[-1]} for nodes and {neighbors.shape[-1]} for "
                "neighbors. Give both a Dense layer of the same width first."
            )
        received = masked_sum(tf.cast(neighbors, self.compute_dtype), mask, is_mean=False)
        values = (1 + tf.cast(self._epsilon, self.compute_dtype)) * tf.cast(own, self.compute_dtype) + received
        result = self._output(self._hidden(values))
        return result if self._normalize is None else self._normalize(result)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


def masked_sum(states: tf.Tensor, mask: tf.Tensor, *, is_mean: bool) -> tf.Tensor:
    """Sums the states [n, k, d] that a mask [n, k] keeps, or computes their mean; zeros where there is none.

    Half precision is summed in float32: a sum of ones in bfloat16 stops at 256.
    """
    weights = tf.cast(mask, tf.float32)
    if is_mean:
        weights /= tf.maximum(tf.reduce_sum(weights, axis=1, keepdims=True), 1.0)
    # A product with a row of weights reads the states once, without a masked copy of them.
    pooled = tf.squeeze(tf.matmul(weights[:, tf.newaxis], tf.cast(states, tf.float32)), axis=1)
    return tf.cast(pooled, states.dtype)
