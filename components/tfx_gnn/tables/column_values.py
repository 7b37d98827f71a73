"""The distinct values of a table's columns, as texts, and how often each occurs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.list_values import count_incomplete, is_list, lengths_of
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import TableLayout

_NULL_WORDS = ["#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "na", "nan", "nil", "none", "null"]
NULL_SPELLINGS = pa.array(["", "-", "--", ".", "?", "\\N", *_NULL_WORDS], pa.large_string())
"""Texts that may stand for no value; `null_spellings` decides where they do."""
_MOST_VALUES = 1 << 18
"""Different values of a column that can be no key, beyond which a part of its rows is looked at."""
_EXACT = 2.0**53
"""Floats up to here tell all integers apart."""
_LONGEST_KEY = 64
"""Characters on average; longer texts are no keys."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AmountFormat:
    """How numbers are written in texts.

    Attributes:
        decimal: "." or ",", the decimal mark; empty if all are whole, without groups.
        unit: the currency, or the percent sign, of all of them; empty if there is none.
        example: one of them.
        number: the same as a plain number.
    """

    decimal: str
    unit: str
    example: str
    number: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values of one column; a column of lists has none.

    Attributes:
        values: large_string array without nulls, shape [num_distinct]; integers in decimal digits.
        counts: int64 array, shape [num_distinct]: rows that have each value.
        num_rows: rows of the table that could be read.
        num_filled: rows that have a value.
        is_time: whether the file declares dates or time stamps, which are in seconds since 1970 here.
        is_sample: whether these are the values of a part of the rows, because there are too many different ones.
        null_spellings: texts that stand for no value here, with the number of their rows.
        num_incomplete: rows whose list has an item that is null or NaN.
        has_one_length: whether the values are lists, all of one length.
        amounts: how the texts of the file spell these numbers; None if they are not spelled otherwise.
    """

    values: pa.Array
    counts: pa.Array
    num_rows: int
    num_filled: int
    is_time: bool = False
    is_sample: bool = False
    null_spellings: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_incomplete: int = 0
    has_one_length: bool = False
    amounts: AmountFormat | None = None

    @property
    def num_distinct(self) -> int:
        """Number of distinct values."""
        return len(self.values)

    @functools.cached_property
    def num_counted(self) -> int:
        """Number of rows that were looked at and have a value."""
        return int(pc.sum(self.counts).as_py() or 0)

    @functools.cached_property
    def holds_times(self) -> bool:
        """Whether the values are dates or time stamps, by their type or as texts in ISO 8601."""
        return self.is_time or (self.num_distinct > 0 and self.numbers() is None and _are_times(self.values))

    @property
    def is_key(self) -> bool:
        """Whether every row has a value, and no two rows have the same."""
        return 0 < self.num_rows == self.num_filled == self.num_distinct

    @functools.cached_property
    def are_integers_with_gaps(self) -> bool:
        """Whether all numbers are whole, but some rows have none, for which pandas writes integers as 7.0."""
        if self.is_time or self.is_sample or not 0 < self.num_filled < self.num_rows:
            return False
        numbers = self.numbers()
        if numbers is None or not pc.all(pc.less(pc.abs(numbers), _EXACT)).as_py():
            return False
        return bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())

    def count_in(self, others: ColumnValues) -> int:
        """Counts the rows whose value another column has too."""
        return int(pc.sum(self.counts.filter(pc.is_in(self.values, value_set=others.values))).as_py() or 0)

    def numbers(self) -> pa.Array | None:
        """Returns the values as a float64 array; None if there are none, or one is no number."""
        try:
            return self.values.cast(pa.float64()) if self.num_distinct else None
        except pa.ArrowInvalid:
            return None

    def mean(self) -> float:
        """Returns the mean over the rows with a value, without infinity; 0 if there are none, or one is no number."""
        numbers = self.numbers()
        if numbers is None:
            return 0.0
        is_finite = pc.is_finite(numbers)
        counts = self.counts.filter(is_finite)
        return float(
            (pc.sum(pc.multiply(numbers.filter(is_finite), counts)).as_py() or 0.0)
            / max(pc.sum(counts).as_py() or 0, 1)
        )

    def median(self) -> float:
        """Returns the median over the rows with a value; 0 if there are none, or one is no number."""
        return self._median(self.numbers())

    def median_size(self) -> float:
        """Returns the median of the values without their signs, as `median`."""
        numbers = self.numbers()
        return self._median(None if numbers is None else pc.abs(numbers))

    def _median(self, numbers: pa.Array | None) -> float:
        if numbers is None:
            return 0.0
        order = pc.sort_indices(numbers).to_numpy()
        ends = np.cumsum(self.counts.to_numpy()[order])
        return float(numbers.to_numpy()[order][np.searchsorted(ends, self.num_counted / 2)])


def parse_times(texts: pa.Array) -> pa.Array | None:
    """Reads texts in ISO 8601, with or without a zone, as time stamps; None if one is something else."""
    for dtype in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return texts.cast(dtype)
        except pa.ArrowInvalid:
            continue
    return None


def _are_times(texts: pa.Array) -> bool:
    return parse_times(texts) is not None


def read_column_values(layout: TableLayout) -> dict[str, ColumnValues]:
    """Reads the distinct values of all columns of a table, in the order of its columns.

    Takes memory for the distinct values of all columns that may be keys. Of fractions and long texts, blocks are
    passed over, evenly over the table, once there are too many different ones.

    Raises:
        ValueError: for a reason of `read_all_columns`, or if a text is not UTF-8.
    """
    num_rows = 0
    columns = {name: _ValueCounter() for name in table_format(layout).column_names(layout.files[0])}
    for block in read_all_columns(layout):
        num_rows += block.columns.num_rows
        for name, counter in columns.items():
            counter.add(block.columns.column(name), f"{layout.declared_as}, column {name!r}")
    return {name: counter.result(num_rows) for name, counter in columns.items()}


def as_texts(array: pa.Array, place: str) -> pa.Array | None:
    """Spells values as a CSV file would; None for what is no text and no number. `place` is named in errors."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if pa.types.is_decimal(array.type):
        return _decimal_texts(array)
    if pa.types.is_nested(array.type) or pa.types.is_fixed_size_binary(array.type):
        return None
    if pa.types.is_decimal(array.type):
        # Not every release of Arrow that is supported spells decimals.
        array = pa.array([None if value is None else f"{value:f}" for value in array.to_pylist()], pa.large_string())
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        if pa.types.is_binary(array.type):
            # A file that has types says that these may be no texts.
            return None
        raise ValueError(f"`{place}` must be UTF-8 text; got other bytes. Save the table as UTF-8.") from error
    except pa.ArrowNotImplementedError:
        return None


def _decimal_texts(array: pa.Array) -> pa.Array:
    """Spells whole decimals, as databases have them for ids, in all their digits, and others as floats."""
    if array.type.scale > 0:
        return array.cast(pa.float64()).cast(pa.large_string())
    try:
        return array.cast(pa.int64()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else f"{one:f}" for one in array.to_pylist()], pa.large_string())


class _ValueCounter:
    """Counts the distinct values of a column block by block."""

    def __init__(self) -> None:
        self._parts: list[pa.StructArray] = []
        self._passed_over: list[pa.StructArray] = []
        self._num_kept = 0
        self._merge_at = _MOST_VALUES
        self._num_filled = 0
        self._num_blocks = 0
        self._step = 1
        self._is_time = False
        self._num_incomplete = 0
        self._lengths: set[int] = set()

    def add(self, array: pa.Array, place: str) -> None:
        """Adds a block of values."""
        self._is_time |= pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        if is_list(array.type):
            self._num_incomplete += count_incomplete(array)
            self._lengths |= lengths_of(array)
        texts = as_texts(array, place)
        if texts is None:
            return
        texts = texts.drop_null()
        self._num_filled += len(texts)
        is_passed_over = self._num_blocks % self._step > 0
        self._num_blocks += 1
        if is_passed_over:
            self._passed_over.append(_only_null_spellings(texts.value_counts()))
            return
        self._parts.append(texts.value_counts())
        self._num_kept += len(self._parts[-1])
        if self._num_kept > self._merge_at:
            self._shrink()

    def result(self, num_rows: int) -> ColumnValues:
        """Returns what was counted in a table of so many rows."""
        merged = _merged([*self._parts, *self._passed_over])
        return ColumnValues(
            values=merged.field("values"),
            counts=merged.field("counts"),
            num_rows=num_rows,
            num_filled=self._num_filled,
            is_time=self._is_time,
            is_sample=self._step > 1,
            num_incomplete=self._num_incomplete,
            has_one_length=len(self._lengths) == 1,
        )

    def _shrink(self) -> None:
        """Merges equal values; of values that are no keys, takes every second block where that does not suffice."""
        is_time_or_key = self._is_time or _may_be_keys(self._parts[-1].field("values"))
        merged = _merged(self._parts)
        if is_time_or_key or 2 * len(merged) <= self._num_kept:
            self._parts = [merged]
        else:
            self._passed_over += [_only_null_spellings(part) for part in self._parts[1::2]]
            self._parts = self._parts[::2]
            self._step *= 2
        self._num_kept = sum(map(len, self._parts))
        # Where nearly all values differ, merging seldom costs less than it saves.
        self._merge_at = max((4 if is_time_or_key else 2) * self._num_kept, _MOST_VALUES)


def _merged(parts: list[pa.StructArray]) -> pa.StructArray:
    fields = [("values", pa.large_string()), ("counts", pa.int64())]
    table = pa.table({name: pa.chunked_array([part.field(name) for part in parts], dtype) for name, dtype in fields})
    merged = table.group_by("values").aggregate([("counts", "sum")])
    columns = [merged["values"].combine_chunks(), merged["counts_sum"].combine_chunks()]
    return pa.StructArray.from_arrays(columns, names=["values", "counts"])


def _only_null_spellings(part: pa.StructArray) -> pa.StructArray:
    """Keeps what may stand for no value, which is counted in all rows."""
    return part.filter(pc.is_in(part.field("values"), value_set=NULL_SPELLINGS))


def _may_be_keys(texts: pa.Array) -> bool:
    """Whether texts are short and, if they are numbers, have no fractions."""
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return pc.mean(pc.utf8_length(texts)).as_py() <= _LONGEST_KEY
    return bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())
