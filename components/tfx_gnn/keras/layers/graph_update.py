"""One round of updates of a graph's edge sets, node sets and context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.nested_layers import as_layer, check_is_layer, checked_and_sorted, pop_with_prefix, with_prefix

DeferredInit = Callable[[GraphTensorSpec], Mapping[str, Any]]


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphUpdate(tf_keras.layers.Layer):
    """Updates edge sets, then node sets, then the context.

    Edge sets are updated side by side, from the input graph; then node sets, from the graph with
    new edges; then the context, from the graph with new edges and nodes. What an update returns
    is merged into the features: a dict by its keys, one tensor as the hidden state.

    Init args:
        edge_sets: layers by edge set, such as `EdgeSetUpdate`, called as
            `layer(graph, edge_set_name=...)`.
        node_sets: layers by node set, such as `NodeSetUpdate`, called as
            `layer(graph, node_set_name=...)`.
        context: a layer such as `ContextUpdate`, called as `layer(graph)`.
        deferred_init_callback: called at the first call, with the spec of the graph; returns a
            dict of the arguments `edge_sets`, `node_sets` and `context`, which then must not be
            given.

    Call args:
        graph: a scalar graph.

    Returns:
        Scalar graph with the new features.

    Raises:
        ValueError: if both updates and a callback that returns them are given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> update = tfx_gnn.keras.layers.GraphUpdate(node_sets={"nodes": tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": tfx_gnn.keras.layers.SimpleConv(tf_keras.layers.Dense(2))},
        ...     tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(8)))})
        >>> update(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        *,
        edge_sets: Mapping[const.EdgeSetName, tf_keras.layers.Layer] | None = None,
        node_sets: Mapping[const.NodeSetName, tf_keras.layers.Layer] | None = None,
        context: tf_keras.layers.Layer | None = None,
        deferred_init_callback: DeferredInit | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._deferred_init_callback = deferred_init_callback
        self._is_initialized = False
        if deferred_init_callback is None:
            self._init_from_updates(edge_sets=edge_sets, node_sets=node_sets, context=context)
        elif not (edge_sets is None and node_sets is None and context is None):
            raise ValueError(
                "GraphUpdate(deferred_init_callback=...) is mutually exclusive with any of edge_sets=..., "
                "node_sets=..., context=... Let the callback return them."
            )

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Updates the graph.

        Args:
            graph: a scalar graph.

        Raises:
            ValueError: if the graph is not scalar.
            KeyError: if there is an update of a set that the graph lacks.
        """
        check_scalar_graph_tensor(graph, "GraphUpdate")
        if not self._is_initialized:
            assert self._deferred_init_callback is not None
            with tf.init_scope():
                self._init_from_updates(**self._deferred_init_callback(graph.spec))
                self._deferred_init_callback = None  # It may hold on to what made it.
        if self._edge_set_updates:
            updated = {
                name: _merged(graph.edge_sets[name], update(graph, edge_set_name=name))
                for name, update in self._edge_set_updates.items()
            }
            graph = graph.replace_features(edge_sets=updated)
        if self._node_set_updates:
            updated = {
                name: _merged(graph.node_sets[name], update(graph, node_set_name=name))
                for name, update in self._node_set_updates.items()
            }
            graph = graph.replace_features(node_sets=updated)
        if self._context_update is not None:
            graph = graph.replace_features(context=_merged(graph.context, self._context_update(graph)))
        return graph

    def _init_from_updates(
        self,
        *,
        edge_sets: Mapping[const.EdgeSetName, tf_keras.layers.Layer] | None = None,
        node_sets: Mapping[const.NodeSetName, tf_keras.layers.Layer] | None = None,
        context: tf_keras.layers.Layer | None = None,
    ) -> None:
        self._edge_set_updates = checked_and_sorted(edge_sets, "GraphUpdate(edge_sets=...)")
        self._node_set_updates = checked_and_sorted(node_sets, "GraphUpdate(node_sets=...)")
        self._context_update = None if context is None else check_is_layer(context, "GraphUpdate(context=...)")
        self._is_initialized = True

    def get_config(self) -> dict[str, Any]:
        """Returns the updates.

        Raises:
            ValueError: if the updates are not known before the first call.
        """
        if not self._is_initialized:
            raise ValueError(
                "GraphUpdate(deferred_init_callback=...) must be called to trigger deferred initialization "
                "before it can be saved. Call it on a graph first."
            )
        return {
            **super().get_config(),
            **with_prefix("edge_sets", self._edge_set_updates),
            **with_prefix("node_sets", self._node_set_updates),
            "context": self._context_update,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GraphUpdate:
        """Makes the layer from what `get_config` returned.

        Args:
            config: the config.
        """
        config = dict(config)
        edge_sets = pop_with_prefix("edge_sets", config)
        node_sets = pop_with_prefix("node_sets", config)
        context = as_layer(config.pop("context"))
        return cls(edge_sets=edge_sets, node_sets=node_sets, context=context, **config)


def _merged(piece: Any, updated: Any) -> dict[const.FieldName, const.Field]:
    features: dict[const.FieldName, const.Field] = piece.get_features_dict()
    features.update(updated if isinstance(updated, Mapping) else {const.HIDDEN_STATE: updated})
    return features
