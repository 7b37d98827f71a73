"""How a column of a database is selected, so that Arrow and Parquet keep what is in it.

What a type alone does not tell is measured first, over the whole table: the digits after the point of numbers of any
size, or how many time stamps are infinite. So the query that reads the rows is decided once, and what it cannot keep is
counted.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable

import pyarrow as pa

MAX_DIGITS = 38
"""Digits that a decimal of Arrow's 128 bits holds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selected:
    """A column of a query.

    Attributes:
        expression: what is selected, in SQL.
        dtype: the type that the values get; None for the type that the driver gives.
        note: what is not kept as it is, or "".
    """

    expression: str
    dtype: pa.DataType | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SqlColumn:
    """A column of a table of a database.

    Attributes:
        name: its name.
        measures: aggregates over the table, in SQL.
        select: decides, from the values of the measures, how the column is selected.
    """

    name: str
    select: Callable[..., Selected]
    measures: tuple[str, ...] = ()


def quoted(name: str) -> str:
    """Quotes a name for SQL."""
    return '"{}"'.format(name.replace('"', '""'))


def plain_column(name: str) -> SqlColumn:
    """Selects a column as it is."""
    return SqlColumn(name=name, select=lambda: Selected(expression=quoted(name)))


def cast_column(name: str, sql_type: str, note: str = "") -> SqlColumn:
    """Selects a column as another type of SQL."""
    return SqlColumn(name=name, select=lambda: Selected(expression=f"CAST({quoted(name)} AS {sql_type})", note=note))


def time_column(name: str) -> SqlColumn:
    """Selects dates or time stamps; infinite ones, which Arrow does not have, are empty and counted."""
    column = quoted(name)

    def select(num_infinite: int) -> Selected:
        if not num_infinite:
            return Selected(expression=column)
        return Selected(
            expression=f"CASE WHEN isfinite({column}) THEN {column} END",
            note=f"infinite times, which are empty here: {num_infinite:,}",
        )

    return SqlColumn(name=name, measures=(f"count(*) FILTER (WHERE NOT isfinite({column}))",), select=select)


def decimal_type(precision: int, scale: int) -> pa.DataType | None:
    """Returns the type of decimals with so many digits, of which `scale` are after the point; None if none has."""
    precision = max(precision, scale, 1)
    return pa.decimal128(precision, scale) if precision <= MAX_DIGITS and scale >= 0 else None


def as_type(array: pa.Array, dtype: pa.DataType | None) -> pa.Array:
    """Converts values to a type; texts to decimals too, which not every release of Arrow does."""
    if dtype is None or array.type == dtype:
        return array
    if pa.types.is_decimal(dtype) and not pa.types.is_decimal(array.type):
        return pa.array([None if text is None else decimal.Decimal(text) for text in array.to_pylist()], dtype)
    return array.cast(dtype)
