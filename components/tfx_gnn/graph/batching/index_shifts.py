"""Shifts the values of index features between the components of a graph and the whole graph."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, shifted_index_features
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors


@refuses_keras_tensors()
def shift_index_features(
    graph: GraphTensor, index_features: IndexFeatures, *, backward: bool = False, validate: bool = True
) -> GraphTensor:
    """Makes indices of nodes count from the first node of the whole graph instead of that of their component.

    `parse_and_merge` and `merge_batch_to_components` do so if they are told which features hold indices. This function
    is for graphs that were merged without, and, with `backward`, for taking merged graphs apart again.

    Args:
        graph: scalar graph of any number of components.
        index_features: which features to shift; see `mark_index_features`. Their value -1, for no node, stays.
        backward: whether to make indices count from the first node of their component instead. Those of components
            without nodes, which may be padding, become -1.
        validate: whether to assert that values refer to nodes of their own component.

    Returns:
        The graph with other values, of the same shapes. XLA-compatible if the sizes of the sets are static.

    Raises:
        ValueError: if the graph is not scalar, lacks a feature, or a feature cannot hold indices.
        tf.errors.InvalidArgumentError: at run time, if a value refers to a node that its component does not have.

    Example:
        >>> docs = tfx_gnn.NodeSet.from_fields(sizes=[3, 2], features={"twin": [2, -1, 0, 1, 0]})
        >>> graph = tfx_gnn.GraphTensor.from_pieces(node_sets={"docs": docs})
        >>> shifted = tfx_gnn.shift_index_features(graph, {"nodes/docs": {"twin": "docs"}})
        >>> shifted.node_sets["docs"]["twin"].numpy().tolist()
        [2, -1, 0, 4, 3]
    """
    check_scalar_graph_tensor(graph, "shift_index_features()")
    check_index_features(graph.spec, index_features)
    return shifted_index_features(graph, component_sizes(graph), index_features, backward=backward, validate=validate)


def component_sizes(graph: GraphTensor) -> dict[str, tf.Tensor]:
    """Returns the number of items in each component, by "context", "nodes/<set>" and "edges/<set>"."""
    return {key: piece.sizes for key, piece in graph._pieces_by_key().items()}
