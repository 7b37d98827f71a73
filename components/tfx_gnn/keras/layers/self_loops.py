"""The layer that adds an edge from each node to itself."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.edge_edits import add_self_loops
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class AddSelfLoops(tf_keras.layers.Layer):
    """Adds a loop at each node; the layer of `add_self_loops`.

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
