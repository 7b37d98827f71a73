from __future__ import annotations

import pytest

from tfx_gnn.reports.number_texts import (
    as_aligned,
    as_amount,
    as_bytes,
    as_duration,
    as_figure,
    as_option,
    as_percent,
    as_time,
    name_parts,
)


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0, 1, "0%"),
        (1.0, 1, "100%"),
        (0.961, 1, "96.1%"),
        (0.99951, 1, ">99.9%"),
        (0.9999, 2, "99.99%"),
        (1e-5, 2, "<0.01%"),
    ],
)
def test_percentages_are_exact_at_both_ends(share, decimals, text):
    assert as_percent(share, decimals) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.25, "0.25"), (0.0123, "0.012"), (7.3111, "7.31"), (7.0, "7"), (99.96, "100"), (12345.6, "12,346")],
)
def test_amounts_have_three_digits_that_matter(number, text):
    assert as_amount(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1 KiB"), (1_300_000, "1.24 MiB"), (2**60, "1,048,576 TiB")],
)
def test_bytes_are_in_units_that_people_read(number, text):
    assert as_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (7.31, "7.31 s"), (125.2, "2 min 5 s"), (12_000.0, "3 h 20 min"), (59.999, "60 s")],
)
def test_durations_are_in_two_units_at_most(seconds, text):
    assert as_duration(seconds) == text


def test_figures_have_four_digits_that_matter():
    assert [as_figure(number) for number in (0.731249, 1.5e-05, 123456.0, float("nan"))] == [
        "0.7312",
        "1.500e-05",
        "1.235e+05",
        "nan",
    ]


def test_options_that_are_empty_are_none():
    assert [as_option(value) for value in ((), "", {}, 0, False, ("a", 1))] == [
        "none",
        "none",
        "none",
        "0",
        "False",
        "a, 1",
    ]


def test_numbers_of_a_column_are_aligned_by_the_largest():
    assert [as_aligned(number, 38.0269) for number in (80.0, 41.9731, -0.5)] == ["80.00", "41.97", "-0.50"]
    assert as_aligned(12345.678, 25000.0) == "12,346"
    assert as_aligned(1e-20, 1e-20) == "0.000000000"
    assert as_aligned(3.0, 0.0) == "3"


def test_times_have_no_fractions_of_seconds_and_other_texts_stay():
    assert as_time("2026-11-27T08:33:56.244716") == "2026-11-27 08:33:56"
    assert as_time("my-run") == "my-run"


def test_names_break_at_their_parts():
    assert name_parts("balanced_accuracy") == ["balanced_", "accuracy"]
    assert name_parts("SubgraphExampleGen") == ["Subgraph", "Example", "Gen"]
    assert name_parts("nodes/a.b@1") == ["nodes/", "a.", "b@", "1"]
    assert name_parts("") == [""]
