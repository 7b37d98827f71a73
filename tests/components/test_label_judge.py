"""Texts of which single words tell the label."""

import re

import numpy as np
import pyarrow as pa
import pytest

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


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_words_that_many_rows_of_the_class_lack_do_not(share):
    has_word = IS_LATE & (RANDOM.random(NUM_ROWS) < share)

    assert evidence([f"{text}; refunded" if one else text for text, one in zip(PLAIN, has_word, strict=True)]) == ""


def test_neither_do_numbers_and_texts_that_are_missing():
    assert evidence([f"{row / 7:.3f}" for row in range(NUM_ROWS)]) == ""
    assert evidence([None] * NUM_ROWS) == ""
    assert evidence([""] * NUM_ROWS) == ""
