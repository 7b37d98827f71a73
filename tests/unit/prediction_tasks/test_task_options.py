from __future__ import annotations

import datetime as dt
import json

import pytest

from tfx_gnn.io import options_json
from tfx_gnn.prediction_tasks import Anchors, PredictionTask
from tfx_gnn.prediction_tasks.task_options import parse_time

ANCHORS = {"validation_from": "2026-05-01", "test_from": "2026-07-01"}
COUNT = "count(orders, 0 to 30 days)"


def _task(**fields):
    fields = {"for_each": "users", **fields}
    return options_json.from_json(json.dumps(fields), PredictionTask, name="task")


def test_a_task_is_read_from_plain_values_and_back():
    task = _task(
        predict=f"{COUNT} > 0", where="count(orders, -90 to 0 days) > 0", anchors={**ANCHORS, "every": "1 week"}
    )

    assert task == PredictionTask(
        for_each="users",
        predict=f"{COUNT} > 0",
        where="count(orders, -90 to 0 days) > 0",
        anchors=Anchors(validation_from="2026-05-01", test_from="2026-07-01", every="1 week"),
    )
    assert _task(**json.loads(options_json.to_json(task))) == task


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"for_each": "", "predict": COUNT}, "`for_each` must name the node set"),
        ({}, r"One of \['predict', 'sql', 'table', 'split_tables'\] must say what the labels are; got none"),
        ({"predict": COUNT, "sql": "SELECT 1"}, r"got \['predict', 'sql'\]"),
        ({"predict": COUNT}, "`anchors` must be given for windows"),
        ({"predict": "count(orders, -1 to 30 days)", "anchors": ANCHORS}, "`predict` must have windows that start at"),
        ({"predict": COUNT, "where": COUNT, "anchors": ANCHORS}, "`where` must have windows that end at the anchor"),
        ({"predict": "count(", "anchors": ANCHORS}, "at character 7"),
        ({"predict": COUNT, "columns": {"label": "y"}, "anchors": ANCHORS}, "`columns` must go with"),
        ({"predict": COUNT, "anchors": {**ANCHORS, "horizon": "1 day"}}, "`anchors.horizon` must go with"),
        (
            {"sql": "SELECT 1", "where": "a = 1", "anchors": ANCHORS},
            "`where` must go with `predict`; got it beside `sql`",
        ),
        ({"sql": "SELECT 1", "anchors": {**ANCHORS, "every": "1 day"}}, r"`horizon` alone .*'every': '1 day'"),
        ({"sql": "SELECT 1"}, "`anchors` must say where validation and test begin.*got neither"),
        ({"table": "a.csv", "columns": {"split": "part"}, "anchors": ANCHORS}, "got both"),
        ({"table": "a.csv", "columns": {"lable": "y"}, "anchors": ANCHORS}, r"Did you mean 'label'\?"),
        ({"split_tables": {"train": "a.csv", "valid": "b.csv"}}, "must have files of the splits .*'valid'"),
        (
            {"predict": COUNT, "anchors": {"validation_from": "2026-05-01", "test_from": "2026-05-01"}},
            "must be later than",
        ),
        (
            {"predict": COUNT, "anchors": {**ANCHORS, "validation_from": "May"}},
            "must be a date or time stamp.*got 'May'",
        ),
        ({"predict": COUNT, "anchors": {**ANCHORS, "train_from": "2026-06-01"}}, "must be earlier than"),
        (
            {"predict": COUNT, "anchors": {**ANCHORS, "every": "1 month"}},
            "`anchors.every` must have a unit of fixed length",
        ),
        ({"predict": COUNT, "anchors": ANCHORS, "unknown_entities": "keep"}, r"must be one of \['refuse', 'drop'\]"),
    ],
)
def test_a_task_that_breaks_a_rule_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        _task(**fields)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-05-01", dt.datetime(2026, 5, 1)),  # noqa: DTZ001
        ("2026-05-01T10:00:00", dt.datetime(2026, 5, 1, 10)),  # noqa: DTZ001
        ("2026-05-01T10:00:00Z", dt.datetime(2026, 5, 1, 10)),  # noqa: DTZ001
        ("2026-05-01 01:00:00+02:00", dt.datetime(2026, 4, 30, 23)),  # noqa: DTZ001
    ],
)
def test_a_time_is_in_utc(text, time):
    assert parse_time(text, "t") == time


def test_fractions_of_a_second_are_refused():
    with pytest.raises(ValueError, match="`t` must be a whole second"):
        parse_time("2026-05-01T10:00:00.500", "t")
