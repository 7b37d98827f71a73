"""Layers that transform features by models built in callbacks, or make an initial feature of size 0."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import FeaturePiece
from tfx_gnn.keras.graph_layer import GraphLayer, keras3_layers_refused
from tfx_gnn.keras.keras_tensors import is_symbolic
from tfx_gnn.keras.layer_arguments import as_layer, pop_with_prefix, with_prefix

Callback = Callable[..., Any]
# None means that the features of a piece pass through unchanged and unchecked.
_Model = Any


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MapFeatures(GraphLayer):
    """Transforms the features of the context, node sets and edge sets.

    Each callback gets the Keras tensor of one graph piece and computes with Keras' functional API.
    It returns a dict of features that replace those of the piece; or one feature, which becomes
    the hidden state; or None, which leaves the piece unchanged. The results must depend on the
    piece: to create values from scratch, use `piece.total_size` or `MakeEmptyFeature`, not
    `piece.spec.total_size`.

    Callbacks run once, when the layer is first called. Later graphs must have the same feature
    names and no new sets, except where the callback was None or returned None. Auxiliary sets,
    such as "_readout", pass through unless a pattern includes them.

    Init args:
        context_fn: called as `context_fn(graph.context)`.
        node_sets_fn: called as `node_sets_fn(node_set, node_set_name=...)` for each node set.
        edge_sets_fn: called as `edge_sets_fn(edge_set, edge_set_name=...)` for each edge set.
        allowed_aux_node_sets_pattern: regular expression; auxiliary node sets whose whole name
            matches it are transformed, too.
        allowed_aux_edge_sets_pattern: the same for edge sets.

    Call args:
        graph: a graph of any shape; features have shape [*graph_shape, num_items, ...].

    Returns:
        Graph of the same shape, sets and sizes, with new features.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> double = tfx_gnn.keras.layers.MapFeatures(
        ...     node_sets_fn=lambda node_set, *, node_set_name: {"x": 2.0 * node_set["hidden_state"]})
        >>> double(graph).node_sets["nodes"]["x"].numpy().tolist()
        [10.0, 12.0, 14.0]
    """

    def __init__(
        self,
        context_fn: Callback | None = None,
        node_sets_fn: Callback | None = None,
        edge_sets_fn: Callback | None = None,
        *,
        allowed_aux_node_sets_pattern: str | None = None,
        allowed_aux_edge_sets_pattern: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._context_fn = context_fn
        self._node_sets_fn = node_sets_fn
        self._edge_sets_fn = edge_sets_fn
        self._allowed_aux_node_sets_pattern = allowed_aux_node_sets_pattern
        self._allowed_aux_edge_sets_pattern = allowed_aux_edge_sets_pattern
        self._is_initialized = False
        # Without a callback, every set passes through, even a new one.
        self._node_sets_pass = node_sets_fn is None
        self._edge_sets_pass = edge_sets_fn is None

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Transforms features.

        Args:
            graph: a graph of any shape.

        Raises:
            ValueError: if a callback returned something that cannot be a feature, or feature names
                differ from those at the first call.
            TypeError: if a callback called a layer of Keras 3.
            KeyError: if the graph has a set that was missing at the first call.
        """
        if not self._is_initialized:
            with tf.init_scope():
                self._init_from_spec(graph.spec)
        context_features = None
        if self._context_model is not None:
            context_features = _map_piece(self._context_model, graph.context, "context")
        node_sets = _map_sets(
            "node_set",
            graph.node_sets,
            self._node_set_models,
            self._allowed_aux_node_sets_pattern,
            pass_new=self._node_sets_pass,
        )
        edge_sets = _map_sets(
            "edge_set",
            graph.edge_sets,
            self._edge_set_models,
            self._allowed_aux_edge_sets_pattern,
            pass_new=self._edge_sets_pass,
        )
        return graph.replace_features(context=context_features, node_sets=node_sets, edge_sets=edge_sets)

    def _init_from_spec(self, spec: Any) -> None:
        self._context_model = _make_model(self._context_fn, spec.context_spec)
        self._node_set_models = {
            name: _make_model(self._node_sets_fn, piece_spec, node_set_name=name)
            for name, piece_spec in spec.node_sets_spec.items()
            if _is_mapped(name, self._allowed_aux_node_sets_pattern)
        }
        self._edge_set_models = {
            name: _make_model(self._edge_sets_fn, piece_spec, edge_set_name=name)
            for name, piece_spec in spec.edge_sets_spec.items()
            if _is_mapped(name, self._allowed_aux_edge_sets_pattern)
        }
        self._is_initialized = True

    def get_config(self) -> dict[str, Any]:
        """Returns the models that the callbacks made, and the other arguments.

        Raises:
            ValueError: if the layer was not called yet.
        """
        if not self._is_initialized:
            raise ValueError(
                "Cannot get a config for saving a MapFeatures layer before it has been built "
                "(during the first call). Call it on a graph first."
            )
        return {
            **super().get_config(),
            "context_model": self._context_model,
            **with_prefix("node_set_models", self._node_set_models),
            **with_prefix("edge_set_models", self._edge_set_models),
            "node_sets_pass": self._node_sets_pass,
            "edge_sets_pass": self._edge_sets_pass,
            "allowed_aux_node_sets_pattern": self._allowed_aux_node_sets_pattern,
            "allowed_aux_edge_sets_pattern": self._allowed_aux_edge_sets_pattern,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MapFeatures:
        """Rebuilds the layer from the result of `get_config`.

        Args:
            config: the config.
        """
        config = dict(config)
        context_model = as_layer(config.pop("context_model"))
        node_set_models = pop_with_prefix("node_set_models", config)
        edge_set_models = pop_with_prefix("edge_set_models", config)
        passing = config.pop("node_sets_pass"), config.pop("edge_sets_pass")
        layer = cls(**config)
        layer._context_model = context_model
        layer._node_set_models = node_set_models
        layer._edge_set_models = edge_set_models
        layer._node_sets_pass, layer._edge_sets_pass = passing
        layer._is_initialized = True
        return layer


def _is_mapped(set_name: const.SetName, allowed_aux_pattern: str | None) -> bool:
    if get_aux_type_prefix(set_name) is None:
        return True
    return allowed_aux_pattern is not None and re.fullmatch(allowed_aux_pattern, set_name) is not None


def _make_model(callback: Callback | None, piece_spec: Any, **set_name: str) -> _Model:
    if callback is None:
        return None
    piece = tf_keras.Input(type_spec=piece_spec)
    with keras3_layers_refused("MapFeatures(...=fn)"):
        outputs = callback(piece, **set_name)
    if outputs is None:
        return None
    if not isinstance(outputs, Mapping):
        outputs = {const.HIDDEN_STATE: outputs}
    wrong = {name: value for name, value in outputs.items() if not isinstance(name, str) or not is_symbolic(value)}
    if wrong:
        raise ValueError(
            "`MapFeatures(...=fn)` requires the callback `fn(inputs, ...)` to only return KerasTensors that depend "
            "on the `inputs` graph piece, by string names. For values created from scratch, use a tensor dependency "
            "on `inputs.total_size` or `inputs.sizes`, not on `inputs.spec.total_size`. "
            f"The callback for {set_name or 'context'} returned: {wrong}."
        )
    return tf_keras.Model(piece, dict(outputs))


def _map_piece(model: _Model, piece: Any, place: str) -> dict[const.FieldName, const.Field]:
    expected = sorted(model.input.spec.features_spec)
    if sorted(piece.features) != expected:
        raise ValueError(
            f"The feature set of {place} has changed since this layer was built. "
            f"Expected {expected}, got {sorted(piece.features)}. Use another MapFeatures for other features."
        )
    features: dict[const.FieldName, const.Field] = model(piece)
    return features


def _map_sets(
    kind: str,
    pieces: Mapping[const.SetName, Any],
    models: Mapping[const.SetName, _Model],
    allowed_aux_pattern: str | None,
    *,
    pass_new: bool,
) -> dict[const.SetName, dict[const.FieldName, const.Field]]:
    mapped = {}
    for name, piece in pieces.items():
        if pass_new or not _is_mapped(name, allowed_aux_pattern):
            continue
        if name not in models:
            raise KeyError(
                f"Unexpected {kind.replace('_', ' ')} '{name}' not seen in first call. "
                f"Seen were {sorted(models)}. Use another MapFeatures for other graphs."
            )
        if models[name] is not None:
            mapped[name] = _map_piece(models[name], piece, f"{kind} '{name}'")
    return mapped


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class MakeEmptyFeature(GraphLayer):
    """Makes a feature of size 0 for each item, such as the initial state of a latent node set.

    Init args:
        dtype: dtype of the feature, or a mixed-precision policy; by default Keras' global policy.

    Call args:
        graph_piece: a node set, an edge set or the context of a graph of any shape.

    Returns:
        Field of shape [*graph_shape, (num_items), 0], ragged for a batch of graphs. For a scalar
        graph, the shape is static if `graph_piece.spec.total_size` is, that is, if the set has a
        feature of static size. For accelerators, call this layer in the input pipeline, before
        padding.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.keras.layers.MakeEmptyFeature()(graph.node_sets["nodes"]).shape.as_list()
        [3, 0]
    """

    def call(self, graph_piece: FeaturePiece) -> const.Field:
        """Makes the feature.

        Args:
            graph_piece: a node set, an edge set or the context.
        """
        dtype = tf.as_dtype(self.compute_dtype)
        if graph_piece.rank == 0:
            static_size = graph_piece.spec.total_size
            return tf.zeros([graph_piece.total_size if static_size is None else static_size, 0], dtype)
        return _ragged_zeros(graph_piece, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config()


def _ragged_zeros(graph_piece: FeaturePiece, dtype: tf.DType) -> tf.RaggedTensor:
    num_items = tf.reduce_sum(graph_piece.sizes, axis=-1)
    row_lengths = tf.reshape(num_items, [-1])
    result = tf.RaggedTensor.from_row_lengths(
        tf.zeros([tf.reduce_sum(row_lengths), 0], dtype), row_lengths, validate=False
    )
    # All batch dimensions except the outermost are uniform.
    for axis in range(graph_piece.rank - 1, 0, -1):
        result = tf.RaggedTensor.from_uniform_row_length(result, tf.shape(num_items, graph_piece.indices_dtype)[axis])
    return result
