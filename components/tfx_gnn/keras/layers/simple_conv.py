"""The convolution that applies one layer to each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import combine_values
from tfx_gnn.keras.layer_arguments import as_layer
from tfx_gnn.keras.layers.convolution_base import AnyToAnyConvolutionBase


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SimpleConv(AnyToAnyConvolutionBase):
    """Computes messages by a layer over the combined inputs, and pools them.

    Init args:
        message_fn: layer that maps combined inputs [num_items, size] to messages.
        reduce_type: how messages are pooled, as for `pool`.
        combine_type: how inputs are combined: "concat" or "sum", as for `combine_values`.
        receiver_tag: as for `AnyToAnyConvolutionBase`.
        receiver_feature: as for `AnyToAnyConvolutionBase`.
        sender_node_feature: as for `AnyToAnyConvolutionBase`; must be None to convolve from edges
            to the context.
        sender_edge_feature: as for `AnyToAnyConvolutionBase`.

    Call args:
        graph: a scalar graph.
        edge_set_name: as for `AnyToAnyConvolutionBase`.
        node_set_name: as for `AnyToAnyConvolutionBase`.
        receiver_tag: as for `AnyToAnyConvolutionBase`.
        training: as for any Keras layer.

    Returns:
        Tensor of shape [num_receivers, message_size].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> convolution = tfx_gnn.keras.layers.SimpleConv(tf_keras.layers.Dense(2))
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 2]
    """

    def __init__(
        self,
        message_fn: tf_keras.layers.Layer,
        reduce_type: str = "sum",
        *,
        combine_type: str = "concat",
        receiver_tag: const.IncidentNodeOrContextTag | None = const.TARGET,
        receiver_feature: const.FieldName | None = const.HIDDEN_STATE,
        sender_node_feature: const.FieldName | None = const.HIDDEN_STATE,
        sender_edge_feature: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            receiver_tag=receiver_tag,
            receiver_feature=receiver_feature,
            sender_node_feature=sender_node_feature,
            sender_edge_feature=sender_edge_feature,
            **kwargs,
        )
        self._message_fn = message_fn
        self._reduce_type = reduce_type
        self._combine_type = combine_type

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "message_fn": self._message_fn,
            "reduce_type": self._reduce_type,
            "combine_type": self._combine_type,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SimpleConv:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "message_fn": as_layer(config["message_fn"])})

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
        inputs = []
        if sender_edge_input is not None:
            inputs.append(sender_edge_input)
        if sender_node_input is not None:
            inputs.append(broadcast_from_sender_node(sender_node_input))
        if receiver_input is not None:
            inputs.append(broadcast_from_receiver(receiver_input))
        messages = self._message_fn(combine_values(inputs, self._combine_type))
        return pool_to_receiver(messages, reduce_type=self._reduce_type)
