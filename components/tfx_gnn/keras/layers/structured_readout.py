"""Layers that read values along a readout structure, or add one."""

from __future__ import annotations

from typing import Any

import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.readout import add_readout_from_first_node, structured_readout, structured_readout_into_feature
from tfx_gnn.graph.ops.readout_structure import READOUT
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.keras.layers.arguments import required


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class StructuredReadout(tf_keras.layers.Layer):
    """Reads a feature from the nodes or edges of interest; the layer of `structured_readout`.

    Init args:
        key: which edges of the readout structure to follow, here or in the call.
        feature_name: the feature to read; by default the hidden state.
        readout_node_set: as for `structured_readout`.
        validate: as for `structured_readout`.

    Call args:
        graph: a scalar graph.
        key: as above; if given twice, then alike.

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
        readout_node_set: const.NodeSetName = READOUT,
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
class StructuredReadoutIntoFeature(tf_keras.layers.Layer):
    """Stores a readout on the readout nodes; the layer of `structured_readout_into_feature`.

    Init args:
        key: which edges of the readout structure to follow, here or in the call.
        feature_name: the feature to read.
        new_feature_name: as for `structured_readout_into_feature`.
        remove_input_feature: as for `structured_readout_into_feature`.
        overwrite: as for `structured_readout_into_feature`.
        readout_node_set: as for `structured_readout`.
        validate: as for `structured_readout`.

    Call args:
        graph: a scalar graph.
        key: as above; if given twice, then alike.

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
        readout_node_set: const.NodeSetName = READOUT,
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
class AddReadoutFromFirstNode(tf_keras.layers.Layer):
    """Adds a readout structure to first nodes; the layer of `add_readout_from_first_node`.

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
        readout_node_set: const.NodeSetName = READOUT,
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


# The older names of the same layers.
ReadoutNamed = StructuredReadout
ReadoutNamedIntoFeature = StructuredReadoutIntoFeature


def _readout_key(layer_name: str, at_init: str | None, at_call: str | None) -> str:
    return required(layer_name, "key", at_init, at_call, shown_as="a readout key")
