"""The distinct values of a table's columns, as texts, and how often each occurs."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import TableLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnValues:
    """The values of one column; a column of lists has none.

    Attributes:
        values: large_string array without nulls, shape [num_distinct]; integers in decimal digits.
        counts: int64 array, shape [num_distinct]: rows that have each value.
        num_rows: rows of the table that could be read.
        is_time: whether the file declares dates or time stamps, which are in seconds since 1970 here.
    """

    values: pa.Array
    counts: pa.Array
    num_rows: int
    is_time: bool = False

    @property
    def num_distinct(self) -> int:
        """Number of distinct values."""
        return len(self.values)

    @functools.cached_property
    def num_filled(self) -> int:
        """Number of rows that have a value."""
        return int(pc.sum(self.counts).as_py() or 0)

    @functools.cached_property
    def holds_times(self) -> bool:
        """Whether the values are dates or time stamps, by their type or as texts in ISO 8601."""
        return self.is_time or (self.num_distinct > 0 and self.numbers() is None and _are_times(self.values))

    @property
    def is_key(self) -> bool:
        """Whether every row has a value, and no two rows have the same."""
        return 0 < self.num_rows == self.num_filled == self.num_distinct

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
        """Returns the mean over the rows with a value; 0 if there are none, or one is no number."""
        numbers = self.numbers()
        return 0.0 if numbers is None else float(pc.sum(pc.multiply(numbers, self.counts)).as_py() / self.num_filled)

    def median(self) -> float:
        """Returns the median over the rows with a value; 0 if there are none, or one is no number."""
        numbers = self.numbers()
        if numbers is None:
            return 0.0
        order = pc.sort_indices(numbers).to_numpy()
        ends = np.cumsum(self.counts.to_numpy()[order])
        return float(numbers.to_numpy()[order][np.searchsorted(ends, self.num_filled / 2)])


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

    Takes memory for the distinct values of the whole table.

    Raises:
        ValueError: for a reason of `read_all_columns`, or if a text is not UTF-8.
    """
    num_rows = 0
    times: set[str] = set()
    parts: dict[str, list[pa.StructArray]] = {name: [] for name in table_format(layout).column_names(layout.files[0])}
    for block in read_all_columns(layout):
        num_rows += block.columns.num_rows
        for name, of_column in parts.items():
            dtype = block.columns.column(name).type
            if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
                times.add(name)
            texts = as_texts(block.columns.column(name), f"{layout.declared_as}, column {name!r}")
            if texts is not None:
                of_column.append(texts.drop_null().value_counts())
    found = {name: _merged(of_column, num_rows) for name, of_column in parts.items()}
    return {name: dataclasses.replace(values, is_time=name in times) for name, values in found.items()}


def as_texts(array: pa.Array, place: str) -> pa.Array | None:
    """Spells values as a CSV file would; None for what is no text and no number. `place` is named in errors."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    if pa.types.is_nested(array.type):
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


def _merged(parts: list[pa.StructArray], num_rows: int) -> ColumnValues:
    if not parts:
        return ColumnValues(values=pa.array([], pa.large_string()), counts=pa.array([], pa.int64()), num_rows=num_rows)
    table = pa.table({field: pa.chunked_array([part.field(field) for part in parts]) for field in ("values", "counts")})
    merged = table.group_by("values").aggregate([("counts", "sum")])
    return ColumnValues(
        values=merged["values"].combine_chunks(),
        counts=merged["counts_sum"].combine_chunks(),
        num_rows=num_rows,
    )
