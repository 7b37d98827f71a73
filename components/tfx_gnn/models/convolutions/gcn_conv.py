"""The graph convolution of GCN."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.models.message_passing import copy_to_edges, pool_edges, pool_neighbors

DEGREE_NORMALIZATIONS = ("none", "in", "out", "in_out", "in_in")


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GCNConv(GraphLayer):
    """Sums the neighbours' states, scaled by degrees, and transforms the sum.

    This is GCN, arXiv:1609.02907, equation 2: with `add_self_loops` and "in_out", a symmetric graph gives
    D^-1/2 (A + I) D^-1/2 X W. Arguments and results are those of tensorflow-gnn's `GCNConv`. Unlike there,
    edges may connect two node sets, unless an argument requires a single one. The degree is the sum of edge weights,
    plus one with self-loops, and at least one.

    Shapes: states [num_senders, any] of a scalar graph; result [num_receivers, units].

    Init args:
        units: width of the result.
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        activation: Keras activation of the result.
        use_bias: whether a bias is added.
        add_self_loops: whether each node also receives from itself, along an edge of weight 1; both ends of
            the edges must be in the same node set.
        kernel_initializer: as for `tf_keras.layers.Dense`.
        kernel_regularizer: as for `tf_keras.layers.Dense`.
        node_feature: the node feature that holds the states.
        edge_weight_feature_name: float feature of the edges, shape [num_edges] or [num_edges, 1], not
            negative; None: all weights are 1.
        degree_normalization: what messages are divided by: "none"; "in": the receiver's in-degree (in the
            direction of messages); "out": the sender's out-degree; "in_out": the square roots of these two;
            "in_in": the square roots of the in-degrees of both nodes, which must be in the same node set.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Raises:
        ValueError: if the normalization is unknown; when called, if an option that needs a single node set is used
            for edges between two.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([2, 2]), node_features=tf.constant([[1.], [2.], [4.]]))
        >>> mean = GCNConv(1, activation=None, kernel_initializer="ones", degree_normalization="in")
        >>> mean(graph, edge_set_name="edges").numpy().tolist()
        [[0.0], [0.0], [1.5]]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": GCNConv(8, add_self_loops=True)}, tfx_gnn.keras.layers.SingleInputNextState())
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        units: int,
        *,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        activation: Any = "relu",
        use_bias: bool = True,
        add_self_loops: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        node_feature: const.FieldName = const.HIDDEN_STATE,
        edge_weight_feature_name: const.FieldName | None = None,
        degree_normalization: str = "in_out",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if degree_normalization not in DEGREE_NORMALIZATIONS:
            advice = did_you_mean(degree_normalization, DEGREE_NORMALIZATIONS, otherwise="The paper uses 'in_out'.")
            raise ValueError(
                f"`degree_normalization` must be one of {DEGREE_NORMALIZATIONS}; got {degree_normalization!r}. {advice}"
            )
        self._units = units
        self._receiver_tag = receiver_tag
        self._sender_tag = reverse_tag(receiver_tag)
        self._activation = tf_keras.activations.get(activation)
        self._add_self_loops = add_self_loops
        self._node_feature = node_feature
        self._edge_weight_feature_name = edge_weight_feature_name
        self._degree_normalization = degree_normalization
        self._kernel = tf_keras.layers.Dense(
            units,
            use_bias=False,
            kernel_initializer=kernel_initializer,
            kernel_regularizer=kernel_regularizer,
            dtype=self.dtype_policy,
            name="neighbors",
        )
        self._use_bias = use_bias
        self._bias: tf.Variable | None = None

    def build(self, input_shape: Any) -> None:
        """Makes the bias."""
        if self._use_bias:
            self._bias = self.add_weight("bias", (self._units,), initializer="zeros")
        super().build(input_shape)

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Convolves along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, units].
        """
        self._check_ends(graph, edge_set_name)
        edge_set = graph.edge_sets[edge_set_name]
        states = graph.node_sets[edge_set.adjacency.node_set_name(self._sender_tag)][self._node_feature]
        states = tf.cast(states, self.compute_dtype)
        weights = self._weights(graph, edge_set_name)
        sender_scale, receiver_scale = self._scales(graph, edge_set_name, weights)
        # The sum is linear, so the narrower of the states before and after the kernel is summed.
        is_widening = self._units >= states.shape[-1]
        values = states if is_widening else self._kernel(states)
        values = values if sender_scale is None else values * sender_scale
        if weights is None:
            pooled = pool_neighbors(graph, edge_set_name, self._receiver_tag, values, "sum")
        else:
            messages = copy_to_edges(graph, edge_set_name, self._sender_tag, values)
            messages *= tf.cast(weights, messages.dtype)
            pooled = pool_edges(graph, edge_set_name, self._receiver_tag, messages)
        pooled = pooled + values if self._add_self_loops else pooled
        pooled = pooled if receiver_scale is None else pooled * receiver_scale
        result = self._kernel(pooled) if is_widening else pooled
        return self._activation(result if self._bias is None else result + self._bias)

    def _check_ends(self, graph: GraphTensor, edge_set_name: const.EdgeSetName) -> None:
        adjacency = graph.edge_sets[edge_set_name].adjacency
        ends = [adjacency.node_set_name(tag) for tag in (self._sender_tag, self._receiver_tag)]
        if ends[0] != ends[1] and (self._add_self_loops or self._degree_normalization == "in_in"):
            raise ValueError(
                f"`edge_set_name` must name edges within one node set for add_self_loops={self._add_self_loops} and "
                f"degree_normalization={self._degree_normalization!r}; got {edge_set_name!r} between {ends}. "
                "Use 'in_out' without self-loops for it."
            )

    def _weights(self, graph: GraphTensor, edge_set_name: const.EdgeSetName) -> tf.Tensor | None:
        if self._edge_weight_feature_name is None:
            return None
        weights = graph.edge_sets[edge_set_name][self._edge_weight_feature_name]
        if weights.shape.rank not in (1, 2) or (weights.shape.rank == 2 and weights.shape[1] != 1):
            raise ValueError(
                f"`edge_weight_feature_name` must name one number for each edge; got shape {weights.shape} of "
                f"{self._edge_weight_feature_name!r} in edge set {edge_set_name!r}. Reduce it first."
            )
        return tf.cast(weights if weights.shape.rank == 2 else weights[:, tf.newaxis], tf.float32)

    def _scales(
        self, graph: GraphTensor, edge_set_name: const.EdgeSetName, weights: tf.Tensor | None
    ) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Returns the factors of states before and after the sum, each [num_nodes, 1] or None."""

        def degree(tag: const.IncidentNodeTag) -> tf.Tensor:
            counted = weights
            if counted is None:
                counted = tf.ones_like(graph.edge_sets[edge_set_name].adjacency[tag], tf.float32)[:, tf.newaxis]
            edges = pool_edges(graph, edge_set_name, tag, counted)
            return tf.maximum(edges + 1.0 if self._add_self_loops else edges, 1.0)

        def scale(tag: const.IncidentNodeTag, exponent: float) -> tf.Tensor:
            return tf.cast(tf.pow(degree(tag), exponent), self.compute_dtype)

        sender, receiver = self._sender_tag, self._receiver_tag
        if self._degree_normalization == "none":
            return None, None
        if self._degree_normalization == "in":
            return None, scale(receiver, -1.0)
        if self._degree_normalization == "out":
            return scale(sender, -1.0), None
        if self._degree_normalization == "in_in":
            both = scale(receiver, -0.5)
            return both, both
        return scale(sender, -0.5), scale(receiver, -0.5)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        kernel = self._kernel.get_config()
        return {
            **super().get_config(),
            "units": self._units,
            "receiver_tag": self._receiver_tag,
            "activation": tf_keras.activations.serialize(self._activation),
            "use_bias": self._use_bias,
            "add_self_loops": self._add_self_loops,
            "kernel_initializer": kernel["kernel_initializer"],
            "kernel_regularizer": kernel["kernel_regularizer"],
            "node_feature": self._node_feature,
            "edge_weight_feature_name": self._edge_weight_feature_name,
            "degree_normalization": self._degree_normalization,
        }
