"""Converts columns of any Arrow type to the declared type, without silent loss."""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables import row_rules
from tfx_gnn.tables.row_rules import show_value
from tfx_gnn.tables.table_layout import CellProblem, TableColumn

DIGITS_OF_DOUBLE = 15
"""Decimal digits that a double always keeps."""
_DECIMAL_INTEGER = r"^-?[0-9]+$"
"""Spelling of an integer: an optional minus sign, then decimal digits only."""

_Positions = npt.NDArray[np.int64]
_FILL_ADVICE = (
    'Fill it in; for a feature, metadata { extra { key: "default.<feature>" value: "..." } } can declare what it '
    "stands for."
)
_TYPE_ADVICE = "Correct the cell, or the dtype in the graph schema."


def convert_column(
    array: pa.Array, column: TableColumn, *, name: str, path: str, missing_value: str = "no value"
) -> tuple[pa.Array, list[CellProblem]]:
    """Converts a column to its declared type and shape.

    Lossless conversions are done: text that spells a number, integers of another size,
    whole floats and decimals to integers, booleans to 0 and 1 and back, integers to
    text, dictionaries to their values, timestamps and dates to whole seconds since
    1970-01-01 UTC. Floats, also as decimal text, are rounded to the nearest float32;
    integers that float32 cannot hold exactly are refused. Lists of a fixed shape may be
    nested like the shape, or flat. In a column with a default, NaN among floats is no value, as pandas writes it.

    Returns an array of `column.arrow_type`, shape [num_rows], with undefined values in the rows that have a problem;
    and the problems, whose rows are positions in the array. Raises a ValueError if no value of the array's type can
    be converted to the declared type.
    """
    problems = _Problems(column, name, missing_value)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    try:
        if column.shape:
            values = _convert_lists(array, column, problems)
        else:
            if column.default is not None:
                array = nan_as_null(array)
            values = _convert_scalars(array, column.dtype, problems)
            if values.null_count:
                values = _fill_scalars(array, values, column, problems)
    except _UnsuitableTypeError as error:
        what = f"{column.dtype} of shape {list(column.shape)}" if column.shape else str(column.dtype)
        raise ValueError(
            f"`{name}` must hold values of type {what}; got a column of type {array.type} in {path}. "
            "Convert the column, or correct the dtype and shape in the graph schema."
        ) from error
    return values, problems.listed


def nan_as_null(array: pa.Array) -> pa.Array:
    """Replaces NaN among floats by null; other arrays, and half floats, stay."""
    if not (pa.types.is_float32(array.type) or pa.types.is_float64(array.type)):
        return array
    is_nan = pc.fill_null(pc.is_nan(array), fill_value=False)
    return pc.if_else(is_nan, pa.scalar(None, array.type), array) if pc.any(is_nan).as_py() else array


def casts(array: pa.Array, dtype: pa.DataType) -> bool:
    """Returns whether all values can be cast without loss."""
    try:
        array.cast(dtype)
    except pa.ArrowInvalid:
        return False
    return True


def count_rounded(decimals: pa.Array) -> int:
    """Counts decimals that neither int64 nor a double holds."""
    scale = decimals.type.scale
    if decimals.type.precision <= DIGITS_OF_DOUBLE or (scale == 0 and casts(decimals, pa.int64())):
        return 0
    largest = decimal.Decimal(10) ** (DIGITS_OF_DOUBLE - scale)
    return sum(one is not None and abs(one) >= largest for one in decimals.to_pylist())


def check_default(column: TableColumn, place: str) -> None:
    """Refuses a default that is not of the column's type."""
    if column.default is None or column.is_ragged:
        return
    scalar = dataclasses.replace(column, shape=(), default=None)
    _, problems = convert_column(pa.array([column.default], pa.large_string()), scalar, name=column.name, path=place)
    if problems:
        raise ValueError(
            f"`metadata.extra` must give a default that can {problems[0].requirement}; got {column.default!r} for "
            f"{place}. Correct the default."
        )


class _UnsuitableTypeError(Exception):
    """No value of the actual type can be converted to the declared type."""


class _Problems:
    """Problems of a column; only the first problem of each row is kept."""

    def __init__(self, column: TableColumn, name: str, missing_value: str) -> None:
        self._dtype = column.dtype
        self._name = name
        self._missing_value = missing_value
        self._by_row: dict[int, CellProblem] = {}

    @property
    def listed(self) -> list[CellProblem]:
        return list(self._by_row.values())

    @property
    def rows(self) -> _Positions:
        return np.fromiter(self._by_row, np.int64, len(self._by_row))

    def add(self, row: int, rule: str, value: str, *, requirement: str = "", advice: str = _TYPE_ADVICE) -> None:
        if not requirement:
            requirement = {
                row_rules.ENCODING: "be UTF-8 text",
                row_rules.FINITE: f"be a finite number ({self._dtype})",
                row_rules.TYPE: f"be of type {self._dtype}",
            }[rule]
        problem = CellProblem(
            row=row, rule=rule, column=self._name, requirement=requirement, value=value, advice=advice
        )
        self._by_row.setdefault(row, problem)

    def add_missing(self, row: int, value: str = "") -> None:
        self.add(
            row,
            row_rules.MISSING,
            value or self._missing_value,
            requirement="have a value in every record",
            advice=_FILL_ADVICE,
        )


def _fill_scalars(array: pa.Array, values: pa.Array, column: TableColumn, problems: _Problems) -> pa.Array:
    if column.default is None:
        for row in _where(array.is_null()):
            problems.add_missing(int(row))
        return values
    default = pa.scalar(column.default, pa.large_string()).as_py()
    return values.fill_null(pa.array([default], pa.large_string()).cast(column.dtype)[0])


def _convert_scalars(
    array: pa.Array, dtype: pa.DataType, problems: _Problems, parents: _Positions | None = None
) -> pa.Array:
    """Converts values; a value's problem is reported for its row in `parents`, by default one value per row."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), dtype)
    if _is_text(array.type):
        # Arrow takes what a file declares to be text for UTF-8 without a check.
        array = array.cast(pa.large_binary())
    cells = _Cells(array, dtype, problems, parents)
    if _is_binary(array.type):
        cells.cast(pa.large_string(), row_rules.ENCODING)
    if _is_text(cells.values.type):
        cells.read_texts()
    elif pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        cells.read_times()
    elif pa.types.is_boolean(dtype) and pa.types.is_integer(array.type):
        cells.read_truth_values()
    elif array.type != dtype:
        cells.read_numbers()
    if pa.types.is_floating(dtype):
        cells.check_finite()
    return cells.values


class _Cells:
    """Values during conversion from one type to another; null where a value cannot be converted."""

    def __init__(self, values: pa.Array, dtype: pa.DataType, problems: _Problems, parents: _Positions | None) -> None:
        self.values = values
        self._original = values
        self._dtype = dtype
        self._problems = problems
        self._parents = parents
        self._lossless = f"be of type {dtype} without loss"

    def read_texts(self) -> None:
        if not (_is_number(self._dtype) or pa.types.is_boolean(self._dtype) or _is_text(self._dtype)):
            raise _UnsuitableTypeError
        if pa.types.is_integer(self._dtype):
            # Arrow reads hexadecimal digits too; other table formats and schema inference do not take them for numbers.
            is_decimal = pc.fill_null(pc.match_substring_regex(self.values, _DECIMAL_INTEGER), fill_value=True)
            self._drop(_where(pc.invert(is_decimal)), row_rules.TYPE)
        elif pa.types.is_floating(self._dtype):
            # Newer releases of Arrow read a plus sign, older ones do not.
            has_plus = pc.fill_null(pc.starts_with(self.values, "+"), fill_value=False)
            self._drop(_where(has_plus), row_rules.FINITE)
        self.cast(self._dtype, row_rules.FINITE if pa.types.is_floating(self._dtype) else row_rules.TYPE)

    def read_times(self) -> None:
        if not pa.types.is_integer(self._dtype):
            raise _UnsuitableTypeError
        seconds = pa.timestamp("s", getattr(self.values.type, "tz", None))
        self.cast(seconds, row_rules.TYPE, "be a whole number of seconds")
        self.cast(pa.int64(), row_rules.TYPE, self._lossless)
        self.cast(self._dtype, row_rules.TYPE, self._lossless)

    def read_truth_values(self) -> None:
        is_either = pc.is_in(self.values, value_set=pa.array([0, 1]).cast(self.values.type))
        is_neither = pc.and_(pc.invert(is_either), self.values.is_valid())
        self._add(_where(is_neither), row_rules.TYPE, "be 0 or 1")
        self.values = self.values.cast(pa.bool_())

    def read_numbers(self) -> None:
        if not _is_convertible(self.values.type, self._dtype):
            raise _UnsuitableTypeError
        if pa.types.is_float16(self.values.type):
            self.values = _widen_halves(self.values)
        self.cast(self._dtype, row_rules.TYPE, self._lossless)

    def check_finite(self) -> None:
        is_finite = pc.fill_null(pc.is_finite(self.values), fill_value=True)
        self._add(_where(pc.invert(is_finite)), row_rules.FINITE)

    def cast(self, dtype: pa.DataType, rule: str, requirement: str = "") -> None:
        """Casts the values that can be cast without loss; the others become null and problems."""
        try:
            self.values = self.values.cast(dtype)
        except pa.ArrowInvalid:
            self._drop(np.fromiter(_uncastable(self.values, dtype), np.int64), rule, requirement)
            self.values = self.values.cast(dtype)

    def _drop(self, bad: _Positions, rule: str, requirement: str = "") -> None:
        if len(bad):
            is_good = np.ones(len(self.values), np.bool_)
            is_good[bad] = False
            self.values = pc.if_else(pa.array(is_good), self.values, pa.scalar(None, self.values.type))
            self._add(bad, rule, requirement)

    def _add(self, positions: _Positions, rule: str, requirement: str = "") -> None:
        advice = "Save the table as UTF-8." if rule == row_rules.ENCODING else _TYPE_ADVICE
        for position in positions.tolist():
            row = position if self._parents is None else int(self._parents[position])
            shown = _show(self._original[position], rule)
            self._problems.add(row, rule, shown, requirement=requirement, advice=advice)


def _convert_lists(array: pa.Array, column: TableColumn, problems: _Problems) -> pa.Array:
    num_rows = len(array)
    if pa.types.is_null(array.type):
        array = array.cast(pa.large_list(column.dtype))
    if pa.types.is_dictionary(array.type) or not is_list(array.type):
        raise _UnsuitableTypeError
    is_missing = array.is_null().to_numpy(zero_copy_only=False)
    if column.default is None:
        for row in np.flatnonzero(is_missing).tolist():
            problems.add_missing(row)
    values, parents = _flatten(array, column, problems)
    values = _convert_scalars(values, column.dtype, problems, parents)
    if values.null_count:
        for position in _where(values.is_null()):
            problems.add_missing(int(parents[position]), "null among the values")
    is_bad = np.zeros(num_rows, np.bool_)
    is_bad[problems.rows] = True
    is_kept = ~is_bad[parents]
    if column.is_ragged:
        sizes = np.bincount(parents[is_kept], minlength=num_rows)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        return pa.LargeListArray.from_arrays(pa.array(offsets), values.filter(pa.array(is_kept)))
    # One extra value at the end fills missing rows, and rows that are left out anyway.
    spelled = column.default if column.default is not None else _neutral(column.dtype)
    filler = pa.array([spelled], pa.large_string()).cast(column.dtype)
    positions = np.full((num_rows, column.num_values), len(values), np.int64)
    is_filled = ~is_missing & ~is_bad
    positions[is_filled] = np.flatnonzero(is_kept).reshape(int(is_filled.sum()), column.num_values)
    filled = pa.concat_arrays([values, filler]).take(pa.array(positions.ravel()))
    # `from_arrays` derives the number of rows from the number of values, which fails if rows have no values.
    return pa.FixedSizeListArray.from_buffers(column.arrow_type, num_rows, [None], children=[filled])


def _flatten(array: pa.Array, column: TableColumn, problems: _Problems) -> tuple[pa.Array, _Positions]:
    """Returns the values of all rows, and the row of each."""
    depth = _depth(array.type)
    if column.is_ragged:
        sizes: tuple[int, ...] = (-1,)
    else:
        sizes = column.shape if depth == len(column.shape) else (column.num_values,)
    if depth != len(sizes):
        raise _UnsuitableTypeError
    parents = np.arange(len(array), dtype=np.int64)
    for level, size in enumerate(sizes):
        is_null = array.is_null().to_numpy(zero_copy_only=False)
        if level:
            for position in np.flatnonzero(is_null):
                problems.add_missing(int(parents[position]), "null among the values")
        lengths = list_lengths(array)
        parents = parents[~is_null]
        if size >= 0:
            for position in np.flatnonzero(lengths != size):
                problems.add(
                    int(parents[position]),
                    row_rules.SHAPE,
                    f"{int(lengths[position])} values where the shape has {size}",
                    requirement=f"have the shape {list(column.shape)}",
                    advice="Correct the values, or the shape in the graph schema.",
                )
        array = array.flatten()
        parents = np.repeat(parents, lengths)
    return array, parents


def list_lengths(array: pa.Array) -> _Positions:
    """Returns the length of each list that is not null."""
    if pa.types.is_fixed_size_list(array.type):
        return np.full(len(array) - array.null_count, array.type.list_size, np.int64)
    return np.asarray(pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False), np.int64)


def _uncastable(array: pa.Array, dtype: pa.DataType) -> Iterator[int]:
    """Yields positions of values that cannot be cast, by halving the ranges that hold one."""
    ranges = [(0, len(array))]
    while ranges:
        start, stop = ranges.pop()
        try:
            array.slice(start, stop - start).cast(dtype)
        except pa.ArrowInvalid:
            if stop - start == 1:
                yield start
            else:
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]


def _where(mask: pa.Array) -> _Positions:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).astype(np.int64)


def _is_convertible(have: pa.DataType, want: pa.DataType) -> bool:
    if _is_text(want):
        return bool(pa.types.is_integer(have))
    if pa.types.is_boolean(have):
        return _is_number(want)
    return (_is_number(have) or bool(pa.types.is_decimal(have))) and _is_number(want)


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _is_binary(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype)
    ) and not pa.types.is_decimal(dtype)


def is_list(dtype: pa.DataType) -> bool:
    """Returns whether a type is a list type, of fixed length or not."""
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


def _depth(dtype: pa.DataType) -> int:
    return 1 + _depth(dtype.value_type) if is_list(dtype) else 0


def _widen_halves(array: pa.Array) -> pa.Array:
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    halves = np.asarray(array.to_numpy(zero_copy_only=False), np.float32)
    return pa.array(halves, pa.float32(), mask=is_null)


def _neutral(dtype: pa.DataType) -> str:
    return "" if _is_text(dtype) else "0"


def _show(scalar: pa.Scalar, rule: str) -> str:
    value = scalar.as_py()
    if isinstance(value, bytes):
        try:
            return show_value(value.decode())
        except UnicodeDecodeError as error:
            if rule == row_rules.ENCODING:
                return f"byte 0x{value[error.start]:02x}"
    return show_value(value)
