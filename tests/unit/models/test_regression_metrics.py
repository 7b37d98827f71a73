from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from tfx_gnn.models.metrics import WeightedMae, WeightedR2, WeightedRmse

LABELS = np.array([[1.0, 10.0], [2.0, 0.0], [4.0, 30.0]], np.float32)
ANSWERS = np.array([[2.0, 13.0], [2.0, 99.0], [1.0, 26.0]], np.float32)
# The second label of the second row is missing.
WEIGHTS = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]], np.float32)


def _after(metric):
    metric.update_state(LABELS[:1], ANSWERS[:1], WEIGHTS[:1])
    metric.update_state(LABELS[1:], ANSWERS[1:], WEIGHTS[1:])
    return float(metric.result())


def test_missing_numbers_are_left_out_and_the_others_of_the_row_are_not():
    """Errors: 1, 0, -3 of the first output; 3 and -4 of the second, in units of 10."""
    assert _after(WeightedMae((1.0, 10.0))) == pytest.approx((4 / 3 + 35.0) / 2)
    assert _after(WeightedRmse((1.0, 10.0))) == pytest.approx((math.sqrt(10 / 3) + 10 * math.sqrt(12.5)) / 2)
    assert _after(WeightedR2((2.0, 20.0))) == pytest.approx(((1 - 10 / (14 / 3)) + (1 - 25 / 200)) / 2, rel=1e-5)


def test_figures_are_those_of_scikit_learn():
    generator = np.random.default_rng(1)
    labels = generator.normal(loc=1000.0, size=(500, 1)).astype(np.float32)
    answers = labels + generator.normal(scale=0.5, size=(500, 1)).astype(np.float32)
    metrics = WeightedMae(), WeightedRmse(), WeightedR2((1000.0,))
    for metric in metrics:
        for rows in np.split(np.arange(500), [100, 250]):
            metric.update_state(labels[rows], answers[rows])

    found = [float(metric.result()) for metric in metrics]

    expected = [function(labels, answers) for function in (mean_absolute_error, root_mean_squared_error, r2_score)]
    assert found == pytest.approx(expected, rel=1e-4)


def test_labels_that_are_all_equal_explain_nothing():
    metric = WeightedR2()
    metric.update_state([[3.0], [3.0]], [[3.0], [3.0]])

    assert float(metric.result()) == 0.0


@pytest.mark.parametrize("kind", [WeightedMae, WeightedRmse, WeightedR2])
def test_nothing_counted_is_zero_and_configs_make_equal_metrics(kind):
    metric = kind.from_config(kind((2.0, 3.0), name="error").get_config())
    metric.update_state(LABELS, ANSWERS, WEIGHTS)
    metric.reset_state()
    metric.update_state(LABELS, ANSWERS, np.zeros_like(WEIGHTS))

    assert float(metric.result()) == 0.0
    assert metric.get_config() == kind((2.0, 3.0), name="error").get_config()


def test_no_outputs_are_refused():
    with pytest.raises(ValueError, match="`scale` must hold one number for each output; got none"):
        WeightedMae(())
