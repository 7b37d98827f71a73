from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.models.losses import ElementwiseRegressionLoss

LABELS = tf.constant([[0.0, 1.0], [2.0, 0.0]])
ANSWERS = tf.constant([[0.5, 4.0], [2.0, 7.0]])
# The last label is missing.
WEIGHTS = tf.constant([[1.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("kind", "expected"), [("mse", [0.25, 9.0, 0.0]), ("mae", [0.5, 3.0, 0.0]), ("huber", [0.125, 2.5, 0.0])]
)
def test_each_number_has_a_loss_and_weights_leave_single_ones_out(kind, expected):
    loss = ElementwiseRegressionLoss.from_config(ElementwiseRegressionLoss(kind).get_config())

    assert float(loss(LABELS, ANSWERS, sample_weight=WEIGHTS)) == pytest.approx(sum(expected) / 4)


def test_answers_of_half_precision_are_compared_in_full():
    loss = ElementwiseRegressionLoss("mae")

    assert float(loss(tf.constant([[1000.5]]), tf.constant([[1000.0]], tf.bfloat16))) == pytest.approx(0.5)


def test_unknown_loss_is_refused():
    with pytest.raises(ValueError, match=r"`kind` must be one of \['mse', 'mae', 'huber'\]; got 'rmse'"):
        ElementwiseRegressionLoss("rmse")
