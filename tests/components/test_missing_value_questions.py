"""Questions about values that may stand for no value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn_pipelines.proposals.missing_value_questions import ask_about_label, ask_about_time


def values_of(*values, is_time=False):
    counted = pa.array(map(str, values), pa.large_string()).value_counts()
    return ColumnValues(
        values=counted.field("values"),
        counts=counted.field("counts"),
        num_rows=len(values),
        num_filled=len(values),
        is_time=is_time,
    )


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ([-1, 0, 1, 0, -1], "orders.kind is -1 in 2 rows, its only negative number. If that stands for no label"),
        (["good", "bad", "Unknown"], "is Unknown in 1 row, a class like any other so far"),
        ([-1, 1, 1], ""),
        ([-2, -1, 0, 1], ""),
        (["good", "bad", "other"], ""),
    ],
)
def test_a_label_that_may_be_none_is_asked_about(values, part):
    questions = list(ask_about_label("orders.kind", values_of(*values)))

    assert len(questions) == bool(part)
    assert all(part in question for question in questions)


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        (["1900-01-01", "2026-01-02", "2026-01-03"], "1900-01-01"),
        (["2026-01-02", "2026-01-03", "9999-12-31 23:59:59"], "9999-12-31 23:59:59"),
        (["1990-01-02", "2001-01-03", "2026-01-03"], ""),
        (["2024-01-01", "2026-01-02", "2026-01-03"], ""),
        (["2026-01-02", "1900-01-01"], ""),
        (["1", "2", "3"], ""),
    ],
)
def test_a_time_far_from_all_others_is_asked_about(values, spelled):
    questions = list(ask_about_time("orders.paid", values_of(*values)))

    assert len(questions) == bool(spelled)
    assert all(question.endswith(f"give --missing-value 'orders.paid={spelled}'.") for question in questions)


def test_declared_times_are_spelled_as_dates():
    (question,) = ask_about_time("a.b", values_of(0, 1_767_312_000, 1_767_398_400, is_time=True))

    assert "a.b is 1970-01-01 in 1 row, 56 years away" in question
