"""The layer that pads graphs to fixed sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.padding import FeatureDefaultValues, pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.index_features import IndexFeatures
from tfx_gnn.keras.graph_layer import GraphLayer


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class PadToTotalSizes(GraphLayer):
    """Pads a graph to given total sizes; the Keras layer for `pad_to_total_sizes`.

    Init args:
        sizes_constraints: the size constraints, or padding budget, as integers or eager tensors,
            which are stored as integers, or as symbolic tensors, with which the layer has no config.
        validate: as for `pad_to_total_sizes`.
        padding_values: as for `pad_to_total_sizes`.
        index_features: as for `pad_to_total_sizes`.

    Call args:
        graph: a scalar graph.

    Returns:
        The padded graph, and a bool tensor of shape [total_num_components] that is True for the
        components of the input.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> pad = tfx_gnn.keras.layers.PadToTotalSizes(tfx_gnn.SizeConstraints(2, {"nodes": 4}, {"edges": 3}))
        >>> padded, mask = pad(graph)
        >>> padded.node_sets["nodes"].sizes.numpy().tolist(), mask.numpy().tolist()
        ([3, 1], [True, False])
    """

    def __init__(
        self,
        sizes_constraints: SizeConstraints,
        *,
        validate: bool = True,
        padding_values: FeatureDefaultValues | None = None,
        index_features: IndexFeatures | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Boxed, because Keras replaces mappings in attributes by wrappers of its own.
        self._boxed = (_Box(_with_ints(sizes_constraints)), _Box(padding_values), _Box(index_features))
        self._validate = validate

    def call(self, graph: GraphTensor) -> tuple[GraphTensor, tf.Tensor]:
        """Pads the graph.

        Args:
            graph: a scalar graph.
        """
        constraints, padding_values, index_features = (box.value for box in self._boxed)
        return pad_to_total_sizes(
            graph,
            constraints,
            padding_values=padding_values,
            validate=self._validate,
            index_features=index_features,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, as plain values.

        Raises:
            NotImplementedError: if the sizes are symbolic tensors.
        """
        constraints, padding_values, index_features = (box.value for box in self._boxed)
        if any(tf.is_tensor(size) for size in tf.nest.flatten(constraints)):
            raise NotImplementedError(
                f"get_config() requires sizes_constraints convertible to int; got {constraints}. "
                "Compute the sizes before the layer is made."
            )
        return {
            **super().get_config(),
            "sizes_constraints": constraints._asdict(),
            "padding_values": None if padding_values is None else padding_values._asdict(),
            "index_features": None
            if index_features is None
            else {key: dict(by_name) for key, by_name in index_features.items()},
            "validate": self._validate,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PadToTotalSizes:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        padding_values = config["padding_values"]
        return cls(
            **{
                **config,
                "sizes_constraints": SizeConstraints(**config["sizes_constraints"]),
                "padding_values": None if padding_values is None else FeatureDefaultValues(**padding_values),
            }
        )


class _Box:
    def __init__(self, value: Any) -> None:
        self.value = value


def _with_ints(constraints: SizeConstraints) -> SizeConstraints:
    def sizes(by_name: Mapping[str, Any] | tuple[tuple[str, Any], ...]) -> dict[str, Any]:
        return {name: _as_int(size) for name, size in dict(by_name).items()}

    return SizeConstraints(
        total_num_components=_as_int(constraints.total_num_components),
        total_num_nodes=sizes(constraints.total_num_nodes),
        total_num_edges=sizes(constraints.total_num_edges),
        min_nodes_per_component=sizes(constraints.min_nodes_per_component),
    )


def _as_int(size: Any) -> Any:
    return size if tf.is_tensor(size) and not hasattr(size, "numpy") else int(size)
