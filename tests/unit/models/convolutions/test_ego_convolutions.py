"""Convolutions on trees, against hand-computed values and against the convolutions along edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.models.convolutions.ego_convolutions import EgoGATConv, EgoGINConv, EgoSAGEConv, masked_sum
from tfx_gnn.models.convolutions.gat_v2_conv import GATv2Conv
from tfx_gnn.models.convolutions.gin_conv import GINConv
from tfx_gnn.models.convolutions.sage_conv import SAGEConv

MASK = np.array([[True, True, True], [True, False, True], [False, False, False]])
OWN = np.linspace(-1.0, 1.0, 12).reshape(3, 4).astype(np.float32)
NEIGHBORS = np.linspace(2.0, -1.0, 36).reshape(3, 3, 4).astype(np.float32)


def edges() -> tfx_gnn.GraphTensor:
    """The same neighbors as edges between two node sets."""
    receivers, _ = MASK.nonzero()
    return tfx_gnn.GraphTensor.from_pieces(
        node_sets={
            "to": tfx_gnn.NodeSet.from_fields(sizes=[3], features={"hidden_state": OWN}),
            "from": tfx_gnn.NodeSet.from_fields(sizes=[6 - 1], features={"hidden_state": NEIGHBORS[MASK]}),
        },
        edge_sets={
            "hop": tfx_gnn.EdgeSet.from_fields(
                sizes=[5],
                adjacency=tfx_gnn.Adjacency.from_indices(("from", np.arange(5)), ("to", receivers)),
            )
        },
    )


@pytest.mark.parametrize(
    ("dense", "sparse"),
    [
        *(
            (EgoSAGEConv(5, aggregator=name), SAGEConv(5, aggregator=name, receiver_tag=tfx_gnn.TARGET))
            for name in ("mean", "sum", "max", "pool")
        ),
        (
            EgoGATConv(num_heads=2, per_head_channels=3),
            GATv2Conv(num_heads=2, per_head_channels=3, receiver_tag=tfx_gnn.TARGET),
        ),
        (
            EgoGATConv(num_heads=2, per_head_channels=3, heads_merge_type="mean"),
            GATv2Conv(num_heads=2, per_head_channels=3, heads_merge_type="mean", receiver_tag=tfx_gnn.TARGET),
        ),
        (
            EgoGINConv(5, hidden_units=7, epsilon=0.5, normalization="none"),
            GINConv(5, hidden_units=7, epsilon=0.5, normalization="none", receiver_tag=tfx_gnn.TARGET),
        ),
        (
            EgoGINConv(5, learn_epsilon=True, normalization="layer"),
            GINConv(5, learn_epsilon=True, normalization="layer", receiver_tag=tfx_gnn.TARGET),
        ),
    ],
)
def test_results_are_those_along_edges_with_the_same_weights(
    dense: tf_keras.layers.Layer, sparse: tf_keras.layers.Layer
) -> None:
    expected = sparse(edges(), edge_set_name="hop")
    dense((OWN, NEIGHBORS, MASK))
    assert [weight.shape for weight in dense.weights] == [weight.shape for weight in sparse.weights]
    dense.set_weights(sparse.get_weights())

    np.testing.assert_allclose(dense((OWN, NEIGHBORS, MASK)), expected, atol=1e-5)


def test_masked_neighbors_count_for_nothing() -> None:
    states = tf.constant([[[1.0, 10.0], [3.0, 30.0], [np.float32(100.0), 100.0]], [[5.0, 5.0]] * 3])
    mask = tf.constant([[True, True, False], [False, False, False]])

    assert masked_sum(states, mask, is_mean=True).numpy().tolist() == [[2.0, 20.0], [0.0, 0.0]]
    assert masked_sum(states, mask, is_mean=False).numpy().tolist() == [[4.0, 40.0], [0.0, 0.0]]


def test_half_precision_is_summed_in_float32() -> None:
    ones = tf.ones([1, 300, 1], tf.bfloat16)

    assert masked_sum(ones, tf.ones([1, 300], tf.bool), is_mean=True).numpy().tolist() == [[1.0]]


@pytest.mark.parametrize("layer", [EgoSAGEConv(4, aggregator="max"), EgoGATConv(num_heads=1, per_head_channels=4)])
def test_gradients_are_finite_where_no_neighbor_exists(layer: Any) -> None:
    neighbors = tf.constant(NEIGHBORS)
    with tf.GradientTape() as tape:
        tape.watch(neighbors)
        loss = tf.reduce_sum(layer((OWN, neighbors, MASK)) ** 2)
    gradient = tape.gradient(loss, neighbors)

    assert np.isfinite(gradient).all()
    assert not np.any(gradient.numpy()[~MASK])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EgoSAGEConv(4, aggregator="median"), "`aggregator` must be one of"),
        (lambda: EgoSAGEConv(4, hidden_units=3), "`hidden_units` must be None for aggregator='mean'"),
        (lambda: EgoGATConv(num_heads=0, per_head_channels=3), "must be at least 1"),
        (lambda: EgoGATConv(num_heads=1, per_head_channels=3, heads_merge_type="max"), "`heads_merge_type` must be"),
        (lambda: EgoGINConv(4, normalization="graph"), "`normalization` must be one of"),
        (lambda: EgoGINConv(4)((OWN[:, :2], NEIGHBORS, MASK)), "must have states of one width; got 2"),
    ],
)
def test_wrong_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("layer", [EgoSAGEConv(4), EgoGATConv(num_heads=1, per_head_channels=4), EgoGINConv(4)])
def test_layers_are_rebuilt_from_their_config(layer: tf_keras.layers.Layer) -> None:
    again = type(layer).from_config(layer.get_config())

    assert again.get_config() == layer.get_config()
