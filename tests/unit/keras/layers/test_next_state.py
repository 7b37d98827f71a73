import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.layers import NextStateFromConcat, ResidualNextState, SingleInputNextState

STATE = tf.constant([[1.0], [2.0]])
INPUT = tf.constant([[3.0, 4.0], [5.0, 6.0]])


def total(units=1):
    return tf_keras.layers.Dense(units, kernel_initializer="ones", use_bias=False)


def test_all_inputs_are_joined_in_the_order_of_sorted_names():
    layer = NextStateFromConcat(tf_keras.layers.Lambda(lambda x: x))

    joined = layer((STATE, {"z": INPUT, "b": {"q": STATE}}, {}))

    assert joined.numpy().tolist() == [[1.0, 1.0, 3.0, 4.0], [2.0, 2.0, 5.0, 6.0]]


def test_missing_inputs_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="got no inputs"):
        NextStateFromConcat(total())(({}, {}, {}))


def test_the_residual_is_added_to_the_old_state():
    layer = ResidualNextState(total())

    assert layer((STATE, {"e": INPUT}, {})).numpy().tolist() == [[9.0], [15.0]]


def test_the_activation_follows_the_sum():
    layer = ResidualNextState(total(), activation="relu")

    assert layer((-STATE * 10, {"e": INPUT}, {})).numpy().tolist() == [[0.0], [0.0]]


def test_an_empty_state_is_left_out_of_the_sum():
    layer = ResidualNextState(total())

    assert layer((tf.zeros([2, 0]), {"e": INPUT}, {})).numpy().tolist() == [[7.0], [11.0]]


@pytest.mark.parametrize(("name", "expected"), [(None, [[6.0], [11.0]]), ("y", [[8.0], [14.0]])])
def test_the_value_to_add_to_is_chosen_by_name(name, expected):
    layer = ResidualNextState(total(), skip_connection_feature_name=name)

    states = {"hidden_state": STATE, "y": INPUT[:, :1]}

    # The block sums 1 + 3 + 1 and 2 + 5 + 2; hidden_state is 1 and 2, y is 3 and 5.
    assert layer((states, {"e": STATE}, {})).numpy().tolist() == expected


@pytest.mark.parametrize(
    ("state", "name", "message"),
    [
        (STATE, "y", "explicit skip connection feature 'y'"),
        ({"y": STATE}, None, "could not find the skip connection feature 'hidden_state'"),
        ({"y": STATE}, "z", r"'z' in the features of the updated graph piece: \['y'\]"),
    ],
)
def test_a_missing_value_to_add_to_is_named(state, name, message):
    with pytest.raises(KeyError, match=message):
        ResidualNextState(total(), skip_connection_feature_name=name)((state, {}, {}))


@pytest.mark.parametrize("state", [STATE, {"hidden_state": STATE}])
def test_a_sum_of_two_shapes_is_refused(state):
    layer = ResidualNextState(total(3))

    with pytest.raises(ValueError, match=r"same shape as the input state, but got output shape \[\d, 3\] vs"):
        layer((state, {}, {}))


def test_a_single_input_replaces_the_state():
    layer = SingleInputNextState()

    assert layer((STATE, {"e": INPUT}, {})) is INPUT
    assert layer((STATE, {"e": {"q": INPUT}}, {}))["q"] is INPUT


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((STATE, {"e": INPUT, "f": INPUT}, {}), "take only a single input"),
        ((STATE, {}, {}), "Second input to SingleInputNextState had multiple values"),
        ((STATE, {"e": INPUT}, STATE), "only pass 2 inputs"),
    ],
)
def test_other_numbers_of_inputs_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        SingleInputNextState()(inputs)


@pytest.mark.parametrize(
    "layer",
    [
        NextStateFromConcat(tf_keras.layers.Dense(2)),
        ResidualNextState(tf_keras.layers.Dense(1), activation="tanh"),
        SingleInputNextState(),
    ],
)
def test_a_model_is_made_again(again, layer):
    state, other = tf_keras.Input([1]), tf_keras.Input([2])
    model = tf_keras.Model([state, other], layer((state, {"e": other}, {})))

    np.testing.assert_array_equal(again(model)([STATE, INPUT]), model([STATE, INPUT]))
