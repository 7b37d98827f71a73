"""New states for the nodes that are read out, and for no others.

In a sampled subgraph the seeds alone are read, a tenth of the nodes or less. What the last layer of a network makes of
the others goes nowhere, so that matrices need not be multiplied with them. Shapes stay static, as TPUs demand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.readout_structure import READOUT
from tfx_gnn.keras.layers.set_updates import NodeSetUpdate


def read_node_sets(graph_spec: GraphTensorSpec) -> dict[const.NodeSetName, list[const.EdgeSetName]]:
    """Tells which node sets are read out.

    Args:
        graph_spec: spec of a graph.

    Returns:
        By name of a node set, the edge sets "_readout/..." that begin in it.
    """
    readouts: dict[const.NodeSetName, list[const.EdgeSetName]] = {}
    for name, spec in sorted(graph_spec.edge_sets_spec.items()):
        if name.startswith(f"{READOUT}/"):
            readouts.setdefault(spec.adjacency_spec.source_name, []).append(name)
    return readouts


@tf.autograph.experimental.do_not_convert
def next_state_where_read(
    graph: GraphTensor, node_set_name: const.NodeSetName, next_state: Callable[[Any], tf.Tensor], inputs: Any
) -> tf.Tensor:
    """Computes the next state of the nodes of a node set that are read out.

    Where as many nodes are read as there are, as static shapes tell, it computes those of all.

    Args:
        graph: a scalar graph.
        node_set_name: the nodes.
        next_state: makes of inputs a state [num_nodes, units], each row from the same rows of the inputs alone.
        inputs: nested tensors of shape [num_nodes, ...].

    Returns:
        Tensor of shape [num_nodes, units]; zeros for nodes that no edge set "_readout/..." reads.

    Raises:
        ValueError: if no such edge set begins in the node set.
    """
    readouts = read_node_sets(graph.spec)
    if node_set_name not in readouts:
        raise ValueError(
            f'`graph` must have edge sets "{READOUT}/..." from each node set whose nodes are read; got none from '
            f"{node_set_name!r}, only {readouts}. Compute the next state of all its nodes."
        )
    read = tf.concat([graph.edge_sets[name].adjacency[const.SOURCE] for name in readouts[node_set_name]], axis=0)
    node_set = graph.node_sets[node_set_name]
    num_nodes = graph.spec.node_sets_spec[node_set_name].total_size
    if num_nodes is not None and read.shape[0] is not None and read.shape[0] >= num_nodes:
        return next_state(inputs)
    num_nodes = node_set.total_size if num_nodes is None else num_nodes
    states = next_state(tf.nest.map_structure(lambda values: tf.gather(values, read), inputs))
    # A node may be read many times, and its state is that of the last time.
    times = tf.range(tf.size(read, out_type=read.dtype), dtype=read.dtype)
    is_last = tf.gather(tf.math.unsorted_segment_max(times, read, num_nodes), read) == times
    return tf.math.unsorted_segment_sum(tf.where(is_last[:, tf.newaxis], states, 0), read, num_nodes)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ReadNodeSetUpdate(NodeSetUpdate):
    """Computes the next state of those nodes of a node set that are read out; others get zeros.

    Its arguments are those of `NodeSetUpdate`. What edge sets bring is computed for all nodes, and `next_state`, which
    must make each row of the same rows of its inputs alone, for those that edge sets "_readout/..." begin at.

    Call args:
        graph: a scalar graph.
        node_set_name: the node set.

    Returns:
        Tensor of shape [num_nodes, units].
    """

    def call(self, graph: GraphTensor, node_set_name: const.NodeSetName) -> tf.Tensor:
        """Computes the next state.

        Args:
            graph: a scalar graph.
            node_set_name: the node set.
        """
        inputs = self._inputs(graph, node_set_name)
        return next_state_where_read(graph, node_set_name, self._next_state, inputs)
