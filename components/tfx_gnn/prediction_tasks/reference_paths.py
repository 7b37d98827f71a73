"""Finds the way from the rows of a table to the entities that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.query_parser import place_in
from tfx_gnn.prediction_tasks.query_syntax import Aggregate
from tfx_gnn.prediction_tasks.table_views import quoted
from tfx_gnn.prediction_tasks.task_tables import Reference, TaskTable, TaskTables
from tfx_gnn.tables.table_layout import ID_FEATURE, TARGET_KEY

Path = tuple[Reference, ...]


def find_path(tables: TaskTables, aggregate: Aggregate, entity: TaskTable, field: str) -> Path:
    """Finds the one way, of one or two foreign keys, from a table to the entities.

    A way of one foreign key goes before ways of two. `by` chooses where several are equally short.

    Args:
        tables: the tables.
        aggregate: what is aggregated; its table is there.
        entity: table of the entities.
        field: field of the task, for errors.

    Raises:
        ValueError: if there is no such way, or several.
    """
    table = tables.table(aggregate.table, place_in(field, aggregate.position))
    direct: list[Path] = [(first,) for first in tables.references_of(table)]
    through: list[Path] = [
        (first, second)
        for (first,) in direct
        for second in tables.references_of(tables.tables[first.node_set])
        # Back to where one comes from, by the same edges.
        if second.edge_set != first.edge_set or not first.edge_set
    ]
    paths = [[path for path in some if path[-1].node_set == entity.name] for some in (direct, through)]
    if aggregate.by:
        return _chosen([path for some in paths for path in some], aggregate, entity, field)
    # Edges lead from a row to what it refers to; the other way round only where nothing else does.
    shortest = [path for path in paths[0] or paths[1] if all(step.row_end != TARGET_KEY for step in path)]
    shortest = shortest or paths[0] or paths[1]
    place = place_in(field, aggregate.position)
    if not shortest:
        known = ", ".join(f"{one.names[0]} to {one.node_set}" for (one,) in direct) or "none"
        raise ValueError(
            f"{place} must aggregate a table whose rows lead to one of {entity.name}, by one or two foreign keys; got "
            f"{table.name}, with the foreign keys {known}. Choose another table."
        )
    if len(shortest) > 1:
        raise ValueError(
            f"{place} must lead from {table.name} to {entity.name} in one way; got {len(shortest)}: "
            f"{', '.join(map(_names, shortest))}. Choose one, as in {aggregate.function}({aggregate.rows} by "
            f"{_names(shortest[0])}, ...)."
        )
    return shortest[0]


def join_along(path: Path, tables: TaskTables, prefix: str) -> tuple[str, str]:
    """Writes the joins that lead from the view `rows_of_table` along a path, and the id at its end.

    Args:
        path: the path.
        tables: its tables.
        prefix: begins the names of the joined tables.
    """
    joins, key = [], f"rows_of_table.{quoted(ID_FEATURE)}"
    for number, step in enumerate(path, 1):
        if step.key:
            key = f"rows_of_table.{quoted(step.key)}"
            continue
        edges, alias = tables.tables[step.edge_set].view, f"{prefix}_{number}"
        joins.append(f" JOIN {edges} AS {alias} ON {alias}.{quoted(step.row_end)} = {key}")
        key = f"{alias}.{quoted(step.node_end)}"
    return "".join(joins), key


def time_along(path: Path, tables: TaskTables, aggregate: Aggregate, field: str, prefix: str = "step") -> str:
    """Writes the times of the rows of an aggregated table, as of the joins of `join_along`.

    Rows without times of their own that lead to the entities by other rows, which have some, are as of these: order
    items as of their order. By no other rows, they would be as of the entity itself.

    Args:
        path: the way to the entities.
        tables: its tables.
        aggregate: what is aggregated, from the view `rows_of_table`.
        field: field of the task, for errors.
        prefix: begins the names of the joined tables.

    Raises:
        ValueError: if neither rows nor those between have times.
    """
    table, timed = tables.tables[aggregate.table], table_of_times(path, tables)
    if timed is table:
        time = tables.time_of(table, "rows_of_table")
    else:
        time = tables.time_of(tables.tables[path[1].edge_set], f"{prefix}_2")
    if not time:
        raise ValueError(
            f"{place_in(field, aggregate.position)} must aggregate a table whose rows have times, because of its "
            f"window; got {table.name} without a column of times. Name one in `times`, or choose another table."
        )
    return time


def table_of_times(path: Path, tables: TaskTables) -> TaskTable:
    """Finds the table with the times of the rows at the beginning of a path; see `time_along`."""
    table = tables.tables[path[0].table]
    if len(path) == 1 or tables.time_columns(table) or not tables.time_columns(tables.tables[path[1].table]):
        return table
    return tables.tables[path[1].table]


def _chosen(paths: Sequence[Path], aggregate: Aggregate, entity: TaskTable, field: str) -> Path:
    found = [
        path
        for path in paths
        if len(path) == len(aggregate.by)
        and all(name in step.names for name, step in zip(aggregate.by, path, strict=True))
    ]
    if len(found) != 1:
        given, known = ".".join(aggregate.by), [_names(path) for path in found or paths]
        raise ValueError(
            f"{place_in(field, aggregate.position)} must name after by a way from {aggregate.table} to {entity.name}, "
            f"among {known}; got {given!r}, which is {'several of them' if found else 'none'}. "
            f"{did_you_mean(given, known)}"
        )
    return found[0]


def _names(path: Path) -> str:
    return ".".join(step.names[0] for step in path)
