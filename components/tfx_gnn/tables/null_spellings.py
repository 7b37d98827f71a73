r"""Finds texts that stand for no value in a table, such as NA, NULL and \N, and empty cells in quotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

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


def drop_null_spellings(array: pa.Array, spellings: Collection[str]) -> pa.Array:
    """Replaces texts that stand for no value by null, and NaN among floats."""
    if not spellings:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        is_none = pc.is_nan(array)
    else:
        is_none = pc.is_in(array, value_set=pa.array(sorted(spellings), pa.large_string()).cast(array.type))
    return pc.if_else(pc.fill_null(is_none, fill_value=False), pa.scalar(None, array.type), array)


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
    """Whether values are numbers, times or truth values, and there are some."""
    if not column.num_distinct:
        return False
    if column.numbers() is not None or bool(pc.all(pc.is_in(column.values, value_set=_TRUTH_VALUES)).as_py()):
        return True
    return parse_times(column.values) is not None
