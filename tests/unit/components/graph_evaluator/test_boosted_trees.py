from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import boosted_trees
from tfx_gnn.components.graph_evaluator.boosted_trees import BoostedTrees, find_reason_against_trees

NUMBER = np.array([False])
TEXT = np.array([True])


def _classes(*names: str) -> np.ndarray:
    return np.array(names, object)


def test_trees_learn_a_rule_of_numbers_in_which_missing_ones_have_a_class_of_their_own() -> None:
    values = np.array([[float(row)] for row in range(200)] + [[np.nan]] * 100)
    labels = _classes(*["low"] * 100, *["high"] * 100, *["none"] * 100)

    trees = BoostedTrees(values, labels, NUMBER)

    answers = trees.answer(np.array([[20.0], [180.0], [np.nan]]), "task/")
    assert answers["task/label"].tolist() == ["low", "high", "none"]
    assert answers["task/probabilities"].shape == (3, 3)
    np.testing.assert_array_equal(answers["task/score"], answers["task/probabilities"].max(axis=1))


def test_frequent_texts_have_codes_and_all_others_share_one() -> None:
    # 300 texts: the label of the frequent ones is not in their order; those that occur once are of class "rare".
    frequent = np.repeat(np.arange(40.0), 20)
    once = 1000.0 + np.arange(300.0)
    labels = [*np.where(frequent % 2, "odd", "even"), *["rare"] * 300]

    trees = BoostedTrees(np.append(frequent, once)[:, np.newaxis], _classes(*labels), TEXT)

    asked = np.array([[7.0], [8.0], [5000.0]])
    assert trees.answer(asked, "")["label"].tolist() == ["odd", "even", "rare"]


def test_each_number_has_trees_that_see_the_rows_where_it_is_known() -> None:
    values = np.arange(400.0)[:, np.newaxis]
    labels = np.stack([values[:, 0], np.where(values[:, 0] < 200.0, -values[:, 0], np.nan)], axis=1)

    (first, second) = BoostedTrees(values, labels, NUMBER).answer(np.array([[100.0]]), "")["prediction"][0]

    assert first == pytest.approx(100.0, abs=10.0)
    assert second == pytest.approx(-100.0, abs=10.0)


def test_a_column_without_values_and_a_class_of_one_row_are_no_obstacle() -> None:
    values = np.stack([np.arange(600.0), np.full(600, np.nan)], axis=1)
    labels = _classes("only", *["a"] * 299, *["b"] * 300)

    trees = BoostedTrees(values, labels, np.array([False, False]))

    assert trees.answer(np.array([[450.0, np.nan]]), "")["label"].tolist() == ["b"]


def test_many_classes_are_grown_in_few_rounds_on_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "_MOST_GROWN", 20_000)
    labels = _classes(*(str(row % 20) for row in range(4000)))
    values = np.array([[float(label)] for label in labels])
    # Of twenty-one classes 47 rounds are a thousand trees, so the first twenty rows are enough: one of each class.
    labels[-1] = "unseen"

    trees = BoostedTrees(values, labels, NUMBER)

    assert trees.answer(values[:1], "")["probabilities"].shape == (1, 20)
    (grown,) = trees._trees
    assert grown.max_iter == 47
    assert trees.num_rows == 20


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (_classes(*["a"] * 98, "b"), "trees need 100 labelled training examples; there are 99"),
        (_classes(*["a"] * 100), "the training examples have one class only"),
        (_classes(*map(str, range(101))), "trees are grown for at most 100 classes or numbers; there are 101"),
        (np.full([100, 1], np.nan), "trees need 100 labelled training examples; there are 0"),
        (np.zeros([100, 101]), "trees are grown for at most 100 classes or numbers; there are 101"),
        (_classes(*["a"] * 99, "b"), ""),
    ],
    ids=["few", "one class", "many classes", "unknown numbers", "many numbers", "enough"],
)
def test_reasons_against_trees_are_named(labels: np.ndarray, reason: str) -> None:
    assert find_reason_against_trees(labels) == reason
