"""Layers that read features from a graph: from a whole set, from first nodes, or along a readout structure."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout import (
    add_readout_from_first_node,
    gather_first_node,
    structured_readout,
    structured_readout_into_feature,
)
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import agreed, required


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class Readout(GraphLayer):
    """Reads a feature of a node set, an edge set or the context.

    All arguments can be given at init or at call time; if given at both, the values must agree.

    Init args:
        edge_set_name: the edge set to read from.
        node_set_name: the node set to read from.
        from_context: whether to read from the context. Exactly one of the three must be given.
        feature_name: the feature to read; by default the hidden state.

    Call args:
        graph: a graph of any shape.
        edge_set_name: as above.
        node_set_name: as above.
        from_context: as above.
        feature_name: as above.

    Returns:
        Field of shape [*graph_shape, num_items, *feature_shape].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.Readout(node_set_name="nodes")(graph).numpy().tolist()
        [5.0, 6.0, 7.0]
    """

    def __init__(
        self,
        *,
        edge_set_name: const.EdgeSetName | None = None,
        node_set_name: const.NodeSetName | None = None,
        from_context: bool = False,
        feature_name: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._location = _location(edge_set_name, node_set_name, from_context=from_context)
        self._feature_name = feature_name

    def call(
        self,
        graph: GraphTensor,
        *,
        edge_set_name: const.EdgeSetName | None = None,
        node_set_name: const.NodeSetName | None = None,
        from_context: bool = False,
        feature_name: const.FieldName | None = None,
    ) -> const.Field:
        """Reads the feature.

        Args:
            graph: a graph of any shape.
            edge_set_name: as for the constructor.
            node_set_name: as for the constructor.
            from_context: as for the constructor.
            feature_name: as for the constructor.

        Raises:
            ValueError: if there is not exactly one place to read from, or arguments contradict
                those of the constructor.
            KeyError: if the graph lacks the set or feature.
        """
        location = _location(edge_set_name, node_set_name, from_context=from_context)
        if location and self._location and location != self._location:
            raise ValueError(
                f"The Readout layer was initialized with {_text(self._location)} but called with {_text(location)}. "
                "Leave one of them out."
            )
        location = location or dict(self._location)
        name = agreed("Readout", "feature_name", self._feature_name, feature_name) or const.HIDDEN_STATE
        if "edge_set_name" in location:
            return graph.edge_sets[location["edge_set_name"]][name]
        if "node_set_name" in location:
            return graph.node_sets[location["node_set_name"]][name]
        if "from_context" in location:
            return graph.context[name]
        raise ValueError(
            "The Readout layer requires one of edge_set_name, node_set_name or from_context to be set "
            "at init or call time."
        )

    @property
    def location(self) -> dict[str, Any]:
        """The constructor argument that says where to read; empty if it is left to the calls."""
        return dict(self._location)

    @property
    def feature_name(self) -> const.FieldName | None:
        """The constructor argument of the same name."""
        return self._feature_name

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._location, "feature_name": self._feature_name}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ReadoutFirstNode(GraphLayer):
    """Reads a feature of the first node of each component; the Keras layer for `gather_first_node`.

    All arguments can be given at init or at call time; if given at both, the values must agree.

    Init args:
        node_set_name: the node set to read from; each component must have a node there.
        feature_name: the feature to read; by default the hidden state.

    Call args:
        graph: a scalar graph.
        node_set_name: as above.
        feature_name: as above.

    Returns:
        Field of shape [num_components, *feature_shape].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.ReadoutFirstNode(node_set_name="nodes")(graph).numpy().tolist()
        [5.0]
    """

    def __init__(
        self,
        *,
        node_set_name: const.NodeSetName | None = None,
        feature_name: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._node_set_name = node_set_name
        self._feature_name = feature_name

    def call(
        self,
        graph: GraphTensor,
        *,
        node_set_name: const.NodeSetName | None = None,
        feature_name: const.FieldName | None = None,
    ) -> const.Field:
        """Reads the feature.

        Args:
            graph: a scalar graph.
            node_set_name: as for the constructor.
            feature_name: as for the constructor.

        Raises:
            ValueError: if there is no node set to read from, or arguments contradict those of the
                constructor.
        """
        check_scalar_graph_tensor(graph, "ReadoutFirstNode")
        return gather_first_node(
            graph,
            required("ReadoutFirstNode", "node_set_name", self._node_set_name, node_set_name),
            feature_name=agreed("ReadoutFirstNode", "feature_name", self._feature_name, feature_name)
            or const.HIDDEN_STATE,
        )

    @property
    def location(self) -> dict[str, Any]:
        """The constructor argument that says where to read; empty if it is left to the calls."""
        return {} if self._node_set_name is None else {"node_set_name": self._node_set_name}

    @property
    def feature_name(self) -> const.FieldName | None:
        """The constructor argument of the same name."""
        return self._feature_name

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "node_set_name": self._node_set_name, "feature_name": self._feature_name}


def _location(edge_set_name: str | None, node_set_name: str | None, *, from_context: bool) -> dict[str, Any]:
    given = {
        "edge_set_name": edge_set_name,
        "node_set_name": node_set_name,
        "from_context": from_context or None,
    }
    location = {argument: value for argument, value in given.items() if value is not None}
    if len(location) > 1:
        raise ValueError(
            "The Readout layer allows at most one of edge_set_name, node_set_name and from_context to be set "
            f"but was passed {_text(location)}."
        )
    return location


def _text(location: dict[str, Any]) -> str:
    return ", ".join(f"{argument}={value!r}" for argument, value in location.items())


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class StructuredReadout(GraphLayer):
    """Reads a feature from the nodes or edges of interest; the Keras layer for `structured_readout`.

    Init args:
        key: key of the readout edges to follow; here or in the call.
        feature_name: the feature to read; by default the hidden state.
        readout_node_set: as for `structured_readout`.
        validate: as for `structured_readout`.

    Call args:
        graph: a scalar graph.
        key: as above; if also given to the constructor, the values must agree.

    Returns:
        Field of shape [num_readouts, *feature_shape].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> tfx_gnn.keras.layers.StructuredReadout("seed")(graph).numpy().tolist()
        [5.0]
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        feature_name: const.FieldName = const.HIDDEN_STATE,
        readout_node_set: const.NodeSetName = READOUT_NODE_SET,
        validate: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._key = key
        self._feature_name = feature_name
        self._readout_node_set = readout_node_set
        self._validate = validate

    def call(self, graph: GraphTensor, *, key: str | None = None) -> const.Field:
        """Reads the feature.

        Args:
            graph: a scalar graph.
            key: as for the constructor.

        Raises:
            ValueError: if there is no key, or it contradicts the constructor's.
        """
        check_scalar_graph_tensor(graph, "StructuredReadout")
        return structured_readout(
            graph,
            _readout_key("StructuredReadout", self._key, key),
            feature_name=self._feature_name,
            readout_node_set=self._readout_node_set,
            validate=self._validate,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "key": self._key,
            "feature_name": self._feature_name,
            "readout_node_set": self._readout_node_set,
            "validate": self._validate,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class StructuredReadoutIntoFeature(GraphLayer):
    """Stores a readout on the readout nodes; the Keras layer for `structured_readout_into_feature`.

    Init args:
        key: key of the readout edges to follow; here or in the call.
        feature_name: the feature to read.
        new_feature_name: as for `structured_readout_into_feature`.
        remove_input_feature: as for `structured_readout_into_feature`.
        overwrite: as for `structured_readout_into_feature`.
        readout_node_set: as for `structured_readout`.
        validate: as for `structured_readout`.

    Call args:
        graph: a scalar graph.
        key: as above; if also given to the constructor, the values must agree.

    Returns:
        Graph with the new feature, of shape [num_readouts, *feature_shape].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph = tfx_gnn.add_readout_from_first_node(graph, "seed", node_set_name="nodes")
        >>> graph = tfx_gnn.keras.layers.StructuredReadoutIntoFeature("seed", feature_name="hidden_state")(graph)
        >>> graph.node_sets["_readout"]["hidden_state"].numpy().tolist()
        [5.0]
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        feature_name: const.FieldName,
        new_feature_name: const.FieldName | None = None,
        remove_input_feature: bool = False,
        overwrite: bool = False,
        readout_node_set: const.NodeSetName = READOUT_NODE_SET,
        validate: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._key = key
        self._feature_name = feature_name
        self._new_feature_name = new_feature_name
        self._remove_input_feature = remove_input_feature
        self._overwrite = overwrite
        self._readout_node_set = readout_node_set
        self._validate = validate

    def call(self, graph: GraphTensor, *, key: str | None = None) -> GraphTensor:
        """Stores the readout.

        Args:
            graph: a scalar graph.
            key: as for the constructor.

        Raises:
            ValueError: if there is no key, or it contradicts the constructor's.
        """
        check_scalar_graph_tensor(graph, "StructuredReadoutIntoFeature")
        return structured_readout_into_feature(
            graph, _readout_key("StructuredReadoutIntoFeature", self._key, key), **self._options()
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "key": self._key, **self._options()}

    def _options(self) -> dict[str, Any]:
        return {
            "feature_name": self._feature_name,
            "new_feature_name": self._new_feature_name,
            "remove_input_feature": self._remove_input_feature,
            "overwrite": self._overwrite,
            "readout_node_set": self._readout_node_set,
            "validate": self._validate,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class AddReadoutFromFirstNode(GraphLayer):
    """Adds a readout structure to first nodes; the Keras layer for `add_readout_from_first_node`.

    Init args:
        key: as for `add_readout_from_first_node`.
        node_set_name: as for `add_readout_from_first_node`.
        readout_node_set: as for `add_readout_from_first_node`.

    Call args:
        graph: a scalar graph.

    Returns:
        Scalar graph with the readout structure.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> sorted(tfx_gnn.keras.layers.AddReadoutFromFirstNode("seed", node_set_name="nodes")(graph).edge_sets)
        ['_readout/seed', 'edges']
    """

    def __init__(
        self,
        key: str,
        *,
        node_set_name: const.NodeSetName,
        readout_node_set: const.NodeSetName = READOUT_NODE_SET,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._key = key
        self._node_set_name = node_set_name
        self._readout_node_set = readout_node_set

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Adds the structure.

        Args:
            graph: a scalar graph.
        """
        check_scalar_graph_tensor(graph, "AddReadoutFromFirstNode")
        return add_readout_from_first_node(
            graph, self._key, node_set_name=self._node_set_name, readout_node_set=self._readout_node_set
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "key": self._key,
            "node_set_name": self._node_set_name,
            "readout_node_set": self._readout_node_set,
        }


# TF-GNN's older names of the same layers.
ReadoutNamed = StructuredReadout
ReadoutNamedIntoFeature = StructuredReadoutIntoFeature


def _readout_key(layer_name: str, at_init: str | None, at_call: str | None) -> str:
    return required(layer_name, "key", at_init, at_call, shown_as="a readout key")
