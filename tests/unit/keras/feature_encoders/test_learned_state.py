from __future__ import annotations

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.keras.feature_encoders import LearnedState


def _node_set(num_items, features=None, sizes=None):
    node_set = tfx_gnn.NodeSet.from_fields(sizes=sizes or [num_items], features=features or {})
    return tfx_gnn.GraphTensor.from_pieces(node_sets={"plain": node_set}).node_sets["plain"]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_all_items_have_the_one_vector_and_all_of_them_teach_it(wrap):
    layer = LearnedState(2)
    node_set = _node_set(3, sizes=[1, 2])

    @wrap
    def state_and_gradient(node_set):
        with tf.GradientTape() as tape:
            state = layer(node_set)
            loss = tf.reduce_sum(state * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        return state, tape.gradient(loss, layer.trainable_variables[0])

    state, gradient = state_and_gradient(node_set)

    (vector,) = layer.trainable_variables
    assert state.numpy().tolist() == vector.numpy().tolist() * 3
    assert len(set(vector.numpy().ravel().tolist())) == 2
    assert gradient.numpy().tolist() == [[9.0, 12.0]]


def test_no_items_have_no_state_but_a_width():
    assert LearnedState(4)(_node_set(0)).shape == (0, 4)


def test_shape_is_static_where_a_feature_tells_it_even_one_without_width():
    layer, shapes = LearnedState(4), []

    @tf.function
    def trace(node_set):
        shapes.append(layer(node_set).shape.as_list())

    trace(_node_set(3, {"nothing": tf.zeros([3, 0])}))

    assert shapes[-1] == [3, 4]


def test_layer_takes_the_piece_of_a_functional_model_and_comes_back_from_its_config():
    piece = tf_keras.Input(type_spec=_node_set(2).spec)
    model = tf_keras.Model(piece, LearnedState(2, initializer="ones", name="first")(piece))

    layer = LearnedState.from_config(model.get_layer("first").get_config())

    assert layer(_node_set(1)).numpy().tolist() == model(_node_set(1)).numpy().tolist() == [[1.0, 1.0]]


def test_policy_of_mixed_precision_is_kept():
    assert LearnedState(2, dtype="mixed_bfloat16")(_node_set(2)).dtype == tf.bfloat16


def test_no_width_and_batches_of_graphs_are_refused():
    batched = next(iter(tf.data.Dataset.from_tensors(_node_set(2)).batch(1)))

    with pytest.raises(ValueError, match="`units` must be at least 1; got 0"):
        LearnedState(0)
    with pytest.raises(ValueError, match=r"`graph_piece` must be of a scalar graph; got one of shape \(1,\)"):
        LearnedState(2)(batched)
