from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, SOURCE, TARGET
from tfx_gnn.graph.ops.edge_edits import sort_edges
from tfx_gnn.models.convolutions.gat_v2_conv import GATv2Conv


def _formula(layer, small, *, heads, merge):
    """Equation 7 of the paper, edge by edge and head by head."""
    weights = {weight.name.split("/", 1)[1]: weight.numpy() for weight in layer.weights}
    query = small.x @ weights["query/kernel:0"] + weights["query/bias:0"]
    value = small.x @ weights["value_node/kernel:0"] + weights["value_node/bias:0"]
    value = value[small.source] + small.weight @ weights["value_edge/kernel:0"]
    added = (query[small.target] + value).reshape(6, heads, -1)
    leaky = np.where(added > 0, added, 0.2 * added)
    logits = np.einsum("ehc,ch->eh", leaky, weights["attention_logits:0"])
    result = np.zeros([5, heads, leaky.shape[-1]])
    for node in range(5):
        edges = np.flatnonzero(small.target == node)
        if len(edges):
            attention = np.exp(logits[edges]) / np.exp(logits[edges]).sum(axis=0)
            result[node] = np.einsum("eh,ehc->hc", attention, value[edges].reshape(len(edges), heads, -1))
    return result.reshape(5, -1) if merge == "concat" else result.mean(axis=1)


@pytest.mark.parametrize("merge", ["concat", "mean"])
def test_layer_is_the_formula_of_the_paper(small, merge):
    layer = GATv2Conv(
        num_heads=2,
        per_head_channels=3,
        receiver_tag=TARGET,
        sender_edge_feature="weight",
        activation=None,
        heads_merge_type=merge,
    )
    result = layer(small.graph, edge_set_name="e")

    expected = _formula(layer, small, heads=2, merge=merge)

    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer(sort_edges(small.graph), edge_set_name="e"), expected, rtol=1e-4, atol=1e-6)
    assert not result.numpy()[4].any(), "nobody tells node 4 anything"


def test_one_edge_alone_gets_all_attention(library_graph):
    layer = GATv2Conv(num_heads=1, per_head_channels=2, receiver_tag=TARGET, activation=None, use_bias=False)
    result = layer(library_graph, edge_set_name="writes").numpy()
    kernel = next(weight for weight in layer.weights if "value_node" in weight.name).numpy()

    # Author 0 (state 1) wrote papers 0 and 1, author 1 (state 2) paper 3.
    np.testing.assert_allclose(result, np.array([[1.0], [1.0], [0.0], [2.0]]) @ kernel, rtol=1e-5)


def test_huge_logits_do_not_overflow(small):
    layer = GATv2Conv(num_heads=1, per_head_channels=3, receiver_tag=SOURCE)
    layer(small.graph, edge_set_name="e")
    layer.set_weights([1e4 * weight for weight in layer.get_weights()])

    with tf.GradientTape() as tape:
        result = layer(small.graph, edge_set_name="e")
    gradients = tape.gradient(result, layer.trainable_weights)

    assert np.isfinite(result).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_dropout_acts_on_weights_and_in_training_only(small):
    layer = GATv2Conv(num_heads=1, per_head_channels=4, receiver_tag=TARGET, edge_dropout=0.5, activation=None)
    plain = layer(small.graph, edge_set_name="e").numpy()
    tf.random.set_seed(1)

    dropped = np.stack([layer(small.graph, edge_set_name="e", training=True).numpy() for _ in range(60)])

    np.testing.assert_array_equal(layer(small.graph, edge_set_name="e"), plain)
    # Node 3 hears of itself alone: all or nothing, and twice as much when it does.
    heard = dropped[:, 3].any(axis=1)
    np.testing.assert_allclose(dropped[heard][:, 3], np.broadcast_to(2 * plain[3], [heard.sum(), 4]), rtol=1e-5)
    assert 10 < heard.sum() < 50


def test_nodes_are_pooled_to_the_context_too(library_graph):
    context = library_graph.replace_features(context={"hidden_state": tf.ones([2, 3])})
    layer = GATv2Conv(num_heads=2, per_head_channels=2, receiver_tag=CONTEXT)

    assert layer(context, node_set_name="paper").shape == (2, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, "`num_heads` and `per_head_channels` must be at least 1"),
        ({"edge_dropout": 1.0}, "`edge_dropout` in"),
        ({"heads_merge_type": "max"}, "`heads_merge_type` must be one of"),
        ({"receiver_feature": None}, "`receiver_feature` and one of"),
        ({"sender_node_feature": None}, "`receiver_feature` and one of"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GATv2Conv(**{"num_heads": 1, "per_head_channels": 1, **options})


def test_layer_is_made_again_from_its_config(small, remade):
    layer = GATv2Conv(
        num_heads=2, per_head_channels=2, receiver_tag=TARGET, kernel_regularizer="l2", attention_activation="tanh"
    )
    result = layer(small.graph, edge_set_name="e")

    np.testing.assert_array_equal(remade(layer, small.graph, edge_set_name="e"), result)
