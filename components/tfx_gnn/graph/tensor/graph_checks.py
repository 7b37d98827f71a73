"""Preconditions on graphs that are shared by several functions."""

from __future__ import annotations

import re
from typing import Any, Union

from tfx_gnn.graph.graph_constants import EdgeSetName, NodeSetName, SetName
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet

GraphOrSpec = Union[GraphTensor, GraphTensorSpec]

# The first character distinguishes auxiliary sets from other sets; only "_" is in use.
_AUX_TYPE_PREFIX = re.compile(r"[_#!%.^~][a-zA-Z0-9_]*")


def is_graph_tensor(value: Any) -> bool:
    """Returns whether a value is a graph, or a Keras tensor that stands for one.

    Args:
        value: anything. A spec of a graph is not a graph.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.is_graph_tensor(graph), tfx_gnn.is_graph_tensor(graph.node_sets["nodes"])
        (True, False)
    """
    return isinstance(value, GraphTensor) or isinstance(getattr(value, "type_spec", None), GraphTensorSpec)


def check_scalar_graph_tensor(graph: GraphOrSpec, name: str = "This operation") -> None:
    """Checks that a graph is a single graph, not a batch.

    Args:
        graph: a graph, its spec, or a Keras tensor that stands for a graph.
        name: name of the operation for the error message.

    Raises:
        ValueError: if the rank of the graph is not 0.
    """
    if graph.rank != 0:
        raise ValueError(
            f"{name} requires a scalar GraphTensor, that is, with `GraphTensor.rank=0`, but got `rank={graph.rank}`. "
            "Use GraphTensor.merge_batch_to_components() to merge the graphs of a batch into one scalar GraphTensor."
        )


def get_aux_type_prefix(set_name: SetName) -> str | None:
    """Returns the type prefix of an auxiliary node set or edge set.

    Sets whose names start with "_" (or one of "#!%.^~", which are reserved) do not belong to the
    application's graph; they help functions such as `structured_readout`.

    Args:
        set_name: name of a node set or edge set.

    Returns:
        The leading special character and the letters, digits and underscores that follow, such as
        "_readout" for "_readout/seed"; None for ordinary sets.

    Example:
        >>> tfx_gnn.get_aux_type_prefix("_readout/seed"), tfx_gnn.get_aux_type_prefix("paper")
        ('_readout', None)
    """
    match = _AUX_TYPE_PREFIX.match(set_name)
    return match.group() if match else None


def get_homogeneous_node_and_edge_set_name(
    graph: GraphOrSpec, name: str = "This operation"
) -> tuple[NodeSetName, EdgeSetName]:
    """Returns the names of the only node set and the only edge set; auxiliary sets do not count.

    Args:
        graph: a graph of any shape, or its spec.
        name: name of the operation for the error message.

    Raises:
        ValueError: if the graph has another number of node sets or edge sets, or is not a graph.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.get_homogeneous_node_and_edge_set_name(graph)
        ('nodes', 'edges')
    """
    spec = graph if isinstance(graph, GraphTensorSpec) else getattr(graph, "spec", None)
    if not isinstance(spec, GraphTensorSpec):
        raise ValueError(
            f"Unsupported value type {type(graph).__name__}: {name} requires a GraphTensor or a GraphTensorSpec."
        )
    node_sets = [set_name for set_name in spec.node_sets_spec if get_aux_type_prefix(set_name) is None]
    edge_sets = [set_name for set_name in spec.edge_sets_spec if get_aux_type_prefix(set_name) is None]
    if len(node_sets) != 1 or len(edge_sets) != 1:
        raise ValueError(
            f"{name} requires a graph with 1 node set and 1 edge set but got "
            f"{len(node_sets)} node sets and {len(edge_sets)} edge sets: {node_sets}, {edge_sets}."
        )
    return node_sets[0], edge_sets[0]


def check_homogeneous_graph_tensor(graph: GraphOrSpec, name: str = "This operation") -> None:
    """Checks that a graph has one node set and one edge set; auxiliary sets do not count.

    Args:
        graph: a graph of any shape, or its spec.
        name: name of the operation for the error message.

    Raises:
        ValueError: if the graph has another number of node sets or edge sets.
    """
    get_homogeneous_node_and_edge_set_name(graph, name)


def named_set(
    graph: GraphTensor, node_set_name: NodeSetName | None, edge_set_name: EdgeSetName | None, function: str
) -> NodeSet | EdgeSet:
    """Returns the one set that is named; refuses none and both."""
    if node_set_name is not None and edge_set_name is None:
        return graph.node_sets[node_set_name]
    if edge_set_name is not None and node_set_name is None:
        return graph.edge_sets[edge_set_name]
    raise ValueError(
        f"{function} takes exactly one of `node_set_name` and `edge_set_name`; got {node_set_name!r} and "
        f"{edge_set_name!r}."
    )
