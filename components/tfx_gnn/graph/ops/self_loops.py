"""Adds an edge from each node to itself."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.padding import append_items
from tfx_gnn.graph.batching.size_checks import num_items_of
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors


@refuses_keras_tensors("tfx_gnn.keras.layers.AddSelfLoops")
def add_self_loops(graph: GraphTensor, edge_set_name: const.EdgeSetName) -> GraphTensor:
    """Adds a loop at each node, even where there is one already.

    Args:
        graph: a scalar graph.
        edge_set_name: an edge set from a node set to itself.

    Returns:
        Scalar graph in which the edges of each component are followed by loops at the nodes of
        that component, in order. Features of loops are zero, False or "", ragged ones empty.

    Raises:
        ValueError: if the graph is not scalar, or the edge set connects two node sets.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([1]), target=tf.constant([0]), node_features=tf.zeros([2, 1]))
        >>> tfx_gnn.add_self_loops(graph, "edges").edge_sets["edges"].adjacency.source.numpy().tolist()
        [1, 0, 1]
    """
    check_scalar_graph_tensor(graph, "add_self_loops()")
    edge_set = graph.edge_sets[edge_set_name]
    adjacency = edge_set.adjacency
    if adjacency.source_name != adjacency.target_name:
        raise ValueError(
            f'Edge set "{edge_set_name}" must connect source and target nodes from the same node set. '
            f"Got: node set names {adjacency.source_name} != {adjacency.target_name}."
        )
    node_set = graph.node_sets[adjacency.source_name]
    num_nodes, num_edges = num_items_of(node_set), num_items_of(edge_set)
    loops = tf.range(tf.cast(num_nodes, adjacency.source.dtype))
    components = tf.concat(
        [component_indices(edge_set.sizes, num_edges), component_indices(node_set.sizes, num_nodes)], axis=0
    )
    order = tf.argsort(components, stable=True)
    source, target = (
        (name, tf.gather(tf.concat([index, loops], axis=0), order))
        for name, index in (
            (adjacency.source_name, adjacency.source),
            (adjacency.target_name, adjacency.target),
        )
    )
    with_loops = EdgeSet.from_fields(
        sizes=edge_set.sizes + node_set.sizes,
        features={
            name: tf.gather(append_items(value, num_nodes, tf.zeros([], value.dtype)), order)
            for name, value in edge_set.features.items()
        },
        adjacency=Adjacency.from_indices(source, target),
    )
    return GraphTensor.from_pieces(
        context=graph.context,
        node_sets=graph.node_sets,
        edge_sets={**graph.edge_sets, edge_set_name: with_loops},
    )
