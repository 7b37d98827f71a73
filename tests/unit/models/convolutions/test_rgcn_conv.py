from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.models.convolutions.relation_kernels import RelationKernels, block_diagonal
from tfx_gnn.models.convolutions.rgcn_conv import RGCNConv, RGCNGraphUpdate
from tfx_gnn.models.relations import relations_of


def _matrices(weights, decomposition):
    """The matrix of each relation, by equation 3 or 4 of the paper."""
    if "num_bases" in decomposition:
        bases, coefficients = weights
        return np.einsum("rb,bio->rio", coefficients, bases)
    return block_diagonal(tf.constant(weights[0])).numpy() if "num_blocks" in decomposition else weights[0]


@pytest.mark.parametrize("decomposition", [{}, {"num_bases": 2}, {"num_blocks": 3}], ids=["full", "bases", "blocks"])
def test_every_kind_of_edge_has_its_matrix(small, decomposition):
    layer = RGCNConv(6, 3, "kind", **decomposition)
    result = layer(small.graph, edge_set_name="e")

    expected = np.zeros([5, 6])
    for kind, matrix in enumerate(_matrices(layer.get_weights(), decomposition)):
        for node in range(5):
            heard = small.x[small.source[(small.target == node) & (small.kind == kind)]]
            expected[node] += heard.mean(axis=0) @ matrix if len(heard) else 0.0
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_edges_of_an_unknown_kind_tell_nothing(small):
    features = {"kind": tf.constant([-1, 7, 3, -5, 9, 3])}
    layer = RGCNConv(2, 3, "kind")

    result = layer(small.graph.replace_features(edge_sets={"e": features}), edge_set_name="e")

    assert not result.numpy().any()


@pytest.mark.parametrize("decomposition", [{}, {"num_bases": 2}, {"num_blocks": 2}], ids=["full", "bases", "blocks"])
def test_both_directions_of_every_edge_set_share_weights(library_graph, decomposition, remade):
    states = {"author": tf.constant([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])}
    graph = library_graph.replace_features(node_sets={"author": {"hidden_state": states["author"]}})
    layer = RGCNGraphUpdate(4, ["author", "paper"], relations_of(graph.spec), activation="linear", **decomposition)
    updated = layer(graph)
    kernels = _matrices([weight.numpy() for weight in layer.weights if "relations/" in weight.name], decomposition)
    own = next(weight for weight in layer.weights if "next_state_author/own_state" in weight.name).numpy()

    # Relations: cites to sources, cites to targets, writes to sources (authors), writes to targets.
    assert kernels.shape == (4, 2, 4)
    papers_of_authors = np.array([[2.0, 3.0], [7.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(
        updated.node_sets["author"]["hidden_state"], papers_of_authors @ kernels[2] + states["author"] @ own, rtol=1e-5
    )
    again = remade(layer, graph).node_sets["paper"]["hidden_state"]
    np.testing.assert_array_equal(again, updated.node_sets["paper"]["hidden_state"])


def test_states_of_several_widths_are_refused(library_graph):
    layer = RGCNGraphUpdate(2, ["paper"], relations_of(library_graph.spec))

    with pytest.raises(ValueError, match="`graph` must have states of one width"):
        layer(library_graph)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_bases": 1, "num_blocks": 1}, "one decomposition or none"),
        ({"num_bases": 0}, "must be at least 1"),
        ({"num_blocks": 3}, "`num_blocks` must divide `units`"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RelationKernels(2, 4, **arguments)


def test_blocks_must_divide_the_states():
    with pytest.raises(ValueError, match="`num_blocks` must divide the states' width"):
        RelationKernels(1, 4, num_blocks=2)(tf.ones([1, 1, 3]), relations=(0,))


def test_layer_is_made_again_from_its_config(small, remade):
    layer = RGCNConv(4, 3, "kind", num_bases=2, receiver_tag=SOURCE)
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
    assert layer.get_config()["receiver_tag"] != TARGET
