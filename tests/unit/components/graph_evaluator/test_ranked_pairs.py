from __future__ import annotations

import functools
import json
import random

import numpy as np

from tfx_gnn.components.graph_evaluator.ranked_pairs import RankCounts, RankedPairs
from tfx_gnn.components.graph_evaluator.ranking import RankingMeasure, RankingSums
from tfx_gnn.components.graph_evaluator.worst_examples import NUM_WORST

NAN = np.nan


def _measured(pairs, *, compares_examples=False, with_ids=True):
    """Measures rows of (source, target, label, score); a row of its own for each pair if examples are compared."""
    width = max(map(len, pairs))
    padded = [[*row, *[("", "", NAN, -np.inf)] * (width - len(row))] for row in pairs]
    sources, targets, labels, scores = (
        np.array([[pair[i] for pair in row] for row in padded], dtype)
        for i, dtype in enumerate((object, object, np.float64, np.float32))
    )
    outputs = {"scores": scores, "num_candidates": np.array([len(row) for row in pairs])}
    if with_ids:
        outputs |= {"source_id": sources, "target_id": targets}
    measure = RankingMeasure(label_key="label", compares_examples=compares_examples)
    sums = measure.sums(labels, outputs, None)
    return sums, measure.quality(sums, None, "train").report


# Ranks 2 of 3, 1 of 2, 4 of 4, and 2.5 of 4 by two ties behind none and one ahead.
ROWS = [
    [("a", "x", 1, 0.5), ("a", "y", 0, 0.25), ("a", "z", 0, 0.75)],
    [("b", "y", 1, 2.0), ("b", "x", 0, 1.0)],
    [("c", "y", 0, 0.5), ("c", "x", 0, 0.25), ("c", "z", 1, 0.125), ("c", "w", 0, 4.0)],
    [("d", "y", 0, 0.5), ("d", "x", 0, 0.25), ("d", "z", 1, 0.25), ("d", "w", 0, 0.125)],
]


def test_ranks_and_the_lowest_are_those_worked_out_by_hand() -> None:
    _, report = _measured(ROWS)

    # By chance, each rank of 3, 2, 4 and 4 candidates is as likely as any other; 2.5 counts as 3.
    bins = [(one["low"], one["high"], one["num_pairs"], round(one["num_by_chance"], 6)) for one in report["ranks"]]
    assert bins == [
        (1, 1, 1, round(1 / 3 + 1 / 2 + 1 / 4 + 1 / 4, 6)),
        (2, 2, 1, round(1 / 3 + 1 / 2 + 1 / 4 + 1 / 4, 6)),
        (3, 4, 2, round(1 / 3 + 0 + 1 / 2 + 1 / 2, 6)),
    ]
    assert [tuple(one.values()) for one in report["worst_ranks"]] == [
        ("c", "z", 4.0, 4, 0.125, 4.0),
        ("d", "z", 2.5, 4, 0.25, 0.5),
        ("a", "x", 2.0, 3, 0.5, 0.75),
        ("b", "y", 1.0, 2, 2.0, 2.0),
    ]
    assert list(report["worst_ranks"][0]) == ["source", "target", "rank", "num_candidates", "score", "best_score"]


def test_pairs_with_examples_of_their_own_keep_their_ids() -> None:
    rows = [[pair] for row in (ROWS[0], ROWS[1], [("c", "v", 1, 0.1), *ROWS[2][:2]]) for pair in row]

    _, report = _measured(rows, compares_examples=True)

    found = [(one["source"], one["target"], one["rank"], one["num_candidates"]) for one in report["worst_ranks"]]
    assert found == [("c", "v", 3.0, 3), ("a", "x", 2.0, 3), ("b", "y", 1.0, 2)]


def test_merged_parts_equal_the_whole_in_any_order_and_keep_the_lowest_ranks() -> None:
    generator = np.random.default_rng(7)
    scores = generator.integers(0, 4, size=[60, 9]) / 4
    labels = np.zeros([60, 9])
    labels[:, 0] = 1
    labels[:20, 3:] = NAN
    sources = np.array([[f"s{i:02d}"] * 9 for i in range(60)], object)
    targets = np.array([["t"] * 9] * 60, object)

    def counted(rows):
        return RankCounts.of(RankedPairs.of(scores[rows], labels[rows]), [sources[rows], targets[rows]])

    whole = counted(slice(None))
    parts = [counted(slice(begin, begin + 15)) for begin in range(0, 60, 15)]
    parts = [RankCounts.from_json(json.loads(json.dumps(part.to_json()))) for part in parts]

    for seed in range(10):
        random.Random(seed).shuffle(parts)
        assert functools.reduce(RankCounts.merged_with, parts) == whole
        assert parts[0].merged_with(functools.reduce(RankCounts.merged_with, parts[1:])) == whole

    assert sum(whole.counts) == 60
    ranks = [
        1 + np.sum(row[1:end] > row[0]) + np.sum(row[1:end] == row[0]) / 2
        for row, end in zip(scores, [3] * 20 + [9] * 40, strict=True)
    ]
    expected = sorted((-rank, f"s{i:02d}") for i, rank in enumerate(ranks))[:NUM_WORST]
    assert [(-one.rank, one.source) for one in whole.worst] == expected


def test_numbers_are_ids_too() -> None:
    sums = RankingSums.of(np.array([[1.0, 2.0]]), np.array([[1, 0]]), ids=[np.array([[7, 7]]), np.array([[8, 9]])])

    assert [(one.source, one.target, one.rank) for one in sums.ranks.worst] == [("7", "8", 2.0)]


def test_a_model_without_ids_has_a_histogram_alone() -> None:
    _, report = _measured(ROWS, with_ids=False)

    assert [one["num_pairs"] for one in report["ranks"]] == [1, 1, 2]
    assert "worst_ranks" not in report


def test_without_a_ranked_pair_there_is_no_report() -> None:
    sums, report = _measured([[("a", "x", 1, 0.5)], [("b", "x", 0, 0.5)]])

    assert sums.ranks == RankCounts()
    assert "ranks" not in report
    assert RankingSums.of(np.zeros([0, 3]), np.zeros([0, 3])).ranks == RankCounts()
