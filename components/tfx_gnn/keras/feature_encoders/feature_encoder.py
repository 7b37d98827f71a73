"""Encodes all features of a graph as one vector per item, the input of a graph neural network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.ops.gates import gate_feature
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import FeaturePiece
from tfx_gnn.keras.feature_encoders.category_values import TransformOutput, combine_embeddings, flat_categories
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables, as_scope
from tfx_gnn.keras.feature_encoders.encoder_options import FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.feature_column import as_columns
from tfx_gnn.keras.feature_encoders.prepare_features import (
    CONTEXT_PLACE,
    EncodingPlan,
    as_options,
    encoded_features,
    feature_key,
    piece_at,
    plan_encodings,
    prepare_features,
)
from tfx_gnn.keras.layer_arguments import with_type_specs


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FeatureEncoder(tf_keras.layers.Layer):
    """Encodes all features of each node set as its "hidden_state".

    The state consists of the numbers, then the embeddings of categories, each in the order of feature names.
    Options add a layer that mixes them, and dropout. If an item has several categories, ragged or not, their
    embeddings are combined by mean or sum. A value that is not a category of its table gets the row for unknown
    values; an item without values gets zeros. Embeddings start at random with a mean square length of 1, as those of
    TensorFlow's `embedding_column`, so that categories weigh as much as standardized numbers. A set without features,
    or with only features of width 0, gets a `LearnedState`: one learned vector for all its items, as wide as the mixing
    layer or, without one, as an embedding.
    The result is finite on every device, for padding too.

    Edge sets and the context get a hidden state only if the options say so; otherwise they stay unchanged, as
    auxiliary sets do. Every feature of an encoded set has an encoding or raises an error: none is left out unless
    `options.ignored` names it.

    Features with the same `shared_name`, in one or several sets, use one table. Small tables of equal width are
    stored in one variable; see `EmbeddingTables`. Strings are hashed in this layer, which TPUs cannot do;
    `PrepareFeatures` moves the hashing to the input pipeline.

    Init args:
        graph_spec: spec of the graphs.
        options: options of single features, as `FeatureEncoderOptions` or as the mapping of its fields that JSON
            holds.
        tft_output: output of tf.Transform, such as a `tft.TFTransformOutput`; gives the numbers of categories.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph: scalar graph.
        training: whether dropout is applied.

    Returns:
        The scalar graph, in which each encoded set has "hidden_state", float [num_items, width], as its only feature.

    Raises:
        ValueError: if it is not clear how to encode a feature, which the message names.

    Example:
        >>> graph = tfx_gnn.homogeneous(source=tf.constant([0]), target=tf.constant([1]),
        ...     node_features={"x": tf.constant([.5, .25]), "color": tf.constant([2, -1])})
        >>> encode = FeatureEncoder(graph.spec, {"embeddings": {"nodes.color": {"rows": 3, "units": 4}}})
        >>> encode(graph).node_sets["nodes"]["hidden_state"].shape.as_list()
        [2, 5]
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
        # Keras rebuilds only the inner specs of a config, not the outermost one.
        graph_spec = with_type_specs(graph_spec)
        check_scalar_graph_tensor(graph_spec, "FeatureEncoder()")
        self._graph_spec = graph_spec
        self._plan = plan_encodings(graph_spec, as_options(options), tft_output)
        options = self._plan.options
        self._names = [where for where, _ in encoded_features(graph_spec, options)]
        self._tables = EmbeddingTables(
            self._plan.tables,
            fuse=options.fuse,
            max_dense_gradient_elements=options.max_dense_gradient_elements,
            # Of length 1, as a standardized number. Those of Keras' default have a ninth of that at 16 units: numbers
            # would drown the categories until the embeddings have grown.
            embeddings_initializer=tf_keras.initializers.VarianceScaling(mode="fan_out"),
            vocabularies=self._plan.vocabularies,
            dtype=self.dtype_policy,
            name="tables",
        )
        with_values = _places_with_values(graph_spec, self._plan)
        self._projections = {
            place: tf_keras.layers.Dense(
                options.projection_units, "relu", dtype=self.dtype_policy, name=as_scope(place)
            )
            for place in with_values
            if options.projection_units
        }
        self._learned_states = {
            place: LearnedState(
                options.projection_units or options.units, dtype=self.dtype_policy, name=as_scope(place)
            )
            for place in self._plan.sets
            if place not in with_values
        }
        # Only if it is used: one more layer with random numbers would change those of all others.
        self._input_dropout = None
        if options.input_dropout_rate:
            self._input_dropout = tf_keras.layers.Dropout(options.input_dropout_rate, dtype=self.dtype_policy)
        self._dropout = tf_keras.layers.Dropout(options.dropout_rate, dtype=self.dtype_policy)

    @property
    def options(self) -> FeatureEncoderOptions:
        """The options, completed with the rows and units of all categorical features."""
        return self._plan.options

    def call(self, graph: GraphTensor, training: bool | None = None) -> GraphTensor:
        """Encodes features; see the class.

        Args:
            graph: scalar graph.
            training: whether dropout is applied.

        Raises:
            ValueError: if the features of the graph differ from those of `graph_spec`.
        """
        self._check_features(graph)
        graph = prepare_features(graph, self._plan)
        embeddings = self._embeddings(graph, training)
        states: dict[str, dict[str, dict[const.FieldName, const.Field]]] = {const.NODES: {}, const.EDGES: {}}
        context = None
        for place, set_plan in self._plan.sets.items():
            piece = piece_at(graph, place)
            if place in self._learned_states:
                state = self._learned_states[place](piece)
            else:
                parts = [self._columns(place, name, piece[name]) for name in set_plan.numeric]
                state = tf.concat([*parts, *embeddings.get(place, [])], axis=1)
                if self._input_dropout is not None:
                    state = self._input_dropout(state, training=training)
            if place in self._projections:
                state = self._projections[place](state)
            features = {const.HIDDEN_STATE: self._dropout(state, training=training)}
            kind, _, set_name = place.partition("/")
            if kind == CONTEXT_PLACE:
                context = features
            else:
                states[kind][set_name] = features
        return graph.replace_features(context=context, node_sets=states[const.NODES], edge_sets=states[const.EDGES])

    def _embeddings(self, graph: GraphTensor, training: bool | None) -> dict[str, list[tf.Tensor]]:
        """Looks up the embeddings of all features of all sets together; returns them by place."""
        features = [(place, one) for place, set_plan in self._plan.sets.items() for one in set_plan.embedded]
        if not features:
            return {}
        categories: dict[str, list[tf.Tensor]] = {}
        for place, one in features:
            categories.setdefault(one.table, []).append(flat_categories(piece_at(graph, place)[one.feature]))
        found = {table: iter(vectors) for table, vectors in self._tables(categories, training=training).items()}
        combined: dict[str, list[tf.Tensor]] = {}
        for place, one in features:
            vectors = combine_embeddings(
                next(found[one.table]), piece_at(graph, place)[one.feature], one.options.combiner
            )
            combined.setdefault(place, []).append(gate_feature(feature_key(place, one.feature), vectors))
        return combined

    def _columns(self, place: str, name: const.FieldName, values: tf.Tensor) -> tf.Tensor:
        """Makes floats, [num_items, width], of numbers; features that are floats already are gated with the graph."""
        columns = as_columns(tf.cast(values, self.compute_dtype))
        return columns if values.dtype.is_floating else gate_feature(feature_key(place, name), columns)

    def _check_features(self, graph: GraphTensor) -> None:
        names = [where for where, _ in encoded_features(graph.spec, self._plan.options)]
        if names != self._names:
            raise ValueError(
                f"`graph` must have the features of `graph_spec`; got {names}, expected {self._names}. Make the layer "
                "with the spec of the graphs that it is called on."
            )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor; the options include the numbers from tf.Transform."""
        return {
            **super().get_config(),
            "graph_spec": self._graph_spec,
            "options": dataclasses.asdict(self._plan.options),
        }


def _places_with_values(graph_spec: GraphTensorSpec, plan: EncodingPlan) -> list[str]:
    """Lists the places of sets whose features have a total width above 0."""
    specs = dict(encoded_features(graph_spec, plan.options))
    return [
        place
        for place, set_plan in plan.sets.items()
        if set_plan.embedded or any(specs[place, name].shape[1:].num_elements() for name in set_plan.numeric)
    ]


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class LearnedState(tf_keras.layers.Layer):
    """Gives all items of a set without features the same learned vector as initial state.

    The result equals a linear layer on a feature that is 1 for every item: it does not distinguish items yet, but
    the next layers get a state with a width. With states of width 0, as `MakeEmptyFeature` makes them, matrix
    products abort the process in some versions of TensorFlow.

    Init args:
        units: width of the vector, at least 1.
        initializer: a Keras initializer or its name, for a matrix of shape [1, units].
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph_piece: node set, edge set or context of a scalar graph.

    Returns:
        Float tensor of shape [num_items, units]. Its shape is static if `graph_piece.spec.total_size` is. TPUs need
        this, so there the set must have a feature, of any width.

    Raises:
        ValueError: if `units` is below 1, or the graph is not scalar.

    Example:
        >>> graph = tfx_gnn.homogeneous(source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features={
        ...     "#id": tf.constant(["a", "b", "c"])})
        >>> LearnedState(2, initializer="ones")(graph.node_sets["nodes"]).numpy().tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, units: int, *, initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"`units` must be at least 1; got {units}. Choose the width of the states.")
        self._units = units
        self._initializer = tf_keras.initializers.get(initializer)

    def build(self, input_shape: Any) -> None:
        """Makes the vector.

        Args:
            input_shape: not used.
        """
        self._state = self.add_weight("state", (1, self._units), initializer=self._initializer)
        super().build(input_shape)

    def call(self, graph_piece: FeaturePiece) -> tf.Tensor:
        """Gives the vector to each item; see the class.

        Args:
            graph_piece: node set, edge set or context of a scalar graph.

        Returns:
            Float tensor of shape [num_items, units].

        Raises:
            ValueError: if the graph is not scalar.
        """
        if graph_piece.rank != 0:
            raise ValueError(
                f"`graph_piece` must be of a scalar graph; got one of shape {graph_piece.shape}. Merge the graphs of "
                "the batch first, with `merge_batch_to_components()`."
            )
        static_size = graph_piece.spec.total_size
        num_items = graph_piece.total_size if static_size is None else static_size
        return tf.broadcast_to(tf.cast(self._state, self.compute_dtype), [num_items, self._units])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "units": self._units,
            "initializer": tf_keras.initializers.serialize(self._initializer),
        }
