r"""Finds texts that stand for no value in a table, such as NA, NULL and \N, and empty cells in quotes."""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.amounts import are_amounts
from tfx_gnn.tables.column_values import NULL_SPELLINGS, ColumnValues, parse_times
from tfx_gnn.tables.table_names import says_key

_ALWAYS = frozenset({"\\N", "<NA>"})
"""No exporter writes these for a text."""
_WORDS = _ALWAYS | {"#N/A", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null"}
"""Texts may spell these too; in a table where they stand for no number, they stand for no text either."""
_TRUTH_VALUES = pa.array(["FALSE", "False", "TRUE", "True", "false", "true"], pa.large_string())


def take_null_spellings(columns: Mapping[str, ColumnValues]) -> dict[str, ColumnValues]:
    """Takes the texts that stand for no value out of the values of a table's columns.

    They do among numbers, times and truth values; then in the other columns of the table, and in columns that are named
    as keys are.
    """
    held = {name: _held(column) for name, column in columns.items()}
    among_numbers = {name for name, found in held.items() if found and _are_data(_without(columns[name], found))}
    told = _ALWAYS.union(*(held[name] for name in among_numbers)) & _WORDS
    taken = {}
    for name, column in columns.items():
        found = held[name] if name in among_numbers else held[name] & (_WORDS if says_key(name) else told)
        taken[name] = _without(column, found) if found else column
    return taken


def take_given(column: ColumnValues, given: Collection[str]) -> ColumnValues:
    """Takes what a user says stands for no value out of the values of a column.

    Args:
        column: the values, of which others may be taken out already.
        given: such as "-1"; of dates and time stamps in ISO 8601. Of a column whose values were all counted, each must
            be one of them.

    Raises:
        ValueError: if none of the values is so; the message has an example of what there is.
    """
    spelled = {value: _as_counted(column, value) for value in given}
    absent = [value for value, text in spelled.items() if text not in {*column.values.to_pylist()}]
    if absent and not column.is_sample:
        raise ValueError(f"{absent[0]!r}, which no row has; there are {column.values[:3].to_pylist()}")
    taken = _without(column, spelled.values())
    found = {value if column.is_time else text: taken.null_spellings.get(text, 0) for value, text in spelled.items()}
    return dataclasses.replace(taken, null_spellings={**column.null_spellings, **found})


def _as_counted(column: ColumnValues, value: str) -> str:
    """Spells a value as `ColumnValues` does: times by their seconds since 1970, floats as Arrow does."""
    texts = pa.array([value], pa.large_string())
    if column.is_time:
        times = parse_times(texts)
        return value if times is None else str(times.cast(pa.timestamp("s"), safe=False).cast(pa.int64())[0].as_py())
    if value in {*column.values.to_pylist()}:
        return value
    numbers = column.numbers()
    try:
        equal = [] if numbers is None else column.values.filter(pc.equal(numbers, float(value))).to_pylist()
    except ValueError:
        return value
    return equal[0] if equal else value


def drop_null_spellings(array: pa.Array, spellings: Collection[str]) -> pa.Array:
    """Replaces what stands for no value by null, and NaN among floats."""
    if not spellings:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_none = pc.is_in(array, value_set=_of_type(pa.array(sorted(spellings), pa.large_string()), array.type))
    if pa.types.is_floating(array.type):
        is_none = pc.or_(is_none, pc.is_nan(array))
    return pc.if_else(pc.fill_null(is_none, fill_value=False), pa.scalar(None, array.type), array)


def _of_type(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(dtype):
        return texts.cast(pa.timestamp("us")).cast(dtype, safe=False)
    if pa.types.is_decimal(dtype):
        return pa.array([decimal.Decimal(text) for text in texts.to_pylist()], dtype)
    return texts.cast(dtype)


def _held(column: ColumnValues) -> frozenset[str]:
    found = column.values.filter(pc.is_in(column.values, value_set=NULL_SPELLINGS))
    return frozenset(found.to_pylist())


def _without(column: ColumnValues, spellings: Collection[str]) -> ColumnValues:
    is_none = pc.is_in(column.values, value_set=pa.array(sorted(spellings), pa.large_string()))
    gone = column.counts.filter(is_none)
    is_value = pc.invert(is_none)
    return dataclasses.replace(
        column,
        values=column.values.filter(is_value),
        counts=column.counts.filter(is_value),
        num_filled=column.num_filled - (pc.sum(gone).as_py() or 0),
        null_spellings=dict(zip(column.values.filter(is_none).to_pylist(), gone.to_pylist(), strict=True)),
    )


def _are_data(column: ColumnValues) -> bool:
    """Whether values are numbers, amounts, times or truth values, and there are some."""
    if not column.num_distinct:
        return False
    if column.numbers() is not None or bool(pc.all(pc.is_in(column.values, value_set=_TRUTH_VALUES)).as_py()):
        return True
    return parse_times(column.values) is not None or are_amounts(column)
