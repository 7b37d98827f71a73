"""Decides how each feature is encoded, and does the part that accelerators cannot do.

That part turns strings and ragged values into dense integers. How a feature is encoded is decided once, from the types
of the features and the options.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras.feature_encoders.category_values import (
    TransformOutput,
    category_count,
    find_vocabulary,
    hash_to_buckets,
    pad_values,
)
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions, full_name
from tfx_gnn.keras.layer_arguments import with_type_specs
from tfx_gnn.keras.weight_index import FIXED

CONTEXT_PLACE = "context"
"""Place of the context; node sets have places "nodes/<name>", edge sets "edges/<name>"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddedFeature:
    """A categorical feature.

    Attributes:
        feature: name of the feature in its set.
        table: name of the embedding table.
        options: options of the feature, with the numbers of rows and units filled in.
    """

    feature: const.FieldName
    table: str
    options: EmbeddingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetPlan:
    """The parts of the hidden state of one set, in this order.

    Attributes:
        numeric: names of features that are numbers.
        embedded: categorical features.
    """

    numeric: tuple[const.FieldName, ...]
    embedded: tuple[EmbeddedFeature, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodingPlan:
    """How all features are encoded.

    Attributes:
        sets: by place: "nodes/<name>", "edges/<name>" or "context".
        tables: number of rows, including those for unknown categories, and width, by table name.
        vocabularies: vocabulary that numbers a table's rows, by table name; "" for hashes. Others are not known.
        options: the options, completed so that they make the same plan without the output of tf.Transform.
    """

    sets: Mapping[str, SetPlan]
    tables: Mapping[str, tuple[int, int]]
    vocabularies: Mapping[str, str]
    options: FeatureEncoderOptions


def plan_encodings(
    graph_spec: GraphTensorSpec, options: FeatureEncoderOptions, tft_output: TransformOutput | None = None
) -> EncodingPlan:
    """Decides how each feature is encoded.

    Floats and bools are numbers. Integers are numbers if the options say so; otherwise they are categories, whose
    number the options or tf.Transform must give. Strings are categories. Auxiliary sets, and features
    whose names begin with "#", are ignored.
    """
    specs = dict(encoded_features(graph_spec, options))
    given = {full_name(name): one for name, one in options.embeddings.items()}
    numeric = {full_name(name) for name in options.numeric}
    ignored = {full_name(name) for name in options.ignored}
    names = {feature_key(*where) for where in specs}
    problems = [f"{name!r} is not an encoded feature" for name in sorted({*given, *numeric, *ignored} - names)]
    numbers: dict[str, list[const.FieldName]] = {}
    embedded: dict[str, EmbeddingOptions] = {}
    vocabularies: dict[str, str] = {}
    for (place, feature), spec in specs.items():
        name = feature_key(place, feature)
        if name in ignored:
            continue
        is_number = spec.dtype.is_floating or spec.dtype == tf.bool or (spec.dtype.is_integer and name in numeric)
        is_number = is_number and (spec.dtype.is_floating or name not in given)
        problem = _problem_of_number(spec, name in given) if is_number else _problem_of_category(spec, name in numeric)
        if problem:
            problems.append(f"{name!r} {problem}")
        elif is_number:
            numbers.setdefault(place, []).append(feature)
        elif name in given or spec.dtype.is_integer:
            one = _with_counts(given.get(name, EmbeddingOptions()), name, options.units, tft_output)
            if is_hashed(spec.dtype, one):
                vocabularies[_table(name, one)] = FIXED
            elif vocabulary := one.vocabulary or find_vocabulary(tft_output, name, one.rows):
                vocabularies[_table(name, one)] = vocabulary
                one = dataclasses.replace(one, vocabulary=vocabulary)
            embedded[name] = one
        else:
            problems.append(f"{name!r} is a string, but has no number of `rows` to hash it to")
    embedded = _share(embedded, problems)
    problems += [f"{name!r} has no known number of categories" for name, one in embedded.items() if not one.rows]
    if problems:
        raise ValueError(
            f"`options` must say how each feature is encoded; got problems: {'; '.join(sorted(problems))}. Known are "
            f"{sorted(names)}. Name it in `embeddings` with `rows`, in `numeric` or in `ignored`, or make "
            "it with tft.compute_and_apply_vocabulary; in `features`, choose `vocabulary`, or `keep` with its "
            "`num_categories`."
        )
    return EncodingPlan(
        sets={
            place: SetPlan(
                numeric=tuple(numbers.get(place, ())),
                embedded=tuple(
                    EmbeddedFeature(feature=feature, table=_table(name, embedded[name]), options=embedded[name])
                    for (owner, feature) in specs
                    if owner == place and (name := feature_key(place, feature)) in embedded
                ),
            )
            for place in encoded_places(graph_spec, options)
        },
        tables={_table(name, one): (one.rows + one.oov_rows, one.units) for name, one in sorted(embedded.items())},
        vocabularies=vocabularies,
        options=dataclasses.replace(options, embeddings=embedded),
    )


def encoded_places(graph_spec: GraphTensorSpec, options: FeatureEncoderOptions) -> Iterator[str]:
    """Yields the sets that get a hidden state: "nodes/<name>", "edges/<name>", "context"."""
    for kind, sets, is_encoded in (
        (const.NODES, graph_spec.node_sets_spec, True),
        (const.EDGES, graph_spec.edge_sets_spec, options.encode_edges),
    ):
        yield from (f"{kind}/{name}" for name in sorted(sets) if is_encoded and not name.startswith("_"))
    if options.encode_context:
        yield CONTEXT_PLACE


def encoded_features(
    graph_spec: GraphTensorSpec, options: FeatureEncoderOptions
) -> Iterator[tuple[tuple[str, const.FieldName], const.FieldSpec]]:
    """Yields place, name and spec of each feature of the sets that get a hidden state, in a fixed order."""
    for place in encoded_places(graph_spec, options):
        kind, _, set_name = place.partition("/")
        if kind == CONTEXT_PLACE:
            features = graph_spec.context_spec.features_spec
        else:
            sets = graph_spec.node_sets_spec if kind == const.NODES else graph_spec.edge_sets_spec
            features = sets[set_name].features_spec
        yield from (((place, name), features[name]) for name in sorted(features) if not name.startswith("#"))


def feature_key(place: str, feature: const.FieldName) -> str:
    """Returns the full name of a feature, such as "nodes/paper.venue" or "context/year"."""
    return f"{place}/{feature}" if place == CONTEXT_PLACE else f"{place}.{feature}"


def _problem_of_number(spec: const.FieldSpec, is_given: bool) -> str:
    if is_given:
        return "is a float, which cannot be a category"
    if isinstance(spec, tf.RaggedTensorSpec):
        return "is ragged: make it one vector per item in `preprocessing_fn`"
    if spec.shape.rank not in (1, 2) or None in spec.shape[1:].as_list():
        return f"has shape {spec.shape}: numbers have shape [num_items] or [num_items, width]"
    return ""


def _problem_of_category(spec: const.FieldSpec, is_numeric: bool) -> str:
    if is_numeric:
        return "is a string, which cannot be a number"
    if spec.shape.rank not in (1, 2):
        return f"has shape {spec.shape}: categories have shape [num_items], [num_items, k] or [num_items, (k)]"
    return ""


def _with_counts(
    options: EmbeddingOptions, name: str, units: int, tft_output: TransformOutput | None
) -> EmbeddingOptions:
    return dataclasses.replace(
        options,
        rows=options.rows or category_count(tft_output, name, options.vocabulary),
        units=options.units or units,
    )


def is_hashed(dtype: tf.DType, options: EmbeddingOptions) -> bool:
    """Returns whether the categories of a feature are hashes of its values."""
    return dtype == tf.string or options.hashed


def _table(name: str, options: EmbeddingOptions) -> str:
    return f"shared/{options.shared_name}" if options.shared_name else name


def _share(embedded: Mapping[str, EmbeddingOptions], problems: list[str]) -> dict[str, EmbeddingOptions]:
    """Sets the number of rows of features that share a table; appends disagreements to `problems`."""
    sizes: dict[str, set[tuple[int, int, int]]] = {}
    for name, one in embedded.items():
        if one.rows:
            sizes.setdefault(_table(name, one), set()).add((one.rows, one.oov_rows, one.units))
    for table, several in sizes.items():
        if len(several) > 1:
            problems.append(f"{table!r} is a table with different (rows, oov_rows, units): {sorted(several)}")
    known = {table: min(several)[0] for table, several in sizes.items()}
    return {
        name: dataclasses.replace(one, rows=one.rows or known.get(_table(name, one), 0))
        for name, one in embedded.items()
    }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class PrepareFeatures(tf_keras.layers.Layer):
    """Hashes categories, and pads ragged ones, in the input pipeline.

    TPUs have no strings, and need static shapes. If a model runs on a TPU, use this layer in the input pipeline,
    `dataset.map(prepare)`, and begin the model with
    `FeatureEncoder(prepare.output_spec, prepare.encoder_options)`. On other devices, `FeatureEncoder` does all of this
    itself. This layer has no trained variables.

    Init args:
        graph_spec: spec of the graphs.
        options: options of the whole encoding, as `FeatureEncoder` takes them.
        tft_output: output of tf.Transform, such as a `tft.TFTransformOutput`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph: scalar graph.

    Returns:
        The scalar graph, in which hashed features are replaced by integers, and ragged features with `max_values`
        by dense ones, [num_items, max_values].

    Raises:
        ValueError: as for `FeatureEncoder`.

    Example:
        >>> graph = tfx_gnn.homogeneous(source=tf.constant([0]), target=tf.constant([1]),
        ...     node_features={"city": tf.constant(["Bern", "Rome"])})
        >>> prepare = PrepareFeatures(graph.spec, {"embeddings": {"nodes.city": {"rows": 10, "units": 4}}})
        >>> prepare(graph).node_sets["nodes"]["city"].dtype.name
        'int64'
        >>> encode = tfx_gnn.keras.feature_encoders.FeatureEncoder(prepare.output_spec, prepare.encoder_options)
        >>> encode(prepare(graph)).node_sets["nodes"]["hidden_state"].shape.as_list()
        [2, 4]
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
        self._graph_spec = graph_spec
        self._plan = plan_encodings(graph_spec, as_options(options), tft_output)
        self._output_spec: GraphTensorSpec | None = None

    @property
    def output_spec(self) -> GraphTensorSpec:
        """Spec of the graphs that the layer returns."""
        if self._output_spec is None:
            prepare = tf.autograph.experimental.do_not_convert(lambda graph: prepare_features(graph, self._plan))
            traced = tf.function(prepare, input_signature=[self._graph_spec]).get_concrete_function()
            self._output_spec = traced.structured_outputs.spec
        return self._output_spec

    @property
    def encoder_options(self) -> FeatureEncoderOptions:
        """Options for encoding the result, in which integers are already hashed."""
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
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "graph_spec": self._graph_spec,
            "options": dataclasses.asdict(self._plan.options),
        }


def prepare_features(graph: GraphTensor, plan: EncodingPlan) -> GraphTensor:
    """Converts all categorical features to integers, which are dense if the options say so.

    Returns the same object if there is nothing to do.
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
    """Returns the piece of a graph at "nodes/<name>", "edges/<name>" or "context"."""
    kind, _, set_name = place.partition("/")
    if kind == CONTEXT_PLACE:
        return graph.context
    return graph.node_sets[set_name] if kind == const.NODES else graph.edge_sets[set_name]


def as_options(options: FeatureEncoderOptions | Mapping[str, Any] | None) -> FeatureEncoderOptions:
    """Converts options as layers take them: an object, its plain form, or None for the defaults."""
    if options is None:
        return FeatureEncoderOptions()
    return options if isinstance(options, FeatureEncoderOptions) else FeatureEncoderOptions.from_plain(options)


def _prepare(values: const.Field, options: EmbeddingOptions) -> const.Field:
    if is_hashed(values.dtype, options):
        values = hash_to_buckets(values, options.rows)
    if options.max_values and isinstance(values, tf.RaggedTensor):
        return pad_values(values, options.max_values)
    return values
