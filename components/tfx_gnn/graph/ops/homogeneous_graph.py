"""Makes graphs with one node set and one edge set from plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def homogeneous(
    source: tf.Tensor,
    target: tf.Tensor,
    *,
    node_features: const.FieldOrFields | None = None,
    edge_features: const.FieldOrFields | None = None,
    context_features: const.FieldOrFields | None = None,
    node_set_name: const.NodeSetName = const.NODES,
    edge_set_name: const.EdgeSetName = const.EDGES,
    node_set_sizes: Any = None,
    edge_set_sizes: Any = None,
) -> GraphTensor:
    """Makes a graph of one node set and one edge set.

    Args:
        source: index of the source node of each edge; int32 or int64, shape [num_edges].
        target: index of the target node of each edge, of the same dtype and shape.
        node_features: features by name, shape [num_nodes, ...], or a single tensor, which becomes
            the feature "hidden_state".
        edge_features: features by name, shape [num_edges, ...], or a single tensor, as above.
        context_features: features by name, shape [num_components, ...], or a single tensor, as
            above.
        node_set_name: name of the node set.
        edge_set_name: name of the edge set.
        node_set_sizes: number of nodes of each component, shape [num_components]; by default all
            nodes are in one component. Must be given if there are no node features.
        edge_set_sizes: number of edges of each component, shape [num_components]; by default all
            edges are in one component.

    Returns:
        Scalar graph.

    Raises:
        ValueError: if the number of nodes is unknown, or shapes do not match.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.zeros([3, 16]))
        >>> graph.node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 16]
    """
    source, target = _as_index(source), _as_index(target)
    features = _as_features(node_features)
    if node_set_sizes is None:
        if not features:
            raise ValueError(
                "node_set_sizes must be provided if node_features is not: edges do not determine the number of nodes."
            )
        node_set_sizes = tf.cast([_num_items(next(iter(features.values())))], source.dtype)
    if edge_set_sizes is None:
        edge_set_sizes = tf.cast([_num_items(source)], source.dtype)
    return GraphTensor.from_pieces(
        context=Context.from_fields(features=_as_features(context_features), sizes=tf.ones_like(node_set_sizes)),
        node_sets={node_set_name: NodeSet.from_fields(sizes=node_set_sizes, features=features)},
        edge_sets={
            edge_set_name: EdgeSet.from_fields(
                sizes=edge_set_sizes,
                features=_as_features(edge_features),
                adjacency=Adjacency.from_indices((node_set_name, source), (node_set_name, target)),
            )
        },
    )


def _as_index(value: Any) -> tf.Tensor:
    index = value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)
    if isinstance(index, tf.RaggedTensor) or index.shape.rank not in (1, None):
        raise ValueError(
            f"source and target must be rank-1 dense tensors; got {type(index).__name__} of shape {index.shape}. "
            "Make the graphs of a batch one by one, or merge their edges first."
        )
    return index


def _as_features(features: const.FieldOrFields | None) -> dict[const.FieldName, const.Field]:
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return dict(features)
    return {const.HIDDEN_STATE: features}


def _num_items(value: Any) -> Any:
    value = value if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)
    if value.shape[0] is not None:
        return value.shape[0]
    return value.nrows() if isinstance(value, tf.RaggedTensor) else tf.shape(value)[0]
