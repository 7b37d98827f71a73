"""Splits of labelled rows by time, or at random where times do not divide them."""

from __future__ import annotations

import collections

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.tables.label_splits import split_labeled_rows, time_bounds


@pytest.mark.parametrize(
    ("counts", "bounds"),
    [([1] * 10, (90, 100)), ([1] * 20, (170, 190)), ([40, 40, 10, 10], (30, 40))],
    ids=["ten", "twenty", "uneven"],
)
def test_four_fifths_are_for_training_and_the_last_tenth_for_the_test(counts, bounds):
    # Times 10, 20, ... of so many rows each.
    assert time_bounds(10 * np.arange(1, len(counts) + 1), np.array(counts)) == bounds


@pytest.mark.parametrize(
    ("counts", "bounds"),
    [
        ([20] * 5, (40, 50)),
        ([60, 20, 20], (20, 30)),
        ([50, 25, 25], (20, 30)),
        ([49, 26, 25], None),
        ([60, 40], None),
        ([98, 1, 1], None),
    ],
)
def test_of_few_times_the_last_two_are_taken_if_training_keeps_half_of_the_rows(counts, bounds):
    assert time_bounds(10 * np.arange(1, len(counts) + 1), np.array(counts)) == bounds


def test_rows_without_a_label_are_in_no_split():
    labeled = np.array([True] * 10 + [False])
    times = pa.array([*range(10), 3], pa.int64()).cast(pa.timestamp("s"))

    by_time, by_chance = (split_labeled_rows(labeled, one) for one in (times, None))

    assert by_time.values.to_pylist() == ["train"] * 8 + ["val", "test", "unlabeled"]
    assert (by_time.bounds, by_time.num_unlabeled) == ((8, 9), 1)
    assert by_chance.bounds is None
    assert collections.Counter(by_chance.values.to_pylist()) == {"train": 8, "val": 1, "test": 1, "unlabeled": 1}
