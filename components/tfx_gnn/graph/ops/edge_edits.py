"""Edits the edges of a graph: masks edges, adds self-loops, or sorts edges by their targets."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.padding import append_items
from tfx_gnn.graph.batching.size_checks import num_items_of
from tfx_gnn.graph.tensor.adjacency import Adjacency, make_adjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.run_time_checks import after_checks, wrong_dtype
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency, stable_order
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer, refuses_keras_tensors


@becomes_keras_layer
def mask_edges(
    graph: GraphTensor,
    edge_set_name: const.EdgeSetName,
    boolean_edge_mask: tf.Tensor,
    masked_info_edge_set_name: const.EdgeSetName | None = None,
) -> GraphTensor:
    """Keeps the edges for which a mask is True, and drops the others or moves them to a new edge set.

    Not XLA-compatible: the number of edges depends on values.

    Args:
        graph: a scalar graph.
        edge_set_name: the edge set.
        boolean_edge_mask: bool tensor, shape [num_edges].
        masked_info_edge_set_name: name of a new edge set for the removed edges and their features;
            by default they are dropped.

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
    # Everything derived from the mask waits for the check; otherwise an op could raise an obscure error first.
    mask = tf.reshape(after_checks([check], mask), [-1])
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


@refuses_keras_tensors("tfx_gnn.keras.layers.AddSelfLoops")
def add_self_loops(graph: GraphTensor, edge_set_name: const.EdgeSetName) -> GraphTensor:
    """Adds a self-loop at each node, even if the node already has one.

    Args:
        graph: a scalar graph.
        edge_set_name: an edge set from a node set to itself.

    Returns:
        Scalar graph in which the edges of each component are followed by loops at the nodes of
        that component, in order. Features of loops are zero, False or ""; ragged features are empty.

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


@becomes_keras_layer
def sort_edges(graph_tensor: GraphTensor, edge_set_names: Collection[const.EdgeSetName] | None = None) -> GraphTensor:
    """Sorts edges by their target nodes and gives them a `SortedAdjacency`.

    The graph is the same up to the order of edges: features move with their edges, edges with the
    same target keep their order, and each component keeps its edges. Pooling and broadcasting
    along sorted edges return the same values up to rounding in a fraction of the time, with the
    largest gain in gradients. Sort once, as the last step of the input pipeline: padding and
    merging return an ordinary `Adjacency`.

    Args:
        graph_tensor: a scalar graph.
        edge_set_names: the edge sets to sort; by default all with one source and one target,
            except auxiliary ones, whose order may be significant. Edge sets that are already
            sorted do not change.

    Returns:
        Scalar graph with sorted edges. XLA-compatible.

    Raises:
        ValueError: if the graph is not scalar, or an edge set is unknown or holds hyperedges.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1, 2]), target=tf.constant([2, 0, 1]), node_features=tf.zeros([3, 1]),
        ...     edge_features={"weight": tf.constant([4., 5., 6.])})
        >>> edges = tfx_gnn.sort_edges(graph).edge_sets["edges"]
        >>> edges.adjacency.target.numpy().tolist(), edges["weight"].numpy().tolist()
        ([0, 1, 2], [5.0, 6.0, 4.0])
    """
    check_scalar_graph_tensor(graph_tensor, "sort_edges()")
    names = _sortable(graph_tensor) if edge_set_names is None else list(edge_set_names)
    unknown = sorted(set(names) - set(graph_tensor.edge_sets))
    if unknown or isinstance(edge_set_names, str):
        raise ValueError(
            f"`edge_set_names` must be a collection of edge sets of the graph; got {edge_set_names!r}. Known are "
            f"{sorted(graph_tensor.edge_sets)}."
        )
    edge_sets = dict(graph_tensor.edge_sets)
    for name in names:
        edge_sets[name] = _sorted(name, edge_sets[name])
    sorted_graph = GraphTensor.from_pieces(
        context=graph_tensor.context, node_sets=graph_tensor.node_sets, edge_sets=edge_sets
    )
    return sorted_graph.with_row_splits_dtype(graph_tensor.row_splits_dtype)


def _sortable(graph: GraphTensor) -> list[const.EdgeSetName]:
    return [
        name
        for name, edge_set in graph.edge_sets.items()
        if isinstance(edge_set.adjacency, Adjacency) and get_aux_type_prefix(name) is None
    ]


def _sorted(name: const.EdgeSetName, edge_set: EdgeSet) -> EdgeSet:
    adjacency = edge_set.adjacency
    if isinstance(adjacency, SortedAdjacency):
        return edge_set
    if not isinstance(adjacency, Adjacency):
        raise ValueError(
            f"`edge_set_names` must name edge sets with one source and one target; got {name!r}, whose adjacency is "
            f"a {type(adjacency).__name__}. Leave it out."
        )
    # Later components have greater target indices, so each component keeps its edges.
    order = stable_order(adjacency.target)
    return EdgeSet.from_fields(
        sizes=edge_set.sizes,
        features={feature: tf.gather(value, order) for feature, value in edge_set.features.items()},
        adjacency=SortedAdjacency.from_indices(
            (adjacency.source_name, tf.gather(adjacency.source, order)),
            (adjacency.target_name, tf.gather(adjacency.target, order)),
            validate=False,
        ),
    )
