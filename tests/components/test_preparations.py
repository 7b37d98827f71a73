"""How columns of a stranger's tables become features."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn_pipelines.proposals.graph_proposal import ask_about_features
from tfx_gnn_pipelines.proposals.preparations import choose_preparation


def values_of(values, num_rows=None):
    counted = (
        pa.array([None if one is None else str(one) for one in values], pa.large_string()).drop_null().value_counts()
    )
    num_filled = sum(one is not None for one in values)
    return ColumnValues(
        values=counted.field("values"),
        counts=counted.field("counts"),
        num_rows=len(values) if num_rows is None else num_rows,
        num_filled=num_filled,
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("zip_code", "vocabulary"), ("VoteTypeId", "vocabulary"), ("quantity", "z_score")]
)
def test_integers_whose_name_says_code_are_words(name, kind):
    chosen = choose_preparation(name, Feature(dtype=types_pb2.DT_INT64), values_of([10000 + i % 30 for i in range(90)]))

    assert chosen.kind == kind


def test_codes_of_which_most_rows_have_their_own_are_left_out():
    chosen = choose_preparation("order_code", Feature(dtype=types_pb2.DT_INT64), values_of(range(7000, 7090)))

    assert (chosen.kind, chosen.reason) == ("drop", "most rows have a code of their own")


@pytest.mark.parametrize("sign", [1, -1])
def test_heavy_tails_are_flattened_in_either_direction(sign):
    values = values_of([sign * (i % 10 + 1.5) for i in range(90)] + [sign * 40_000.0])

    assert choose_preparation("amount", Feature(dtype=types_pb2.DT_FLOAT), values).kind == "log1p_z_score"


def test_columns_without_counted_values_are_not_taken_for_zeros_and_ones():
    assert choose_preparation("size", Feature(dtype=types_pb2.DT_INT64), values_of([], 90)).kind == "z_score"


def test_truth_values_with_gaps_are_numbers():
    values = values_of(["true", None, "false"] * 30)

    assert choose_preparation("open", Feature(dtype=types_pb2.DT_BOOL), values).kind == "number"


def test_texts_that_share_words_are_read_by_them():
    texts = [f"Order {i} of {'blue' if i % 3 else 'red'} shoes, number {i * 7}" for i in range(90)]

    chosen = choose_preparation("note", Feature(dtype=types_pb2.DT_STRING), values_of(texts))

    assert (chosen.kind, chosen.reason) == ("text", "7.0 words on average")


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ([f"A{i:05}" for i in range(90)], "most rows have a text of their own"),
        ([f"a{i}-b{i}" for i in range(90)], "most rows have a text of their own, whose words occur in no other one"),
    ],
)
def test_names_and_codes_are_left_out(texts, reason):
    chosen = choose_preparation("note", Feature(dtype=types_pb2.DT_STRING), values_of(texts))

    assert (chosen.kind, chosen.reason) == ("drop", reason)


@pytest.mark.parametrize(
    ("numbers", "is_asked"),
    [
        ([100_000 + i % 40 for i in range(120)], True),
        ([1990 + i % 30 for i in range(90)], False),
        ([i % 40 for i in range(120)], False),
        ([100 + 97 * (i % 40) for i in range(120)], False),
        (list(range(200, 290)), False),
    ],
    ids=["codes", "years", "counts", "amounts", "one each"],
)
def test_integers_that_may_be_codes_are_asked_about(numbers, is_asked):
    chosen = choose_preparation("agent", Feature(dtype=types_pb2.DT_INT64), values_of(numbers))

    questions = list(ask_about_features({"nodes/tickets": {"agent": chosen}}))

    assert chosen.kind == "z_score"
    assert len(questions) == is_asked
    assert all("40 different integers from 100000 to 100039, as codes are" in question for question in questions)
