from __future__ import annotations

import numpy as np
import pytest
import tf_keras

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.keras.layers.simple_conv import SimpleConv
from tfx_gnn.models.convolutions.mpnn_conv import EdgeMLP, MPNNConv


def _weights(layer):
    return {"/".join(weight.name.split("/")[-2:]): weight.numpy() for weight in layer.weights}


@pytest.mark.parametrize("receiver_tag", [SOURCE, TARGET])
@pytest.mark.parametrize("reduce_type", ["sum", "mean", "max"])
def test_one_layer_equals_a_dense_layer_of_the_three_side_by_side(small, reduce_type, receiver_tag):
    layer = MPNNConv([4], reduce_type, receiver_tag=receiver_tag, edge_feature="weight")
    result = layer(small.graph, edge_set_name="e")
    weights = _weights(layer)
    parts = ("edge", "source", "target") if receiver_tag == TARGET else ("edge", "target", "source")
    joined = SimpleConv(
        tf_keras.layers.Dense(4, "relu"),
        "max_no_inf" if reduce_type == "max" else reduce_type,
        receiver_tag=receiver_tag,
        sender_edge_feature="weight",
    )
    joined(small.graph, edge_set_name="e")

    joined.set_weights([np.concatenate([weights[f"{part}/kernel:0"] for part in parts]), weights["message/bias:0"]])

    expected = joined(small.graph, edge_set_name="e")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(sort_edges(small.graph), edge_set_name="e"), expected, rtol=1e-5, atol=1e-6)


def test_edges_get_states_by_several_layers(small):
    layer = EdgeMLP([4, 2], edge_feature="weight", name="edges")
    result = layer(small.graph, edge_set_name="e")
    weights = _weights(layer)

    hidden = np.maximum(
        small.x[small.source] @ weights["source/kernel:0"]
        + small.x[small.target] @ weights["target/kernel:0"]
        + small.weight @ weights["edge/kernel:0"]
        + weights["edges/bias:0"],
        0,
    )
    kernel, bias = layer.get_weights()[-2:]

    np.testing.assert_allclose(result, np.maximum(hidden @ kernel + bias, 0), rtol=1e-5, atol=1e-6)


def test_edges_alone_can_be_the_message(small):
    layer = MPNNConv([2], node_feature=None, edge_feature="weight")

    assert layer(small.graph, edge_set_name="e").shape == (5, 2)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`units` must hold the width of at least one layer"):
        EdgeMLP([])
    with pytest.raises(ValueError, match="`reduce_type` must be one of"):
        MPNNConv([1], "prod")


def test_layer_is_made_again_from_its_config(small, remade):
    layer = MPNNConv([3, 2], "mean", receiver_tag=SOURCE, edge_feature="weight", activation="tanh")
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
