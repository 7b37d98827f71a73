"""The syntax tree of what a task predicts, and of its conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, Union


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Times relative to an anchor: later than `anchor + start`, and at most `anchor + end`, in seconds."""

    start: int
    end: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A column; `table` is empty where the text does not name one."""

    table: str
    name: str
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant:
    """A number, text or truth value."""

    value: float | int | str | bool
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aggregate:
    """A function over the rows of a table that refer to an entity, within a window.

    Attributes:
        function: one of `FUNCTIONS`.
        table: the table.
        column: the column whose values are aggregated; empty: rows are counted.
        by: names of the foreign keys that lead from the table to the entity; none where there is one way only.
        where: condition on the table's own columns; None for all rows.
        window: the window.
        position: where its table starts in the text.
        column_position: where its column starts.
    """

    function: str
    table: str
    column: str
    by: tuple[str, ...]
    where: Condition | None
    window: Window
    position: int
    column_position: int

    @property
    def rows(self) -> str:
        """The table, and its column if there is one, as a text names them: "orders.amount"."""
        return f"{self.table}.{self.column}" if self.column else self.table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two values and an operator of SQL between them."""

    left: Value
    operator: str
    right: Value
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class NullTest:
    """Whether a value is missing, or is not."""

    value: Value
    is_null: bool
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Membership:
    """Whether a value is one of several, or none of them."""

    value: Value
    options: tuple[Constant, ...]
    is_in: bool
    position: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Negation:
    """The opposite of a condition."""

    operand: Condition


@dataclasses.dataclass(frozen=True, kw_only=True)
class Junction:
    """Conditions of which all must hold, or any."""

    operator: Literal["and", "or"]
    operands: tuple[Condition, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distinct:
    """The different nodes that an entity's rows refer to within a window: what is recommended to the entity.

    Attributes:
        aggregate: the rows; its function is `DISTINCT`, and its column a foreign key.
        top: how many are recommended.
    """

    aggregate: Aggregate
    top: int


Value = Union[Column, Constant, Aggregate]
Test = Union[Comparison, NullTest, Membership, Negation, Junction]
Condition = Union[Test, Value]
"""A value is a condition where it is a truth value."""

DISTINCT = "distinct"
"""Function of `Distinct`; its other name is list_distinct."""
FUNCTIONS = ("avg", "count", "count_distinct", "first", "last", "max", "min", "sum")
"""The aggregations, in alphabetical order."""


def columns_of(condition: Condition | Distinct) -> Iterator[Column]:
    """Lists the columns of a condition that are outside of aggregates, in the order of the text."""
    if isinstance(condition, Column):
        yield condition
    elif isinstance(condition, Junction):
        for operand in condition.operands:
            yield from columns_of(operand)
    elif isinstance(condition, Negation):
        yield from columns_of(condition.operand)
    elif isinstance(condition, Comparison):
        yield from columns_of(condition.left)
        yield from columns_of(condition.right)
    elif isinstance(condition, (NullTest, Membership)):
        yield from columns_of(condition.value)


def aggregates_of(condition: Condition | Distinct | None) -> Iterator[Aggregate]:
    """Lists the aggregates of a condition in the order of the text."""
    if isinstance(condition, Aggregate):
        yield condition
    elif isinstance(condition, Distinct):
        yield condition.aggregate
    elif isinstance(condition, Junction):
        for operand in condition.operands:
            yield from aggregates_of(operand)
    elif isinstance(condition, Negation):
        yield from aggregates_of(condition.operand)
    elif isinstance(condition, Comparison):
        yield from aggregates_of(condition.left)
        yield from aggregates_of(condition.right)
    elif isinstance(condition, (NullTest, Membership)):
        yield from aggregates_of(condition.value)
