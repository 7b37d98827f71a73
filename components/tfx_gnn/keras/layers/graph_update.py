"""One round of updates of a graph: the next states of its edge sets, node sets and context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import (
    broadcast_context_to_edges,
    broadcast_context_to_nodes,
    broadcast_node_to_edges,
)
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import as_layer, check_is_layer, checked_and_sorted, pop_with_prefix, with_prefix

DeferredInit = Callable[[GraphTensorSpec], Mapping[str, Any]]


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphUpdate(GraphLayer):
    """Updates edge sets, then node sets, then the context.

    First all edge sets are updated from the input graph; then all node sets, from the graph with
    new edge states; then the context, from the graph with new edge and node states. The result of
    an update is merged into the features: a dict by its keys, a single tensor as the hidden state.

    Init args:
        edge_sets: layers by edge set, such as `EdgeSetUpdate`, called as
            `layer(graph, edge_set_name=...)`.
        node_sets: layers by node set, such as `NodeSetUpdate`, called as
            `layer(graph, node_set_name=...)`.
        context: a layer such as `ContextUpdate`, called as `layer(graph)`.
        deferred_init_callback: called at the first call, with the spec of the graph; returns a
            dict of the arguments `edge_sets`, `node_sets` and `context`, which must not be given
            as well.

    Call args:
        graph: a scalar graph.

    Returns:
        Scalar graph with the new features.

    Raises:
        ValueError: if both updates and a callback are given.

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
            KeyError: if the graph lacks a set that has an update.
        """
        check_scalar_graph_tensor(graph, "GraphUpdate")
        if not self._is_initialized:
            assert self._deferred_init_callback is not None
            with tf.init_scope():
                self._init_from_updates(**self._deferred_init_callback(graph.spec))
                self._deferred_init_callback = None  # Drops references that the callback may hold.
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
            ValueError: if the updates are made by a callback and the layer was not called yet.
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
        """Rebuilds the layer from the result of `get_config`.

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


#: A single name selects a tensor, a sequence of names a dict, None an empty dict.
FeatureNames = Union[const.FieldName, Sequence[const.FieldName], None]


def normalized(names: FeatureNames) -> FeatureNames:
    """Converts names to the form of a config: a list for any sequence."""
    return names if names is None or isinstance(names, str) else list(names)


def select(names: FeatureNames, get: Callable[[const.FieldName], Any]) -> Any:
    """Reads the features that a next-state layer takes; see `FeatureNames`."""
    if names is None:
        return {}
    if isinstance(names, str):
        return get(names)
    return {name: get(name) for name in names}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class EdgeSetUpdate(GraphLayer):
    """Computes the next state of an edge set from its edges, their nodes and the context.

    Init args:
        next_state: layer that maps the tuple (edge input, {tag: node input broadcast to edges},
            context input broadcast to edges) to the next state.
        edge_input_feature: names of features of the edge set: one name gives a tensor, a
            sequence of names a dict, None an empty dict.
        node_input_tags: the ends of the edges to read.
        node_input_feature: one feature name of the node sets at these ends, or None.
        context_input_feature: names of features of the context, like `edge_input_feature`.

    Call args:
        graph: a scalar graph.
        edge_set_name: the edge set.

    Returns:
        The result of `next_state`: a tensor of shape [num_edges, ...], or a dict of such tensors.

    Raises:
        ValueError: if `node_input_feature` is more than one name.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> update = tfx_gnn.keras.layers.EdgeSetUpdate(
        ...     tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(2)), edge_input_feature=None)
        >>> update(graph, edge_set_name="edges").shape.as_list()
        [2, 2]
    """

    def __init__(
        self,
        next_state: tf_keras.layers.Layer,
        *,
        edge_input_feature: FeatureNames = const.HIDDEN_STATE,
        node_input_tags: Sequence[const.IncidentNodeTag] = (const.SOURCE, const.TARGET),
        node_input_feature: const.FieldName | None = const.HIDDEN_STATE,
        context_input_feature: FeatureNames = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if node_input_feature is not None and not isinstance(node_input_feature, str):
            raise ValueError(
                f"EdgeSetUpdate does not support multiple node_input_features but got: {node_input_feature}. "
                "Concatenate them into one feature first."
            )
        self._next_state = check_is_layer(next_state, "EdgeSetUpdate(next_state=...)")
        self._edge_input_feature = normalized(edge_input_feature)
        self._node_input_tags = list(node_input_tags)
        self._node_input_feature = node_input_feature
        self._context_input_feature = normalized(context_input_feature)

    def call(self, graph: GraphTensor, edge_set_name: const.EdgeSetName) -> Any:
        """Computes the next state.

        Args:
            graph: a scalar graph.
            edge_set_name: the edge set.
        """
        check_scalar_graph_tensor(graph, "EdgeSetUpdate")
        node_inputs = {}
        if self._node_input_feature is not None:
            node_inputs = {
                tag: broadcast_node_to_edges(graph, edge_set_name, tag, feature_name=self._node_input_feature)
                for tag in self._node_input_tags
            }
        edge_set = graph.edge_sets[edge_set_name]
        context_inputs = select(
            self._context_input_feature,
            lambda name: broadcast_context_to_edges(graph, edge_set_name, feature_name=name),
        )
        return self._next_state((select(self._edge_input_feature, edge_set.__getitem__), node_inputs, context_inputs))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "next_state": self._next_state,
            "edge_input_feature": self._edge_input_feature,
            "node_input_tags": list(self._node_input_tags),
            "node_input_feature": self._node_input_feature,
            "context_input_feature": self._context_input_feature,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> EdgeSetUpdate:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        return cls(**{**config, "next_state": as_layer(config["next_state"])})


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class NodeSetUpdate(GraphLayer):
    """Computes the next state of a node set from its nodes, edge sets and the context.

    Init args:
        edge_set_inputs: layers by edge set, such as convolutions, called as
            `layer(graph, edge_set_name=...)`; each returns values of shape [num_nodes, ...].
        next_state: layer that maps the tuple (node input, {edge set: input}, context input
            broadcast to nodes) to the next state.
        node_input_feature: names of features of the node set: one name gives a tensor, a
            sequence of names a dict, None an empty dict.
        context_input_feature: names of features of the context, like `node_input_feature`.

    Call args:
        graph: a scalar graph.
        node_set_name: the node set.

    Returns:
        The result of `next_state`: a tensor of shape [num_nodes, ...], or a dict of such tensors.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> update = tfx_gnn.keras.layers.NodeSetUpdate(
        ...     {"edges": tfx_gnn.keras.layers.SimpleConv(tf_keras.layers.Dense(2))},
        ...     tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(8)))
        >>> update(graph, node_set_name="nodes").shape.as_list()
        [3, 8]
    """

    def __init__(
        self,
        edge_set_inputs: Mapping[const.EdgeSetName, tf_keras.layers.Layer],
        next_state: tf_keras.layers.Layer,
        *,
        node_input_feature: FeatureNames = const.HIDDEN_STATE,
        context_input_feature: FeatureNames = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._edge_set_inputs = checked_and_sorted(edge_set_inputs, "NodeSetUpdate(edge_set_inputs=...)")
        self._next_state = check_is_layer(next_state, "NodeSetUpdate(next_state=...)")
        self._node_input_feature = normalized(node_input_feature)
        self._context_input_feature = normalized(context_input_feature)

    def call(self, graph: GraphTensor, node_set_name: const.NodeSetName) -> Any:
        """Computes the next state.

        Args:
            graph: a scalar graph.
            node_set_name: the node set.
        """
        return self._next_state(self._inputs(graph, node_set_name))

    def _inputs(self, graph: GraphTensor, node_set_name: const.NodeSetName) -> tuple[Any, Any, Any]:
        """Computes the inputs of `next_state`."""
        check_scalar_graph_tensor(graph, "NodeSetUpdate")
        node_set = graph.node_sets[node_set_name]
        edge_inputs = {name: layer(graph, edge_set_name=name) for name, layer in self._edge_set_inputs.items()}
        context_inputs = select(
            self._context_input_feature,
            lambda name: broadcast_context_to_nodes(graph, node_set_name, feature_name=name),
        )
        return select(self._node_input_feature, node_set.__getitem__), edge_inputs, context_inputs

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            **with_prefix("edge_set_inputs", self._edge_set_inputs),
            "next_state": self._next_state,
            "node_input_feature": self._node_input_feature,
            "context_input_feature": self._context_input_feature,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NodeSetUpdate:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        config = dict(config)
        edge_set_inputs = pop_with_prefix("edge_set_inputs", config)
        return cls(edge_set_inputs, **{**config, "next_state": as_layer(config["next_state"])})


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ContextUpdate(GraphLayer):
    """Computes the next state of the context from its old state, node sets and edge sets.

    Init args:
        node_set_inputs: layers by node set, such as `Pool`, called as
            `layer(graph, node_set_name=...)`; each returns values of shape [num_components, ...].
        next_state: layer that maps the tuple (context input, {node set: input}, {edge set:
            input}) to the next state.
        edge_set_inputs: layers by edge set, called as `layer(graph, edge_set_name=...)`.
        context_input_feature: names of features of the context: one name gives a tensor, a
            sequence of names a dict, None an empty dict.

    Call args:
        graph: a scalar graph.

    Returns:
        The result of `next_state`: a tensor of shape [num_components, ...], or a dict of such
        tensors.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.ones([3, 4]))
        >>> update = tfx_gnn.keras.layers.ContextUpdate(
        ...     {"nodes": tfx_gnn.keras.layers.Pool(tfx_gnn.CONTEXT, "mean")},
        ...     tfx_gnn.keras.layers.NextStateFromConcat(tf_keras.layers.Dense(2)), context_input_feature=None)
        >>> update(graph).shape.as_list()
        [1, 2]
    """

    def __init__(
        self,
        node_set_inputs: Mapping[const.NodeSetName, tf_keras.layers.Layer],
        next_state: tf_keras.layers.Layer,
        *,
        edge_set_inputs: Mapping[const.EdgeSetName, tf_keras.layers.Layer] | None = None,
        context_input_feature: FeatureNames = const.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._node_set_inputs = checked_and_sorted(node_set_inputs, "ContextUpdate(node_set_inputs=...)")
        self._next_state = check_is_layer(next_state, "ContextUpdate(next_state=...)")
        self._edge_set_inputs = checked_and_sorted(edge_set_inputs, "ContextUpdate(edge_set_inputs=...)")
        self._context_input_feature = normalized(context_input_feature)

    def call(self, graph: GraphTensor) -> Any:
        """Computes the next state.

        Args:
            graph: a scalar graph.
        """
        check_scalar_graph_tensor(graph, "ContextUpdate")
        node_inputs = {name: layer(graph, node_set_name=name) for name, layer in self._node_set_inputs.items()}
        edge_inputs = {name: layer(graph, edge_set_name=name) for name, layer in self._edge_set_inputs.items()}
        return self._next_state(
            (select(self._context_input_feature, graph.context.__getitem__), node_inputs, edge_inputs)
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            **with_prefix("node_set_inputs", self._node_set_inputs),
            "next_state": self._next_state,
            **with_prefix("edge_set_inputs", self._edge_set_inputs),
            "context_input_feature": self._context_input_feature,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ContextUpdate:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        config = dict(config)
        node_set_inputs = pop_with_prefix("node_set_inputs", config)
        edge_set_inputs = pop_with_prefix("edge_set_inputs", config)
        return cls(
            node_set_inputs,
            edge_set_inputs=edge_set_inputs,
            **{**config, "next_state": as_layer(config["next_state"])},
        )
