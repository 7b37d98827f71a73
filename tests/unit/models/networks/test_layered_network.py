from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.graph_constants import TARGET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.models.networks.gat_v2 import gat_v2
from tfx_gnn.models.networks.gcn import gcn
from tfx_gnn.models.networks.gin import gin
from tfx_gnn.models.networks.graph_sage import graph_sage
from tfx_gnn.models.networks.hgt import hgt
from tfx_gnn.models.networks.mpnn import mpnn
from tfx_gnn.models.networks.rgcn import rgcn
from tfx_gnn.models.tasks.label_places import GraphReadout

NETWORKS = {
    "gcn": gcn,
    "graph_sage": graph_sage,
    "gat_v2": gat_v2,
    "mpnn": mpnn,
    "gin": gin,
    "rgcn": rgcn,
    "hgt": hgt,
}


def _graph(states=((1.0, -2.0), (3.0, 4.0), (0.0, 6.0))):
    """Papers 0 -> 1 -> 2; author 0 wrote paper 2."""
    return GraphTensor.from_pieces(
        node_sets={
            "paper": NodeSet.from_fields(sizes=[3], features={"hidden_state": tf.constant(states)}),
            "author": NodeSet.from_fields(sizes=[1], features={"hidden_state": tf.constant([[1.0] * len(states[0])])}),
        },
        edge_sets={
            "cites": EdgeSet.from_fields(
                sizes=[2],
                features={},
                adjacency=Adjacency.from_indices(("paper", tf.constant([0, 1])), ("paper", tf.constant([1, 2]))),
            ),
            "writes": EdgeSet.from_fields(
                sizes=[1],
                features={},
                adjacency=Adjacency.from_indices(("author", tf.constant([0])), ("paper", tf.constant([2]))),
            ),
        },
    )


def _citations():
    """The papers alone."""
    graph = _graph()
    return GraphTensor.from_pieces(
        node_sets={"paper": graph.node_sets["paper"]}, edge_sets={"cites": graph.edge_sets["cites"]}
    )


def _adding_network(graph, combination):
    """Two layers, each of which adds what a paper's predecessor is to what it is itself."""
    network = gin(
        graph.spec,
        units=2,
        num_layers=2,
        activation="linear",
        normalization="none",
        receiver_tags=[TARGET],
        jumping_knowledge=combination,
    )
    network(graph)
    network.set_weights([np.eye(2) if weight.ndim == 2 else np.zeros(2) for weight in network.get_weights()])
    return network


# First states (1, -2), (3, 4), (0, 6); then (1, -2), (4, 2), (3, 10); then (1, -2), (5, 0), (7, 12).
@pytest.mark.parametrize(
    ("combination", "expected"),
    [
        ("none", [[1, -2], [5, 0], [7, 12]]),
        ("concat", [[1, -2, 1, -2, 1, -2], [3, 4, 4, 2, 5, 0], [0, 6, 3, 10, 7, 12]]),
        ("max", [[1, -2], [5, 4], [7, 12]]),
        ("sum", [[3, -6], [12, 6], [10, 28]]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_states_of_all_layers_are_combined(wrap, combination, expected):
    graph = _citations()
    network = _adding_network(graph, combination)

    states = wrap(lambda graph: network(graph).node_sets["paper"]["hidden_state"])(graph)

    np.testing.assert_allclose(states, expected)


def test_whole_graphs_are_read_by_the_states_of_all_layers():
    graph = _citations()

    read = GraphReadout("sum")(_adding_network(graph, "concat")(graph))

    # Sums over the papers of each of the three states.
    np.testing.assert_allclose(read, [[4, 8, 8, 10, 13, 10]])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_keeps_the_first_state_and_those_of_all_layers(name):
    graph = _graph()
    network = NETWORKS[name](graph.spec, units=4, num_layers=2, jumping_knowledge="concat", readout_node_sets=["paper"])
    updated = network(graph)

    states = updated.node_sets["paper"]["hidden_state"]

    assert states.shape == (3, 2 + 4 + 4)
    np.testing.assert_array_equal(states[:, :2], graph.node_sets["paper"]["hidden_state"])
    # Authors are not read out: they have the state that the last layer heard.
    assert updated.node_sets["author"]["hidden_state"].shape == (1, 4)


def test_states_of_several_widths_cannot_be_added_up():
    graph = _graph()

    message = r"got 'sum' for node set '\w+' with widths \[2, 4\].* or choose 'concat'"
    with pytest.raises(ValueError, match=message):
        graph_sage(graph.spec, units=4, num_layers=1, jumping_knowledge="sum")(graph)


def test_unknown_combinations_are_refused():
    with pytest.raises(ValueError, match=r"`jumping_knowledge` must be one of .*; got 'lstm'"):
        gcn(_graph().spec, units=4, num_layers=1, jumping_knowledge="lstm")


def test_combined_states_of_half_precision_are_in_half_precision():
    graph = _graph()
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        network = gcn(graph.spec, units=4, num_layers=1, jumping_knowledge="concat")
        states = network(graph).node_sets["paper"]["hidden_state"]
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")

    assert states.dtype == tf.bfloat16


def test_model_is_made_again_from_its_config():
    graph = _graph()
    inputs = tf_keras.layers.Input(type_spec=graph.spec)
    network = graph_sage(graph.spec, units=4, num_layers=2, jumping_knowledge="concat")
    model = tf_keras.Model(inputs, network(inputs).node_sets["paper"]["hidden_state"])

    again = tf_keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())

    np.testing.assert_array_equal(again(graph), model(graph))
