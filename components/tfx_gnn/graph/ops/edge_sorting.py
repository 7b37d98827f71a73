"""Sorts edges by their target nodes, which speeds up pooling and broadcasting."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency, stable_order
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def sort_edges(graph_tensor: GraphTensor, edge_set_names: Collection[const.EdgeSetName] | None = None) -> GraphTensor:
    """Sorts edges by their target nodes and gives them a `SortedAdjacency`.

    The graph stays the same graph: features move along with their edges, edges of one target
    keep their order, and each component keeps its edges. What is pooled or broadcast along these
    edges is the same up to rounding, but takes a fraction of the time, most of all in gradients.
    Sort in the input pipeline, once, as its last step: padding and merging undo it.

    Args:
        graph_tensor: a scalar graph.
        edge_set_names: the edge sets to sort; by default all that connect a source and a target,
            except auxiliary ones, whose order may have a meaning. Those sorted already stay as
            they are.

    Returns:
        Scalar graph with sorted edges. Legal for XLA.

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
    # Targets of later components are greater, so that each component keeps its edges.
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
