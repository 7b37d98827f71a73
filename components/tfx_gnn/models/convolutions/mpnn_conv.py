"""Message passing with a separate message for each edge, made by a multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.models.message_passing import copy_to_edges, pool_edges


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EdgeMLP(GraphLayer):
    """Computes a vector for each edge from its source, its target and its own feature.

    A Dense layer of the three inputs concatenated equals the sum of one Dense layer for each. So node states are
    multiplied before they are copied to edges, of which there usually are many more; if static shapes show fewer
    edges than nodes, they are copied first. As an edge set update in `GraphUpdate`, the layer gives edges their next
    state.

    Shapes: states [num_nodes, any] at both ends and edge features [num_edges, any] of a scalar graph; result
    [num_edges, units[-1]].

    Init args:
        units: widths of the layers, at least one.
        node_feature: the node feature that holds the states of both ends; None for none.
        edge_feature: float feature of the edges; None for none.
        activation: Keras activation after each layer.
        dropout_rate: fraction of the result's values that training drops, in [0, 1).

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Raises:
        ValueError: if there is no layer, or no input.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"length": tf.constant([[0.5], [2.0]])})
        >>> message = EdgeMLP([8, 2], edge_feature="length")
        >>> message(graph, edge_set_name="edges").shape.as_list()
        [2, 2]
        >>> update = tfx_gnn.keras.layers.GraphUpdate(edge_sets={"edges": EdgeMLP([8], edge_feature="length")})
        >>> update(graph).edge_sets["edges"]["hidden_state"].shape.as_list()
        [2, 8]
    """

    def __init__(
        self,
        units: Sequence[int],
        *,
        node_feature: const.FieldName | None = const.HIDDEN_STATE,
        edge_feature: const.FieldName | None = None,
        activation: Any = "relu",
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not units or min(units) < 1 or (node_feature is None and edge_feature is None):
            raise ValueError(
                "`units` must hold the width of at least one layer, and `node_feature` or `edge_feature` be given; got "
                f"{units!r}, {node_feature!r} and {edge_feature!r}. One layer of the states' width is a good start."
            )
        self._arguments = {
            "units": list(units),
            "node_feature": node_feature,
            "edge_feature": edge_feature,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "dropout_rate": dropout_rate,
        }
        self._node_feature, self._edge_feature = node_feature, edge_feature
        self._activation = tf_keras.activations.get(activation)

        def first(name: str) -> tf_keras.layers.Layer:
            return tf_keras.layers.Dense(units[0], use_bias=False, dtype=self.dtype_policy, name=name)

        if node_feature is not None:
            self._of_source, self._of_target = first("source"), first("target")
        if edge_feature is not None:
            self._of_edge = first("edge")
        self._further = [
            tf_keras.layers.Dense(width, activation=activation, dtype=self.dtype_policy) for width in units[1:]
        ]
        self._dropout = tf_keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Makes the bias of the first layer."""
        self._bias = self.add_weight("bias", (self._arguments["units"][0],), initializer="zeros")
        super().build(input_shape)

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Computes the vectors; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_edges, units[-1]].
        """
        edge_set = graph.edge_sets[edge_set_name]
        terms = []
        if self._node_feature is not None:
            for tag, layer in ((const.SOURCE, self._of_source), (const.TARGET, self._of_target)):
                states = graph.node_sets[edge_set.adjacency.node_set_name(tag)][self._node_feature]
                num_nodes, num_edges = states.shape[0], edge_set.adjacency[tag].shape[0]
                if num_nodes is not None and num_edges is not None and num_edges < num_nodes:
                    terms.append(layer(copy_to_edges(graph, edge_set_name, tag, states)))
                else:
                    terms.append(copy_to_edges(graph, edge_set_name, tag, layer(states)))
        if self._edge_feature is not None:
            terms.append(self._of_edge(edge_set[self._edge_feature]))
        values = self._activation(tf.add_n(terms) + self._bias)
        for layer in self._further:
            values = layer(values)
        return self._dropout(values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}


_REDUCE_TYPES = {"sum": "sum", "mean": "mean", "max": "max_no_inf", "min": "min_no_inf"}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MPNNConv(GraphLayer):
    """Pools messages that a multi-layer perceptron computes from source, target and edge.

    `EdgeMLP` is the message function of message passing neural networks, arXiv:1704.01212, section 2; the node
    update is left to `NodeSetUpdate`. With one layer the result equals that of a `SimpleConv` with a Dense layer,
    at a fraction of the work.

    Shapes: as for `EdgeMLP`; result [num_receivers, message_units[-1]], zeros for a node without edges.

    Init args:
        message_units: widths of the layers that compute messages.
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
        ValueError: if the reduction is unknown, or as for `EdgeMLP`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]),
        ...     edge_features={"length": tf.constant([[0.5], [2.0]])})
        >>> convolution = MPNNConv([8], "max", edge_feature="length")
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 8]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": convolution}, tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(4, "relu")))
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 4]
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
            advice = did_you_mean(reduce_type, _REDUCE_TYPES, otherwise="The paper uses 'sum'.")
            raise ValueError(f"`reduce_type` must be one of {tuple(_REDUCE_TYPES)}; got {reduce_type!r}. {advice}")
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
