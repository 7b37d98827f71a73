"""The preprocessing function of projects that have none of their own: declared features, and defaults by type.

What is not declared gets a default: numbers a z-score, texts and lists of integers a vocabulary. `#id`s stay ids, and
structure labels and the features of auxiliary sets, such as labels in `_readout`, stay as they are.
"""

from __future__ import annotations

import re

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform import schema_inference

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import STRUCTURE_LABEL, default_vocabulary_name
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.user_code import load_function
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout, SetLayout
from tfx_gnn.transform.ages import check_age, encode_age
from tfx_gnn.transform.feature_preparations import (
    PREPARATION_KINDS,
    Age,
    Bucketize,
    Drop,
    FeaturePreparation,
    Features,
    Hash,
    Keep,
    NumericPreparation,
    Text,
    Vocabulary,
    ZScore,
    kind_of,
)
from tfx_gnn.transform.graph_view import ContextView, EdgeSetView, GraphView, NodeSetView
from tfx_gnn.transform.numbers import check_missing_value, prepare_numbers
from tfx_gnn.transform.preprocessing import GraphPreprocessingFn
from tfx_gnn.transform.texts import words_and_pairs


def load_preprocessing_fn(reference: str, features: Features, layout: GraphLayout) -> GraphPreprocessingFn:
    """Loads the user's preprocessing function, or makes one from declarations.

    Args:
        reference: "package.module:function"; empty if there is none.
        features: declared preparations, only without a reference.
        layout: the graphs before the transform.

    Returns:
        The function from a GraphView to a GraphView.

    Raises:
        ValueError: if a declaration names an unknown set or column, or does not fit the type of its column.
    """
    return load_function(reference) if reference else ready_preprocessing_fn(features, layout)


def ready_preprocessing_fn(features: Features, layout: GraphLayout) -> GraphPreprocessingFn:
    """Makes a preprocessing function from declarations.

    Args:
        features: preparations by set, as in "nodes/user", and column; others have defaults.
        layout: the graphs before the transform.

    Returns:
        Function from a GraphView to a GraphView, for `tensor_preprocessing_fn`.

    Raises:
        ValueError: if a set or column is unknown, a preparation does not fit the type of its column, or a column has no
            default.
    """
    plan = plan_features(features, layout)

    def prepare(graph: GraphView) -> GraphView:
        """Applies the plan; features of sets that are not in it stay."""
        views: dict[str, ContextView | NodeSetView | EdgeSetView] = {"context": graph.context}
        views |= {f"{const.NODES}/{name}": view for name, view in graph.node_sets.items()}
        views |= {f"{const.EDGES}/{name}": view for name, view in graph.edge_sets.items()}
        made = {
            prefix: {
                name: (
                    encode_age(graph, views[prefix], views[prefix][preparation.column or name], preparation)
                    if isinstance(preparation, Age)
                    else _prepared(
                        views[prefix][preparation.column or name], preparation, f"{prefix.replace('/', '.')}.{name}"
                    )
                )
                for name, preparation in of_set.items()
                if not isinstance(preparation, Drop)
            }
            for prefix, of_set in plan.items()
        }
        return graph.replace_features(
            context=made.get("context"),
            node_sets={
                name: made[f"{const.NODES}/{name}"] for name in graph.node_sets if f"{const.NODES}/{name}" in made
            },
            edge_sets={
                name: made[f"{const.EDGES}/{name}"] for name in graph.edge_sets if f"{const.EDGES}/{name}" in made
            },
        )

    return prepare


def plan_features(features: Features, layout: GraphLayout) -> Features:
    """Checks declarations, and completes them by the defaults.

    Args:
        features: see `ready_preprocessing_fn`.
        layout: the graphs before the transform.

    Returns:
        A preparation for every feature that is not an index of nodes.

    Raises:
        ValueError: see `ready_preprocessing_fn`.
    """
    columns = {
        one_set.prefix: {one.name: one for one in one_set.features if one.name not in one_set.index_features}
        for one_set in layout.sets
    }
    for prefix, of_set in features.items():
        if prefix not in columns:
            raise ValueError(
                f"`features` must be of sets among {sorted(filter(_is_the_users, columns))}; got {prefix!r}. "
                f"{did_you_mean(prefix, columns)}"
            )
        for name, preparation in of_set.items():
            source = preparation.column or name
            if source not in columns[prefix]:
                known = [one for one in columns[prefix] if preparation.column or not one.startswith("#")]
                raise ValueError(
                    f"`features` must name columns of {prefix!r} among {known}; got {source!r}. "
                    f"{did_you_mean(source, known)}"
                )
            if preparation.column and (name in columns[prefix] or name.startswith("#")):
                raise ValueError(
                    f"`column` must go with a feature that has another name than all columns, and not a reserved one; "
                    f"got {name!r} in {prefix!r}. Rename the feature."
                )
            _check_fits(preparation, columns[prefix][source])
            if isinstance(preparation, Age):
                check_age(preparation, layout, columns[prefix][source].key)
    return {
        one_set.prefix: {
            name: features.get(one_set.prefix, {}).get(name) or _default(one_set, column)
            for name, column in columns[one_set.prefix].items()
        }
        | {name: one for name, one in features.get(one_set.prefix, {}).items() if one.column}
        for one_set in layout.sets
    }


def _is_the_users(prefix: str) -> bool:
    return not prefix.partition("/")[2].startswith("_")


def _default(one_set: SetLayout, column: FeatureColumn) -> FeaturePreparation:
    is_auxiliary = one_set.set_type != const.CONTEXT and get_aux_type_prefix(one_set.name) is not None
    if is_auxiliary or column.name.startswith("#") or column.name == STRUCTURE_LABEL:
        return Keep()
    if column.dtype == tf.string or (column.is_ragged and column.dtype == tf.int64):
        return Vocabulary()
    if column.is_ragged:
        raise ValueError(
            f"`features` must say what to do with lists of numbers of different lengths; got none for {column.key!r}. "
            "Write `drop`, or prepare it in a `preprocessing_fn` of yours."
        )
    return ZScore()


def _check_fits(preparation: FeaturePreparation, column: FeatureColumn) -> None:
    kind = kind_of(preparation)
    if column.dtype.name not in preparation.dtypes:
        fitting = [name for name, one in PREPARATION_KINDS.items() if column.dtype.name in one.dtypes]
        raise ValueError(
            f"`features` must fit the types of columns; got {kind!r} for {column.key!r}, which is {column.dtype.name}. "
            f"Choose one of {fitting}, or declare another type in the graph schema."
        )
    if isinstance(preparation, Keep) and preparation.num_categories and column.dtype != tf.int64:
        raise ValueError(
            f"`num_categories` must be given for integers alone; got {preparation.num_categories} for {column.key!r}, "
            f"which is {column.dtype.name}. Leave it out, or choose `vocabulary` or `bucketize`."
        )
    if isinstance(preparation, NumericPreparation):
        check_missing_value(preparation, column)
    is_too_long = (column.is_ragged and not preparation.takes_ragged) or (
        column.shape and not preparation.takes_vectors
    )
    if is_too_long:
        raise ValueError(
            f"`features` must fit the shapes of columns; got {kind!r} for {column.key!r}, whose items have the shape "
            f"{list(column.shape)}. Drop it, or prepare it in a `preprocessing_fn` of yours."
        )


def _prepared(value: const.Field, preparation: FeaturePreparation, name: str) -> const.Field:
    """Prepares one feature, in a scope of its own.

    TensorFlow shares the tables of vocabularies by the names of their operations: one of texts and one of integers must
    not have the same.
    """
    scope = re.sub("[^A-Za-z0-9_.]", "_", f"{name}.{value.dtype.name}").lstrip("_")
    with tf.name_scope(scope):
        made: const.Field
        match preparation:
            case Bucketize(num_buckets=num_buckets):
                made = tft.bucketize(value, num_buckets)
            case Hash(num_buckets=num_buckets):
                made = _hash(value, num_buckets)
            case Keep(num_categories=num_categories) if num_categories:
                made = tf.ragged.map_flat_values(tf.identity, value)
                _declare_categories(made, num_categories)
            case NumericPreparation():
                made = prepare_numbers(value, preparation)
            case Text():
                made = _text(value, preparation, name)
            case Vocabulary():
                made = _vocabulary(value, preparation, name)
            case _:
                made = value
    return made


def _vocabulary(value: const.Field, preparation: Vocabulary, name: str) -> const.Field:
    return tft.compute_and_apply_vocabulary(
        value,
        top_k=preparation.top_k or None,
        frequency_threshold=preparation.frequency_threshold or None,
        num_oov_buckets=preparation.num_oov_buckets,
        vocab_filename=preparation.name or default_vocabulary_name(name),
    )


def _text(value: tf.Tensor, preparation: Text, name: str) -> tf.RaggedTensor:
    vocabulary = default_vocabulary_name(name)
    ranks = tft.compute_and_apply_vocabulary(
        words_and_pairs(value, preparation.max_words),
        top_k=preparation.top_k,
        frequency_threshold=preparation.frequency_threshold or None,
        vocab_filename=vocabulary,
    )
    known = tf.ragged.boolean_mask(ranks, ranks >= 0)
    _declare_categories(known, tft.experimental.get_vocabulary_size_by_name(vocabulary))
    return known


def _hash(value: const.Field, num_buckets: int) -> const.Field:
    texts = value if value.dtype == tf.string else tf.ragged.map_flat_values(tf.strings.as_string, value)
    buckets = tft.hash_strings(texts, num_buckets)
    _declare_categories(buckets, num_buckets)
    return buckets


def _declare_categories(indices: const.Field, number: int | tf.Tensor) -> None:
    """Tells networks the number of categories, as they know it for vocabularies."""
    flat = indices.flat_values if isinstance(indices, tf.RaggedTensor) else indices
    schema_inference.set_tensor_schema_override(flat, tf.constant(0, tf.int64), tf.cast(number, tf.int64) - 1)
