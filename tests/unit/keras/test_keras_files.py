"""Models on graphs in Keras' own files, which hold their configuration as JSON."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.keras import layers
from tfx_gnn.models import graph_sage

GRAPH = tfgnn.homogeneous(
    source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([[5.0], [6.0], [7.0]])
)


@tf_keras.utils.register_keras_serializable(package="test_keras_files")
def encode(node_set, node_set_name):
    assert node_set_name == "nodes"
    return tf_keras.layers.Dense(4)(node_set["hidden_state"])


def handmade_model():
    inputs = tf_keras.layers.Input(type_spec=GRAPH.spec.relax(num_nodes=True, num_edges=True))
    conv = layers.SimpleConv(tf_keras.layers.Dense(4), "mean", receiver_tag=tfgnn.TARGET)
    update = layers.NodeSetUpdate({"edges": conv}, layers.NextStateFromConcat(tf_keras.layers.Dense(4)))
    graph = layers.GraphUpdate(node_sets={"nodes": update})(layers.MapFeatures(node_sets_fn=encode)(inputs))
    pooled = layers.Pool(tfgnn.CONTEXT, "mean", node_set_name="nodes")(graph)
    # Functions, methods and properties of graphs are layers, too.
    summed = tfgnn.pool_nodes_to_context(graph, "nodes", "sum", feature_name="hidden_state")
    first = graph.replace_features(node_sets={"nodes": {"x": pooled}}).node_sets["nodes"]["x"]
    return tf_keras.Model(inputs, tf_keras.layers.Dense(2)(pooled) + tf_keras.layers.Dense(2)(summed) + first[:, :2])


def ready_network():
    spec = GRAPH.spec
    inputs = tf_keras.layers.Input(type_spec=spec)
    encoded = layers.MapFeatures(node_sets_fn=encode)(inputs)
    graph = graph_sage(encoded.spec, units=4, num_layers=2)(encoded)
    return tf_keras.Model(inputs, layers.Pool(tfgnn.CONTEXT, "mean", node_set_name="nodes")(graph))


@pytest.mark.parametrize("make", [handmade_model, ready_network])
def test_a_model_with_a_graph_as_input_is_saved_and_loaded(make, tmp_path):
    model = make()
    expected = model(GRAPH).numpy()

    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")

    np.testing.assert_array_equal(loaded(GRAPH).numpy(), expected)
    assert loaded.input.type_spec == model.input.type_spec
    assert [weight.shape for weight in loaded.weights] == [weight.shape for weight in model.weights]
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert json.loads(archive.read("config.json"))["class_name"] == "Functional"


def test_a_layer_that_parses_is_saved_and_loaded(tmp_path):
    records = tf.constant([tfgnn.write_example(GRAPH).SerializeToString()])
    inputs = tf_keras.layers.Input([], dtype=tf.string)
    graph = layers.ParseExample(GRAPH.spec)(inputs).merge_batch_to_components()

    tf_keras.Model(inputs, graph.node_sets["nodes"]["hidden_state"]).save(tmp_path / "model.keras")

    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    assert loaded(records).numpy().tolist() == [[5.0], [6.0], [7.0]]


def test_a_model_is_trained_on_after_it_was_loaded(tmp_path):
    model = handmade_model()
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensors((GRAPH, tf.ones([1, 2]))).repeat(2)
    model.fit(data, verbose=0)
    model.save(tmp_path / "model.keras")

    loaded = tf_keras.models.load_model(tmp_path / "model.keras")

    assert loaded.optimizer.iterations.numpy() == 2
    assert loaded.evaluate(data, verbose=0) == pytest.approx(model.evaluate(data, verbose=0))
    loaded.fit(data, verbose=0)
    assert loaded.optimizer.iterations.numpy() == 4
