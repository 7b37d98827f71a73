import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.layers import ItemDropout


def test_all_or_no_values_of_an_item_are_dropped():
    values = ItemDropout(0.5, seed=1)(tf.ones([1000, 3, 2]), training=True).numpy()

    per_item = values.reshape(1000, 6)
    assert set(np.unique(per_item)) == {0.0, 2.0}
    assert (per_item == per_item[:, :1]).all()
    assert 400 < (per_item[:, 0] == 0).sum() < 600


def test_nothing_changes_when_not_training():
    values = tf.constant([[1.0], [2.0]])

    assert ItemDropout(0.9)(values).numpy().tolist() == [[1.0], [2.0]]
    assert ItemDropout(0.0)(values, training=True).numpy().tolist() == [[1.0], [2.0]]


def test_the_rank_may_not_change():
    layer = ItemDropout(0.5)
    layer(tf.ones([3, 2]))

    with pytest.raises(ValueError, match="Built for rank 2, called with input of rank 3"):
        layer(tf.ones([3, 2, 1]))


def test_scalars_have_no_items():
    with pytest.raises(ValueError, match="inputs of known fixed non-zero rank"):
        ItemDropout(0.5)(tf.constant(1.0))


def test_the_layer_is_restored_from_its_config():
    config = ItemDropout(0.25, seed=3, name="drop").get_config()

    assert (config["rate"], config["seed"], config["name"]) == (0.25, 3, "drop")
    assert ItemDropout.from_config(config)(tf.ones([2, 2]), training=False).shape == [2, 2]


def test_a_model_is_made_again(again):
    inputs = tf_keras.Input([2])
    model = tf_keras.Model(inputs, ItemDropout(0.5)(inputs))

    np.testing.assert_array_equal(again(model)(tf.ones([3, 2])), tf.ones([3, 2]))
