from __future__ import annotations

import json

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator.ranking import RankingMeasure, RankingSums

NAN = np.nan


def test_ranks_are_those_worked_out_by_hand() -> None:
    scores = np.array([[0.9, 0.1, 0.5, 0.3], [0.2, 0.7, 0.2, -np.inf], [0.1, 0.2, 0.3, 0.4]])
    labels = np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, NAN], [1.0, 0.0, 0.0, 0.0]])

    sums = RankingSums.of(scores, labels)

    # Ranks: 2 of 4; 1 above and a tie, so 2.5 of 3; 4 of 4.
    assert (sums.num_examples, sums.num_ranked) == (3, 3)
    found = sums.metrics()
    assert found["mrr"] == pytest.approx((1 / 2 + 1 / 2.5 + 1 / 4) / 3)
    assert (found["hits_at_1"], found["hits_at_3"], found["hits_at_10"]) == (0.0, pytest.approx(2 / 3), 1.0)
    by_chance = sums.metrics_by_chance()
    of_three, of_four = (1 + 1 / 2 + 1 / 3) / 3, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert by_chance["mrr"] == pytest.approx((2 * of_four + of_three) / 3)
    assert by_chance["hits_at_1"] == pytest.approx((2 / 4 + 1 / 3) / 3)
    assert by_chance["hits_at_3"] == pytest.approx((2 * 3 / 4 + 1) / 3)
    assert (by_chance["hits_at_10"], by_chance["roc_auc"], by_chance["average_precision"]) == (1.0, 0.5, 3 / 11)


def test_negatives_with_own_examples_keep_the_source_or_the_target() -> None:
    pairs = [("a", "x", 1, 0.5), ("a", "y", 0, 0.9), ("a", "z", 0, 0.1)]  # rank 2
    pairs += [("b", "x", 1, 0.5), ("c", "x", 0, 0.2), ("d", "x", 0, 0.1)]  # rank 1
    pairs += [("e", "w", 0, 0.9)]  # a pair whose true pair is not there
    pairs += [("c", "x", 1, 0.3), ("c", "y", 0, 0.4), ("f", "x", 0, 0.6)]  # rank 3
    sources, targets, labels, scores = zip(*pairs, strict=True)
    outputs = {
        "source_id": np.array(sources)[:, np.newaxis],
        "target_id": np.array(targets)[:, np.newaxis],
        "scores": np.array(scores)[:, np.newaxis],
        "num_candidates": np.ones(len(pairs), np.int64),
    }
    measure = RankingMeasure(label_key="label", hits_at=(1,), compares_examples=True)

    sums = measure.sums(np.array(labels, np.float64)[:, np.newaxis], outputs, None)

    assert (sums.num_examples, sums.num_ranked) == (10, 3)
    assert sums.metrics()["mrr"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)


def test_other_true_pairs_of_an_example_are_left_out() -> None:
    sums = RankingSums.of(np.array([[0.9, 0.8, 0.7]]), np.array([[1, 1, 0]]))

    assert sums.num_ranked == 2
    assert sums.metrics()["mrr"] == 1.0


def test_examples_without_false_pairs_are_not_ranked_and_count_for_the_area() -> None:
    sums = RankingSums.of(np.array([[2.0], [1.0], [3.0], [0.0]]), np.array([[1], [0], [1], [NAN]]))

    assert (sums.num_examples, sums.num_without_label, sums.num_ranked) == (3, 1, 0)
    assert sums.metrics() == {"roc_auc": 1.0, "average_precision": 1.0}
    assert sums.metrics_by_chance() == {"roc_auc": 0.5, "average_precision": pytest.approx(2 / 3)}


def test_model_that_scores_all_alike_is_no_better_than_chance() -> None:
    metrics = RankingSums.of(np.zeros([1, 4]), np.array([[1, 0, 0, 0]])).metrics()

    assert metrics == {
        "mrr": 1 / 2.5,
        "hits_at_1": 0.0,
        "hits_at_3": 1.0,
        "hits_at_10": 1.0,
        "roc_auc": 0.5,
        "average_precision": 0.25,
    }


def test_parts_add_up() -> None:
    generator = np.random.default_rng(5)
    scores = generator.normal(size=[30, 6])
    labels = generator.integers(0, 2, size=[30, 6]).astype(float)
    whole = RankingSums.of(scores, labels)

    parts = [RankingSums.of(scores[begin : begin + 7], labels[begin : begin + 7]) for begin in range(0, 30, 7)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged_with(RankingSums.from_json(json.loads(json.dumps(part.to_json()))))

    assert merged.num_ranked == whole.num_ranked
    assert merged.metrics() == pytest.approx(whole.metrics())
    assert merged.metrics_by_chance() == pytest.approx(whole.metrics_by_chance())


def test_no_example_gives_no_metric() -> None:
    assert RankingSums.of(np.zeros([0, 3]), np.zeros([0, 3])).metrics() == {}
