"""Losses against drawn negatives, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn.embedding_losses import (
    sigmoid_cross_entropy_loss,
    triplet_margin_loss,
    triplet_softplus_loss,
    unsupervised_softmax_cross_entropy_loss,
)


def _rows(*rows):
    return tf.constant(rows, tf.float32)


def test_sigmoid_is_the_mean_of_true_pairs_plus_the_mean_of_drawn_ones():
    """Logits log(3) and 0 say 3/4 and 1/2; -log(3) and 0 say 1/4 and 1/2."""
    loss = sigmoid_cross_entropy_loss(_rows(math.log(3.0), 0.0), _rows(-math.log(3.0), 0.0, 0.0))

    expected = (math.log(4 / 3) + math.log(2)) / 2 + (math.log(4 / 3) + 2 * math.log(2)) / 3
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_softmax_sets_each_source_against_all_negatives_of_the_batch():
    """The first source scores 2 with its target and 1, 0 with the negatives; the second 0, and 0, 4."""
    source, target = _rows([1.0, 0.0], [0.0, 2.0]), _rows([2.0, 9.0], [9.0, 0.0])
    negatives = _rows([1.0, 0.0], [0.0, 2.0])

    loss = unsupervised_softmax_cross_entropy_loss(source, target, negatives, temperature=2.0)

    first = -1.0 + math.log(math.exp(1.0) + math.exp(0.5) + 1.0)
    second = math.log(1.0 + 1.0 + math.exp(2.0))
    assert float(loss) == pytest.approx((first + second) / 2, rel=1e-6)


@pytest.mark.parametrize(("norm", "expected"), [(1, (0.0 + 2.0) / 2), (2, (0.0 + 2.0) / 2)])
def test_margin_is_asked_of_each_drawn_triplet(norm, expected):
    """The true triplet is at distance 1; drawn ones at 4 and 0 (or 16 and 0); margin 1."""
    true = _rows([1.0, 0.0]), _rows([1.0, 0.0]), _rows([1.0, 0.0])
    drawn = _rows([4.0, 0.0], [1.0, 1.0]), _rows([0.0, 0.0], [0.0, 0.0]), _rows([0.0, 0.0], [1.0, 1.0])

    loss = triplet_margin_loss(*true, *drawn, margin=1.0, neg_num=2, L=norm)

    assert float(loss) == pytest.approx(expected)


def test_norms_differ():
    """Differences (2, 1) are 3 by L1, 5 by L2; (1, 1) are 2 by both."""
    zero = _rows([0.0, 0.0])
    losses = [
        float(triplet_margin_loss(_rows([2.0, 1.0]), zero, zero, _rows([1.0, 1.0]), zero, zero, 0.5, 1, norm))
        for norm in (1, 2)
    ]

    assert losses == [1.5, 3.5]


def test_softplus_is_half_of_both_means():
    """The true triplet scores log(3), drawn ones 0 and -log(3)."""
    one = _rows([1.0])
    loss = triplet_softplus_loss(
        _rows([math.log(3.0)]), one, one, _rows([0.0], [math.log(3.0)]), _rows([5.0], [-1.0]), _rows([1.0], [1.0])
    )

    assert float(loss) == pytest.approx((math.log(4 / 3) + (math.log(2) + math.log(4 / 3)) / 2) / 2, rel=1e-6)


def test_gradients_are_finite_for_large_scores():
    score = tf.Variable([1e4, -1e4])
    with tf.GradientTape() as tape:
        loss = sigmoid_cross_entropy_loss(score, score)

    assert np.isfinite(tape.gradient(loss, score)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: unsupervised_softmax_cross_entropy_loss(x, x, x, 0.0), "`temperature` must be above 0; got 0.0"),
        (lambda x: triplet_margin_loss(x, x, x, x, x, x, 1.0, 1, 3), "`L` must be 1 or 2; got 3"),
        (lambda x: triplet_margin_loss(x, x, x, x, x, x, 1.0, 0), "`neg_num` must be at least 1; got 0"),
    ],
    ids=["temperature", "norm", "negatives"],
)
def test_arguments_that_mean_nothing_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(_rows([1.0]))
