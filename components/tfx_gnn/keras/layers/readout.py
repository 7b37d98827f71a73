"""Layers that read one feature out of a graph."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout import gather_first_node
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.layers.arguments import agreed, required


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class Readout(tf_keras.layers.Layer):
    """Reads a feature of a node set, an edge set or the context.

    All arguments can be given when the layer is made, when it is called, or both times alike.

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
            ValueError: if there is not one place to read from, or arguments contradict those of
                the constructor.
            KeyError: if there is no such set or feature.
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
        """The constructor's argument that says where to read; empty if it is left to the calls."""
        return dict(self._location)

    @property
    def feature_name(self) -> const.FieldName | None:
        """The constructor's argument of that name."""
        return self._feature_name

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self._location, "feature_name": self._feature_name}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class ReadoutFirstNode(tf_keras.layers.Layer):
    """Reads a feature of the first node of each component; the layer of `gather_first_node`.

    All arguments can be given when the layer is made, when it is called, or both times alike.

    Init args:
        node_set_name: the node set to read from; each component has a node there.
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
        """The constructor's argument that says where to read; empty if it is left to the calls."""
        return {} if self._node_set_name is None else {"node_set_name": self._node_set_name}

    @property
    def feature_name(self) -> const.FieldName | None:
        """The constructor's argument of that name."""
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
