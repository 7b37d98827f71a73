"""Functional models over graphs, converted for TensorFlow Lite."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn

# Two components: nodes 0 and 1, and nodes 2 to 4.
TENSORS = {
    "x": tf.constant([[1.0], [2.0], [4.0], [8.0], [16.0]]),
    "node_sizes": tf.constant([2, 3]),
    "w": tf.constant([[1.0], [2.0], [3.0]]),
    "edge_sizes": tf.constant([1, 2]),
    "source": tf.constant([0, 2, 3]),
    "target": tf.constant([1, 4, 4]),
    "y": tf.constant([[5.0], [6.0]]),
}


class MakeGraph(tf_keras.layers.Layer):
    def call(self, tensors):
        ends = [("a", tensors["source"]), ("a", tensors["target"])]
        return tfgnn.GraphTensor.from_pieces(
            context=tfgnn.Context.from_fields(features={"y": tensors["y"]}),
            node_sets={"a": tfgnn.NodeSet.from_fields(sizes=tensors["node_sizes"], features={"x": tensors["x"]})},
            edge_sets={
                "e": tfgnn.EdgeSet.from_fields(
                    sizes=tensors["edge_sizes"],
                    features={"w": tensors["w"]},
                    adjacency=tfgnn.Adjacency.from_indices(*ends),
                )
            },
        )


def read(graph):
    layers = tfgnn.keras.layers
    updated = layers.GraphUpdate(
        node_sets={
            "a": layers.NodeSetUpdate(
                {"e": layers.Pool(tfgnn.TARGET, "sum", feature_name="w")},
                layers.NextStateFromConcat(tf_keras.layers.Lambda(lambda states: tf.reduce_sum(states, -1))),
                node_input_feature="x",
            )
        }
    )(graph)
    nodes, edges = graph.node_sets["a"], graph.edge_sets["e"]
    return {
        "x": nodes["x"],
        "doubled": nodes.features["x"] * 2.0,
        "w": edges.get_features_dict()["w"],
        "y": graph.context["y"],
        "source": edges.adjacency.source,
        "target": edges.adjacency[tfgnn.TARGET],
        "node_sizes": nodes.sizes,
        "edge_sizes": edges.sizes,
        "num_nodes": nodes.total_size,
        "num_components": graph.num_components,
        "replaced": graph.replace_features(node_sets={"a": {"z": nodes["x"] + 1.0}}).node_sets["a"]["z"],
        "rebuilt": tfgnn.NodeSet.from_fields(sizes=nodes.sizes, features={"z": nodes["x"]})["z"],
        "from_source": layers.Broadcast(tfgnn.SOURCE, edge_set_name="e", feature_name="x")(graph),
        "from_context": tfgnn.broadcast_context_to_nodes(graph, "a", feature_name="y"),
        "max_of_nodes": tfgnn.pool_nodes_to_context(graph, "a", "max", feature_name="x"),
        "mean_of_sources": tfgnn.pool_neighbors_to_node(graph, "e", tfgnn.TARGET, reduce_type="mean", feature_name="x"),
        "states": updated.node_sets["a"][tfgnn.HIDDEN_STATE],
        "first": layers.ReadoutFirstNode(node_set_name="a", feature_name="x")(graph),
    }


EXPECTED = {
    **TENSORS,
    "doubled": [[2.0], [4.0], [8.0], [16.0], [32.0]],
    "num_nodes": 5,
    "num_components": 2,
    "replaced": [[2.0], [3.0], [5.0], [9.0], [17.0]],
    "rebuilt": TENSORS["x"],
    "from_source": [[1.0], [4.0], [8.0]],
    "from_context": [[5.0], [5.0], [6.0], [6.0], [6.0]],
    "max_of_nodes": [[2.0], [16.0]],
    "mean_of_sources": [[0.0], [1.0], [0.0], [0.0], [6.0]],
    "states": [1.0, 3.0, 4.0, 8.0, 21.0],
    "first": [[1.0], [4.0]],
}


# Its successor is a package of its own; the converter stays.
@pytest.mark.filterwarnings(r"ignore:\s*Warning. tf.lite.Interpreter is deprecated:UserWarning")
def test_models_over_graphs_answer_alike_after_conversion(tmp_path):
    inputs = {name: tf_keras.Input(tensor.shape[1:], name=name, dtype=tensor.dtype) for name, tensor in TENSORS.items()}
    module = tf.Module()
    model = tf_keras.Model(inputs, read(MakeGraph()(inputs)))
    module.serve = tf.function(lambda **tensors: model(tensors))
    specs = {name: tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for name, tensor in TENSORS.items()}
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve.get_concrete_function(**specs))

    converted = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path)).convert()
    answers = tf.lite.Interpreter(model_content=converted).get_signature_runner("serving_default")(**TENSORS)

    assert set(answers) == set(EXPECTED)
    for name, value in EXPECTED.items():
        np.testing.assert_allclose(answers[name], value, rtol=1e-6, err_msg=name)
