from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.losses import CandidateSigmoid, CandidateSoftmax, ElementwiseRegressionLoss, SmoothedCrossEntropy

# Two examples: a true pair and two false ones; a true one, one that is filtered out, and a false one.
LABELS = tf.constant([[1, 0], [0, 0], [0, 0], [1, 3], [-1, 3], [0, 3]], tf.int64)
SCORES = tf.constant([math.log(2.0), 0.0, math.log(3.0), 0.0, 50.0, math.log(4.0)])
LAST = math.log(4.0)


def test_sigmoid_takes_each_candidate_by_itself():
    """Chances of a link are 2/3, 1/2, 3/4, 1/2 and 4/5."""
    losses = CandidateSigmoid(reduction="none")(LABELS, SCORES)

    expected = [math.log(3 / 2), math.log(2), math.log(4), math.log(2), 0.0, math.log(5)]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_smoothed_sigmoid_asks_for_less_than_certainty():
    """With 0.2, targets are 0.9 and 0.1."""
    losses = CandidateSigmoid(0.2, reduction="none")(LABELS[:2], SCORES[:2])

    np.testing.assert_allclose(losses, [0.9 * math.log(3 / 2) + 0.1 * math.log(3), math.log(2)], rtol=1e-6)


def test_softmax_takes_the_true_pair_among_its_example():
    """Odds are 2 : 1 : 3 and 1 : 4; what is filtered out takes no part."""
    losses = CandidateSoftmax(reduction="none")(LABELS, SCORES)

    np.testing.assert_allclose(losses, [math.log(3), 0, 0, math.log(5), 0, 0], rtol=1e-6)


def test_smoothed_softmax_spreads_the_target_over_all_candidates():
    losses = CandidateSoftmax(0.5, reduction="none")(LABELS[3:] - [[0, 3]], SCORES[3:])

    np.testing.assert_allclose(losses, [math.log(5) - 0.5 * 0.5 * LAST, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("loss", [CandidateSigmoid(0.1), CandidateSoftmax(0.1)], ids=["sigmoid", "softmax"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradients_are_finite_also_of_padding_and_of_huge_scores(loss, jit_compile):
    """The second example is padding: false pairs alone. The third has a candidate that takes no part."""
    labels = tf.constant([[1, 0], [0, 0], [0, 2], [0, 2], [-1, 4]], tf.int64)
    weights = tf.constant([1.0, 1.0, 0.0, 0.0, 0.0])

    @tf.function(jit_compile=jit_compile)
    def gradient(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            value = loss(labels, scores, sample_weight=weights)
        return value, tape.gradient(value, scores)

    value, found = gradient(tf.constant([1e5, -1e5, 1e30, 0.0, 1e38]))

    assert np.isfinite(value)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[2:], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", [CandidateSigmoid, CandidateSoftmax])
def test_config_makes_an_equal_loss_and_certain_smoothing_is_refused(kind):
    assert kind.from_config(kind(0.25).get_config()).get_config() == kind(0.25).get_config()
    with pytest.raises(ValueError, match=r"`label_smoothing` must lie in \[0, 1\); got 1.0"):
        kind(1.0)


NUMBERS = tf.constant([[0.0, 1.0], [2.0, 0.0]])
ANSWERS = tf.constant([[0.5, 4.0], [2.0, 7.0]])
# The last label is missing.
WEIGHTS = tf.constant([[1.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("kind", "expected"), [("mse", [0.25, 9.0, 0.0]), ("mae", [0.5, 3.0, 0.0]), ("huber", [0.125, 2.5, 0.0])]
)
def test_each_number_has_a_loss_and_weights_leave_single_ones_out(kind, expected):
    loss = ElementwiseRegressionLoss.from_config(ElementwiseRegressionLoss(kind).get_config())

    assert float(loss(NUMBERS, ANSWERS, sample_weight=WEIGHTS)) == pytest.approx(sum(expected) / 4)


def test_answers_of_half_precision_are_compared_in_full():
    loss = ElementwiseRegressionLoss("mae")

    assert float(loss(tf.constant([[1000.5]]), tf.constant([[1000.0]], tf.bfloat16))) == pytest.approx(0.5)


def test_unknown_loss_is_refused():
    with pytest.raises(ValueError, match=r"`kind` must be one of \['mse', 'mae', 'huber'\]; got 'rmse'"):
        ElementwiseRegressionLoss("rmse")


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
