"""Columns that look like times, but cannot be read as times: what is said of them."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.mixed_times import describe_mixed_times

PLAIN = [f"2026-05-{day:02d} 10:30:00" for day in range(1, 30)]


def column_of(texts):
    counted = pa.array(texts, pa.large_string()).value_counts()
    return ColumnValues(
        values=counted.field("values"), counts=counted.field("counts"), num_rows=len(texts), num_filled=len(texts)
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([*PLAIN, "2026-05-30T10:30:00Z"], "with a zone, such as '2026-05-30T10:30:00Z', and 29 without one, such as "),
        ([*PLAIN, "2026-05-30 10:30+02"], "with a zone, such as '2026-05-30 10:30[+]02'"),
        ([*PLAIN, "soon"], "are no times in ISO 8601, such as 'soon'. Spell"),
        ([*PLAIN, "2026-02-30 10:30:00"], "are no times in ISO 8601, such as '2026-02-30 10:30:00'"),
        ([f"{day}.12.2026 10:30" for day in range(1, 30)], "not in ISO 8601, such as '1.12.2026 10:30'. Spell"),
        ([f"12/{day}/26" for day in range(1, 30)], "not in ISO 8601, such as '12/1/26'"),
        ([f"May {day}, 2026" for day in range(1, 30)], "not in ISO 8601, such as 'May 1, 2026'"),
        ([f"{one} UTC" for one in PLAIN], "are no times in ISO 8601, such as '2026-05-01 10:30:00 UTC'"),
    ],
)
def test_what_keeps_a_column_from_being_times_is_named(texts, message):
    described = describe_mixed_times(column_of(texts))

    assert re.search(message, described), described


@pytest.mark.parametrize(
    "texts",
    [
        PLAIN,
        [*PLAIN, "2026-05-30"],
        [f"{one}+02:00" for one in PLAIN],
        [str(number) for number in range(40)],
        ["red", "green", "2026-05-01"],
        [f"10.0.{one}.1" for one in range(30)],
        [f"{one}-12-17-AB" for one in range(10, 30)],
        [f"2026-05-0{day}-a{day}" for day in range(1, 9)],
        [],
    ],
)
def test_nothing_is_said_of_times_and_of_what_does_not_look_like_them(texts):
    assert describe_mixed_times(column_of(texts)) == ""
