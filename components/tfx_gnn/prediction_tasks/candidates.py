"""The query of a task in words: all candidates for seeds, and why those that are no seeds were dropped."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

import numpy as np

from tfx_gnn.prediction_tasks.anchor_times import AnchorTimes, find_anchor_times
from tfx_gnn.prediction_tasks.query_parser import parse_predicted, parse_query
from tfx_gnn.prediction_tasks.query_sql import Expression, QueryTranslator, check_truth
from tfx_gnn.prediction_tasks.query_syntax import Aggregate, Distinct, aggregates_of, columns_of
from tfx_gnn.prediction_tasks.recommended import Recommended
from tfx_gnn.prediction_tasks.reference_paths import find_path, table_of_times
from tfx_gnn.prediction_tasks.table_views import quoted
from tfx_gnn.prediction_tasks.task_options import Anchors, PredictionTask, parse_time
from tfx_gnn.prediction_tasks.task_tables import Kind, TaskTable, TaskTables
from tfx_gnn.tables.label_splits import time_bounds
from tfx_gnn.tables.table_layout import ID_FEATURE

_ID = quoted(ID_FEATURE)
_SHARES = 10

NOT_THERE_YET = "not_there_yet"
"""Dropped: the entity's own row is later than the anchor, or has no time."""
WHERE = "where"
"""Dropped: the condition does not hold."""
NO_LABEL = "no_label"
"""Dropped: the label is null, such as the mean of nothing."""
UNKNOWN_ENTITY = "unknown_entity"
"""Dropped: no row of the entities' table has this id."""
BETWEEN_SPLITS = "between_splits"
"""Dropped: the label would depend on the period of the next split."""
UNKNOWN_TARGET = "unknown_target"
"""Dropped: what would be recommended is in no table."""
TARGET_NOT_THERE_YET = "target_not_there_yet"
"""Dropped: what would be recommended came about later than the anchor."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidates:
    """The query of all candidates, with the columns id, time, split, label, and dropped, which is empty for a seed.

    Attributes:
        statements: what must run before, such as the table of anchors.
        query: the query.
        label_kind: what a label is: "truth" for 0 and 1, "number", or "text", or the id of what is recommended.
        recommended: what is recommended; None if a value is predicted.
        has_times: whether candidates have times.
        has_anchors: whether many candidates share a time.
        incomplete: anchors that were left out because their windows end after the data.
        remarks: what was decided, a sentence each.
    """

    statements: tuple[str, ...]
    query: str
    label_kind: Kind
    recommended: Recommended | None = None
    has_times: bool = True
    has_anchors: bool = True
    incomplete: tuple[dt.datetime, ...] = ()
    remarks: tuple[str, ...] = ()


def candidates_in_words(task: PredictionTask, tables: TaskTables) -> Candidates:
    """Translates a task with `predict`.

    Args:
        task: the task.
        tables: its tables, which are looked at for the times of their first and last rows.

    Raises:
        ValueError: if the words do not fit the tables, or the anchors do not fit the times of their rows.
    """
    entity = entity_table(task, tables)
    translator = QueryTranslator(tables, entity)
    predicted = parse_predicted(task.predict)
    recommended = None
    if isinstance(predicted, Distinct):
        label, recommended = translator.translate_distinct(predicted, "predict")
    else:
        label = translator.translate(predicted, "predict")
    wanted = "TRUE"
    if task.where:
        wanted = check_truth(translator.translate(parse_query(task.where, "where"), "where"), "where")
    if label.kind not in ("truth", "number", "text"):
        raise ValueError(
            f"`predict` must be a number, a text or a condition; got {task.predict!r}, which is none of them. Compare "
            "it with a value."
        )
    keys = sorted({column.name for column in columns_of(predicted)} - set(entity.kinds))
    if keys:
        raise ValueError(
            f"`predict` must be made of columns that no edge shows; got the foreign keys {keys}. Predict a link by a "
            "plan with `seed_edge_set`, or another column."
        )
    targets = list(aggregates_of(predicted))
    time = tables.time_of(entity, "entity")
    statements: tuple[str, ...] = ()
    incomplete: tuple[dt.datetime, ...] = ()
    remarks: tuple[str, ...] = ()
    if targets:
        assert task.anchors is not None
        times = _anchor_times(task.anchors, targets, tables, entity)
        statements, incomplete = (_anchor_table(times),), times.incomplete
        source, at, split = f"{entity.view} AS entity CROSS JOIN anchors", "anchors.time", "anchors.split"
        is_there = f"coalesce({time} <= anchors.time, FALSE)" if time else "TRUE"
    else:
        source, at = f"{entity.view} AS entity", time or "CAST(NULL AS TIMESTAMP)"
        split, remarks = _split_of_entity(task.anchors, tables, entity, time)
        is_there = f"{time} IS NOT NULL" if time else "TRUE"
    unfit, targets_join = _targets(tables, recommended)
    expressions = "".join(f"{name} AS (\n  {value}\n),\n" for name, value in translator.values.items())
    joins = "".join(f"\n  {join}" for join in translator.joins)
    query = (
        f"WITH {expressions}every_pair AS (\n"
        f"  SELECT entity.{_ID} AS id, {at} AS time, {split} AS split, {_typed(label)} AS label,\n"
        f"    {is_there} AS is_there, coalesce({wanted}, FALSE) AS is_wanted\n"
        f"  FROM {source}{joins}\n"
        f")\n"
        f"SELECT id, time, split, label, CASE WHEN NOT is_there THEN '{NOT_THERE_YET}' WHEN NOT is_wanted THEN "
        f"'{WHERE}' WHEN label IS NULL THEN '{NO_LABEL}'{unfit} ELSE '' END AS dropped\nFROM every_pair{targets_join}"
    )
    return Candidates(
        statements=statements,
        query=query,
        label_kind=label.kind,
        recommended=recommended,
        has_times=bool(targets or time),
        has_anchors=bool(targets),
        incomplete=incomplete,
        remarks=remarks,
    )


def _targets(tables: TaskTables, recommended: Recommended | None) -> tuple[str, str]:
    """Writes why something is not recommended, and the join that tells."""
    if recommended is None:
        return "", ""
    targets = tables.tables[recommended.node_set]
    time = tables.time_of(targets, "targets")
    unfit = f"\n  WHEN target IS NULL THEN '{UNKNOWN_TARGET}'"
    if time:
        unfit += f" WHEN NOT coalesce(there_since <= time, FALSE) THEN '{TARGET_NOT_THERE_YET}'"
    columns = f"CAST(targets.{_ID} AS VARCHAR) AS target, {time or 'NULL'} AS there_since"
    return unfit, f" LEFT JOIN (\n  SELECT {columns} FROM {targets.view} AS targets\n) AS known ON target = label"


def entity_table(task: PredictionTask, tables: TaskTables) -> TaskTable:
    """Finds the table of the entities."""
    entity = tables.table(task.for_each, "`for_each`")
    if not entity.is_node_set:
        raise ValueError(f"`for_each` must name a node set; got {task.for_each!r}, an edge set. Name one of its ends.")
    return entity


def _anchor_times(anchors: Anchors, targets: list[Aggregate], tables: TaskTables, entity: TaskTable) -> AnchorTimes:
    names = list(dict.fromkeys(target.table for target in targets))
    scans = []
    for target in {target.table: target for target in targets}.values():
        table = table_of_times(find_path(tables, target, entity, "predict"), tables)
        scans.append(f"SELECT {tables.time_of(table, 'of_table')} AS time FROM {table.view} AS of_table")
    first, last = tables.one(f"SELECT min(time), max(time) FROM ({' UNION ALL '.join(scans)})")
    if first is None:
        raise ValueError(
            f"`predict` must aggregate tables with rows that have times; got none in {', '.join(names)}. Check them by "
            "`tfx-gnn tables check`."
        )
    horizon = max(target.window.end for target in targets)
    return find_anchor_times(anchors, horizon=horizon, first=first, last=last, table_names=", ".join(names))


def _anchor_table(times: AnchorTimes) -> str:
    rows = ",\n  ".join(
        f"(TIMESTAMP '{time}', '{split}')" for split, of_split in times.by_split.items() for time in of_split
    )
    return f"CREATE TABLE anchors AS SELECT * FROM (VALUES\n  {rows}\n) AS rows(time, split)"


def _split_of_entity(
    anchors: Anchors | None, tables: TaskTables, entity: TaskTable, time: str
) -> tuple[str, tuple[str, ...]]:
    """Writes the split of an entity: by its time if there is one, else by a hash; and says what was decided."""
    if anchors is None:
        bounds = _bounds_of_entities(tables, entity, time) if time else None
        if bounds is not None:
            validation, test = bounds
            said = f"Entities are split by their times: validation from {validation}, test from {test}."
            return _split_at(time, validation, test), (said,)
        # MD5 is the same in all releases; a split keeps its entities when others come or go.
        number = f"CAST('0x' || substr(md5(CAST(entity.{_ID} AS VARCHAR)), 1, 8) AS BIGINT) % {_SHARES}"
        return f"CASE {number} WHEN 8 THEN 'val' WHEN 9 THEN 'test' ELSE 'train' END", ()
    if not time:
        raise ValueError(
            f"`anchors` must go with entities that have times, where `predict` has no window; got {entity.name} "
            "without a column of times. Name it in `times`, or leave `anchors` out to split by a hash."
        )
    if anchors.every or anchors.train_from or anchors.complete_until:
        raise ValueError(
            "`anchors` must have `validation_from` and `test_from` alone where `predict` has no window, because each "
            f"entity has its own time; got {anchors.given}. Leave the others out."
        )
    return split_by_time(anchors, time), ()


def _bounds_of_entities(tables: TaskTables, entity: TaskTable, time: str) -> tuple[dt.datetime, dt.datetime] | None:
    """Finds the times at which validation and test begin, as for rows with a label."""
    rows = tables.connection.execute(
        f"SELECT CAST(floor(epoch({time})) AS BIGINT) AS second, count(*) FROM {entity.view} AS entity "
        f"WHERE {time} IS NOT NULL GROUP BY second ORDER BY second"
    ).fetchall()
    if not rows:
        return None
    times, counts = np.array(rows, np.int64).T
    bounds = time_bounds(times, counts)
    if bounds is None:
        return None
    validation, test = (dt.datetime.fromtimestamp(bound, dt.timezone.utc).replace(tzinfo=None) for bound in bounds)
    return validation, test


def split_by_time(anchors: Anchors, time: str) -> str:
    """Writes the split of a row by its time."""
    validation = parse_time(anchors.validation_from, "anchors.validation_from")
    test = parse_time(anchors.test_from, "anchors.test_from")
    return _split_at(time, validation, test)


def _split_at(time: str, validation: dt.datetime, test: dt.datetime) -> str:
    return (
        f"CASE WHEN {time} < TIMESTAMP '{validation}' THEN 'train' WHEN {time} < TIMESTAMP '{test}' THEN 'val' "
        "ELSE 'test' END"
    )


def _typed(label: Expression) -> str:
    """Casts a label to what seed tables hold: integers for truth values, floats for numbers, and texts."""
    dtype: Mapping[str, str] = {"truth": "BIGINT", "number": "FLOAT", "text": "VARCHAR"}
    return f"CAST({label.sql} AS {dtype[label.kind]})"
