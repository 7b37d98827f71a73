"""The states of all nodes of a graph as one vector."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.pooling import pool_nodes_to_context
from tfx_gnn.models.tasks.task import check_pooling

# Of no nodes, all of them make zeros.
_REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "max_no_inf"}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphReadout(tf_keras.layers.Layer):
    """Pools the states of all nodes of each graph, one node set beside the other.

    Auxiliary node sets, whose names begin with "_", and those without the feature take no part.

    Shapes: a scalar graph in; out float [num_components, sum over node sets, in alphabetical order, and
    over ways of pooling of state width]. A component without nodes, such as padding, gets zeros.

    Args:
        pooling: "mean", "sum", "max", or several of them with "|" between.
        feature_name: node feature to pool, float [num_nodes, units].
        **kwargs: arguments of `tf_keras.layers.Layer`.
    """

    def __init__(
        self, pooling: str = "mean", *, feature_name: const.FieldName = const.HIDDEN_STATE, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_pooling(pooling)
        self._pooling = pooling
        self._feature_name = feature_name

    def call(self, graph: GraphTensor) -> tf.Tensor:
        """Pools; see the class for shapes.

        Args:
            graph: scalar graph.

        Returns:
            One row a component.

        Raises:
            ValueError: if no node set has the feature.
        """
        reduce_type = "|".join(_REDUCTIONS[part] for part in self._pooling.split("|"))
        pooled = [
            pool_nodes_to_context(graph, name, reduce_type, feature_name=self._feature_name)
            for name in sorted(graph.node_sets)
            if not name.startswith("_") and self._feature_name in graph.node_sets[name].features
        ]
        if not pooled:
            raise ValueError(
                f"`graph` must have a node set with feature {self._feature_name!r}; got node sets "
                f"{sorted(graph.node_sets)} without. Let the network give nodes a state first."
            )
        return pooled[0] if len(pooled) == 1 else tf.concat(pooled, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        return {**super().get_config(), "pooling": self._pooling, "feature_name": self._feature_name}
