"""Who imports the graph core alone pays for Keras when Keras is used, and then has all of it.

Who loads a model with graphs needs `import tfx_gnn` and no name of it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn

# Runs each program, a name and Python's code, in a process of its own that has imported TensorFlow and no more.
_PROCESSES = """
import json, os, sys
import tensorflow

folder, *argv = sys.argv[1:]
failed = []
for name, code in json.loads(sys.stdin.read()).items():
    process = os.fork()
    if process == 0:
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), 1)
        sys.argv = [name, *argv]
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(process, 0)[1] != 0:
        failed.append(name)
assert not failed, failed
"""


def _last_lines(programs: dict[str, str], folder: Path, argv: Sequence[str] = ()) -> dict[str, str]:
    """What each program printed last, run as the first one in a process."""
    # TensorFlow itself loads tf_keras if this is set.
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    command = [sys.executable, "-c", _PROCESSES, str(folder), *argv]
    done = subprocess.run(
        command, env=environment, input=json.dumps(programs), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: (folder / name).read_text().splitlines()[-1] for name in programs}


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


names, answer = globals()[sys.argv[0]]()
print(json.dumps([loaded, names, answer.numpy().tolist()]))
"""


_WAYS = ("by_input_spec", "by_layer")


def test_keras_knows_graphs_of_the_core_as_soon_as_it_meets_one(tmp_path):
    printed = _last_lines(dict.fromkeys(_WAYS, _PROGRAM), tmp_path)

    for way in _WAYS:
        keras_was_loaded, input_names, answer = json.loads(printed[way])
        assert not keras_was_loaded, way
        # As in TF-GNN; the names of inputs become those of an exported signature.
        assert input_names == ["input_1"], way
        assert answer == [2, 0], way


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
def test_saved_model_of_graphs_loads_after_the_import_alone(tmp_path):
    nodes = tfgnn.NodeSetSpec.from_field_specs(
        features_spec={"x": tf.TensorSpec([None, 2])}, sizes_spec=tf.TensorSpec([1], tf.int32)
    )
    inputs = tf_keras.Input(type_spec=tfgnn.GraphTensorSpec.from_piece_specs(node_sets_spec={"a": nodes}))
    graph = tfgnn.keras.layers.MapFeatures(node_sets_fn=lambda node_set, **_: 2.0 * node_set["x"])(inputs)
    tf_keras.Model(inputs, tfgnn.keras.layers.Pool(tfgnn.CONTEXT, "sum", node_set_name="a")(graph)).save(
        tmp_path / "model"
    )

    printed = _last_lines(_LOADERS, tmp_path, [str(tmp_path / "model")])

    assert printed == {"by Keras": "tfx_gnn.keras.layers.map_features", "by TensorFlow": "False"}
