from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.models.convolutions.gin_conv import GINConv


def _weights(layer):
    """Weights by the last parts of their names, such as "hidden/kernel"."""
    return {"/".join(weight.name.removesuffix(":0").split("/")[-2:]): weight for weight in layer.weights}


def _set_identity(layer, width):
    """Makes both layers of the perceptron pass on what they get."""
    for name in ("hidden", "output"):
        _weights(layer)[f"{name}/kernel"].assign(np.eye(width))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_own_state_counts_once_and_epsilon_more(library_graph, wrap):
    layer = GINConv(2, epsilon=0.5, activation=None, normalization="none")
    layer(library_graph, edge_set_name="cites")
    _set_identity(layer, 2)

    result = wrap(lambda graph: layer(graph, edge_set_name="cites"))(library_graph)

    # Paper 0, (1, 2), hears of (3, 4) and (5, 8); 1 and 2 of nobody; 3, (7, 0), of itself.
    np.testing.assert_allclose(result, [[9.5, 15.0], [4.5, 6.0], [7.5, 12.0], [17.5, 0.0]])


def test_sources_hear_of_their_targets(library_graph):
    layer = GINConv(2, receiver_tag=SOURCE, activation=None, normalization="none")
    layer(library_graph, edge_set_name="cites")
    _set_identity(layer, 2)

    result = layer(library_graph, edge_set_name="cites")

    np.testing.assert_allclose(result, [[1.0, 2.0], [4.0, 6.0], [6.0, 10.0], [14.0, 0.0]])


def test_features_of_edges_join_messages_before_their_relu(library_graph):
    layer = GINConv(2, edge_feature="weight", activation=None, normalization="none")
    layer(library_graph, edge_set_name="cites")
    _set_identity(layer, 2)
    _weights(layer)["edge/kernel"].assign([[-2.0, 2.0]])
    _weights(layer)["edge/bias"].assign([0.0, 1.0])

    result = layer(library_graph, edge_set_name="cites")

    # Weights are 0.5, 1.5 and 4. 1 -> 0: (3 - 1, 4 + 2); 2 -> 0: (5 - 3, 8 + 4); 3 -> 3: (max(7 - 8, 0), 0 + 9).
    np.testing.assert_allclose(result, [[5.0, 20.0], [3.0, 4.0], [5.0, 8.0], [7.0, 9.0]])


@pytest.mark.parametrize("receiver_tag", [SOURCE, TARGET])
@pytest.mark.parametrize("edge_feature", [None, "weight"])
def test_the_sum_goes_through_two_layers(small, edge_feature, receiver_tag):
    layer = GINConv(
        4,
        hidden_units=5,
        receiver_tag=receiver_tag,
        edge_feature=edge_feature,
        epsilon=0.25,
        learn_epsilon=True,
        activation="tanh",
        normalization="none",
    )
    result = layer(small.graph, edge_set_name="e")
    weights = {name: weight.numpy() for name, weight in _weights(layer).items()}
    senders, receivers = (small.source, small.target) if receiver_tag == TARGET else (small.target, small.source)

    messages = small.x[senders]
    if edge_feature:
        messages = np.maximum(messages + small.weight @ weights["edge/kernel"] + weights["edge/bias"], 0)
    total = 1.25 * small.x
    np.add.at(total, receivers, messages)
    hidden = np.tanh(total @ weights["hidden/kernel"] + weights["hidden/bias"])
    expected = hidden @ weights["output/kernel"] + weights["output/bias"]

    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(sort_edges(small.graph), edge_set_name="e"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("learned", [True, False])
def test_epsilon_is_a_weight_if_it_is_learned(small, learned):
    layer = GINConv(2, epsilon=0.25, learn_epsilon=learned)
    layer(small.graph, edge_set_name="e")

    assert [weight.numpy() for weight in layer.trainable_weights if weight.shape.rank == 0] == [0.25] * learned


@pytest.mark.parametrize(("normalization", "axis"), [("layer", 1), ("graph", 0)])
def test_the_result_is_normalized(small, normalization, axis):
    layer, plain = (GINConv(4, activation=None, normalization=name) for name in (normalization, "none"))
    result = layer(small.graph, edge_set_name="e")
    plain(small.graph, edge_set_name="e")
    for name, weight in _weights(plain).items():
        weight.assign(_weights(layer)[name])
    values = plain(small.graph, edge_set_name="e").numpy()

    # Of each node by itself, or over all nodes of the graph; scale and offset begin as 1 and 0.
    deviation = np.sqrt(values.var(axis=axis, keepdims=True) + 1e-3)
    expected = (values - values.mean(axis=axis, keepdims=True)) / deviation
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_states_of_several_widths_are_refused(library_graph):
    message = "`graph` must have states of one width at both ends of edges; got 1 in node set 'author' and 2 in 'paper'"
    with pytest.raises(ValueError, match=message):
        GINConv(2)(library_graph, edge_set_name="writes")


def test_normalization_over_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"`normalization` must be one of .*; got 'batch'"):
        GINConv(2, normalization="batch")


def test_layer_is_made_again_from_its_config(small, remade):
    layer = GINConv(
        3, hidden_units=4, receiver_tag=SOURCE, edge_feature="weight", epsilon=0.5, learn_epsilon=True, activation="elu"
    )
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
