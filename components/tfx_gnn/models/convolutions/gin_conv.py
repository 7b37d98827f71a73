"""The convolution of GIN and, with edge features, GINE."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layers.layer_normalization import LayerNormalization
from tfx_gnn.models.graph_normalization import GraphNormalization
from tfx_gnn.models.message_passing import copy_to_edges, pool_edges, pool_neighbors
from tfx_gnn.models.state_blocks import check_normalization

# No statistics over a batch: they would include padding.
_NORMALIZATIONS: dict[str, Callable[..., tf_keras.layers.Layer]] = {
    "graph": GraphNormalization,
    "layer": LayerNormalization,
    "none": functools.partial(tf_keras.layers.Activation, "linear"),
}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GINConv(GraphLayer):
    """Adds the neighbours' states to the own state, and transforms the sum by two layers.

    This is GIN, arXiv:1810.00826, equation 4.1: MLP((1 + epsilon) * own + sum of neighbours), which distinguishes
    neighbourhoods that means and maxima confuse. With edge features it is GINE, arXiv:1905.12265,
    section 5: a neighbour's message is the ReLU of its state plus the transformed edge feature.

    Shapes: states [num_nodes, any] of a scalar graph, of the same width at both ends, and edge features [num_edges,
    any]; result [num_receivers, units].

    Init args:
        units: width of the result.
        hidden_units: width of the first layer; None: `units`.
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        node_feature: the states.
        edge_feature: float feature of the edges; None for none.
        epsilon: extra weight of the own state, which counts 1 + epsilon times as much as a neighbour's.
        learn_epsilon: whether `epsilon` is the initial value of a trained weight rather than fixed.
        activation: Keras activation of the first layer. The result has none.
        normalization: of the result: "graph" for `GraphNormalization`; "none"; or "layer", which normalizes each
            node by itself and so hides how many neighbours there were.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Raises:
        ValueError: if the normalization is unknown; when called, if the states at both ends differ in width.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"length": tf.constant([[0.5], [2.0]])})
        >>> convolution = GINConv(8, hidden_units=16, edge_feature="length", learn_epsilon=True)
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 8]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": convolution}, tfx_gnn.keras.layers.SingleInputNextState())
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        units: int,
        *,
        hidden_units: int | None = None,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        node_feature: const.FieldName = const.HIDDEN_STATE,
        edge_feature: const.FieldName | None = None,
        epsilon: float = 0.0,
        learn_epsilon: bool = False,
        activation: Any = "relu",
        normalization: str = "graph",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_normalization(normalization, tuple(_NORMALIZATIONS))
        self._arguments = {
            "units": units,
            "hidden_units": hidden_units,
            "receiver_tag": receiver_tag,
            "node_feature": node_feature,
            "edge_feature": edge_feature,
            "epsilon": epsilon,
            "learn_epsilon": learn_epsilon,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "normalization": normalization,
        }
        self._receiver_tag, self._sender_tag = receiver_tag, reverse_tag(receiver_tag)
        self._node_feature, self._edge_feature = node_feature, edge_feature
        self._message = _EdgeMessage(dtype=self.dtype_policy, name="message")
        self._hidden = tf_keras.layers.Dense(
            hidden_units or units, activation=activation, dtype=self.dtype_policy, name="hidden"
        )
        self._output = tf_keras.layers.Dense(units, dtype=self.dtype_policy, name="output")
        self._normalize = _NORMALIZATIONS[normalization](dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Makes the weight `epsilon`, if it is learned."""
        self._epsilon = self._arguments["epsilon"]
        if self._arguments["learn_epsilon"]:
            self._epsilon = self.add_weight(
                "epsilon", (), initializer=tf_keras.initializers.Constant(self._arguments["epsilon"])
            )
        super().build(input_shape)

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Convolves along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, units].
        """
        edge_set = graph.edge_sets[edge_set_name]
        sender, receiver = (edge_set.adjacency.node_set_name(tag) for tag in (self._sender_tag, self._receiver_tag))
        states, own = (
            tf.cast(graph.node_sets[name][self._node_feature], self.compute_dtype) for name in (sender, receiver)
        )
        if states.shape[-1] != own.shape[-1]:
            raise ValueError(
                f"`graph` must have states of one width at both ends of edges; got {states.shape[-1]} in node set "
                f"{sender!r} and {own.shape[-1]} in {receiver!r}, ends of {edge_set_name!r}. "
                "Give both a Dense layer of the same width first."
            )
        if self._edge_feature is None:
            received = pool_neighbors(graph, edge_set_name, self._receiver_tag, states, "sum")
        else:
            copied = copy_to_edges(graph, edge_set_name, self._sender_tag, states)
            messages = self._message((copied, edge_set[self._edge_feature]))
            received = pool_edges(graph, edge_set_name, self._receiver_tag, messages)
        values = (1 + tf.cast(self._epsilon, self.compute_dtype)) * own + received
        result = self._output(self._hidden(values))
        if self._arguments["normalization"] == "graph":
            return self._normalize(result, graph=graph, node_set_name=receiver)
        return self._normalize(result)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


class _EdgeMessage(GraphLayer):
    """ReLU of a sender's state plus the edge feature, which a Dense layer brings to the state's width."""

    def build(self, input_shape: Any) -> None:
        """Makes the Dense layer of the edge feature."""
        states, _ = input_shape
        self._of_edge = tf_keras.layers.Dense(states[-1], dtype=self.dtype_policy, name="edge")
        super().build(input_shape)

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Makes messages.

        Args:
            inputs: states [num_edges, units] and features [num_edges, any].

        Returns:
            Tensor of shape [num_edges, units].
        """
        states, features = inputs
        return tf.nn.relu(states + self._of_edge(features))
