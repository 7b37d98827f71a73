from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.graph.ops.homogeneous_graph import homogeneous
from tfx_gnn.models.convolutions.gcn_conv import GCNConv


def _formula(small, *, weight, loops, normalization, swapped=False):
    """The dense matrix of the paper: entry [i, j] is what j tells i."""
    source, target = (small.target, small.source) if swapped else (small.source, small.target)
    matrix = np.zeros([5, 5])
    np.add.at(matrix, (target, source), weight)
    matrix = matrix + np.eye(5) if loops else matrix
    d_in, d_out = np.maximum(matrix.sum(axis=1), 1), np.maximum(matrix.sum(axis=0), 1)
    scales = {
        "none": 1.0,
        "in": 1 / d_in[:, None],
        "out": 1 / d_out[None, :],
        "in_out": 1 / np.sqrt(d_in[:, None] * d_out[None, :]),
        "in_in": 1 / np.sqrt(d_in[:, None] * d_in[None, :]),
    }
    return matrix * scales[normalization] @ small.x


@pytest.mark.parametrize("units", [2, 4], ids=["narrowing", "widening"])
@pytest.mark.parametrize("loops", [False, True], ids=["bare", "loops"])
@pytest.mark.parametrize("normalization", ["none", "in", "out", "in_out", "in_in"])
def test_layer_is_the_matrix_of_the_paper(small, normalization, loops, units):
    for feature, weight in ((None, 1.0), ("weight", small.weight[:, 0])):
        layer = GCNConv(
            units,
            activation=None,
            add_self_loops=loops,
            degree_normalization=normalization,
            edge_weight_feature_name=feature,
        )
        result = layer(small.graph, edge_set_name="e")
        bias, kernel = (value.numpy() for value in layer.weights)
        expected = _formula(small, weight=weight, loops=loops, normalization=normalization) @ kernel + bias

        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(layer(sort_edges(small.graph), edge_set_name="e"), expected, rtol=1e-5, atol=1e-6)


def test_a_triangle_by_hand():
    graph = homogeneous(
        source=tf.constant([0, 1, 1, 2, 2, 0]), target=tf.constant([1, 0, 2, 1, 0, 2]), node_features=tf.eye(3)
    )
    layer = GCNConv(3, activation=None, add_self_loops=True, kernel_initializer="identity")

    # Every degree is 3 with the loop, so that everybody gets the mean of all.
    np.testing.assert_allclose(layer(graph, edge_set_name="edges"), np.full([3, 3], 1 / 3), rtol=1e-6)


def test_messages_go_to_the_sources_too(small):
    layer = GCNConv(2, activation=None, receiver_tag=SOURCE, kernel_initializer="identity", use_bias=False)

    expected = _formula(small, weight=1.0, loops=False, normalization="in_out", swapped=True)[:, :2]

    np.testing.assert_allclose(layer(small.graph, edge_set_name="e"), expected, rtol=1e-5, atol=1e-6)


def test_edges_between_two_node_sets_are_fine_without_loops(library_graph):
    layer = GCNConv(1, activation=None, degree_normalization="in_out", kernel_initializer="ones", use_bias=False)

    # Author 0 (state 1) wrote papers 0 and 1, author 1 (state 2) paper 3.
    np.testing.assert_allclose(
        layer(library_graph, edge_set_name="writes"), [[2**-0.5], [2**-0.5], [0.0], [2.0]], rtol=1e-6
    )


@pytest.mark.parametrize("options", [{"add_self_loops": True}, {"degree_normalization": "in_in"}])
def test_what_needs_one_node_set_is_refused_for_two(library_graph, options):
    with pytest.raises(ValueError, match="`edge_set_name` must name edges within one node set"):
        GCNConv(1, **options)(library_graph, edge_set_name="writes")


def test_wrong_arguments_are_refused(small):
    with pytest.raises(ValueError, match="`degree_normalization` must be one of"):
        GCNConv(1, degree_normalization="symmetric")
    features = {"weight": tf.ones([6, 2])}
    with pytest.raises(ValueError, match=r"`edge_weight_feature_name` must name one number for each edge; got shape"):
        GCNConv(1, edge_weight_feature_name="weight")(
            small.graph.replace_features(edge_sets={"e": features}), edge_set_name="e"
        )


def test_layer_is_made_again_from_its_config(small, remade):
    layer = GCNConv(
        2, receiver_tag=TARGET, activation="tanh", add_self_loops=True, edge_weight_feature_name="weight", name="gcn"
    )
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
