from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import average_precision_score, roc_auc_score

from tfx_gnn.models.metrics import CandidateAuc, HitsAt, MeanReciprocalRank, UnrankedPairs

# Ranks of the true pairs: 1 of 3; a tie with the lower two of three false ones, at 2, 3 and 4, so 3; and, with
# the filtered candidate above both left out, 2 of 2.
LABELS = np.array(
    [[1, 0], [0, 0], [0, 0], [0, 3], [0, 3], [1, 3], [0, 3], [-1, 7], [1, 7], [0, 7], [0, 10], [0, 10]], np.int64
)
SCORES = np.array([3.0, 1.0, 2.0, 9.0, 5.0, 5.0, 5.0, 8.0, -1.0, 0.5, 7.0, 7.0], np.float32)
# The last example is padding.
WEIGHTS = np.array([1.0] * 10 + [0.0] * 2, np.float32)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (MeanReciprocalRank(), (1 + 1 / 3 + 1 / 2) / 3),
        (HitsAt(1), 1 / 3),
        (HitsAt(2), 2 / 3),
        (HitsAt(3), 1.0),
        (UnrankedPairs(), 0.0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_true_pairs_are_ranked_among_the_false_ones_of_their_example(metric, expected, jit_compile):
    @tf.function(jit_compile=jit_compile)
    def update():
        metric.update_state(LABELS, SCORES, WEIGHTS)

    metric.reset_state()
    update()

    assert float(metric.result()) == pytest.approx(expected)
    assert type(metric).from_config(metric.get_config()).get_config() == metric.get_config()


def test_several_true_pairs_do_not_stand_in_each_others_way():
    metric = MeanReciprocalRank()
    metric.update_state(np.array([[1, 0], [1, 0], [0, 0], [1, 0]]), np.array([9.0, 8.0, 1.0, 0.0]))

    assert float(metric.result()) == pytest.approx((1 + 1 + 1 / 2) / 3)


def test_batches_add_up_by_the_weights_of_true_pairs():
    metric = MeanReciprocalRank()
    metric.update_state(LABELS[:3], SCORES[:3], [3.0, 0.0, 0.0])
    metric.update_state(LABELS[3:7] - [[0, 3]], SCORES[3:7], [0.0, 0.0, 1.0, 0.0])

    assert float(metric.result()) == pytest.approx((3 * 1 + 1 / 3) / 4)


def test_ranks_are_those_of_counting():
    """200 examples of 1 to 9 candidates with many ties, counted pair by pair."""
    generator = np.random.default_rng(2)
    sizes = generator.integers(1, 10, 200)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    labels = np.stack([generator.integers(-1, 2, sizes.sum()), starts], axis=1)
    scores = generator.integers(0, 4, sizes.sum()).astype(np.float32)
    metric = MeanReciprocalRank()

    metric.update_state(labels, scores)

    reciprocals = []
    for row in np.flatnonzero(labels[:, 0] == 1):
        rivals = scores[(starts == starts[row]) & (labels[:, 0] == 0)]
        if not len(rivals):
            continue
        reciprocals.append(1 / (1 + np.sum(rivals > scores[row]) + 0.5 * np.sum(rivals == scores[row])))
    assert float(metric.result()) == pytest.approx(np.mean(reciprocals), rel=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_true_pairs_without_false_ones_are_counted_and_not_ranked(jit_compile):
    """Of the examples at 0, 1, 4 and 6 only the second and the last have a false pair; the last is padding."""
    labels = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 4], [-1, 4], [1, 6], [0, 6]])
    scores = np.array([5.0, 1.0, 2.0, 3.0, 1.0, 9.0, 1.0, 2.0], np.float32)
    # Weights of the trainer are scaled, so that they are no ones.
    weights = np.array([2.5] * 6 + [0.0] * 2, np.float32)
    mrr, hits, unranked = MeanReciprocalRank(), HitsAt(1), UnrankedPairs()

    @tf.function(jit_compile=jit_compile)
    def update():
        for metric in (mrr, hits, unranked):
            metric.update_state(labels, scores, weights)

    update()
    update()

    assert float(mrr.result()) == pytest.approx((1 / 2 + 1) / 2)
    assert float(hits.result()) == pytest.approx(1 / 2)
    assert float(unranked.result()) == 4.0


@pytest.mark.parametrize("among_true_pairs", [False, True], ids=["sigmoid weights", "softmax weights"])
def test_areas_are_those_of_scikit_learn(among_true_pairs):
    """Softmax gives weight to true pairs alone; the false ones of their examples count as much."""
    generator = np.random.default_rng(3)
    labels = np.stack([np.tile([1, 0, 0, 0, -1], 400), np.repeat(np.arange(400) * 5, 5)], axis=1)
    scores = generator.normal(size=2000).astype(np.float32) + (labels[:, 0] == 1)
    weights = np.repeat(generator.random(400) < 0.8, 5).astype(np.float32)
    given = np.where(labels[:, 0] == 1, weights, 0.0) if among_true_pairs else weights
    areas = CandidateAuc("ROC"), CandidateAuc.from_config(CandidateAuc("PR").get_config())
    for area in areas:
        for rows in np.split(np.arange(2000), [500, 1500]):
            area.update_state(labels[rows] - [[0, rows[0]]], scores[rows], given[rows])

    counted = (weights > 0) & (labels[:, 0] >= 0)
    expected = [function(labels[counted, 0], scores[counted]) for function in (roc_auc_score, average_precision_score)]
    assert [float(area.result()) for area in areas] == pytest.approx(expected, abs=1e-3)
    assert [area.name for area in areas] == ["auc", "average_precision"]


def test_areas_know_large_scores_and_ties():
    """Of 2 x 3 pairs of a true and a false score one is in order and two are ties."""
    labels = np.array([[1, 0], [0, 0], [0, 0], [0, 0], [1, 0], [-1, 0]])
    scores = np.array([1e6, 1e6, 1.01e6, -0.0, 0.0, 5.0], np.float32)
    areas = CandidateAuc("ROC"), CandidateAuc("PR")

    @tf.function(jit_compile=True)
    def update(scores):
        for area in areas:
            area.update_state(labels, scores)

    update(scores * 7.0)
    for area in areas:
        area.reset_state()
    update(scores)

    counted = labels[:, 0] >= 0
    expected = [function(labels[counted, 0], scores[counted]) for function in (roc_auc_score, average_precision_score)]
    assert expected[0] == pytest.approx(2 / 6)
    assert [float(area.result()) for area in areas] == pytest.approx(expected)


def test_nothing_counted_is_zero():
    metric = HitsAt(1)
    metric.update_state(LABELS[10:] - [[0, 10]], SCORES[10:], WEIGHTS[10:])

    assert float(metric.result()) == 0.0


def test_unknown_curve_is_refused():
    with pytest.raises(ValueError, match="`curve` must be 'ROC' or 'PR'; got 'AUC'"):
        CandidateAuc("AUC")


def test_rank_zero_is_refused():
    with pytest.raises(ValueError, match="`k` must be at least 1; got 0"):
        HitsAt(0)
