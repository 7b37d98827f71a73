"""Texts of which single words tell the label."""

import re

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn_pipelines.checks import label_judge
from tfx_gnn_pipelines.checks.label_judge import LabelJudge

NUM_ROWS = 1_000
RANDOM = np.random.default_rng(3)
IS_LATE = RANDOM.random(NUM_ROWS) < 0.3
PLAIN = [f"Order {row} of {one}, {other}" for row, (one, other) in enumerate(RANDOM.integers(0, 50, [NUM_ROWS, 2]))]


def evidence(texts):
    judge = LabelJudge(chunked(np.where(IS_LATE, "yes", "no")), is_class=True)
    return judge.evidence(chunked(texts))


def chunked(values):
    return pa.chunked_array([pa.array(list(values), pa.large_string())])


def test_words_that_only_rows_of_one_class_have_tell_it():
    words = RANDOM.choice(["REFUNDED", "cancelled"], NUM_ROWS)

    found = evidence(
        [f"{text}; {word}!" if late else text for text, word, late in zip(PLAIN, words, IS_LATE, strict=True)]
    )

    assert re.match(r"its words, such as '(refunded|cancelled)', tell the label of 100.0% of 500 rows", found)


def test_words_of_the_larger_class_tell_that_the_other_rows_are_of_the_smaller_one():
    texts = [text if late else f"{text}; paid_in_full" for text, late in zip(PLAIN, IS_LATE, strict=True)]

    assert evidence(texts).startswith("its words, such as 'paid', tell the label of 100.0%")


def test_the_words_of_a_rare_class_tell_it_beside_many_that_only_the_other_class_has():
    is_rare = [row % 70 == 0 for row in range(4_000)]
    texts = [f"word{row % 37} word{row % 41}{' chargeback' * one}" for row, one in enumerate(is_rare)]

    found = LabelJudge(chunked(map(str, is_rare)), is_class=True).evidence(chunked(texts))

    assert found.startswith("its words, such as 'chargeback', tell the label of 100.0%")


@pytest.mark.parametrize(
    ("told", "other"), [("已退款", "已送达"), ("返金しました", "配達しました"), ("वापसी", ""), ("💸", "✅")]
)
def test_words_are_found_in_any_script(told, other):
    texts = [f"{text}; 订单{told if late else other}" for text, late in zip(PLAIN, IS_LATE, strict=True)]

    assert evidence(texts).startswith("its words, such as ")


def test_notes_that_only_rows_of_one_class_have_tell_it_whatever_they_say():
    notes = [text if late else None for text, late in zip(PLAIN, IS_LATE, strict=True)]

    assert evidence(notes).startswith("alone it tells the label of 100.0%")
    of_numbers = LabelJudge(chunked(np.where(IS_LATE, "1", "0")), is_class=False)
    assert of_numbers.evidence(chunked(notes)).startswith("alone it explains 100.0% of the label's variance")


def test_words_tell_numbers_too():
    stars = RANDOM.integers(1, 6, NUM_ROWS)
    words = ["awful", "bad", "fair", "good", "superb"]
    judge = LabelJudge(chunked(stars.astype(str)), is_class=False)

    found = judge.evidence(chunked([f"{text}: {words[star - 1]}" for text, star in zip(PLAIN, stars, strict=True)]))

    assert re.match("its words, such as '[a-z]+', explain 100.0% of the label's variance over 500 rows", found)
    assert judge.evidence(chunked(PLAIN)) == ""


def test_rows_at_equal_distances_tell_of_columns_that_are_very_long(monkeypatch):
    monkeypatch.setattr(label_judge, "_MOST_CHARACTERS", sum(map(len, PLAIN)) // 3)
    texts = [f"{text}; refunded" if late else text for text, late in zip(PLAIN, IS_LATE, strict=True)]

    assert re.search(r"'refunded', tell the label of 100.0% of 1\d\d rows", evidence(texts))


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_words_that_many_rows_of_the_class_lack_do_not(share):
    has_word = IS_LATE & (RANDOM.random(NUM_ROWS) < share)

    assert evidence([f"{text}; refunded" if one else text for text, one in zip(PLAIN, has_word, strict=True)]) == ""


def test_neither_do_numbers_and_texts_that_are_missing():
    assert evidence([f"{row / 7:.3f}" for row in range(NUM_ROWS)]) == ""
    assert evidence([None] * NUM_ROWS) == ""
    assert evidence([""] * NUM_ROWS) == ""
