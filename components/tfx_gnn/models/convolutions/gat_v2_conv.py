"""The graph attention convolution of GATv2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.keras.layer_arguments import clone_initializer
from tfx_gnn.keras.layers.convolution_base import AnyToAnyConvolutionBase
from tfx_gnn.models.convolutions.attention import Attended, check_heads, softmax_weighted_sum


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GATv2Conv(AnyToAnyConvolutionBase):
    """Sums messages with weights that depend on sender, edge and receiver: GATv2, arXiv:2105.14491.

    The weights are those of equation 7: a softmax, over the edges of a receiver, of a . LeakyReLU(W_r h_i + W_s h_j
    (+ W_e e_ij)). Arguments and results are those of tensorflow-gnn's `GATv2Conv`: the message is W_s h_j
    + W_e e_ij, whereas PyG's layer leaves the edge out of it. The softmax is computed in
    float32 and ignores padding; a node without edges gets zeros.

    Shapes: as for `AnyToAnyConvolutionBase`; result [num_receivers, num_heads * per_head_channels], or
    [num_receivers, per_head_channels] for the mean of heads.

    Init args:
        num_heads: number of attention heads, at least 1.
        per_head_channels: width of each head, at least 1.
        receiver_tag: as for `AnyToAnyConvolutionBase`.
        receiver_feature: as for `AnyToAnyConvolutionBase`; must be given.
        sender_node_feature: as for `AnyToAnyConvolutionBase`.
        sender_edge_feature: as for `AnyToAnyConvolutionBase`; this, `sender_node_feature` or both must be given.
        use_bias: whether queries and values have a bias.
        edge_dropout: fraction of the softmax weights that training drops, in [0, 1).
        attention_activation: Keras activation inside the softmax; "leaky_relu" has slope 0.2.
        heads_merge_type: "concat" or "mean".
        activation: Keras activation of the result.
        kernel_initializer: as for `tf_keras.layers.Dense`.
        kernel_regularizer: as for `tf_keras.layers.Dense`.

    Call args:
        graph: a scalar graph.
        edge_set_name: as for `AnyToAnyConvolutionBase`.
        node_set_name: as for `AnyToAnyConvolutionBase`.
        receiver_tag: as for `AnyToAnyConvolutionBase`.
        training: as for any Keras layer.

    Raises:
        ValueError: if a number is out of range, or an input is missing.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> convolution = GATv2Conv(num_heads=2, per_head_channels=8, receiver_tag=tfx_gnn.TARGET)
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 16]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": convolution}, tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(4, "relu")))
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 4]
    """

    def __init__(
        self,
        *,
        num_heads: int,
        per_head_channels: int,
        receiver_tag: const.IncidentNodeOrContextTag | None = None,
        receiver_feature: const.FieldName = const.HIDDEN_STATE,
        sender_node_feature: const.FieldName | None = const.HIDDEN_STATE,
        sender_edge_feature: const.FieldName | None = None,
        use_bias: bool = True,
        edge_dropout: float = 0.0,
        attention_activation: Any = "leaky_relu",
        heads_merge_type: str = "concat",
        activation: Any = "relu",
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            receiver_tag=receiver_tag,
            receiver_feature=receiver_feature,
            sender_node_feature=sender_node_feature,
            sender_edge_feature=sender_edge_feature,
            **kwargs,
        )
        check_heads(num_heads, per_head_channels, edge_dropout, heads_merge_type)
        if not self.takes_receiver_input or not (self.takes_sender_node_input or self.takes_sender_edge_input):
            raise ValueError(
                "`receiver_feature` and one of `sender_node_feature` and `sender_edge_feature` must be given; got "
                f"{receiver_feature!r}, {sender_node_feature!r} and {sender_edge_feature!r}. Attention compares both."
            )
        initializer = tf_keras.initializers.get(kernel_initializer)
        regularizer = tf_keras.regularizers.get(kernel_regularizer)
        self._arguments = {
            "num_heads": num_heads,
            "per_head_channels": per_head_channels,
            "use_bias": use_bias,
            "edge_dropout": edge_dropout,
            "attention_activation": tf_keras.activations.serialize(tf_keras.activations.get(attention_activation)),
            "heads_merge_type": heads_merge_type,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "kernel_initializer": tf_keras.initializers.serialize(initializer),
            "kernel_regularizer": tf_keras.regularizers.serialize(regularizer),
        }
        self._attention_activation = tf_keras.activations.get(attention_activation)
        self._activation = tf_keras.activations.get(activation)
        self._dropout = tf_keras.layers.Dropout(edge_dropout, dtype="float32") if edge_dropout else None

        def heads(name: str, *, with_bias: bool) -> tf_keras.layers.Layer:
            return tf_keras.layers.Dense(
                num_heads * per_head_channels,
                use_bias=use_bias and with_bias,
                kernel_initializer=clone_initializer(initializer),
                kernel_regularizer=regularizer,
                dtype=self.dtype_policy,
                name=name,
            )

        self._query = heads("query", with_bias=True)
        self._value_node = heads("value_node", with_bias=True) if self.takes_sender_node_input else None
        self._value_edge = None
        if self.takes_sender_edge_input:
            # A sum needs only one bias.
            self._value_edge = heads("value_edge", with_bias=self._value_node is None)

    def build(self, input_shape: Any) -> None:
        """Makes the attention vector of every head."""
        self._attention = self.add_weight(
            "attention_logits",
            (self._arguments["per_head_channels"], self._arguments["num_heads"]),
            initializer=tf_keras.initializers.get(self._arguments["kernel_initializer"]),
            regularizer=tf_keras.regularizers.get(self._arguments["kernel_regularizer"]),
        )
        super().build(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}

    def convolve(  # noqa: D102 - as in the base class
        self,
        *,
        sender_node_input: tf.Tensor | None,
        sender_edge_input: tf.Tensor | None,
        receiver_input: tf.Tensor | None,
        broadcast_from_sender_node: Callable[..., Any],
        broadcast_from_receiver: Callable[..., Any],
        pool_to_receiver: Callable[..., Any],
        extra_receiver_ops: Any = None,
        training: bool | None,
    ) -> tf.Tensor:
        queries = broadcast_from_receiver(self._query(receiver_input))
        terms = []
        if self._value_node is not None:
            terms.append(broadcast_from_sender_node(self._value_node(sender_node_input)))
        if self._value_edge is not None:
            terms.append(self._value_edge(sender_edge_input))
        values = tf.add_n(terms)
        compared = self._split_heads(self._attention_activation(queries + values))
        logits = tf.reduce_sum(compared * tf.transpose(tf.cast(self._attention, compared.dtype)), axis=-1)
        attended = Attended(logits, self._split_heads(values), pool_to_receiver, broadcast_from_receiver)
        pooled = tf.cast(softmax_weighted_sum([attended], self._dropout), values.dtype)
        if self._arguments["heads_merge_type"] == "mean":
            return self._activation(tf.reduce_mean(pooled, axis=-2))
        width = self._arguments["num_heads"] * self._arguments["per_head_channels"]
        return self._activation(tf.reshape(pooled, [-1, width]))

    def _split_heads(self, values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, [-1, self._arguments["num_heads"], self._arguments["per_head_channels"]])
