"""Who imports the graph core alone pays for Keras when Keras is used, and then has all of it."""

import json
import os
import subprocess
import sys

import pytest

# Each way of meeting a symbolic graph must work as the first one in a process.
_PROGRAM = """
import json, sys
import tensorflow as tf
from tfx_gnn.graph.adjacency import Adjacency
from tfx_gnn.graph.edge_set import EdgeSet
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.node_set import NodeSet

edges = EdgeSet.from_fields(sizes=[2], adjacency=Adjacency.from_indices(("a", [0, 1]), ("a", [2, 0])))
nodes = NodeSet.from_fields(sizes=[3], features={"x": [1.0, 2.0, 4.0]})
graph = GraphTensor.from_pieces(node_sets={"a": nodes}, edge_sets={"e": edges})
spec = graph.spec
loaded = "tf_keras" in sys.modules

import tf_keras


class MakeGraph(tf_keras.layers.Layer):
    def call(self, x):
        return graph.replace_features(node_sets={"a": {"x": x}})


def by_input_spec():
    inputs = tf_keras.Input(type_spec=spec)
    model = tf_keras.Model(inputs, inputs.edge_sets["e"].adjacency.target)
    return model.input_names, model(graph)


def by_layer():
    inputs = tf_keras.Input([])
    model = tf_keras.Model(inputs, MakeGraph()(inputs).edge_sets["e"].adjacency.target)
    return model.input_names, model(tf.zeros([3]))


names, answer = globals()[sys.argv[1]]()
print(json.dumps([loaded, names, answer.numpy().tolist()]))
"""


@pytest.mark.parametrize("way", ["by_input_spec", "by_layer"])
def test_keras_knows_graphs_of_the_core_as_soon_as_it_meets_one(way):
    # TensorFlow itself loads tf_keras if this is set.
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    program = [sys.executable, "-c", _PROGRAM, way]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    keras_was_loaded, input_names, answer = json.loads(done.stdout.splitlines()[-1])
    assert not keras_was_loaded
    # As in TF-GNN; the names of inputs become those of an exported signature.
    assert input_names == ["input_1"]
    assert answer == [2, 0]
