"""Snippets that say `tf.keras` run as they are once the environment makes that Keras 2."""

import os
import subprocess
import sys

# Read by a program of its own, because TensorFlow looks at the environment once.
_SNIPPETS = """
import tensorflow as tf
import tfx_gnn as tfgnn

docs = tfgnn.NodeSet.from_fields(sizes=[3], features={"id": ["a", "b", "a"]})
seed = tfgnn.NodeSet.from_fields(sizes=[1], features={"class_id": [1]})
cites = tfgnn.EdgeSet.from_fields(sizes=[2], adjacency=tfgnn.Adjacency.from_indices(("docs", [1, 2]), ("docs", [0, 0])))
graph = tfgnn.GraphTensor.from_pieces(node_sets={"docs": docs, "_readout": seed}, edge_sets={"cites": cites})


def node_sets_fn(node_set, *, node_set_name):
    features = node_set.get_features_dict()
    ids = features.pop("id")
    num_bins = 100
    hashed_id = tf.keras.layers.Hashing(num_bins=num_bins)(ids)
    features["hashed_id"] = hashed_id
    return features


dataset = tf.data.Dataset.from_tensors(graph).repeat(4).batch(2)
preproc_input = tf.keras.layers.Input(type_spec=dataset.element_spec)
graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=node_sets_fn)(preproc_input)
graph = graph.merge_batch_to_components()
labels = tfgnn.keras.layers.Readout(node_set_name="_readout", feature_name="class_id")(graph)
graph = graph.remove_features(node_sets={"_readout": ["class_id"]})
preproc_model = tf.keras.Model(preproc_input, (graph, labels))

ds = dataset.map(preproc_model)
model_input = tf.keras.layers.Input(type_spec=ds.element_spec[0])
graph = tfgnn.keras.layers.MapFeatures(
    node_sets_fn=lambda node_set, node_set_name: tf.keras.layers.Embedding(100, 4)(node_set["hashed_id"])
)(model_input)
update = tfgnn.keras.layers.NodeSetUpdate(
    {"cites": tfgnn.keras.layers.SimpleConv(tf.keras.layers.Dense(4), receiver_tag=tfgnn.TARGET)},
    tfgnn.keras.layers.NextStateFromConcat(tf.keras.layers.Dense(4)),
)
graph = tfgnn.keras.layers.GraphUpdate(node_sets={"docs": update})(graph)
logits = tf.keras.layers.Dense(2)(tfgnn.keras.layers.ReadoutFirstNode(node_set_name="docs")(graph))
model = tf.keras.Model(model_input, logits)
print("logits", *(model(batch).shape for batch, _ in ds))
"""


def test_snippets_with_the_name_of_keras_in_tensorflow_run():
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _SNIPPETS], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "logits (2, 2) (2, 2)"
