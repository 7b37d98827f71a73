"""Ways along edges, for convolutions: sums, means and maxima that stay right in half precision.

A sum of ones in bfloat16 stops at 256, so what is added up is float32. Where edges are sorted
(`sort_edges`), sums over neighbours never hold a row for each edge. AutoGraph, which Keras sets on whatever a
layer calls, takes seconds to read the graph core and finds nothing to do there: it stops here.
"""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.broadcasting import broadcast_node_to_edges
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.neighbors import pool_neighbors_to_node
from tfx_gnn.graph.pooling import pool_edges_to_node

_HALF = (tf.bfloat16, tf.float16)


@tf.autograph.experimental.do_not_convert
def copy_to_edges(
    graph: GraphTensor, edge_set_name: const.EdgeSetName, sender_tag: const.IncidentNodeTag, states: tf.Tensor
) -> tf.Tensor:
    """Gives each edge the state of the node at one end.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        sender_tag: the end that is read.
        states: shape [num_nodes, ...].

    Returns:
        Tensor of shape [num_edges, ...].
    """
    return broadcast_node_to_edges(graph, edge_set_name, sender_tag, feature_value=states)


@tf.autograph.experimental.do_not_convert
def pool_edges(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    receiver_tag: const.IncidentNodeTag,
    values: tf.Tensor,
    reduce_type: str = "sum",
) -> tf.Tensor:
    """Pools a value of each edge at the nodes at one end.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        receiver_tag: the end that receives.
        values: float, shape [num_edges, ...].
        reduce_type: as for `pool`.

    Returns:
        Tensor of shape [num_nodes, ...] and the dtype of `values`.
    """
    pooled = pool_edges_to_node(graph, edge_set_name, receiver_tag, reduce_type, feature_value=_summable(values))
    return tf.cast(pooled, values.dtype)


@tf.autograph.experimental.do_not_convert
def pool_neighbors(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    receiver_tag: const.IncidentNodeTag,
    states: tf.Tensor,
    reduce_type: str,
) -> tf.Tensor:
    """Pools states of the nodes at one end of the edges at the nodes at the other.

    Args:
        graph: a scalar graph.
        edge_set_name: the edges.
        receiver_tag: the end that receives.
        states: float, shape [num_senders, ...].
        reduce_type: as for `pool`; a receiver without neighbours gets zeros from "sum", "mean" and
            "max_no_inf".

    Returns:
        Tensor of shape [num_receivers, ...] and the dtype of `states`.
    """
    pooled = pool_neighbors_to_node(
        graph, edge_set_name, receiver_tag, reduce_type=reduce_type, feature_value=_summable(states)
    )
    return tf.cast(pooled, states.dtype)


def _summable(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.float32) if values.dtype in _HALF else values
