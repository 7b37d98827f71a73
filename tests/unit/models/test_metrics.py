from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from tfx_gnn.models.metrics import (
    CandidateAuc,
    HitsAt,
    MacroF1,
    MeanReciprocalRank,
    UnrankedPairs,
    WeightedMae,
    WeightedR2,
    WeightedRmse,
)

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


def test_figures_of_batches_are_those_of_all_rows_together():
    """Three batches of five of 7 classes, of which one never occurs; padding rows have the weight 0."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 6, 300)
    logits = generator.normal(size=(300, 7)).astype(np.float32)
    logits[:, 6] = -100.0
    logits[np.arange(300), classes] += 1.5
    weights = (generator.random(300) < 0.7).astype(np.float32)
    metric = MacroF1(7)

    for rows in np.split(np.arange(300), [50, 51, 200]):
        metric.update_state(classes[rows][:, None], logits[rows], weights[rows][:, None])

    counted = weights > 0
    expected = f1_score(classes[counted], logits[counted].argmax(axis=1), average="macro")
    assert float(metric.result()) == pytest.approx(expected, rel=1e-6)


def test_macro_f1_of_nothing_is_zero():
    metric = MacroF1(2)
    metric.update_state([0, 1], [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])

    assert float(metric.result()) == 0.0


def test_replicas_add_their_counts():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        metric = MacroF1.from_config(MacroF1(2, name="f1").get_config())

    strategy.run(metric.update_state, args=(tf.constant([0, 1, 1]), tf.constant([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])))

    # Class 0: precision 1/2, recall 1. Class 1: precision 1, recall 1/2.
    assert float(metric.result()) == pytest.approx(2 / 3)
    assert metric.name == "f1"
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_no_classes_are_refused():
    with pytest.raises(ValueError, match="`num_classes` must be at least 1; got 0"):
        MacroF1(0)


NUMBERS = np.array([[1.0, 10.0], [2.0, 0.0], [4.0, 30.0]], np.float32)
ANSWERS = np.array([[2.0, 13.0], [2.0, 99.0], [1.0, 26.0]], np.float32)
# The second label of the second row is missing.
NUMBER_WEIGHTS = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]], np.float32)


def _after(metric):
    metric.update_state(NUMBERS[:1], ANSWERS[:1], NUMBER_WEIGHTS[:1])
    metric.update_state(NUMBERS[1:], ANSWERS[1:], NUMBER_WEIGHTS[1:])
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
    metric.update_state(NUMBERS, ANSWERS, NUMBER_WEIGHTS)
    metric.reset_state()
    metric.update_state(NUMBERS, ANSWERS, np.zeros_like(NUMBER_WEIGHTS))

    assert float(metric.result()) == 0.0
    assert metric.get_config() == kind((2.0, 3.0), name="error").get_config()


def test_no_outputs_are_refused():
    with pytest.raises(ValueError, match="`scale` must hold one number for each output; got none"):
        WeightedMae(())
