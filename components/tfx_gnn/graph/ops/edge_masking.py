"""Removes edges of an edge set by a mask."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_checks import num_items_of
from tfx_gnn.graph.tensor.adjacency import make_adjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.run_time_checks import wrong_dtype
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def mask_edges(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    boolean_edge_mask: tf.Tensor,
    masked_info_edge_set_name: const.EdgeSetName | None = None,
) -> GraphTensor:
    """Keeps the edges for which a mask is True, and moves the others to an edge set of their own.

    Not for XLA, as the number of edges depends on values.

    Args:
        graph: a scalar graph.
        edge_set_name: the edge set.
        boolean_edge_mask: bool tensor, shape [num_edges].
        masked_info_edge_set_name: name of a new edge set for the edges that are taken away, with
            their features; by default they are dropped.

    Returns:
        Scalar graph with the same nodes and context.

    Raises:
        ValueError: if the graph is not scalar, lacks the edge set, or has the new edge set already.
        tf.errors.InvalidArgumentError: if the mask is not bool (TypeError in a tf.function); at run
            time, if it has another shape.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.zeros([3, 1]))
        >>> masked = tfx_gnn.mask_edges(graph, "edges", tf.constant([True, False]), "taken")
        >>> [e.adjacency.source.numpy().tolist() for e in masked.edge_sets.values()]
        [[0], [1]]
    """
    check_scalar_graph_tensor(graph, "mask_edges()")
    if edge_set_name not in graph.edge_sets:
        raise ValueError(
            f"Please ensure edge_set_name: {edge_set_name} exists as an edge-set within the graph passed to "
            f"mask_edges(). Known are {sorted(graph.edge_sets)}."
        )
    if masked_info_edge_set_name in graph.edge_sets:
        raise ValueError(
            f"Please ensure masked_info_edge_set_name: {masked_info_edge_set_name} is not an existing edge-set "
            "within the graph passed to mask_edges()."
        )
    mask = tf.convert_to_tensor(boolean_edge_mask)
    if mask.dtype != tf.bool:
        raise wrong_dtype(f"`boolean_edge_mask` must be bool; got {mask.dtype.name}. Compare it, or cast it.")
    edge_set = graph.edge_sets[edge_set_name]
    check = tf.debugging.assert_equal(
        tf.shape(mask),
        tf.reshape(tf.cast(edge_set.total_size, tf.int32), [1]),
        message=(
            "boolean_edge_mask should have the same shape with the adjacency node index vectors of the edge-set: "
            f"{edge_set_name}"
        ),
    )
    # Everything waits for the check: what runs first on wrong shapes fails with a riddle.
    with tf.control_dependencies([] if check is None else [check]):
        mask = tf.reshape(mask, [-1])
        edge_sets = {**graph.edge_sets, edge_set_name: _selected(edge_set, mask)}
        if masked_info_edge_set_name is not None:
            edge_sets[masked_info_edge_set_name] = _selected(edge_set, tf.logical_not(mask))
    return GraphTensor.from_pieces(context=graph.context, node_sets=graph.node_sets, edge_sets=edge_sets)


def _selected(edge_set: EdgeSet, mask: tf.Tensor) -> EdgeSet:
    positions = tf.reshape(tf.where(mask), [-1])
    components = component_indices(edge_set.sizes, num_items_of(edge_set))
    sizes = tf.math.unsorted_segment_sum(tf.cast(mask, edge_set.sizes.dtype), components, tf.shape(edge_set.sizes)[0])
    indices = {
        tag: (name, tf.gather(index, positions)) for tag, (name, index) in edge_set.adjacency.get_indices_dict().items()
    }
    return EdgeSet.from_fields(
        sizes=sizes,
        features={name: tf.gather(value, positions) for name, value in edge_set.features.items()},
        adjacency=make_adjacency(indices, like=edge_set.adjacency),
    )
