from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from tfx_gnn.components.graph_evaluator.score_counts import ScoreCounts, weighted_areas

# Steps of 1/64 below 8 have at most 9 significant bits, so nothing is rounded.
PAIRS = st.lists(st.tuples(st.integers(-511, 511), st.booleans()), min_size=1, max_size=60)


@given(PAIRS)
def test_areas_are_scikit_learns(pairs: list[tuple[int, bool]]) -> None:
    scores = np.array([score / 64 for score, _ in pairs])
    truth = np.array([is_true for _, is_true in pairs])

    counts = ScoreCounts.of(scores[::2], truth[::2]).merged_with(ScoreCounts.of(scores[1::2], truth[1::2]))

    if truth.all() or not truth.any():
        assert counts.roc_auc() is None
    else:
        assert counts.roc_auc() == pytest.approx(roc_auc_score(truth, scores))
    if truth.any():
        assert counts.average_precision() == pytest.approx(average_precision_score(truth, scores))
    else:
        assert counts.average_precision() is None


def test_scores_of_many_digits_are_rounded_by_less_than_the_area_shows() -> None:
    generator = np.random.default_rng(3)
    truth = generator.random(20_000) < 0.3
    scores = generator.normal(size=20_000) + truth

    counts = ScoreCounts.of(scores, truth)

    assert counts.roc_auc() == pytest.approx(roc_auc_score(truth, scores), abs=1e-5)
    assert counts.average_precision() == pytest.approx(average_precision_score(truth, scores), abs=1e-4)


def test_both_zeros_are_one_score() -> None:
    assert ScoreCounts.of(np.array([0.0, -0.0]), np.array([True, False])).roc_auc() == 0.5


def test_areas_of_weights_are_those_of_repeated_pairs_and_undefined_without_both_kinds() -> None:
    # Scores 1, 2 and 3; one true pair at 2 and two at 3; false ones at 1, 2 and 2.
    positives, negatives = (
        np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]),
        np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]),
    )

    roc_auc, average_precision = weighted_areas(positives, negatives)

    # Of nine comparisons, the pairs at 3 win six, that at 2 wins one and ties two.
    assert roc_auc[0] == pytest.approx((6 + 1 + 1) / 9)
    assert average_precision.tolist() == pytest.approx([(2 * 1.0 + 3 / 5) / 3, 1.0])
    assert np.isnan(roc_auc[1])
