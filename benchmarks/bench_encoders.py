"""Encoding raw features: one lookup for small tables of equal width, beside one for each feature.

A training step of all tables with Adam. Tables whose gradient is dense cost the optimizer their size, those with a
sparse one the rows that a batch has; both are here, for small tables and for larger ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from comparison import OURS, Bound, Report

import tfx_gnn
from tfx_gnn.keras.feature_encoders import EmbeddingOptions, FeatureEncoder, FeatureEncoderOptions

KERAS = "tf_keras, a layer each feature"
SINGLE = f"{OURS}, a table each feature"
SPARSE = f"{OURS}, sparse gradients"

NUM_NODES = 4096
NUM_FEATURES = 24
UNITS = 16
_STEPS_PER_ROUND = 5
_ROUNDS = 7

#: Against tf_keras.
FUSED_BOUND = Bound(at_least=1.0)

Features = Mapping[str, tf.Tensor]


@pytest.mark.parametrize("rows", [100, 2000, 50_000])
def bench_training_of_embeddings(report: Report, rows: int) -> None:
    """Integer features, looked up, concatenated and trained."""
    features = _integers(rows)
    options = FeatureEncoderOptions(
        embeddings={f"nodes.{name}": EmbeddingOptions(rows=rows) for name in features}, units=UNITS
    )
    report.compare(
        f"training step, {NUM_FEATURES} features of {rows:,} categories",
        {
            OURS: _encoder_step(features, options),
            SINGLE: _encoder_step(features, dataclasses.replace(options, fuse=False)),
            SPARSE: _encoder_step(features, dataclasses.replace(options, max_dense_gradient_elements=0)),
            KERAS: _keras_step(features, rows + 1),
        },
        {KERAS: FUSED_BOUND},
        items=NUM_NODES * _STEPS_PER_ROUND,
        unit="nodes",
        rounds=_ROUNDS,
    )


def bench_fusion_in_xla(report: Report) -> None:
    """What fusing gives where XLA compiles the step; tf_keras' own step has an operation of unknown shape there."""
    features = _integers(2000)
    options = FeatureEncoderOptions(
        embeddings={f"nodes.{name}": EmbeddingOptions(rows=2000) for name in features}, units=UNITS
    )
    report.compare(
        f"training step, {NUM_FEATURES} features of 2,000 categories, in XLA",
        {
            OURS: _encoder_step(features, options, in_xla=True),
            SINGLE: _encoder_step(features, dataclasses.replace(options, fuse=False), in_xla=True),
        },
        {},
        items=NUM_NODES * _STEPS_PER_ROUND,
        unit="nodes",
        rounds=_ROUNDS,
    )


def bench_hashing_and_embedding(report: Report) -> None:
    """Texts, hashed to 2,000 categories each, looked up and concatenated; no training."""
    texts = {name: tf.strings.as_string(values) for name, values in _integers(10**9).items()}
    options = FeatureEncoderOptions(
        embeddings={f"nodes.{name}": EmbeddingOptions(rows=2000) for name in texts}, units=UNITS
    )
    graph = _graph(texts)
    encoder = FeatureEncoder(graph.spec, options)
    layers = {name: (tf_keras.layers.Hashing(2000), tf_keras.layers.Embedding(2000, UNITS)) for name in texts}
    ours = tf.function(lambda: encoder(graph).node_sets["nodes"]["hidden_state"])
    theirs = tf.function(
        lambda: tf.concat([embed(hash_(texts[name])) for name, (hash_, embed) in layers.items()], axis=1)
    )
    report.compare(
        f"{NUM_FEATURES} features of texts, hashed and looked up",
        {OURS: _repeated(ours), KERAS: _repeated(theirs)},
        {KERAS: FUSED_BOUND},
        items=NUM_NODES * _STEPS_PER_ROUND,
        unit="nodes",
        rounds=_ROUNDS,
    )


def _encoder_step(features: Features, options: FeatureEncoderOptions, *, in_xla: bool = False) -> Callable[[], None]:
    graph = _graph(features)
    encoder = FeatureEncoder(graph.spec, options)
    encoder(graph)
    return _training(
        lambda: encoder(graph).node_sets["nodes"]["hidden_state"], encoder.trainable_weights, in_xla=in_xla
    )


def _keras_step(features: Features, rows: int) -> Callable[[], None]:
    layers = {name: tf_keras.layers.Embedding(rows, UNITS) for name in features}
    for layer in layers.values():
        layer.build(None)
    return _training(
        lambda: tf.concat([layer(features[name]) for name, layer in layers.items()], axis=1),
        [weight for layer in layers.values() for weight in layer.trainable_weights],
    )


def _training(encode: Callable[[], tf.Tensor], weights: Any, *, in_xla: bool = False) -> Callable[[], None]:
    """Returns a function that trains some steps towards a fixed linear function of the encoding."""
    optimizer = tf_keras.optimizers.Adam(1e-3)
    optimizer.build(weights)
    random = np.random.default_rng(1)
    mix = tf.constant(random.standard_normal([NUM_FEATURES * UNITS, 8]), tf.float32)
    labels = tf.constant(random.standard_normal([NUM_NODES, 8]), tf.float32)

    @tf.function(jit_compile=in_xla)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((encode() @ mix - labels) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return _repeated(step)


def _repeated(step: Callable[[], tf.Tensor]) -> Callable[[], None]:
    def steps() -> None:
        for _ in range(_STEPS_PER_ROUND):
            step().numpy()

    return steps


def _integers(rows: int) -> dict[str, tf.Tensor]:
    random = np.random.default_rng(0)
    return {
        f"feature_{position}": tf.constant(random.integers(0, rows, NUM_NODES), tf.int64)
        for position in range(NUM_FEATURES)
    }


def _graph(features: Features) -> tfx_gnn.GraphTensor:
    nodes = tfx_gnn.NodeSet.from_fields(sizes=tf.constant([NUM_NODES]), features=dict(features))
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"nodes": nodes})
