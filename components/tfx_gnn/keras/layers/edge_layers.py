"""Layers that add edges to a graph, or sort them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.edge_edits import add_self_loops, sort_edges
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class SortEdges(GraphLayer):
    """Sorts edges, so that pooling and broadcasting become faster; the Keras layer for `sort_edges`.

    It belongs at the end of a preprocessing model, after merging and padding, which would undo the sorting.

    Init args:
        edge_set_names: the edge sets to sort; by default all except auxiliary edge sets and hyperedges.

    Call args:
        graph: a scalar graph.

    Returns:
        Scalar graph with sorted edges.

    Raises:
        ValueError: if `edge_set_names` is a single name rather than a collection.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([2, 1]), node_features=tf.zeros([3, 1]))
        >>> tfx_gnn.keras.layers.SortEdges()(graph).edge_sets["edges"].adjacency.target.numpy().tolist()
        [1, 2]
    """

    def __init__(self, edge_set_names: Collection[const.EdgeSetName] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(edge_set_names, str):
            raise ValueError(
                f"`edge_set_names` must be a collection of names; got {edge_set_names!r}. Write [{edge_set_names!r}]."
            )
        self._edge_set_names = None if edge_set_names is None else tuple(edge_set_names)

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Sorts the edges.

        Args:
            graph: a scalar graph.
        """
        return sort_edges(graph, self._edge_set_names)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "edge_set_names": self._edge_set_names}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class AddSelfLoops(GraphLayer):
    """Adds a loop at each node; the Keras layer for `add_self_loops`.

    Init args:
        edge_set_name: an edge set from a node set to itself.

    Call args:
        graph_tensor: a scalar graph.

    Returns:
        Scalar graph with the loops.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.AddSelfLoops("edges")(graph).edge_sets["edges"].sizes.numpy().tolist()
        [5]
    """

    def __init__(self, edge_set_name: const.EdgeSetName, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._edge_set_name = edge_set_name

    def call(self, graph_tensor: GraphTensor) -> GraphTensor:
        """Adds the loops.

        Args:
            graph_tensor: a scalar graph.
        """
        return add_self_loops(graph_tensor, self._edge_set_name)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "edge_set_name": self._edge_set_name}
