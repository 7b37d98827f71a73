from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.identity_features import ForgetIdentity, HideSeedFeature


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_seeds_lose_their_identity_and_neighbours_keep_theirs(library_graph, wrap):
    hidden = wrap(HideSeedFeature("id", 99))(library_graph)

    assert hidden.node_sets["paper"]["id"].numpy().tolist() == [99, 11, 12, 99]
    np.testing.assert_array_equal(
        hidden.node_sets["paper"]["hidden_state"], library_graph.node_sets["paper"]["hidden_state"]
    )


def test_identities_stay_at_prediction():
    ids = tf.constant([1, 2, 3], tf.int64)

    assert ForgetIdentity(0.9, 7)(ids).numpy().tolist() == [1, 2, 3]


def test_a_share_of_identities_is_forgotten_in_training():
    tf_keras.utils.set_random_seed(3)
    ids = tf.range(10_000, dtype=tf.int64)

    forgotten = ForgetIdentity(0.2, -1)(ids, training=True).numpy()

    changed = forgotten != ids.numpy()
    assert set(forgotten[changed]) == {-1}
    assert changed.mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    "layer", [HideSeedFeature("id", 99, key="seed"), ForgetIdentity(0.5, 3)], ids=["hide", "forget"]
)
def test_layer_is_made_again_from_its_config(layer):
    again = type(layer).from_config(layer.get_config())

    assert again.get_config() == layer.get_config()
