from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import bootstrap_sample
from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers, BootstrapSample
from tfx_gnn.components.graph_evaluator.classification import ClassificationMeasure
from tfx_gnn.components.graph_evaluator.intervals import Intervals, MeasuredMetrics, bootstrap_intervals
from tfx_gnn.components.graph_evaluator.measures import Measure
from tfx_gnn.components.graph_evaluator.paired_bootstrap import hash_examples
from tfx_gnn.components.graph_evaluator.ranking import RankingMeasure
from tfx_gnn.components.graph_evaluator.regression import RegressionMeasure

RANDOM = np.random.default_rng(7)
NUM_EXAMPLES = 60


def _classification() -> tuple[Measure, Any, dict[str, Any]]:
    truth = RANDOM.choice(["a", "b", "c", ""], NUM_EXAMPLES).astype(object)
    labels = np.where(RANDOM.random(NUM_EXAMPLES) < 0.6, truth, "b").astype(object)
    outputs = {"label": labels, "score": RANDOM.random(NUM_EXAMPLES), "id": np.arange(NUM_EXAMPLES)}
    return ClassificationMeasure(label_key="context/kind"), truth, outputs


def _two_classes() -> tuple[Measure, Any, dict[str, Any]]:
    truth = RANDOM.choice(["a", "b", "b", ""], NUM_EXAMPLES).astype(object)
    # Rounded, so that some are equal.
    last = (0.1 + 0.5 * RANDOM.random(NUM_EXAMPLES) + 0.3 * (truth == "b")).round(1)
    labels = np.where(last > 0.5, "b", "a").astype(object)
    outputs = {"label": labels, "score": np.maximum(last, 1.0 - last), "id": np.arange(NUM_EXAMPLES)}
    outputs["probabilities"] = np.stack([1.0 - last, last], axis=1)
    return ClassificationMeasure(label_key="context/kind"), truth, outputs


def _regression() -> tuple[Measure, Any, dict[str, Any]]:
    truth = 1000.0 + RANDOM.normal(size=[NUM_EXAMPLES, 2])
    truth[RANDOM.random(truth.shape) < 0.2] = np.nan
    return (
        RegressionMeasure(label_key="context/price", num_targets=2),
        truth,
        {"prediction": np.nan_to_num(truth).round() + 0.25},
    )


def _ranking() -> tuple[Measure, Any, dict[str, Any]]:
    truth = RANDOM.choice([1.0, 0.0, 0.0, -1.0, np.nan], [NUM_EXAMPLES, 6])
    # Rounded, so that some scores are equal.
    scores = (truth == 1) * 0.3 + RANDOM.random(truth.shape).round(1)
    outputs = {"scores": scores, "num_candidates": np.full(NUM_EXAMPLES, 6)}
    return RankingMeasure(label_key="nodes/_readout.label"), truth, outputs


def _pairs() -> tuple[Measure, Any, dict[str, Any]]:
    """A true pair and two false ones of the same source, in turn."""
    measure, _, _ = _ranking()
    truth = np.array([[1.0], [0.0], [0.0]] * (NUM_EXAMPLES // 3))
    scores = RANDOM.random(truth.shape)
    ids = np.repeat(np.arange(NUM_EXAMPLES // 3), 3)[:, np.newaxis]
    outputs = {"scores": scores, "num_candidates": np.ones(NUM_EXAMPLES, int), "source_id": ids, "target_id": scores}
    return RankingMeasure(label_key=measure.label_key, compares_examples=True), truth, outputs


def _sample(measure: Measure, truth: Any, *models: Any, year: Any = ()) -> BootstrapSample:
    hashes = hash_examples([str(row).encode() for row in range(len(truth))])
    model, *blessed = (measure.answers(truth, outputs) for outputs in models)
    slices = {"context/year": np.array(year, object)} if len(year) else {}
    return BootstrapSample.of(hashes, slices, model, *(blessed or [None]))


@pytest.mark.parametrize("case", [_classification, _two_classes, _regression, _ranking, _pairs])
def test_metrics_of_weighted_rows_are_those_of_repeated_examples(
    case: Callable[[], tuple[Measure, Any, dict[str, Any]]],
) -> None:
    measure, truth, outputs = case()
    answers = measure.answers(truth, outputs)
    rows = answers.examples[answers.lengths > 0]
    weights = RANDOM.poisson(1.0, len(rows))
    weights[0] = 3
    size = len(truth) // len(answers.lengths)  # Examples of a group.
    chosen = [
        row + member for row, weight in zip(rows, weights, strict=True) for _ in range(weight) for member in range(size)
    ]
    baseline = measure.label_sums(truth)
    repeated = measure.sums(truth[chosen], {name: output[chosen] for name, output in outputs.items()}, baseline)

    metrics = measure.weighted_metrics(answers.values, answers.lengths[answers.lengths > 0])
    found = metrics(np.stack([weights, np.zeros_like(weights)], axis=1).astype(np.float64))

    expected = measure.quality(repeated, baseline, "train").metrics
    assert {name: value[0] for name, value in found.items()} == pytest.approx(expected, rel=1e-6)
    assert set(expected) == set(measure.metrics) - ({"roc_auc"} if case is _classification else set())
    # Without examples nothing is defined.
    assert all(np.isnan(value[1]) for value in found.values())


def _means(values: list[float], others: list[float], year: Any = ()) -> BootstrapSample:
    hashes = hash_examples([str(row).encode() for row in range(len(values))])
    model, blessed = (
        Answers(examples=np.arange(len(values)), lengths=np.ones(len(values), int), values={"value": np.array(one)})
        for one in (values, others)
    )
    slices = {"context/year": np.array(year, object)} if len(year) else {}
    return BootstrapSample.of(hashes, slices, model, blessed)


def _mean(values: Any, lengths: Any) -> Any:
    def metrics(weights: Any) -> dict[str, Any]:
        total = weights.sum(axis=0)
        return {"mean": values["value"] @ weights / np.where(total > 0, total, np.nan)}

    return metrics


def _intervals(sample: BootstrapSample, slices: dict[tuple[str, str], tuple[float, float]]) -> dict[Any, Intervals]:
    measured = {
        key: MeasuredMetrics(model={"mean": mean}, blessed={"mean": other}) for key, (mean, other) in slices.items()
    }
    return bootstrap_intervals(sample, measured, _mean, num_replicas=1000, confidence=0.95)


def test_interval_of_a_mean_has_the_usual_width_and_changes_are_paired() -> None:
    values = RANDOM.normal(size=400)
    sample = _means(list(values), list(values - 0.5))

    found = _intervals(sample, {("", ""): (values.mean(), values.mean() - 0.5)})["", ""]

    lower, upper = found.metrics["mean"]
    assert upper - lower == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    # What both models have in common is no noise.
    assert found.changes["mean"] == pytest.approx((0.5, 0.5))
    assert found.num_rows == 400


def test_slices_have_intervals_of_their_own_rows() -> None:
    years = ["2000"] * 5 + ["2001"] * 5 + ["2002"]
    sample = _means([1.0] * 5 + [0.0, 1.0] * 3, [0.0] * 11, years)

    found = _intervals(sample, {("context/year", year): (0.0, 0.0) for year in ("2000", "2001", "2002")})

    # Of equal values, nothing varies; of one row, nothing is known.
    assert set(found) == {("context/year", "2000"), ("context/year", "2001")}
    constant, varying = found["context/year", "2000"], found["context/year", "2001"]
    assert constant.metrics["mean"] == pytest.approx((0.0, 0.0))
    assert varying.metrics["mean"][1] - varying.metrics["mean"][0] > 0.5
    assert varying.too_wide({"mean": 0.5, "other": 9.0}, of_changes=False) == ("mean", "other")
    # Five rows that are alike say little: by the rule of three, 3 / 5. An error has no such bound.
    assert constant.least_width == pytest.approx(0.6, abs=0.001)
    alike = dataclasses.replace(constant, metrics={"accuracy": (1.0, 1.0), "rmse": (1.0, 1.0)})
    assert alike.too_wide({"accuracy": 0.59, "rmse": 0.59}, of_changes=False) == ("accuracy",)
    assert alike.too_wide({"accuracy": 0.61}, of_changes=False) == ()


def test_interval_from_a_part_of_the_rows_is_about_as_wide_and_lies_around_the_metric_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = list(RANDOM.normal(size=2000))
    key = ("", "")
    whole = _intervals(_means(values, values), {key: (0.0, 0.0)})[key].metrics["mean"]
    monkeypatch.setattr(bootstrap_sample, "MOST_ROWS", 500)

    part = _intervals(_means(values, values), {key: (5.0, 0.0)})[key].metrics["mean"]

    assert part[1] - part[0] == pytest.approx(whole[1] - whole[0], rel=0.2)
    assert part[0] < 5.0 < part[1]


def test_metric_that_is_undefined_in_most_replicas_has_no_interval() -> None:
    measure = RankingMeasure(label_key="nodes/_readout.label")
    truth = np.array([[0.0], [0.0]])
    sample = _sample(measure, truth, {"scores": truth, "num_candidates": np.ones(2, int)})
    measured = {("", ""): MeasuredMetrics(model={"roc_auc": 0.5}, blessed={})}

    found = bootstrap_intervals(sample, measured, measure.weighted_metrics, num_replicas=200, confidence=0.95)

    assert found["", ""].metrics == {}
    assert found["", ""].report() == {}
