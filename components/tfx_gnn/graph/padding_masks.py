"""Masks that tell real nodes, edges and labels of a padded graph from padding."""

from __future__ import annotations

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.components import component_indices
from tfx_gnn.graph.feature_piece import FeaturePiece
from tfx_gnn.graph.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.symbolic_calls import becomes_keras_layer


@becomes_keras_layer
def padding_mask(
    graph_tensor: GraphTensor,
    component_mask: tf.Tensor,
    *,
    node_set_name: const.NodeSetName | None = None,
    edge_set_name: const.EdgeSetName | None = None,
) -> tf.Tensor:
    """Tells which nodes or edges of a padded graph are real.

    `pad_to_total_sizes` returns a mask of components, right as sample weights of a model with one
    output per component. This makes the mask for a model with one output per node or edge. With
    the node set "_readout" it is the mask of what `structured_readout` reads, labels included.

    Args:
        graph_tensor: scalar graph, padded.
        component_mask: bool tensor of shape [num_components], True for real components: the second
            result of `pad_to_total_sizes`.
        node_set_name: the nodes to tell apart. Either this or `edge_set_name`.
        edge_set_name: the edges to tell apart.

    Returns:
        Bool tensor of shape [num_nodes] or [num_edges], True for items of real components. Its
        shape is static and it is legal for XLA if the set's size is static, as it is after padding
        to ints, except for node sets without features.

    Raises:
        ValueError: if the graph is not scalar, not exactly one set is named, or the mask is not a
            bool vector with one value per component.
        KeyError: if there is no set of this name.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0]), target=tf.constant([1]), node_features=tf.constant([[5.], [6.]]))
        >>> padded, mask = tfx_gnn.pad_to_total_sizes(
        ...     graph, tfx_gnn.SizeConstraints(2, {"nodes": 3}, {"edges": 2}))
        >>> tfx_gnn.padding_mask(padded, mask, node_set_name="nodes").numpy().tolist()
        [True, True, False]
    """
    check_scalar_graph_tensor(graph_tensor, "padding_mask()")
    piece: FeaturePiece
    if node_set_name is not None and edge_set_name is None:
        piece = graph_tensor.node_sets[node_set_name]
    elif edge_set_name is not None and node_set_name is None:
        piece = graph_tensor.edge_sets[edge_set_name]
    else:
        raise ValueError(
            f"padding_mask() takes exactly one of `node_set_name` and `edge_set_name`; got {node_set_name!r} and "
            f"{edge_set_name!r}."
        )
    component_mask = tf.convert_to_tensor(component_mask)
    num_components = graph_tensor.spec.total_num_components
    if component_mask.dtype != tf.bool or not component_mask.shape.is_compatible_with([num_components]):
        raise ValueError(
            "`component_mask` must be a bool tensor with one value per graph component; got "
            f"{component_mask.dtype.name} of shape={component_mask.shape} for {num_components} components. Take the "
            "second result of pad_to_total_sizes()."
        )
    return tf.gather(component_mask, component_indices(piece.sizes, piece.total_size))
