"""Tables of embeddings on two parameter servers, all in one process of its own: prints what came of them as JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from typing import ClassVar

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.options import StrategyOptions
from tfx_gnn.distribution.strategies import make_strategy
from tfx_gnn.keras.feature_encoders import EmbeddingColumn, SparseEmbeddingColumn
from tfx_gnn.training.export.saved_weights import find_weights
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.warm_start import warm_start

ROWS, DIMENSION, SMALL_ROWS = 1024, 256, 16


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


cluster = {
    role: [f"localhost:{free_port()}" for _ in range(number)]
    for role, number in {"chief": 1, "worker": 1, "ps": 2}.items()
}
servers = [
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=role, task_index=index, start=True)
    for role, index in (("worker", 0), ("ps", 0), ("ps", 1))
]
os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
strategy = make_strategy(StrategyOptions(kind="parameter_server", num_parameter_partitions=2))


def batches(_=None):
    features = {"large": [[3], [1020], [3]], "texts": [["a,b"], ["c"], [""]]}
    return tf.data.Dataset.from_tensors((features, [[1.0], [2.0], [3.0]])).repeat()


def make_model():
    inputs = {"large": tf_keras.Input([1], dtype=tf.int64), "texts": tf_keras.Input([1], dtype=tf.string)}
    large = EmbeddingColumn("large", ROWS, DIMENSION)(tf_keras.layers.Reshape([])(inputs["large"]))
    texts = SparseEmbeddingColumn("texts", SMALL_ROWS, 4)(tf_keras.layers.Reshape([])(inputs["texts"]))
    outputs = tf_keras.layers.Dense(1, kernel_initializer="ones")(tf_keras.layers.Concatenate()([large, texts]))
    model = tf_keras.Model(inputs, outputs)
    model.compile(tf_keras.optimizers.Adam(0.01), "mse")
    return model


def whole_tables(model):
    """Weights of the layers with tables; those of a partitioned one below each other."""
    tables = {}
    for name in ("large", "texts"):
        parts = [weight.numpy() for weight in model.get_layer(name).weights]
        tables[name] = np.concatenate(parts)
    return tables


# As the trainer does.
with libraries_traced_as_written():
    with strategy.scope():
        model = make_model()
    large = model.get_layer("large").weights
    before = whole_tables(model)
    weights = tempfile.mkdtemp() + "/weights"
    model.save_weights(weights)
    creator = tf_keras.utils.experimental.DatasetCreator(batches)
    losses = model.fit(creator, epochs=1, steps_per_epoch=4, verbose=0).history["loss"]
    after = whole_tables(model)
    trained_weights = tempfile.mkdtemp() + "/weights"
    model.save_weights(trained_weights)

    # The same training on this machine alone, from the same weights.
    alone = make_model()
    alone.load_weights(weights).assert_existing_objects_matched()
    restored = whole_tables(alone)
    expected_losses = alone.fit(batches(), epochs=1, steps_per_epoch=4, verbose=0).history["loss"]
    expected = whole_tables(alone)
    again = make_model()
    again.load_weights(trained_weights).expect_partial()


class Alone:
    """The weights of the model that was trained alone, to start from."""

    weights = find_weights(alone)
    layouts: ClassVar = {name: weight.layout for name, weight in weights.items()}

    def value(self, name):
        return self.weights[name].variable.numpy()

    def vocabulary_names(self):
        return []


with strategy.scope():
    started = warm_start(
        model, Alone(), description="alone", vocabularies=Alone(), class_vocabularies=(), must_match=True
    )

results = {
    "parts": [[list(part.shape), int(tf.size(part))] for part in large],
    "small": [list(part.shape) for part in model.get_layer("texts").weights],
    "shape": list(before["large"].shape),
    "read_back_whole": all(np.array_equal(before[name], restored[name]) for name in before),
    "trained": sorted({int(row) for row in np.flatnonzero((after["large"] != before["large"]).any(axis=1))}),
    "trained_as_alone": all(np.allclose(after[name], expected[name], atol=1e-6) for name in after),
    "trained_read_back_whole": all(np.array_equal(after[name], table) for name, table in whole_tables(again).items()),
    "started": [started.num_taken, len(Alone.weights)],
    "started_as_alone": all(np.array_equal(whole_tables(model)[name], table) for name, table in expected.items()),
    "losses": [losses, expected_losses],
}
sys.stdout.write(json.dumps(results) + "\n")
sys.stdout.flush()
# Servers cannot be stopped.
os._exit(0)
