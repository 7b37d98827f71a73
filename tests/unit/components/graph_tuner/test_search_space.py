from __future__ import annotations

import math

import pytest

from tfx_gnn.components.graph_tuner.search_space import Choice, FloatRange, IntRange, SearchRange
from tfx_gnn.io.options_json import from_json, to_json


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (FloatRange(low=0.5, high=1.0), '{"high": 1.0, "kind": "float", "log": false, "low": 0.5}'),
        (IntRange(low=1, high=9, step=4), '{"high": 9, "kind": "int", "log": false, "low": 1, "step": 4}'),
        (Choice(values=("sum", 1, None)), '{"kind": "choice", "values": ["sum", 1, null]}'),
    ],
)
def test_ranges_travel_as_json_that_names_their_kind(values, text):
    assert to_json(values) == text
    assert from_json(text, SearchRange) == values
    assert from_json(f'{{"x": {text}}}', dict[str, SearchRange]) == {"x": values}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"low": 0, "high": 1}', "`kind` must be one of .*; got None"),
        ('{"kind": "text"}', "`kind` must be one of .*; got 'text'"),
        ('{"kind": "int", "low": 0.5, "high": 2}', "`low` must be an integer; got 0.5"),
        ('{"kind": "int", "low": 0}', "`high` must be given for a IntRange; got \\['low'\\]"),
    ],
)
def test_what_is_no_range_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        from_json(text, SearchRange)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (FloatRange, {"low": 1.0, "high": 1.0}, "`high` must be a finite number above `low`; got low=1.0, high=1.0"),
        (FloatRange, {"low": 0.0, "high": math.inf}, "`high` must be a finite number"),
        (FloatRange, {"low": 0.0, "high": 1.0, "log": True}, "`low` must be above 0 on a logarithmic scale; got 0.0"),
        (IntRange, {"low": 3, "high": 3}, "`high` must be above `low`; got low=3, high=3"),
        (IntRange, {"low": 0, "high": 3, "step": 2}, "`step` must divide high - low"),
        (IntRange, {"low": 0, "high": 3, "log": True}, "`low` must be at least 1 on a logarithmic scale; got 0"),
        (Choice, {"values": (1,)}, r"`values` must be two or more different values; got \(1,\)"),
        (Choice, {"values": ("a", "a", "b")}, "`values` must be two or more different values"),
        (Choice, {"values": (1.0, math.nan)}, r"`values` must be what JSON can hold, .*; got \(1\.0, nan\)"),
        (Choice, {"values": ("a", [{"b": -math.inf}])}, "`values` must be what JSON can hold"),
        (Choice, {"values": ("a", b"b")}, "`values` must be what JSON can hold"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        kind(**fields)


def test_a_grid_is_all_values_and_floats_have_none():
    assert list(IntRange(low=2, high=8, step=3).grid()) == [2, 5, 8]
    assert Choice(values=(1, 1.0, True)).grid() == (1, 1.0, True)
    assert len(IntRange(low=-(2**62), high=2**62 - 2).grid()) == 2**63 - 1
    with pytest.raises(ValueError, match="must hold at most 9223372036854775807 integers per name for sampler 'grid'"):
        IntRange(low=-(2**62), high=2**62 - 1).grid()
    with pytest.raises(ValueError, match="must hold only Choice and IntRange for sampler 'grid'"):
        FloatRange(low=0.0, high=1.0).grid()
