"""The GraphSAGE convolution with its aggregators."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.tags import reverse_tag
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.models.message_passing import pool_neighbors

_REDUCE_TYPES = {"mean": "mean", "sum": "sum", "max": "max_no_inf", "pool": "max_no_inf"}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SAGEConv(GraphLayer):
    """Aggregates the neighbours' states and transforms the result.

    This is GraphSAGE, arXiv:1706.02216, section 3.3, without the own state, which the next-state layer adds
    (`NextStateFromConvolutions`). "mean", "sum" and "max" match tensorflow-gnn's `GraphSAGEAggregatorConv`,
    "pool" its `GraphSAGEPoolingConv`. States are transformed before they are copied to edges, and on sorted edges
    sums and means need no copies at all.

    Shapes: states [num_senders, any] of a scalar graph; result [num_receivers, units], zeros for a node without
    neighbours.

    Init args:
        units: width of the result.
        aggregator: "mean", "sum", "max", or "pool", the maximum after a layer is applied to each neighbour's state.
        hidden_units: width of the layer of "pool", by default `units`; None for other aggregators.
        receiver_tag: the end of the edges that receives, `SOURCE` or `TARGET`.
        sender_node_feature: the node feature that holds the senders' states.
        dropout_rate: fraction of the senders' state values that training drops, in [0, 1).
        activation: Keras activation of the layer of "pool".
        use_bias: whether the layer of "pool" has a bias.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edges.

    Raises:
        ValueError: if the aggregator is unknown, or `hidden_units` is given without "pool".

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> convolution = SAGEConv(8, aggregator="pool", hidden_units=16)
        >>> convolution(graph, edge_set_name="edges").shape.as_list()
        [3, 8]
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": convolution}, tfx_gnn.models.NextStateFromConvolutions(8, normalization="l2"))
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        units: int,
        *,
        aggregator: str = "mean",
        hidden_units: int | None = None,
        receiver_tag: const.IncidentNodeTag = const.TARGET,
        sender_node_feature: const.FieldName = const.HIDDEN_STATE,
        dropout_rate: float = 0.0,
        activation: Any = "relu",
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if aggregator not in _REDUCE_TYPES:
            advice = did_you_mean(aggregator, _REDUCE_TYPES, otherwise="Usual is 'mean'.")
            raise ValueError(f"`aggregator` must be one of {tuple(_REDUCE_TYPES)}; got {aggregator!r}. {advice}")
        if hidden_units is not None and aggregator != "pool":
            raise ValueError(
                f"`hidden_units` must be None for aggregator={aggregator!r}; got {hidden_units}. "
                "Only 'pool' has a layer before the aggregation."
            )
        self._arguments = {
            "units": units,
            "aggregator": aggregator,
            "hidden_units": hidden_units,
            "receiver_tag": receiver_tag,
            "sender_node_feature": sender_node_feature,
            "dropout_rate": dropout_rate,
            "activation": tf_keras.activations.serialize(tf_keras.activations.get(activation)),
            "use_bias": use_bias,
        }
        self._sender_tag = reverse_tag(receiver_tag)
        self._dropout = tf_keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)
        self._before = None
        if aggregator == "pool":
            self._before = tf_keras.layers.Dense(
                hidden_units or units, activation=activation, use_bias=use_bias, dtype=self.dtype_policy, name="pool"
            )
        self._after = tf_keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="neighbors")

    def call(self, graph: GraphTensor, *, edge_set_name: const.EdgeSetName) -> tf.Tensor:
        """Aggregates along one edge set; see the class.

        Args:
            graph: a scalar graph.
            edge_set_name: the edges.

        Returns:
            Tensor of shape [num_receivers, units].
        """
        sender = graph.edge_sets[edge_set_name].adjacency.node_set_name(self._sender_tag)
        states = graph.node_sets[sender][self._arguments["sender_node_feature"]]
        states = self._dropout(tf.cast(states, self.compute_dtype))
        states = states if self._before is None else self._before(states)
        aggregator = self._arguments["aggregator"]
        # Sums and means are linear, so the narrower of the states before and after the last layer is aggregated.
        is_narrowing = aggregator in ("mean", "sum") and self._arguments["units"] < states.shape[-1]
        values = self._after(states) if is_narrowing else states
        receiver_tag = self._arguments["receiver_tag"]
        pooled = pool_neighbors(graph, edge_set_name, receiver_tag, values, _REDUCE_TYPES[aggregator])
        return pooled if is_narrowing else self._after(pooled)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._arguments}
