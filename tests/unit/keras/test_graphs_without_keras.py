"""Who imports the graph core alone pays for Keras when Keras is used, and then has all of it.

Who loads a model with graphs needs `import tfx_gnn` and no name of it.
"""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn

# Each way of meeting a symbolic graph must work as the first one in a process.
_PROGRAM = """
import json, sys
import tensorflow as tf
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.pieces import EdgeSet
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import NodeSet

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


_LOADERS = {
    "by Keras": """
import sys
import tensorflow as tf
import tf_keras
import tfx_gnn

print(type(tf_keras.models.load_model(sys.argv[1]).layers[1]).__module__)
""",
    "by TensorFlow": """
import sys
import tensorflow as tf
import tfx_gnn

tf.saved_model.load(sys.argv[1])
print("tf_keras" in sys.modules)
""",
}


@pytest.mark.filterwarnings("ignore:Encoding a StructuredValue:UserWarning")
@pytest.mark.parametrize(
    ("way", "printed"), [("by Keras", "tfx_gnn.keras.layers.map_features"), ("by TensorFlow", "False")]
)
def test_saved_model_of_graphs_loads_after_the_import_alone(way, printed, tmp_path):
    nodes = tfgnn.NodeSetSpec.from_field_specs(
        features_spec={"x": tf.TensorSpec([None, 2])}, sizes_spec=tf.TensorSpec([1], tf.int32)
    )
    inputs = tf_keras.Input(type_spec=tfgnn.GraphTensorSpec.from_piece_specs(node_sets_spec={"a": nodes}))
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=lambda node_set, **_: 2.0 * node_set["x"])(inputs)
    tf_keras.Model(inputs, tfgnn.keras.layers.Pool(tfgnn.CONTEXT, "sum", node_set_name="a")(graph)).save(tmp_path)

    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    program = [sys.executable, "-c", _LOADERS[way], str(tmp_path)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == printed
