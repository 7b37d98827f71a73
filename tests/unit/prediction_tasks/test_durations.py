from __future__ import annotations

import pytest

from tfx_gnn.prediction_tasks.durations import describe_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30 days", 2_592_000), ("1 week", 604_800), ("2hours", 7_200), (" 90 Minutes ", 5_400), ("1 second", 1)],
)
def test_a_duration_is_a_number_of_seconds(text, seconds):
    assert parse_duration(text, "every") == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 months", r"`every` must have a unit of fixed length; got 'months'.*Write, for example, 30 days"),
        ("1 year", "365 days"),
        ("3 dais", r"one of the units .*got 'dais'. Did you mean 'days'\?"),
        ("0 days", "whole number above 0 and a unit.*got '0 days'"),
        ("-1 days", "got '-1 days'"),
        ("days", "got 'days'"),
        ("1.5 days", "got '1.5 days'"),
    ],
)
def test_another_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_duration(text, "every")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 weeks"), (86_400, "1 day"), (1_209_600, "2 weeks"), (90, "90 seconds"), (-60, "-1 minute")],
)
def test_a_duration_is_described_in_its_largest_unit(seconds, text):
    assert describe_duration(seconds) == text
