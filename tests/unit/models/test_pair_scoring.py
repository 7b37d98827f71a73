from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.models.pair_scoring import DistMultScore, DotScore, HadamardScore, StateProjection

SOURCE = tf.constant([[1.0, 2.0], [3.0, 4.0]])
TARGET = tf.constant([[5.0, 6.0], [7.0, -8.0]])


def test_dot_is_the_sum_of_products_and_a_bias_if_asked_for():
    with_bias = DotScore(use_bias=True)
    with_bias.build([(2, 2), (2, 2)])
    with_bias.set_weights([np.float32(0.5)])

    assert DotScore()((SOURCE, TARGET)).numpy().tolist() == [17.0, -11.0]
    assert with_bias((SOURCE, TARGET)).numpy().tolist() == [17.5, -10.5]


def test_hadamard_weighs_the_products():
    layer = HadamardScore()
    layer((SOURCE, TARGET))
    layer.set_weights([np.array([[1.0], [0.5]]), np.array([2.0])])

    assert layer((SOURCE, TARGET)).numpy().tolist() == [5.0 + 6.0 + 2.0, 21.0 - 16.0 + 2.0]


def test_hadamard_network_has_its_hidden_layers():
    """The first hidden unit is the product of the first numbers, the second one that of the others, after ReLU."""
    layer = HadamardScore((2,))
    layer((SOURCE, TARGET))
    layer.set_weights([np.eye(2), np.zeros(2), np.array([[1.0], [10.0]]), np.zeros(1)])

    assert layer((SOURCE, TARGET)).numpy().tolist() == [125.0, 21.0]


def test_distmult_weighs_by_relation():
    layer = DistMultScore(2)
    relations = tf.constant([1, 0], tf.int64)
    layer((SOURCE, TARGET, relations))
    layer.set_weights([np.array([[1.0, 0.0], [0.0, 1.0]])])

    assert layer((SOURCE, TARGET, relations)).numpy().tolist() == [12.0, 21.0]


def test_distmult_of_one_relation_needs_no_numbers():
    layer = DistMultScore()
    layer((SOURCE, TARGET))
    layer.set_weights([np.array([[2.0, 1.0]])])

    assert layer((SOURCE, TARGET)).numpy().tolist() == [22.0, 10.0]


def test_gradient_of_relations_is_dense():
    layer = DistMultScore(3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer((SOURCE, TARGET, tf.constant([2, 2])), training=True))

    [gradient] = tape.gradient(loss, layer.trainable_variables)

    assert isinstance(gradient, tf.Tensor)
    assert gradient.numpy().tolist() == [[0.0, 0.0], [0.0, 0.0], [5.0 + 21.0, 12.0 - 32.0]]


def test_projection_is_a_matrix_of_the_states_own_width():
    layer = StateProjection()
    layer(SOURCE)
    layer.set_weights([np.array([[0.0, 1.0], [1.0, 0.0]])])

    assert layer(SOURCE).numpy().tolist() == [[2.0, 1.0], [4.0, 3.0]]


@pytest.mark.parametrize(
    "layer", [DotScore(use_bias=True), HadamardScore((3, 2)), DistMultScore(4), StateProjection()], ids=lambda x: x.name
)
def test_config_makes_an_equal_layer(layer):
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


def test_relations_are_counted_from_one():
    with pytest.raises(ValueError, match="`num_relations` must be at least 1; got 0"):
        DistMultScore(0)
