"""What requests say of seeds beside their ids: as of when they ask, now by default."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.seed_context import SeedContext

TYPES = {"time": pa.int64(), "share": pa.float32(), "shop": pa.large_string()}
NOW = 1_769_904_000
OTHERS = {"share": 0.5, "shop": "a"}


@pytest.fixture
def context():
    return SeedContext(TYPES, "time", clock=lambda: NOW + 0.9)


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ({}, NOW),
        ({"time": 5}, 5),
        ({"time": "2026-02-01"}, NOW),
        ({"time": "2026-02-01T00:00:00Z"}, NOW),
        ({"time": "2026-02-01T01:30:00+01:30"}, NOW),
        ({"time": "1969-12-31T23:59:59.500"}, -1),
    ],
)
def test_a_request_asks_as_of_now_or_as_of_a_time(context, given, time):
    assert context.read({**given, **OTHERS}, "c") == {"time": time, **OTHERS}


def test_values_of_several_seeds_become_columns(context):
    contexts = [{"time": 5, "share": 1.0, "shop": "a"}, {"time": 6, "share": 2, "shop": ""}]

    columns = context.columns(contexts)

    assert {name: column.type for name, column in columns.items()} == TYPES
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "time": [5, 6],
        "share": [1.0, 2.0],
        "shop": ["a", ""],
    }
    assert context.any_values() == {"time": NOW, "share": 0, "shop": ""}


def test_no_time_is_now_without_a_known_unit():
    with pytest.raises(Refusal, match=r"`c.time` must be given, because the model reads it .*got a context with \[\]"):
        SeedContext({"time": pa.int64()}, "").read({}, "c")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tme": 1}, r"`c` must have keys among \['share', 'shop', 'time'\].*got 'tme'.*Did you mean 'time'"),
        ([1], r"`c` must be an object; got \[1\]"),
        ({"time": True}, "`c.time` must be an integer of 64 bits or a time in ISO 8601; got True"),
        ({"time": 1.5}, "got 1.5"),
        ({"time": 2**63}, "must be an integer of 64 bits"),
        ({"time": "today"}, "`c.time` must be seconds since 1970 or a time in ISO 8601.*got 'today'"),
        ({"share": float("nan")}, "`c.share` must be a number of 32 bits; got nan"),
        ({"share": 1e39}, "must be a number of 32 bits"),
        ({"share": "1"}, "must be a number of 32 bits; got '1'"),
        ({"shop": 1}, "`c.shop` must be a text"),
        ({"shop": {"b64": "/w=="}}, "`c.shop` must be text in UTF-8"),
    ],
)
def test_values_of_another_form_are_refused(context, given, message):
    with pytest.raises(Refusal, match=message):
        context.read({**OTHERS, **given} if isinstance(given, dict) else given, "c")
