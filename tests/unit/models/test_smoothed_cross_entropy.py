from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.losses import SmoothedCrossEntropy


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_loss_is_the_one_worked_out_by_hand(shape):
    logits = tf.math.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])

    loss = SmoothedCrossEntropy(0.3)(tf.reshape(tf.constant([0, 2], tf.int64), shape), logits)

    log2, log4 = math.log(2), math.log(4)
    # Targets are 0.8 for the class and 0.1 for each other.
    assert loss.numpy() == pytest.approx(((0.8 * log2 + 0.2 * log4) + (0.8 * log4 + 0.1 * log2 + 0.1 * log4)) / 2)


def test_without_smoothing_it_is_the_usual_cross_entropy():
    logits = tf.random.stateless_normal([5, 4], [1, 2])
    classes = tf.constant([0, 3, 1, 1, 2], tf.int64)

    ours = SmoothedCrossEntropy(0.0)(classes, logits)

    theirs = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)(classes, logits)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_smoothing_equals_that_of_one_hot_labels_and_weights_count():
    logits = tf.random.stateless_normal([5, 4], [1, 2])
    classes = tf.constant([0, 3, 1, 1, 2], tf.int64)
    weights = tf.constant([1.0, 0.0, 1.0, 2.0, 0.0])

    ours = SmoothedCrossEntropy(0.2)(classes, logits, sample_weight=weights)

    one_hot = tf_keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2)
    np.testing.assert_allclose(ours, one_hot(tf.one_hot(classes, 4), logits, sample_weight=weights), rtol=1e-6)


def test_loss_is_made_again_from_its_config():
    loss = SmoothedCrossEntropy(0.2)

    assert SmoothedCrossEntropy.from_config(loss.get_config()).get_config() == loss.get_config()


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_share_outside_of_its_range_is_refused(value):
    with pytest.raises(ValueError, match=r"`label_smoothing` must lie in \[0, 1\); got"):
        SmoothedCrossEntropy(value)
