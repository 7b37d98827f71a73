import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.tables.column_types import check_default, convert_column
from tfx_gnn.tables.table_layout import TableColumn

TEXT = pa.large_string()
NOON = dt.datetime(1970, 1, 2, 12, tzinfo=dt.timezone.utc)
LATIN_1 = pa.array([b"p0", b"p\xe9"]).view(pa.string())


def _convert(array, dtype, **options):
    column = TableColumn(name="x", dtype=dtype, **options)
    values, problems = convert_column(array, column, name="x", path="t.csv")
    assert values.type == column.arrow_type
    assert len(values) == len(array)
    return values, [(problem.row, problem.rule, problem.value) for problem in problems]


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [
        (pa.array(["7", "-1"]), pa.int8(), [7, -1]),
        (pa.array([b"7"], pa.binary()), pa.int64(), [7]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), TEXT, ["a", "b", "a"]),
        (pa.array([b"ab"], pa.binary(2)), TEXT, ["ab"]),
        (pa.array([5, 6], pa.uint8()), TEXT, ["5", "6"]),
        (pa.array([127], pa.int64()), pa.int8(), [127]),
        (pa.array([2.0, -3.0]), pa.int32(), [2, -3]),
        (pa.array([np.float16(0.5)]), pa.float32(), [0.5]),
        (pa.array([2**24], pa.int64()), pa.float32(), [2.0**24]),
        (pa.array([decimal.Decimal("2.00")]), pa.int64(), [2]),
        (pa.array([decimal.Decimal("2.50")]), pa.float32(), [2.5]),
        (pa.array([True, False]), pa.int64(), [1, 0]),
        (pa.array([True, False]), pa.float32(), [1.0, 0.0]),
        (pa.array([1, 0], pa.int16()), pa.bool_(), [True, False]),
        (pa.array(["true", "0"]), pa.bool_(), [True, False]),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), pa.int64(), [129_600]),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")), pa.int64(), [129_600]),
        (pa.array([dt.date(1970, 1, 3)]), pa.int32(), [172_800]),
    ],
)
def test_what_loses_nothing_is_converted(array, dtype, expected):
    values, problems = _convert(array, dtype)

    assert (values.to_pylist(), problems) == (expected, [])


@pytest.mark.parametrize(
    ("array", "dtype", "problem"),
    [
        (pa.array([1, 2**31]), pa.int32(), (1, "type", "2147483648")),
        (pa.array([1, 2**63], pa.uint64()), pa.int64(), (1, "type", "9223372036854775808")),
        (pa.array([1, -1]), pa.uint8(), (1, "type", "-1")),
        (pa.array([1.0, 1e300]), pa.int64(), (1, "type", "1e+300")),
        (pa.array([1.0, float("nan")]), pa.int64(), (1, "type", "nan")),
        (pa.array([decimal.Decimal("1.0"), decimal.Decimal("1.5")]), pa.int64(), (1, "type", "Decimal('1.5')")),
        (pa.array([1, 2]), pa.bool_(), (1, "type", "2")),
        (pa.array([1, 2**24 + 1]), pa.float32(), (1, "type", "16777217")),
        (pa.array([1.0, 1e39]), pa.float32(), (1, "finite", "1e+39")),
        (pa.array(["1", "inf"]), pa.float32(), (1, "finite", "'inf'")),
        (pa.array([b"1", b"\xff1"]), pa.int64(), (1, "encoding", "byte 0xff")),
        (LATIN_1, TEXT, (1, "encoding", "byte 0xe9")),
        (LATIN_1.cast(pa.large_string()), TEXT, (1, "encoding", "byte 0xe9")),
        (pa.DictionaryArray.from_arrays([0, 1], LATIN_1), TEXT, (1, "encoding", "byte 0xe9")),
        (pa.ListArray.from_arrays([0, 2, 4], LATIN_1.take([0, 0, 0, 1])), TEXT, (1, "encoding", "byte 0xe9")),
        (pa.array(["1", "x" * 500]), pa.int64(), (1, "type", "'" + "x" * 119 + "... (502 characters)")),
        (pa.array([[1, 2], [1]]), pa.int64(), (1, "shape", "1 values where the shape has 2")),
    ],
)
def test_what_would_lose_something_is_a_problem_of_its_row(array, dtype, problem):
    shape = (2,) if pa.types.is_list(array.type) else ()

    _, problems = _convert(array, dtype, shape=shape)

    assert problems == [problem]


@pytest.mark.parametrize(
    ("array", "dtype", "shape"),
    [
        (pa.array([0.5]), TEXT, ()),
        (pa.array([True]), TEXT, ()),
        (pa.array([dt.time(1)]), pa.int64(), ()),
        (pa.array([NOON], pa.timestamp("s")), pa.float32(), ()),
        (pa.array([0.0]), pa.bool_(), ()),
        (pa.array([[1]]), pa.int64(), ()),
        (pa.array([1]), pa.int64(), (1,)),
        (pa.array([[[1]]]), pa.int64(), (1,)),
        (pa.array([[[1]]]), pa.int64(), (-1,)),
        (pa.array([{"a": 1}]), pa.int64(), ()),
    ],
)
def test_a_type_that_fits_no_value_is_refused_for_the_whole_column(array, dtype, shape):
    with pytest.raises(ValueError, match=r"`x` must hold values of type .*; got a column of type .* in t.csv"):
        _convert(array, dtype, shape=shape)


def test_missing_values_get_the_default_or_are_problems():
    array = pa.array([1, None, 3])

    assert _convert(array, pa.int64(), default="-1")[0].to_pylist() == [1, -1, 3]
    assert _convert(array, pa.int64())[1] == [(1, "missing", "no value")]
    assert _convert(pa.nulls(2), TEXT, default="")[0].to_pylist() == ["", ""]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1, 2, 3, 4], [5, 6, 7, 8]]),
        pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.large_list(pa.int8())),
        pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.int64(), 4)),
        pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
        pa.array([["1", "2", "3", "4"], ["5", "6", "7", "8"]]),
        pa.array([[9], [1, 2, 3, 4], [5, 6, 7, 8], [9]]).slice(1, 2),
        pa.array([[9] * 4, [1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.int64(), 4)).slice(1, 2),
    ],
    ids=["list", "large list", "fixed list", "nested", "texts", "slice", "fixed slice"],
)
def test_a_fixed_shape_is_read_from_lists_nested_or_flat(array):
    values, problems = _convert(array, pa.int32(), shape=(2, 2))

    assert (values.to_pylist(), problems) == ([[1, 2, 3, 4], [5, 6, 7, 8]], [])


def test_a_bad_list_leaves_the_others_where_they_are():
    array = pa.array([[1, 2], None, [3, None], [4], [5, 2**40], [6, 7]])

    values, problems = _convert(array, pa.int32(), shape=(2,), default="0")

    assert [problem[:2] for problem in sorted(problems)] == [(2, "missing"), (3, "shape"), (4, "type")]
    good = [0, 1, 5]
    assert [values[row].as_py() for row in good] == [[1, 2], [0, 0], [6, 7]]


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("dtype", [pa.float32(), TEXT])
def test_lists_of_width_zero_keep_the_number_of_rows(shape, dtype):
    array = pa.array([[], None, []], pa.list_(dtype))

    values, problems = _convert(array, dtype, shape=shape)
    filled, no_problems = _convert(array, dtype, shape=shape, default="1")

    assert problems == [(1, "missing", "no value")]
    assert not no_problems
    assert filled.to_pylist() == [[], [], []]
    assert values.filter(pa.array([True, False, True])).to_pylist() == [[], []]
    assert len(pa.concat_arrays([filled, filled]).take(pa.array([5, 0]))) == 2


def test_a_value_where_the_width_is_zero_is_a_problem_of_its_row():
    _, problems = _convert(pa.array([[], [1.0]]), pa.float32(), shape=(0,))

    assert problems == [(1, "shape", "1 values where the shape has 0")]


def test_a_ragged_list_has_any_number_of_values():
    array = pa.array([["a"], [], ["b", "c"], None, ["d", None]])

    values, problems = _convert(array, TEXT, shape=(-1,), default="")

    assert values.to_pylist()[:4] == [["a"], [], ["b", "c"], []]
    assert problems == [(4, "missing", "null among the values")]


@pytest.mark.parametrize("dtype", [pa.int64(), pa.float32()])
def test_nan_is_no_value_where_a_default_says_what_stands_for_none(dtype):
    array = pa.array([1.0, float("nan"), None, float("inf")])

    values, problems = _convert(array, dtype, default="-1")

    assert values.to_pylist()[:3] == [1, -1, -1]
    assert [(row, shown) for row, _, shown in problems] == [(3, "inf")]


@pytest.mark.parametrize(
    ("dtype", "default", "rule"),
    [(pa.int64(), "one", "be of type int64"), (pa.float32(), "nan", r"be a finite number \(float\)")],
)
def test_a_default_must_be_of_the_declared_type(dtype, default, rule):
    with pytest.raises(ValueError, match=f"must give a default that can {rule}; got '{default}' for the age"):
        check_default(TableColumn(name="x", dtype=dtype, default=default), "the age")


def test_shapes_with_an_inner_ragged_dimension_are_refused():
    with pytest.raises(ValueError, match=r"`shape` must be fixed, or \[-1\] alone; got \[2, -1\] for column 'x'"):
        TableColumn(name="x", dtype=TEXT, shape=(2, -1))
    with pytest.raises(ValueError, match=r"`default` must be the empty text .* got 'a'"):
        TableColumn(name="x", dtype=TEXT, shape=(-1,), default="a")


@given(st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), max_size=60), st.integers(0, 5))
def test_exactly_the_values_out_of_range_are_problems(numbers, start):
    array = pa.array(numbers, pa.int64()).slice(min(start, len(numbers)))
    left = numbers[start:]

    values, problems = _convert(array, pa.int16(), default="0")

    bad = [row for row, number in enumerate(left) if number is not None and not -(2**15) <= number < 2**15]
    assert sorted(problem[0] for problem in problems) == bad
    good = [row for row in range(len(left)) if row not in bad]
    assert [values[row].as_py() for row in good] == [left[row] or 0 for row in good]


_INTEGERS = [
    ("7", 7), ("-7", -7), ("007", 7), ("-0", 0), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
    *((text, None) for text in (
        "0x10", "0X1f", "-0x1", "0b1", "0o7", "1_000", "1,000", "1e3", "1.0", "+5", " 7", "7 ", "\t7", "7\n", "7\0",
        "9223372036854775808", "-9223372036854775809", "\u0667", "\uff17", "\u00b2", "--7", "-", "", "true", "nan",
    )),
]  # fmt: skip
_FLOATS = [
    ("1.5", 1.5), ("-1.5", -1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1E+3", 1000.0), ("007", 7.0),
    *((text, None) for text in (
        "nan", "NaN", "-nan", "inf", "-Infinity", "1e400", "0x1p3", "0x10", "1_0.5", "1,000.5", "1.000,5", "+1.5",
        " 1.5", "1.5 ", "1.5f", "1e", ".", "", "\u0661.5", "true",
    )),
]  # fmt: skip


@pytest.mark.parametrize("as_bytes", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize(("dtype", "cells"), [(pa.int64(), _INTEGERS), (pa.float32(), _FLOATS)], ids=["int", "float"])
def test_numbers_are_spelled_in_one_way(dtype, cells, as_bytes):
    texts = [text for text, _ in cells]
    array = pa.array(texts, pa.large_string())

    values, problems = convert_column(
        array.cast(pa.large_binary()) if as_bytes else array, TableColumn(name="n", dtype=dtype), name="n", path="t.csv"
    )

    refused = {texts[problem.row] for problem in problems}
    assert refused == {text for text, number in cells if number is None}
    kept = [(text, value) for text, value in zip(texts, values.to_pylist(), strict=True) if text not in refused]
    assert kept == [(text, number) for text, number in cells if number is not None]
