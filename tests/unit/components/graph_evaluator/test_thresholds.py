from __future__ import annotations

import re
from typing import Any

import pytest

from tfx_gnn.components.graph_evaluator.thresholds import check_thresholds, normalize_thresholds

VALUES, BASELINE = {"accuracy": 0.75, "rmse": 1.2}, {"accuracy": 0.5, "rmse": 1.5}


def test_numbers_are_least_values_and_largest_errors() -> None:
    checked = normalize_thresholds("thresholds", {"r2": 1, "price.rmse": 2.5}, ["r2", "price.rmse"])

    assert checked == {"r2": {"min": 1.0}, "price.rmse": {"max": 2.5}}


@pytest.mark.parametrize(
    ("thresholds", "passed", "sentence"),
    [
        ({"accuracy": {"min": 0.75}}, True, "accuracy 0.7500 is at least 0.75"),
        ({"accuracy": {"min": 0.8}}, False, "accuracy 0.7500 is below 0.8"),
        ({"rmse": {"max": 1.2}}, True, "RMSE 1.2000 is at most 1.2"),
        ({"rmse": {"max": 1.1}}, False, "RMSE 1.2000 is above 1.1"),
        ({"accuracy": {"gain": 0.25}}, False, "accuracy 0.7500 does not exceed chance's 0.5000 by more than 0.25"),
        ({"accuracy": {"gain": 0.1}}, True, "accuracy 0.7500 exceeds chance's 0.5000 by more than 0.1"),
        ({"rmse": {"gain": 0.1}}, True, "RMSE 1.2000 is below chance's 1.5000 by more than 0.1"),
        ({"rmse": {"gain": 0.4}}, False, "RMSE 1.2000 is not below chance's 1.5000 by more than 0.4"),
        ({"mrr": {"min": 0.0}}, False, "MRR could not be computed from these examples"),
    ],
)
def test_sentences_name_metric_value_and_bound(
    thresholds: dict[str, dict[str, float]],
    passed: bool,  # noqa: FBT001 - pytest passes it by name.
    sentence: str,
) -> None:
    (verdict,) = check_thresholds(thresholds, VALUES, BASELINE, baseline_name="chance")

    assert (verdict.passed, verdict.sentence) == (passed, sentence)


def test_task_and_slice_are_named() -> None:
    (verdict,) = check_thresholds(
        {"accuracy": {"min": 0.1}},
        VALUES,
        BASELINE,
        baseline_name="chance",
        task="kind",
        slice_key=("context/year", "2001"),
    )

    assert verdict.sentence == "task 'kind', context/year = '2001': accuracy 0.7500 is at least 0.1"
    assert (verdict.task, verdict.slice_key, verdict.metric) == ("kind", ("context/year", "2001"), "accuracy")
    assert (verdict.bounds, verdict.value, verdict.baseline) == ({"min": 0.1}, 0.75, 0.5)


def test_metric_that_could_not_be_computed_has_all_its_bounds_and_no_value() -> None:
    bounds = {"min": 0.5, "gain": 0.1}

    (verdict,) = check_thresholds({"mrr": bounds}, VALUES, BASELINE, baseline_name="chance")

    assert (verdict.bounds, verdict.value, verdict.baseline) == (bounds, None, None)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"acuracy": 0.5}, "`thresholds` must name metrics of the task; got 'acuracy'. Choose among ['accuracy'"),
        ({"accuracy": {"least": 0.5}}, "got {'least': 0.5} for 'accuracy'"),
        ({"accuracy": {}}, "got {} for 'accuracy'"),
        ({"accuracy": "0.5"}, "got {'min': '0.5'} for 'accuracy'"),
        (
            {"accuracy": 0},
            "got {'min': 0} for 'accuracy', which every model meets: the metric is at least 0 and at most 1.",
        ),
        ({"accuracy": {"min": 1.5}}, "got {'min': 1.5} for 'accuracy', which no model can meet"),
        ({"accuracy": {"gain": 1}}, "got {'gain': 1} for 'accuracy', which no model can meet"),
        ({"rmse": -1}, "got {'max': -1} for 'rmse', which no model can meet: the metric is at least 0."),
        ({"accuracy": float("nan")}, "got {'min': nan} for 'accuracy'"),
        ({"accuracy": {"max": 10**400}}, "got {'max': 1000"),
        (
            {"expected_calibration_error": 1},
            "which every model meets: the metric is at least 0 and at most 1.",
        ),
        (
            {"expected_calibration_error": {"gain": 0.1}},
            "must not require a gain of 'expected_calibration_error' over the baseline, which has no confidence",
        ),
    ],
)
def test_wrong_thresholds_are_refused(thresholds: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        normalize_thresholds("thresholds", thresholds, ["accuracy", "rmse", "expected_calibration_error"])
