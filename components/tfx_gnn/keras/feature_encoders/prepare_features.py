"""The part of encoding that accelerators cannot do: from strings and ragged values to dense integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.feature_encoders.category_counts import TransformOutput
from tfx_gnn.keras.feature_encoders.category_values import pad_values
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.encoding_plan import CONTEXT_PLACE, EncodingPlan, plan_encodings
from tfx_gnn.keras.feature_encoders.value_hashing import hash_to_buckets
from tfx_gnn.keras.nested_layers import with_type_specs


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class PrepareFeatures(tf_keras.layers.Layer):
    """Hashes categories, and pads ragged ones, beside the accelerator.

    TPUs have no strings, and want static shapes. Where a model runs on one, this layer is for the input
    pipeline, `dataset.map(prepare)`, and the model begins with
    `FeatureEncoder(prepare.output_spec, prepare.encoder_options)`. Elsewhere `FeatureEncoder` does all of it by
    itself. There are no trained variables here.

    Init args:
        graph_spec: spec of the graphs.
        options: options of the whole encoding, as `FeatureEncoder` takes them.
        tft_output: what tf.Transform learned, such as a `tft.TFTransformOutput`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph: scalar graph.

    Returns:
        The scalar graph with integers in place of features that are hashed, and dense ones where
        `max_values` says so, [num_items, max_values].

    Raises:
        ValueError: as `FeatureEncoder`.
    """

    def __init__(
        self,
        graph_spec: GraphTensorSpec,
        options: FeatureEncoderOptions | Mapping[str, Any] | None = None,
        *,
        tft_output: TransformOutput | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Of a config, Keras rebuilds specs within specs only.
        graph_spec = with_type_specs(graph_spec)
        self._graph_spec = graph_spec
        self._plan = plan_encodings(graph_spec, as_options(options), tft_output)
        self._output_spec: GraphTensorSpec | None = None

    @property
    def output_spec(self) -> GraphTensorSpec:
        """Spec of the graphs that come out."""
        if self._output_spec is None:
            prepare = tf.autograph.experimental.do_not_convert(lambda graph: prepare_features(graph, self._plan))
            traced = tf.function(prepare, input_signature=[self._graph_spec]).get_concrete_function()
            self._output_spec = traced.structured_outputs.spec
        return self._output_spec

    @property
    def encoder_options(self) -> FeatureEncoderOptions:
        """Options for what comes out: integers are hashed no more."""
        embeddings = self._plan.options.embeddings
        return dataclasses.replace(
            self._plan.options,
            embeddings={name: dataclasses.replace(one, hashed=False) for name, one in embeddings.items()},
        )

    def call(self, graph: GraphTensor) -> GraphTensor:
        """Prepares features; see the class.

        Args:
            graph: scalar graph.
        """
        return prepare_features(graph, self._plan)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "graph_spec": self._graph_spec,
            "options": dataclasses.asdict(self._plan.options),
        }


def prepare_features(graph: GraphTensor, plan: EncodingPlan) -> GraphTensor:
    """Makes integers, dense where the options say so, of all features of categories.

    Args:
        graph: scalar graph.
        plan: how its features are encoded.

    Returns:
        The scalar graph with other features; the same object if there is nothing to do.
    """
    changed: dict[str, dict[str, dict[const.FieldName, const.Field]]] = {const.NODES: {}, const.EDGES: {}}
    context = None
    for place, set_plan in plan.sets.items():
        piece = piece_at(graph, place)
        prepared = {one.feature: _prepare(piece[one.feature], one.options) for one in set_plan.embedded}
        if all(value is piece[name] for name, value in prepared.items()):
            continue
        features = {**piece.get_features_dict(), **prepared}
        kind, _, set_name = place.partition("/")
        if kind == CONTEXT_PLACE:
            context = features
        else:
            changed[kind][set_name] = features
    if context is None and not any(changed.values()):
        return graph
    return graph.replace_features(context=context, node_sets=changed[const.NODES], edge_sets=changed[const.EDGES])


def piece_at(graph: GraphTensor, place: str) -> Any:
    """Finds a piece of a graph.

    Args:
        graph: any graph.
        place: "nodes/<name>", "edges/<name>" or "context".

    Returns:
        The node set, edge set or context.
    """
    kind, _, set_name = place.partition("/")
    if kind == CONTEXT_PLACE:
        return graph.context
    return graph.node_sets[set_name] if kind == const.NODES else graph.edge_sets[set_name]


def as_options(options: FeatureEncoderOptions | Mapping[str, Any] | None) -> FeatureEncoderOptions:
    """Reads options as layers take them.

    Args:
        options: the options, their plain form, or None for the defaults.

    Returns:
        The options.
    """
    if options is None:
        return FeatureEncoderOptions()
    return options if isinstance(options, FeatureEncoderOptions) else FeatureEncoderOptions.from_plain(options)


def _prepare(values: const.Field, options: EmbeddingOptions) -> const.Field:
    if values.dtype == tf.string or options.hashed:
        values = hash_to_buckets(values, options.rows)
    if options.max_values and isinstance(values, tf.RaggedTensor):
        return pad_values(values, options.max_values)
    return values
