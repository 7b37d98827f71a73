"""A relational network that predicts a package's section from its neighbourhood.

Every node starts from its features and from an embedding of its identity. Only
the seed's identity is hidden: otherwise the network would memorize the training
packages. Two rounds of message passing over all relations follow, then the
seed's state is read out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import tensorflow_transform as tft
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.keras import feature_encoders, layers
from tfx_gnn.models import ForgetIdentity, HideSeedFeature, SmoothedCrossEntropy, relational_graph_update, state_block
from tfx_gnn_pipelines.tasks.debian_sections.preprocessing import KNOWN_LABEL

SEED_NODE_SET = "package"
LABEL_VOCABULARY = "section"

DEFAULTS = {
    "units": 128,
    "identity_units": 64,
    "category_units": 8,
    "dropout_rate": 0.2,
    "forget_rate": 0.1,
    "label_smoothing": 0.1,
    "learning_rate": 2e-3,
}
"""Default hyperparameters, which the trainer's options may override."""


def model_fn(
    graph_spec: tfgnn.GraphTensorSpec,
    tft_output: tft.TFTransformOutput,
    *,
    hyperparameters: Mapping[str, Any],
    num_steps: int,
) -> tf_keras.Model:
    """Builds and compiles the model.

    Args:
        graph_spec: spec of the merged subgraphs that `preprocessing_fn` makes, without label.
        tft_output: provides the sizes of the vocabularies.
        hyperparameters: any of `DEFAULTS`.
        num_steps: expected training steps, over which the learning rate decays to 0 along a cosine.

    Returns:
        Model from such a graph to logits, float32 [num_readouts, num_classes].

    Raises:
        ValueError: if there is no such hyperparameter.
    """
    unknown = sorted(set(hyperparameters) - set(DEFAULTS))
    if unknown:
        raise ValueError(
            f"`hyperparameters` must be among {sorted(DEFAULTS)}; got {unknown}. "
            f"{did_you_mean(unknown[0], DEFAULTS, otherwise='Correct the names.')}"
        )
    chosen = {**DEFAULTS, **hyperparameters}
    units, dropout_rate = int(chosen["units"]), float(chosen["dropout_rate"])
    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    # A seed must not see its own identity or, if `known_section` is present, its own section.
    for feature in (f"{SEED_NODE_SET}_id", KNOWN_LABEL):
        if feature in graph_spec.node_sets_spec[SEED_NODE_SET].features_spec:
            graph = HideSeedFeature(feature, _hidden_row(tft_output, feature))(graph)
    first_state = functools.partial(_first_state, tft_output=tft_output, chosen=chosen)
    graph = layers.MapFeatures(node_sets_fn=first_state)(graph)
    graph = relational_graph_update(graph_spec, units=units, dropout_rate=dropout_rate, edge_feature="numbers")(graph)
    # In the last round only the seeds' states matter, so only those few packages pass through the mixing layers.
    graph = relational_graph_update(graph_spec, units=None, node_sets=[SEED_NODE_SET], edge_feature="numbers")(graph)
    seed_state = state_block(2 * units, dropout_rate)(layers.StructuredReadout("seed")(graph))
    num_classes = tft_output.vocabulary_size_by_name(LABEL_VOCABULARY)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(num_classes, dtype="float32", name="logits")(seed_state))
    model.compile(
        optimizer=tf_keras.optimizers.Adam(
            tf_keras.optimizers.schedules.CosineDecay(float(chosen["learning_rate"]), num_steps)
        ),
        loss=SmoothedCrossEntropy(float(chosen["label_smoothing"])),
        weighted_metrics=["accuracy"],
    )
    return model


def _first_state(
    node_set: Any, *, node_set_name: str, tft_output: tft.TFTransformOutput, chosen: Mapping[str, Any]
) -> Any:
    """One dense layer over the numbers, the embedded categories and the embedded identity."""
    identity = f"{node_set_name}_id"
    known = ForgetIdentity(float(chosen["forget_rate"]), _unknown_row(tft_output, identity))(node_set[identity])
    num_rows, units = _hidden_row(tft_output, identity) + 1, int(chosen["identity_units"])
    parts = [feature_encoders.DenseEmbedding(num_rows, units, vocabulary=identity)(known)]
    for category in sorted(set(node_set.features) - {identity, "numbers"}):
        # One row for values outside the vocabulary, and one for hidden values.
        num_rows, units = _hidden_row(tft_output, category) + 1, int(chosen["category_units"])
        parts.append(feature_encoders.DenseEmbedding(num_rows, units, vocabulary=category)(node_set[category]))
    if "numbers" in node_set.features:
        parts.append(node_set["numbers"])
    state = tf_keras.layers.Dense(int(chosen["units"]), activation="relu")(tf_keras.layers.Concatenate()(parts))
    return tf_keras.layers.Dropout(float(chosen["dropout_rate"]))(state)


def _unknown_row(tft_output: tft.TFTransformOutput, vocabulary: str) -> int:
    """Index that the preprocessing gives to values outside the vocabulary: the first after its end."""
    return int(tft_output.vocabulary_size_by_name(vocabulary))


def _hidden_row(tft_output: tft.TFTransformOutput, vocabulary: str) -> int:
    """Index of an identity or label that exists but must not be seen."""
    return _unknown_row(tft_output, vocabulary) + 1
