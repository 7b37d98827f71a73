"""A relational network that tells a package's section from its neighbourhood.

Every node starts from its features and from an embedding of its identity, save
the seed: a network that knows whom it looks at would learn the training
packages by heart. Two rounds of message passing over all relations follow, and
the seed's state is read out.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow_transform as tft
import tf_keras

from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.keras import layers
from tfx_gnn.models.dense_embedding import DenseEmbedding
from tfx_gnn.models.identity_features import ForgetIdentity, HideSeedFeature
from tfx_gnn.models.relational_update import relational_graph_update
from tfx_gnn.models.smoothed_cross_entropy import SmoothedCrossEntropy
from tfx_gnn.models.state_block import state_block

SEED_NODE_SET = "package"
LABEL_VOCABULARY = "section"

UNITS = 64
IDENTITY_UNITS = 32
CATEGORY_UNITS = 8
DROPOUT_RATE = 0.3
FORGET_RATE = 0.1
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 3e-3

_CATEGORIES = {
    "package": ("multi_arch", "priority"),
    "source": ("format", "standards_version"),
    "tag": ("facet",),
}


def model_fn(graph_spec: GraphTensorSpec, tft_output: tft.TFTransformOutput) -> tf_keras.Model:
    """Builds and compiles the model.

    Args:
        graph_spec: spec of the merged subgraphs that `preprocessing_fn` makes, without label.
        tft_output: knows the sizes of the vocabularies.

    Returns:
        Model from such a graph to logits, float32 [num_readouts, num_classes].
    """
    identity = f"{SEED_NODE_SET}_id"
    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    graph = HideSeedFeature(identity, _hidden_row(tft_output, identity))(graph)
    graph = layers.MapFeatures(node_sets_fn=functools.partial(_first_state, tft_output=tft_output))(graph)
    graph = relational_graph_update(graph_spec, units=UNITS, dropout_rate=DROPOUT_RATE, edge_feature="numbers")(graph)
    # In the last round only the seeds' states matter: a few of many packages are mixed.
    graph = relational_graph_update(graph_spec, units=None, node_sets=[SEED_NODE_SET], edge_feature="numbers")(graph)
    seed_state = state_block(UNITS, DROPOUT_RATE)(layers.StructuredReadout("seed")(graph))
    num_classes = tft_output.vocabulary_size_by_name(LABEL_VOCABULARY)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(num_classes, name="logits")(seed_state))
    model.compile(
        optimizer=tf_keras.optimizers.Adam(LEARNING_RATE),
        loss=SmoothedCrossEntropy(LABEL_SMOOTHING),
        weighted_metrics=["accuracy"],
    )
    return model


def _first_state(node_set: Any, *, node_set_name: str, tft_output: tft.TFTransformOutput) -> Any:
    """Numbers, embedded categories and the embedded identity, mixed by one layer."""
    identity = f"{node_set_name}_id"
    known = ForgetIdentity(FORGET_RATE, _unknown_row(tft_output, identity))(node_set[identity])
    parts = [DenseEmbedding(_hidden_row(tft_output, identity) + 1, IDENTITY_UNITS)(known)]
    for category in _CATEGORIES.get(node_set_name, ()):
        num_rows = _unknown_row(tft_output, category) + 1
        parts.append(DenseEmbedding(num_rows, CATEGORY_UNITS)(node_set[category]))
    if "numbers" in node_set.features:
        parts.append(node_set["numbers"])
    state = tf_keras.layers.Dense(UNITS, activation="relu")(tf_keras.layers.Concatenate()(parts))
    return tf_keras.layers.Dropout(DROPOUT_RATE)(state)


def _unknown_row(tft_output: tft.TFTransformOutput, vocabulary: str) -> int:
    """Position that the preprocessing gives to values that the vocabulary lacks: right behind it."""
    return int(tft_output.vocabulary_size_by_name(vocabulary))


def _hidden_row(tft_output: tft.TFTransformOutput, vocabulary: str) -> int:
    """Position of an identity that is there but must not be seen."""
    return _unknown_row(tft_output, vocabulary) + 1
