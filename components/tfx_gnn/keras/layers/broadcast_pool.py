"""Layers that broadcast or pool one feature of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.broadcasting import broadcast
from tfx_gnn.graph.ops.pooling import pool
from tfx_gnn.graph.ops.tags import NameOrNames
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.graph_layer import GraphLayer
from tfx_gnn.keras.layer_arguments import agreed, required

_Location = dict[str, Any]


class BroadcastPoolBase(GraphLayer):
    """Base of `Broadcast` and `Pool`, which resolves arguments of the constructor and of the call."""

    def __init__(
        self,
        tag: const.IncidentNodeOrContextTag | None = None,
        *,
        edge_set_name: NameOrNames = None,
        node_set_name: NameOrNames = None,
        feature_name: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._layer_name = type(self).__name__
        self._tag = tag
        self._location = self._check_location(tag, edge_set_name, node_set_name)
        self._feature_name = feature_name

    @property
    def tag(self) -> const.IncidentNodeOrContextTag | None:
        """The constructor argument of the same name."""
        return self._tag

    @property
    def location(self) -> dict[str, Any]:
        """The constructor argument that names sets; empty if it is left to the calls."""
        return dict(self._location)

    @property
    def feature_name(self) -> const.FieldName | None:
        """The constructor argument of the same name."""
        return self._feature_name

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "tag": self._tag, **self._location, "feature_name": self._feature_name}

    def _resolve(
        self,
        tag: const.IncidentNodeOrContextTag | None,
        *,
        edge_set_name: NameOrNames,
        node_set_name: NameOrNames,
        feature_name: const.FieldName | None,
    ) -> dict[str, Any]:
        resolved: Any = required(self._layer_name, "tag", self._tag, tag, shown_as="`tag=`")
        location = self._check_location(resolved, edge_set_name, node_set_name)
        if location and self._location and location != self._location:
            ((at_init, init_value),), ((at_call, call_value),) = self._location.items(), location.items()
            raise ValueError(
                f"The {self._layer_name} layer was initialized with {at_init}={init_value!r} "
                f"but called with {at_call}={call_value!r}. Leave one of them out."
            )
        location = location or self._check_location(resolved, **self._location)
        if not location:
            raise ValueError(
                f"The {self._layer_name} layer with tag CONTEXT requires exactly one of edge_set_name and node_set_name"
                if resolved == const.CONTEXT
                else f"The {self._layer_name} layer with tag SOURCE or TARGET requires edge_set_name "
                "but not node_set_name"
            )
        name = agreed(self._layer_name, "feature_name", self._feature_name, feature_name) or const.HIDDEN_STATE
        # Sequences of names are kept as tuples.
        return {
            "tag": resolved,
            "feature_name": name,
            **{argument: value if isinstance(value, str) else list(value) for argument, value in location.items()},
        }

    def _check_location(
        self,
        tag: const.IncidentNodeOrContextTag | None,
        edge_set_name: NameOrNames = None,
        node_set_name: NameOrNames = None,
    ) -> _Location:
        if tag not in (None, const.SOURCE, const.TARGET, const.CONTEXT):
            raise ValueError(
                f"The {self._layer_name} layer requires tag to be one of tfx_gnn.SOURCE, tfx_gnn.TARGET or "
                f"tfx_gnn.CONTEXT; got {tag!r}."
            )
        if edge_set_name is not None and node_set_name is not None:
            raise ValueError(
                f"The {self._layer_name} layer allows at most one of edge_set_name and node_set_name to be set; "
                f"got {edge_set_name!r} and {node_set_name!r}."
            )
        if tag in (const.SOURCE, const.TARGET) and node_set_name is not None:
            raise ValueError(
                f"The {self._layer_name} layer with tag SOURCE or TARGET requires edge_set_name but not node_set_name; "
                f"got node_set_name={node_set_name!r}."
            )
        given = {"edge_set_name": edge_set_name, "node_set_name": node_set_name}
        return {argument: _hashable(value) for argument, value in given.items() if value is not None}


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class Broadcast(BroadcastPoolBase):
    """Broadcasts a feature from nodes to edges, or from the context; the Keras layer for `broadcast`.

    All arguments can be given at init or at call time; if given at both, the values must agree.

    Init args:
        tag: where values come from: `SOURCE` or `TARGET` of the edges, or `CONTEXT`.
        edge_set_name: the receiving edge set or edge sets.
        node_set_name: the receiving node set or node sets; only with `CONTEXT`.
        feature_name: the feature to broadcast; by default the hidden state.

    Call args:
        graph: a scalar graph.
        tag: as above.
        edge_set_name: as above.
        node_set_name: as above.
        feature_name: as above.

    Returns:
        Field of shape [num_receivers, *feature_shape]; a list of such fields for a sequence of names.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.Broadcast(tfx_gnn.SOURCE, edge_set_name="edges")(graph).numpy().tolist()
        [5.0, 6.0]
    """

    def call(
        self,
        graph: GraphTensor,
        *,
        tag: const.IncidentNodeOrContextTag | None = None,
        edge_set_name: NameOrNames = None,
        node_set_name: NameOrNames = None,
        feature_name: const.FieldName | None = None,
    ) -> list[const.Field] | const.Field:
        """Broadcasts the feature.

        Args:
            graph: a scalar graph.
            tag: as for the constructor.
            edge_set_name: as for the constructor.
            node_set_name: as for the constructor.
            feature_name: as for the constructor.

        Raises:
            ValueError: if arguments are missing, or contradict those of the constructor.
        """
        check_scalar_graph_tensor(graph, self._layer_name)
        arguments = self._resolve(
            tag, edge_set_name=edge_set_name, node_set_name=node_set_name, feature_name=feature_name
        )
        return broadcast(graph, arguments.pop("tag"), **arguments)


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class Pool(BroadcastPoolBase):
    """Pools a feature from edges to nodes, or to the context; the Keras layer for `pool`.

    All arguments can be given at init or at call time; if given at both, the values must agree.

    Init args:
        tag: the receiver: the nodes at `SOURCE` or `TARGET` of the edges, or the `CONTEXT`.
        reduce_type: as for `pool`, such as "sum" or "mean|max_no_inf".
        edge_set_name: the edge set or edge sets to pool from.
        node_set_name: the node set or node sets to pool from; only with `CONTEXT`.
        feature_name: the feature to pool; by default the hidden state.

    Call args:
        graph: a scalar graph.
        tag: as above.
        reduce_type: as above.
        edge_set_name: as above.
        node_set_name: as above.
        feature_name: as above.

    Returns:
        Field of shape [num_receivers, *feature_shape].

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.Pool(tfx_gnn.CONTEXT, "sum", node_set_name="nodes")(graph).numpy().tolist()
        [18.0]
    """

    def __init__(
        self,
        tag: const.IncidentNodeOrContextTag | None = None,
        reduce_type: str | None = None,
        *,
        edge_set_name: NameOrNames = None,
        node_set_name: NameOrNames = None,
        feature_name: const.FieldName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            tag, edge_set_name=edge_set_name, node_set_name=node_set_name, feature_name=feature_name, **kwargs
        )
        self._reduce_type = reduce_type

    def call(
        self,
        graph: GraphTensor,
        *,
        tag: const.IncidentNodeOrContextTag | None = None,
        reduce_type: str | None = None,
        edge_set_name: NameOrNames = None,
        node_set_name: NameOrNames = None,
        feature_name: const.FieldName | None = None,
    ) -> const.Field:
        """Pools the feature.

        Args:
            graph: a scalar graph.
            tag: as for the constructor.
            reduce_type: as for the constructor.
            edge_set_name: as for the constructor.
            node_set_name: as for the constructor.
            feature_name: as for the constructor.

        Raises:
            ValueError: if arguments are missing, or contradict those of the constructor.
        """
        check_scalar_graph_tensor(graph, self._layer_name)
        arguments = self._resolve(
            tag, edge_set_name=edge_set_name, node_set_name=node_set_name, feature_name=feature_name
        )
        reduce_type = required(self._layer_name, "reduce_type", self._reduce_type, reduce_type)
        return pool(graph, arguments.pop("tag"), reduce_type=reduce_type, **arguments)

    @property
    def reduce_type(self) -> str | None:
        """The constructor argument of the same name."""
        return self._reduce_type

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "reduce_type": self._reduce_type}


def _hashable(names: Sequence[str] | str) -> tuple[str, ...] | str:
    return names if isinstance(names, str) else tuple(names)
