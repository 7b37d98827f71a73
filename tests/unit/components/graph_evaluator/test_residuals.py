from __future__ import annotations

import functools
import json
import random

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator.regression import RegressionMeasure
from tfx_gnn.components.graph_evaluator.residuals import ResidualCounts, ResidualHistogram
from tfx_gnn.components.graph_evaluator.worst_examples import NUM_WORST


def _column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, np.newaxis]


def test_residuals_are_those_worked_out_by_hand() -> None:
    counts = ResidualCounts.of(["a", "b", "c", "d"], _column(8.0, 2.0, np.nan, 3.0), _column(1.0, 2.5, 7.0, 3.0))

    # 7 is below 32 bins of 1/4, and above 32 of 1/8.
    assert counts.report() == {
        "residuals": [
            {
                "target": 0,
                "bins": [
                    {"low": -0.5, "high": -0.25, "num_examples": 1},
                    {"low": 0.0, "high": 0.25, "num_examples": 1},
                    {"low": 7.0, "high": 7.25, "num_examples": 1},
                ],
            }
        ],
        "largest_residuals": [
            {"id": "a", "target": 0, "label": 8.0, "prediction": 1.0, "residual": 7.0},
            {"id": "b", "target": 0, "label": 2.0, "prediction": 2.5, "residual": -0.5},
            {"id": "d", "target": 0, "label": 3.0, "prediction": 3.0, "residual": 0.0},
        ],
    }


def test_equal_residuals_are_ordered_by_id_and_target_whatever_their_sign() -> None:
    truth = np.array([[0.0, 2.0], [2.0, 0.0]])

    counts = ResidualCounts.of(["b", "a"], truth, np.ones([2, 2]))

    found = [(one.id, one.target, one.residual) for one in counts.largest]
    assert found == [("a", 0, 1.0), ("a", 1, -1.0), ("b", 0, -1.0), ("b", 1, 1.0)]


def test_merged_parts_equal_the_whole_in_any_order_and_keep_the_largest_residuals() -> None:
    generator = np.random.default_rng(11)
    # Of each part another magnitude, and many equal residuals at the end of the list.
    truth = np.round(generator.normal(size=[90, 2]) * 4) * 2.0 ** (np.arange(90) % 5)[:, np.newaxis]
    truth[::7, 1] = np.nan
    ids = [f"id{i:02d}" for i in range(90)]
    zeros = np.zeros_like(truth)
    whole = ResidualCounts.of(ids, truth, zeros)
    parts = [ResidualCounts.of(ids[i::5], truth[i::5], zeros[i::5]) for i in range(5)]
    parts = [ResidualCounts.from_json(json.loads(json.dumps(part.to_json()))) for part in parts]

    for seed in range(10):
        random.Random(seed).shuffle(parts)
        assert functools.reduce(ResidualCounts.merged_with, parts) == whole
        assert parts[0].merged_with(functools.reduce(ResidualCounts.merged_with, parts[1:])) == whole

    assert [sum(histogram.counts) for histogram in whole.histograms] == [90, 77]
    known = sorted(
        (-abs(value), name, target)
        for name, row in zip(ids, truth.tolist(), strict=True)
        for target, value in enumerate(row)
        if not np.isnan(value)
    )
    assert [(-abs(one.residual), one.id, one.target) for one in whole.largest] == known[:NUM_WORST]


@pytest.mark.parametrize(
    ("residuals", "width", "lows"),
    [
        ([0.0, 0.0], 2.0**-64, [0.0]),
        ([-1e-30], 2.0**-64, [-(2.0**-64)]),
        ([1.0, -1.0], 2.0**-4, [-1.0, 1.0]),
        ([2.0**-5 - 2.0**-20, -1.0 + 2.0**-20], 2.0**-5, [-1.0, 0.0]),
        ([1e38, 1.0], 2.0**122, [0.0, 18 * 2.0**122]),
        ([], 2.0**-64, []),
    ],
    ids=["zeros", "tiny", "powers of two", "edges", "huge", "none"],
)
def test_bins_are_as_narrow_as_the_largest_residual_allows(residuals, width, lows) -> None:
    histogram = ResidualHistogram.of(np.array(residuals, np.float64))

    assert [one["low"] for one in histogram.bins()] == lows
    assert all(one["high"] - one["low"] == width for one in histogram.bins())


def test_a_model_without_ids_has_a_histogram_alone() -> None:
    measure = RegressionMeasure(label_key="price")
    truth = _column(3.0, 1.0)
    outputs = {"prediction": np.array([[2.5], [1.0]], np.float32)}

    with_ids = measure.sums(truth, {**outputs, "id": np.array([b"x", b"y"], object)}, None)
    without = measure.sums(truth, outputs, None)

    report = measure.quality(with_ids, with_ids, "train").report
    assert report["largest_residuals"][0] == {
        "id": "x", "target": 0, "label": 3.0, "prediction": 2.5, "residual": 0.5,
    }  # fmt: skip
    assert len(report["largest_residuals"]) == 2
    report_without = measure.quality(without, without, "train").report
    assert report_without["residuals"] == report["residuals"]
    assert "largest_residuals" not in report_without


def test_labels_alone_have_no_residuals() -> None:
    sums = RegressionMeasure(label_key="price").label_sums(_column(3.0))

    assert sums.residuals == ResidualCounts()
    assert sums.residuals.report() == {}
