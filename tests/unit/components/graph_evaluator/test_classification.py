from __future__ import annotations

import random
import warnings
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.components.graph_evaluator.classification import (
    ClassMetrics,
    always_predicting,
    classification_metrics,
)


def test_metrics_of_a_small_confusion_are_those_worked_out_by_hand() -> None:
    metrics = classification_metrics({("cat", "cat"): 2, ("cat", "dog"): 1, ("dog", "dog"): 1, ("cow", "cat"): 1})

    assert metrics.num_examples == 5
    assert metrics.accuracy == pytest.approx(3 / 5)
    assert metrics.per_class == {
        "cat": ClassMetrics(precision=2 / 3, recall=2 / 3, f1=2 / 3, support=3),
        "cow": ClassMetrics(precision=0.0, recall=0.0, f1=0.0, support=1),
        "dog": ClassMetrics(precision=1 / 2, recall=1.0, f1=2 / 3, support=1),
    }
    assert metrics.macro_f1 == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)


def test_majority_baseline_scores_only_its_own_class() -> None:
    metrics = classification_metrics(always_predicting("cat", {"cat": 3, "dog": 1}))

    assert metrics.accuracy == 0.75
    assert metrics.macro_f1 == pytest.approx((6 / 7 + 0) / 2)


def test_no_count_is_refused() -> None:
    with pytest.raises(ValueError, match="`confusion` must count at least one example; got none"):
        classification_metrics({})


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=40))
def test_figures_equal_scikit_learns(pairs: list[tuple[str, str]]) -> None:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    random.Random(0).shuffle(pairs)
    truth, predictions = zip(*pairs, strict=True)

    metrics = classification_metrics(Counter(pairs))

    names = sorted({*truth, *predictions})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = precision_recall_fscore_support(truth, predictions, labels=names, zero_division=0)
        macro = precision_recall_fscore_support(truth, predictions, average="macro", zero_division=0)
    assert metrics.accuracy == pytest.approx(accuracy_score(truth, predictions))
    assert metrics.macro_f1 == pytest.approx(macro[2])
    assert [m.precision for m in metrics.per_class.values()] == pytest.approx(expected[0].tolist())
    assert [m.recall for m in metrics.per_class.values()] == pytest.approx(expected[1].tolist())
    assert [m.f1 for m in metrics.per_class.values()] == pytest.approx(expected[2].tolist())
    assert [m.support for m in metrics.per_class.values()] == expected[3].tolist()
