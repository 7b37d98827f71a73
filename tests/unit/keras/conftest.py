"""Graphs for the tests of layers."""

from __future__ import annotations

import types
import warnings

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn


@pytest.fixture(scope="session")
def oracle() -> types.ModuleType:
    """tensorflow-gnn, where there is one for this Python."""
    return pytest.importorskip("tensorflow_gnn", reason="tensorflow-gnn ends with Python 3.10")


def make_graph(library=tfx_gnn, num_nodes=3):
    """Two components: nodes a0 a1 | a2.., b0 | b1; edges a0-b0 a1-b0 | a2-b1; seeds a1 and a2."""
    nodes = {
        "hidden_state": tf.reshape(tf.range(2.0 * num_nodes), [num_nodes, 2]),
        "x": tf.range(1.0, num_nodes + 1)[:, tf.newaxis],
    }
    return library.GraphTensor.from_pieces(
        context=library.Context.from_fields(features={"hidden_state": tf.constant([[10.0], [20.0]])}),
        node_sets={
            "a": library.NodeSet.from_fields(sizes=[2, num_nodes - 2], features=nodes),
            "b": library.NodeSet.from_fields(
                sizes=[1, 1], features={"hidden_state": tf.constant([[1.0, 2.0], [3.0, 4.0]])}
            ),
            "_readout": library.NodeSet.from_fields(sizes=[1, 1], features={"label": tf.constant([0, 1])}),
        },
        edge_sets={
            "ab": library.EdgeSet.from_fields(
                sizes=[2, 1],
                features={"hidden_state": tf.constant([[1.0], [2.0], [3.0]])},
                adjacency=library.Adjacency.from_indices(("a", [0, 1, 2]), ("b", [0, 0, 1])),
            ),
            "_readout/seed": library.EdgeSet.from_fields(
                sizes=[1, 1], adjacency=library.Adjacency.from_indices(("a", [1, 2]), ("_readout", [0, 1]))
            ),
        },
    )


@pytest.fixture(name="make_graph")
def make_graph_fixture():
    return make_graph


@pytest.fixture
def graph():
    return make_graph()


@pytest.fixture
def spec(graph):
    return graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)


@pytest.fixture
def batch(graph):
    return tf.data.Dataset.from_tensors(graph).batch(1).get_single_element()


def _rebuilt_from_config(model, _):
    rebuilt = tf_keras.Model.from_config(model.get_config())
    rebuilt.set_weights(model.get_weights())
    return rebuilt


def _cloned(model, _):
    clone = tf_keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return clone


def _reloaded(model, folder):
    with warnings.catch_warnings():
        # True, and harmless: a model that takes graphs is loaded where tfx_gnn is.
        warnings.filterwarnings("ignore", "Encoding a StructuredValue with type tfx_gnn")
        model.save(str(folder / "model"), save_format="tf")
    return tf_keras.models.load_model(str(folder / "model"))


@pytest.fixture(params=[_rebuilt_from_config, _cloned, _reloaded], ids=["config", "clone", "saved"])
def again(request, tmp_path):
    """Makes a functional model a second time, with its weights."""
    return lambda model: request.param(model, tmp_path)
