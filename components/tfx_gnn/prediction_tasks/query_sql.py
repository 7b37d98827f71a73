"""Translates what a task predicts, in words, into SQL for DuckDB."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.query_parser import place_in
from tfx_gnn.prediction_tasks.query_syntax import (
    DISTINCT,
    Aggregate,
    Column,
    Comparison,
    Condition,
    Constant,
    Distinct,
    Junction,
    Negation,
    NullTest,
    Test,
    Value,
    aggregates_of,
)
from tfx_gnn.prediction_tasks.recommended import Recommended, find_recommended
from tfx_gnn.prediction_tasks.reference_paths import find_path, join_along, time_along
from tfx_gnn.prediction_tasks.table_views import literal, quoted
from tfx_gnn.prediction_tasks.task_options import parse_time
from tfx_gnn.prediction_tasks.task_tables import Kind, TaskTable, TaskTables
from tfx_gnn.tables.table_layout import ID_FEATURE

_ID = quoted(ID_FEATURE)
_EMPTY_IS_ZERO = frozenset({"count", "count_distinct", "sum"})
"""Functions whose value over no rows is 0; others have none."""
_OF_NUMBERS = frozenset({"avg", "max", "min", "sum"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expression:
    """SQL, and what its value is."""

    sql: str
    kind: Kind


class _Scope:
    """The columns that a condition may name: those of one table, and its foreign keys."""

    def __init__(self, tables: TaskTables, table: TaskTable, alias: str, field: str) -> None:
        self.tables, self.table, self.alias, self.field = tables, table, alias, field
        self.joins: list[str] = []

    def column(self, table: str, name: str, position: int) -> Expression:
        place = place_in(self.field, position)
        if table not in ("", self.table.name):
            raise ValueError(
                f"{place} must name a column of {self.table.name}; got {table}.{name}. Aggregate other tables over a "
                "window."
            )
        if name in self.table.kinds:
            kind = self.table.kinds[name]
            is_time = kind == "time"
            sql = self.tables.as_time(self.table, name, self.alias) if is_time else f"{self.alias}.{quoted(name)}"
            return Expression(sql=sql, kind=kind)
        references = self.tables.references_of(self.table)
        found = [one for one in references if name in one.names]
        if len(found) != 1:
            known = [*self.table.kinds, *(one.names[0] for one in references)]
            raise ValueError(
                f"{place} must name a column of {self.table.name}, among {sorted(known)}; got {name!r}. "
                f"{did_you_mean(name, known)}"
            )
        if found[0].key:
            return Expression(sql=f"{self.alias}.{quoted(found[0].key)}", kind="text")
        key = f"key_{len(self.joins) + 1}_of_{self.field}"
        edges = self.tables.tables[found[0].edge_set].view
        self.joins.append(f"LEFT JOIN {edges} AS {key} ON {key}.{quoted(found[0].row_end)} = {self.alias}.{_ID}")
        return Expression(sql=f"{key}.{quoted(found[0].node_end)}", kind="text")


class QueryTranslator:
    """Translates the conditions of one task; gathers a common table expression for each aggregate.

    Attributes:
        values: by name, the query of each aggregate: an entity's id, an anchor's time, and the value.
        joins: the joins that the conditions need, to the tables `entity` and `anchors`.
    """

    def __init__(self, tables: TaskTables, entity: TaskTable) -> None:
        self.values: dict[str, str] = {}
        self.joins: list[str] = []
        self._tables = tables
        self._entity = entity

    def translate(self, condition: Condition, field: str) -> Expression:
        """Translates a condition or value over the entity's columns and aggregates.

        Raises:
            ValueError: if a name is unknown, or values of different kinds are compared.
        """
        scope = _Scope(self._tables, self._entity, "entity", field)
        values = {one: self._aggregate(one, field) for one in aggregates_of(condition)}
        found = _translate(condition, scope, values)
        self.joins += scope.joins
        return found

    def translate_distinct(self, distinct: Distinct, field: str) -> tuple[Expression, Recommended]:
        """Translates what is recommended: one row for each entity, anchor, and node that is referred to.

        Raises:
            ValueError: if a name is unknown, or no edge set joins the entities with these nodes.
        """
        found = find_recommended(self._tables, distinct, self._entity, field)
        return self._aggregate(distinct.aggregate, field), found

    def _aggregate(self, aggregate: Aggregate, field: str) -> Expression:
        place = place_in(field, aggregate.position)
        path = find_path(self._tables, aggregate, self._entity, field)
        table = self._tables.tables[aggregate.table]
        time = time_along(path, self._tables, aggregate, field)
        scope = _Scope(self._tables, table, "rows_of_table", field)
        value = Expression(sql="1", kind="number")
        if aggregate.column:
            value = scope.column("", aggregate.column, aggregate.column_position)
        if aggregate.function in _OF_NUMBERS and value.kind != "number":
            raise ValueError(
                f"{place_in(field, aggregate.column_position)} must be a column of numbers for {aggregate.function}; "
                f"got {table.name}.{aggregate.column}, {_ARTICLES[value.kind]}. Count it, or take its first or last "
                "value."
            )
        condition = ""
        if aggregate.where is not None:
            if next(aggregates_of(aggregate.where), None) is not None:
                raise ValueError(f"{place} must have no aggregation within another one; got one. Take it out.")
            condition = f" WHERE {_truth(_translate(aggregate.where, scope, {}), place)}"
        joins, key = join_along(path, self._tables, "step")
        joins += "".join(f" {join}" for join in scope.joins)
        name = f"value_{len(self.values) + 1}"
        window = aggregate.window
        is_distinct = aggregate.function == DISTINCT
        self.values[name] = (
            f"SELECT found.id, anchors.time, {_CALLS[aggregate.function]} AS value\n"
            f"  FROM anchors JOIN (\n"
            f"    SELECT {key} AS id, {time} AS time, {value.sql} AS value\n"
            f"    FROM {table.view} AS rows_of_table{joins}{condition}\n"
            f"  ) AS found ON found.time > anchors.time + to_seconds({window.start})"
            f" AND found.time <= anchors.time + to_seconds({window.end})"
            f"{' AND found.value IS NOT NULL' if is_distinct else ''}\n"
            f"  GROUP BY found.id, anchors.time{', found.value' if is_distinct else ''}"
        )
        self.joins.append(f"LEFT JOIN {name} ON {name}.id = entity.{_ID} AND {name}.time = anchors.time")
        if aggregate.function in _EMPTY_IS_ZERO:
            return Expression(sql=f"coalesce({name}.value, 0)", kind="number")
        return Expression(sql=f"{name}.value", kind=value.kind)


_CALLS = {
    DISTINCT: "found.value",
    "count": "count(found.value)",
    "count_distinct": "count(DISTINCT found.value)",
    # In one order, so that sums of floats do not depend on the number of threads.
    "sum": "sum(found.value ORDER BY found.value)",
    "avg": "avg(found.value ORDER BY found.value)",
    "min": "min(found.value)",
    "max": "max(found.value)",
    # Of rows of one time, the smallest value, and the largest.
    "first": "first(found.value ORDER BY found.time, found.value) FILTER (WHERE found.value IS NOT NULL)",
    "last": "last(found.value ORDER BY found.time, found.value) FILTER (WHERE found.value IS NOT NULL)",
}
_ARTICLES = {
    "number": "a number",
    "text": "a text or an id",
    "time": "a time",
    "truth": "a truth value",
    "other": "a list or another kind of value",
}


def check_truth(found: Expression, field: str) -> str:
    """Returns the SQL of a condition; refuses a value that is none."""
    return _truth(found, f"`{field}`")


def _truth(found: Expression, place: str) -> str:
    if found.kind != "truth":
        raise ValueError(f"{place} must have a condition; got {_ARTICLES[found.kind]}. Compare it with a value.")
    return found.sql


def _translate(condition: Condition, scope: _Scope, values: Mapping[Aggregate, Expression]) -> Expression:
    if isinstance(condition, (Aggregate, Column, Constant)):
        return _value(condition, scope, values)
    return Expression(sql=f"({_test(condition, scope, values)})", kind="truth")


def _value(value: Value, scope: _Scope, values: Mapping[Aggregate, Expression]) -> Expression:
    if isinstance(value, Aggregate):
        return values[value]
    if isinstance(value, Column):
        return scope.column(value.table, value.name, value.position)
    return _constant(value)


def _test(test: Test, scope: _Scope, values: Mapping[Aggregate, Expression]) -> str:
    if isinstance(test, Negation):
        return f"NOT {_truth(_translate(test.operand, scope, values), f'`{scope.field}`, after not,')}"
    if isinstance(test, Junction):
        place = f"`{scope.field}`, beside {test.operator},"
        operands = [_truth(_translate(one, scope, values), place) for one in test.operands]
        return f" {test.operator.upper()} ".join(operands)
    place = place_in(scope.field, test.position)
    if isinstance(test, Comparison):
        left = _value(test.left, scope, values)
        if isinstance(test.right, Constant):
            return f"{left.sql} {test.operator} {_alike(left, test.right, place)}"
        return f"{left.sql} {test.operator} {_compared(left, _value(test.right, scope, values), place)}"
    value = _value(test.value, scope, values)
    if isinstance(test, NullTest):
        return f"{value.sql} IS {'' if test.is_null else 'NOT '}NULL"
    options = ", ".join(_alike(value, option, place) for option in test.options)
    return f"{value.sql} {'' if test.is_in else 'NOT '}IN ({options})"


def _constant(constant: Constant) -> Expression:
    value = constant.value
    if isinstance(value, bool):
        return Expression(sql=str(value).upper(), kind="truth")
    return (
        Expression(sql=literal(value), kind="text")
        if isinstance(value, str)
        else Expression(sql=repr(value), kind="number")
    )


def _alike(value: Expression, constant: Constant, place: str) -> str:
    """Returns a constant's SQL, of the kind of the value beside it."""
    if value.kind == "time" and isinstance(constant.value, str):
        return f"TIMESTAMP {literal(str(parse_time(constant.value, 'text')))}"
    return _compared(value, _constant(constant), place)


def _compared(left: Expression, right: Expression, place: str) -> str:
    if left.kind != right.kind or left.kind == "other":
        raise ValueError(
            f"{place} must compare values of one kind; got {_ARTICLES[left.kind]} beside {_ARTICLES[right.kind]}. "
            "Compare numbers with numbers, and texts, ids and times with 'texts'."
        )
    return right.sql
