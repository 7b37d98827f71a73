from __future__ import annotations

import json

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator.confidence import ConfidenceCounts
from tfx_gnn.components.graph_evaluator.worst_examples import NUM_WORST


def _counts(rows):
    ids, truth, predicted, scores = zip(*rows, strict=True)
    return ConfidenceCounts.of(ids, truth, predicted, np.array(scores), unlabelled="")


def test_calibration_is_the_one_worked_out_by_hand():
    counts = _counts([("a", "x", "x", 0.95), ("b", "x", "y", 0.91), ("c", "y", "y", 0.5), ("d", "", "y", 0.3)])

    report = counts.report()

    # Bin [0.9, 1]: accuracy 1/2 at confidence 0.93; bin [0.5, 0.6): 1 at 0.5.
    assert report["calibration"]["expected_calibration_error"] == pytest.approx((2 * 0.43 + 0.5) / 3)
    assert [(one["low"], one["num_examples"], one["accuracy"]) for one in report["calibration"]["bins"]] == [
        (0.5, 1, 1.0),
        (0.9, 2, 0.5),
    ]
    assert report["confident_mistakes"] == [{"id": "b", "true": "x", "predicted": "y", "score": 0.91}]


def test_merged_parts_equal_the_whole_in_any_order_and_keep_the_most_confident_mistakes():
    rows = [(f"id{i:02d}", "x", "y" if i % 3 else "x", (i % 40) / 40) for i in range(90)]
    parts = [_counts(rows[start::4]) for start in range(4)]

    merged = ConfidenceCounts()
    for part in reversed(parts):
        merged = merged.merged_with(ConfidenceCounts.from_json(json.loads(json.dumps(part.to_json()))))

    assert merged == _counts(rows)
    assert len(merged.mistakes) == NUM_WORST
    wrong = sorted((score for _, true, predicted, score in rows if true != predicted), reverse=True)
    assert [mistake.score for mistake in merged.mistakes] == wrong[:NUM_WORST]


def test_scores_outside_of_probabilities_are_clipped_and_nan_counts_as_zero():
    counts = _counts([("a", "x", "x", 1.0), ("b", "x", "x", 1.5), ("c", "x", "x", float("nan"))])

    assert counts.num_examples == (1, 0, 0, 0, 0, 0, 0, 0, 0, 2)


def test_without_a_labelled_example_there_is_no_report():
    assert _counts([("a", "", "x", 0.5)]).report() == {}
    assert ConfidenceCounts().report() == {}
