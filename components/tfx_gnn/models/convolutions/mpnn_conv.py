"""Message passing with a separate message for each edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models.convolutions.edge_mlp import EdgeMLP
from tfx_gnn.models.message_passing import pool_edges

_REDUCE_TYPES = {"sum": "sum", "mean": "mean", "max": "max_no_inf", "min": "min_no_inf"}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MPNNConv(tf_keras.layers.Layer):
    """Pools messages that a multi-layer perceptron makes of source, target and edge.

    The message function of message passing neural networks, arXiv:1704.01212, section 2, as `EdgeMLP`
    computes it; the node update is that of `NodeSetUpdate`. With one layer it equals a `SimpleConv` with
    a Dense layer, at a fraction of the work.

    Shapes: as for `EdgeMLP`; result [num_receivers, message_units[-1]], zeros for a node without edges.

    Init args:
        message_units: widths of the layers that make messages.
        reduce_type: "sum", "mean", "max" or "min".
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        node_feature: as for `EdgeMLP`.
        edge_feature: as for `EdgeMLP`.
        activation: as for `EdgeMLP`.
        dropout_rate: as for `EdgeMLP`.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Raises:
        ValueError: if there is no such reduction, or as for `EdgeMLP`.
    """

    def __init__(
        self,
        message_units: Sequence[int],
        reduce_type: str = "sum",
        *,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        node_feature: const.FieldName | None = const.HIDDEN_STATE,
        edge_feature: const.FieldName | None = None,
        activation: Any = "relu",
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if reduce_type not in _REDUCE_TYPES:
            raise ValueError(
                f"`reduce_type` must be one of {tuple(_REDUCE_TYPES)}; got {reduce_type!r}. The paper's is 'sum'."
            )
        self._reduce_type = reduce_type
        self._receiver_tag = receiver_tag
        self._message = EdgeMLP(
            message_units,
            node_feature=node_feature,
            edge_feature=edge_feature,
            activation=activation,
            dropout_rate=dropout_rate,
            dtype=self.dtype_policy,
            name="message",
        )

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Convolves along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, message_units[-1]].
        """
        messages = self._message(graph, edge_set_name=edge_set_name)
        return pool_edges(graph, edge_set_name, self._receiver_tag, messages, _REDUCE_TYPES[self._reduce_type])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        message = self._message.get_config()
        arguments = ("node_feature", "edge_feature", "activation", "dropout_rate")
        return {
            **super().get_config(),
            "message_units": message["units"],
            "reduce_type": self._reduce_type,
            "receiver_tag": self._receiver_tag,
            **{name: message[name] for name in arguments},
        }
