"""Symbolic graphs for Keras' functional API, and graph functions called on them as layers.

Importing this module registers a Keras tensor class for each type of graph piece, so that
`tf_keras.layers.Input(type_spec=graph_spec)` has the properties and methods of a graph. This is
the only file that uses Keras' private names; they exist in tf_keras 2.16 to 2.21.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tf_keras
from tf_keras.src import backend
from tf_keras.src.engine import keras_tensor
from tf_keras.src.layers.core import tf_op_layer
from tf_keras.src.saving import serialization_lib

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.graph_constants import SOURCE, TARGET, FieldName, IncidentNodeTag, NodeSetName
from tfx_gnn.graph.tensor import symbolic_calls
from tfx_gnn.graph.tensor.adjacency import Adjacency, HyperAdjacency
from tfx_gnn.graph.tensor.graph_piece import GraphPiece
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency
from tfx_gnn.keras.graph_layer import GraphLayer


def unique_layer_name(name: str) -> str:
    """Makes a name unique among the layers of Keras' current graph: first the name itself, then "<name>_1" etc."""
    unique: str = backend.unique_object_name(name, zero_based=True, avoid_observed_names=True)
    return unique


def is_symbolic(value: object) -> bool:
    """Returns whether a value is a symbolic tensor of Keras' functional API."""
    return isinstance(value, keras_tensor.KerasTensor)


class GraphPieceKerasTensor(keras_tensor.KerasTensor):
    """Represents a graph piece while a functional model is built.

    Properties that the type spec knows are returned at once; everything else becomes a layer.
    """

    #: Properties and methods of the piece that become layers of the model.
    LAYER_PROPERTIES: ClassVar[tuple[str, ...]] = ()
    LAYER_METHODS: ClassVar[tuple[str, ...]] = ("with_indices_dtype", "with_row_splits_dtype")

    @property
    def spec(self) -> Any:
        """The type spec of the piece."""
        return self.type_spec

    @property
    def rank(self) -> int:
        """The number of batch dimensions."""
        return self.type_spec.rank

    @property
    def indices_dtype(self) -> tf.DType:
        """The dtype of sizes and indices."""
        return self.type_spec.indices_dtype

    @property
    def row_splits_dtype(self) -> tf.DType:
        """The dtype of the row splits of ragged fields."""
        return self.type_spec.row_splits_dtype


class FeaturePieceKerasTensor(GraphPieceKerasTensor):
    """Represents a context, a node set or an edge set."""

    LAYER_PROPERTIES: ClassVar[tuple[str, ...]] = (
        "features",
        "num_components",
        "sizes",
        "total_num_components",
        "total_size",
    )
    LAYER_METHODS = (*GraphPieceKerasTensor.LAYER_METHODS, "replace_features")

    def __getitem__(self, feature_name: FieldName) -> Any:
        """Returns a feature."""
        return self.features[feature_name]

    def get_features_dict(self) -> dict[FieldName, Any]:
        """Returns a new dict of the features, which the caller may change."""
        return dict(self.features)


class ContextKerasTensor(FeaturePieceKerasTensor):
    """Represents a `Context`."""


class NodeSetKerasTensor(FeaturePieceKerasTensor):
    """Represents a `NodeSet`."""


class EdgeSetKerasTensor(FeaturePieceKerasTensor):
    """Represents an `EdgeSet`."""

    LAYER_PROPERTIES = (*FeaturePieceKerasTensor.LAYER_PROPERTIES, "adjacency")


class HyperAdjacencyKerasTensor(GraphPieceKerasTensor):
    """Represents a `HyperAdjacency`."""

    LAYER_METHODS = (*GraphPieceKerasTensor.LAYER_METHODS, "__getitem__")

    def node_set_name(self, node_set_tag: IncidentNodeTag) -> NodeSetName:
        """Returns the name of the node set at one end."""
        return self.type_spec.node_set_name(node_set_tag)

    def get_indices_dict(self) -> dict[IncidentNodeTag, tuple[NodeSetName, Any]]:
        """Returns a dict from each tag to (node set name, node indices)."""
        return {tag: (name, self[tag]) for tag, (name, _) in self.type_spec.get_index_specs_dict().items()}


class AdjacencyKerasTensor(HyperAdjacencyKerasTensor):
    """Represents an `Adjacency`."""

    LAYER_PROPERTIES: ClassVar[tuple[str, ...]] = ("source", "target")

    @property
    def source_name(self) -> NodeSetName:
        """The name of the node set where the edges start."""
        return self.node_set_name(SOURCE)

    @property
    def target_name(self) -> NodeSetName:
        """The name of the node set where the edges end."""
        return self.node_set_name(TARGET)


class SortedAdjacencyKerasTensor(AdjacencyKerasTensor):
    """Represents a `SortedAdjacency`."""

    LAYER_PROPERTIES = (*AdjacencyKerasTensor.LAYER_PROPERTIES, "order_by_source")
    LAYER_METHODS = (*AdjacencyKerasTensor.LAYER_METHODS, "in_order_of", "without_order")


class GraphKerasTensor(GraphPieceKerasTensor):
    """Represents a `GraphTensor`."""

    LAYER_PROPERTIES = ("context", "edge_sets", "node_sets", "num_components", "total_num_components")
    LAYER_METHODS = (
        *GraphPieceKerasTensor.LAYER_METHODS,
        "merge_batch_to_components",
        "remove_features",
        "replace_features",
    )


class _FactoryDispatcher(tf.__internal__.dispatch.OpDispatcher):
    """Turns a call of a class method with Keras tensors into a layer."""

    def __init__(self, piece_type: type[GraphPiece], method_name: str) -> None:
        def make_piece(*args: Any, **kwargs: Any) -> Any:
            return getattr(piece_type, method_name)(*args, **kwargs)

        make_piece.__name__ = f"{piece_type.__name__}.{method_name}"
        self._make_piece = symbolic_calls.becomes_keras_layer(make_piece)

    def handle(self, args: Any, kwargs: Any) -> Any:
        """Makes the layer and calls it, if an argument is a Keras tensor."""
        leaves = tf.nest.flatten([args[1:], kwargs])
        if not any(isinstance(leaf, keras_tensor.KerasTensor) for leaf in leaves):
            return self.NOT_SUPPORTED
        return self._make_piece(*args[1:], **kwargs)


#: More specific types come first: Keras takes the first type that fits.
_REGISTRATIONS: tuple[tuple[type[GraphPiece], type[GraphPieceKerasTensor], str], ...] = (
    (GraphTensor, GraphKerasTensor, "from_pieces"),
    (Context, ContextKerasTensor, "from_fields"),
    (NodeSet, NodeSetKerasTensor, "from_fields"),
    (EdgeSet, EdgeSetKerasTensor, "from_fields"),
    (SortedAdjacency, SortedAdjacencyKerasTensor, "from_indices"),
    (Adjacency, AdjacencyKerasTensor, "from_indices"),
    (HyperAdjacency, HyperAdjacencyKerasTensor, "from_indices"),
)


for _piece_type, _symbolic_type, _method_name in _REGISTRATIONS:
    for _name in _symbolic_type.LAYER_PROPERTIES:
        tf_op_layer._delegate_property(_symbolic_type, _name)  # noqa: SLF001
    for _name in _symbolic_type.LAYER_METHODS:
        tf_op_layer._delegate_method(_symbolic_type, _name)  # noqa: SLF001
    keras_tensor.register_keras_tensor_specialization(_piece_type, _symbolic_type)
    _FactoryDispatcher(_piece_type, _method_name).register(getattr(_piece_type, _method_name))


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class GraphOperation(GraphLayer):
    """Calls one function of the graph core.

    The functions themselves make this layer when they are called with symbolic tensors; there is no need to make
    one by hand. A model with this layer can be saved and rebuilt from its config if the function's other arguments
    are plain Python values.
    """

    def __init__(self, function_name: str, arguments: dict[str, Any], **kwargs: Any) -> None:
        """Stores the call.

        Args:
            function_name: name of a function that was decorated with `becomes_keras_layer`.
            arguments: its arguments as `_describe` returns them, with slots for tensors.
            **kwargs: arguments of the base class.
        """
        super().__init__(autocast=False, **kwargs)
        self._function_name = function_name
        # A JSON-like value, which Keras must not wrap or track.
        self._arguments = _Opaque(arguments)

    def call(self, tensors: Any) -> Any:
        """Calls the function.

        Args:
            tensors: values of the slots, in order; when Keras rebuilds a model, it passes a single
                tensor without a list.
        """
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        return _call(self._function_name, self._arguments.value, list(tensors))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        _check_plain(self._arguments.value, self._function_name)
        return {
            **super().get_config(),
            "function_name": self._function_name,
            "arguments": self._arguments.value,
        }


class _Opaque:
    def __init__(self, value: Any) -> None:
        self.value = value


class _KerasHandler:
    def writes_keras_file(self) -> bool:
        # Shared objects are noted while a `.keras` file is written or read, in the thread that does it.
        return bool(getattr(serialization_lib.SHARED_OBJECTS, "enabled", False))

    """Lets the graph core recognize symbolic tensors and make layers of calls."""

    def is_symbolic(self, value: object) -> bool:
        return is_symbolic(value)

    def call_as_layer(self, function_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors: list[Any] = []
        arguments = _describe((args, kwargs), tensors)
        # Layers get TF-GNN's names, such as "pool" and "pool_1".
        return GraphOperation(function_name, arguments, name=unique_layer_name(function_name))(tensors)


@tf.autograph.experimental.do_not_convert
def _call(function_name: str, arguments: Any, tensors: list[Any]) -> Any:
    args, kwargs = _fill(arguments, tensors)
    return symbolic_calls.registered_function(function_name)(*args, **kwargs)


def _describe(value: Any, tensors: list[Any]) -> Any:
    """Replaces tensors by slots, and encodes containers so that JSON keeps their types."""
    if isinstance(value, np.ndarray):
        value = tf.convert_to_tensor(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if is_symbolic(value) or isinstance(value, (tf.Tensor, tf.RaggedTensor, GraphPiece)):
        tensors.append(value)
        return {"slot": len(tensors) - 1}
    if isinstance(value, SizeConstraints):
        return {"size_constraints": _describe(value._asdict(), tensors)}
    if isinstance(value, Mapping):
        return {"dict": [[key, _describe(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_describe(item, tensors) for item in value]}
    if isinstance(value, list):
        return {"list": [_describe(item, tensors) for item in value]}
    return value


def _fill(described: Any, tensors: list[Any]) -> Any:
    if not isinstance(described, Mapping):
        return described
    ((kind, content),) = described.items()
    if kind == "slot":
        return tensors[content]
    if kind == "size_constraints":
        return SizeConstraints(**_fill(content, tensors))
    if kind == "dict":
        return {key: _fill(item, tensors) for key, item in content}
    items = [_fill(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def _check_plain(described: Any, function_name: str) -> None:
    if isinstance(described, (list, tuple)):
        for item in described:
            _check_plain(item, function_name)
    elif isinstance(described, Mapping):
        for item in described.values():
            _check_plain(item, function_name)
    elif not (described is None or isinstance(described, (bool, int, float, str, tf.TensorShape))):
        raise ValueError(
            f"`get_config` requires plain arguments of {function_name}(); got a {type(described).__name__}. "
            "Call the function from a layer of your own to save the model by its config."
        )


symbolic_calls.install_handler(_KerasHandler())
