from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from tfx_gnn.components.graph_evaluator.regression import RegressionSums


def test_metrics_and_those_of_the_constant_are_those_worked_out_by_hand() -> None:
    # Errors 1, -1, 2 around the truth 0, 2, 4 of mean 2; the baseline says 1.
    sums = RegressionSums.of(np.array([[0.0], [2.0], [4.0]]), np.array([[1.0], [1.0], [6.0]]), [1.0])

    assert sums.metrics() == {
        "rmse": pytest.approx(2**0.5),
        "mae": pytest.approx(4 / 3),
        "r2": pytest.approx(1 - 6 / 8),
    }
    assert sums.baseline_metrics() == {
        "rmse": pytest.approx((11 / 3) ** 0.5),
        "mae": pytest.approx(5 / 3),
        "r2": pytest.approx(1 - 11 / 8),
    }
    assert (sums.num_examples, sums.num_without_label) == (3, 0)


def test_unknown_targets_do_not_count() -> None:
    truth = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, np.nan]])

    sums = RegressionSums.of(truth, np.array([[2.0, 9.0], [3.0, 5.5], [7.0, 7.0]]), [0.0, 0.0])

    assert (sums.num_examples, sums.num_without_label) == (2, 1)
    first, second = sums.metrics_by_target()
    assert first == {"num_examples": 2, "rmse": pytest.approx(0.5**0.5), "mae": 0.5, "r2": 0.5}
    assert second == {"num_examples": 1, "rmse": 0.5, "mae": 0.5, "r2": 0.0}
    assert sums.metrics()["rmse"] == pytest.approx((0.5**0.5 + 0.5) / 2)


def test_target_that_no_example_has_is_left_out() -> None:
    sums = RegressionSums.of(np.array([[1.0, np.nan]]), np.array([[1.0, 2.0]]), [0.0, 0.0])

    assert sums.metrics() == {"rmse": 0.0, "mae": 0.0, "r2": 1.0}
    assert sums.metrics_by_target()[1] == {"num_examples": 0}


def test_no_example_gives_no_metric() -> None:
    assert RegressionSums.of(np.zeros([0, 1]), np.zeros([0, 1]), [0.0]).metrics() == {}


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 2)), min_size=2, max_size=40),
    st.sampled_from([0.0, 1e6]),
)
def test_parts_add_up_to_scikit_learns_figures(rows: list[tuple[float, float, int]], offset: float) -> None:
    truth = np.array([[row[0] + offset, row[1]] for row in rows])
    predicted = truth[:, ::-1] * 0.5
    parts = [
        RegressionSums.of(truth[mask], predicted[mask], [0.0, 0.0])
        for mask in (np.array([row[2] == part for row in rows]) for part in range(3))
    ]

    merged = parts[0].merged_with(parts[1]).merged_with(parts[2])
    merged = RegressionSums.from_json(json.loads(json.dumps(merged.to_json())))

    assert merged.num_examples == len(rows)
    assert merged.metrics()["rmse"] == pytest.approx(root_mean_squared_error(truth, predicted))
    assert merged.metrics()["mae"] == pytest.approx(mean_absolute_error(truth, predicted))
    if np.ptp(truth, axis=0).min() > 1e-3:
        assert merged.metrics()["r2"] == pytest.approx(r2_score(truth, predicted), rel=1e-6, abs=1e-6)
