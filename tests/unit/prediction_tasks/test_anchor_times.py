from __future__ import annotations

import datetime as dt

import pytest

from tfx_gnn.prediction_tasks.anchor_times import find_anchor_times
from tfx_gnn.prediction_tasks.task_options import Anchors

DAY = 86_400


def _day(number):
    return dt.datetime(2026, 1, 1) + dt.timedelta(days=number)  # noqa: DTZ001


def _find(*, horizon=10 * DAY, first=0, last=100, validation=50, test=70, **more):
    anchors = Anchors(validation_from=str(_day(validation)), test_from=str(_day(test)), **more)
    return find_anchor_times(anchors, horizon=horizon, first=_day(first), last=_day(last), table_names="orders")


def _days(times):
    return [(time - _day(0)).days for time in times]


def test_windows_touch_and_reach_neither_into_the_next_split_nor_beyond_the_data():
    found = _find()

    assert {split: _days(times) for split, times in found.by_split.items()} == {
        "train": [0, 10, 20, 30, 40],
        "val": [50, 60],
        "test": [70, 80, 90],
    }
    assert _days(found.incomplete) == [100]


def test_anchors_may_be_closer_than_windows_are_long():
    found = _find(every="4 days", train_from=str(_day(30)))

    assert {split: _days(times) for split, times in found.by_split.items()} == {
        "train": [32, 36, 40],
        "val": [50, 54, 58],
        "test": [70, 74, 78, 82, 86, 90],
    }
    assert _days(found.incomplete) == [94, 98]


def test_a_window_may_end_at_the_last_row_or_when_the_tables_are_complete():
    assert _days(_find(last=80).by_split["test"]) == [70]
    assert _days(_find(last=75, complete_until=str(_day(90))).by_split["test"]) == [70, 80]


def test_no_anchor_is_after_the_data_though_the_step_is_short():
    found = _find(last=80, every="7 days")

    assert (_days(found.by_split["test"]), _days(found.incomplete)) == ([70], [77])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": 65}, "`anchors.test_from` must be at least 10 days after `anchors.validation_from`"),
        ({"last": 79}, "`anchors.test_from` must leave 10 days of data.*Move it to 2026-03-11 00:00:00 or earlier"),
        ({"test": 500}, "`anchors.test_from` must leave 10 days of data after it"),
        ({"first": 41}, "`anchors.validation_from` must leave 10 days of data before it"),
        ({"train_from": str(_day(45))}, "training starts at 2026-02-15 00:00:00"),
        ({"every": "1 second"}, "`anchors.every` must leave at most 100,000 anchors; got 1 second"),
    ],
)
def test_anchors_outside_of_the_data_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _find(**changes)
