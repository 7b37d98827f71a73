"""What a task recommends: nodes that the rows of a table refer to, and the edge set that joins entities with them."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal

import pyarrow.parquet as pq
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.query_parser import parse_predicted, place_in
from tfx_gnn.prediction_tasks.query_syntax import Aggregate, Distinct
from tfx_gnn.prediction_tasks.reference_paths import Path, find_path, join_along, time_along
from tfx_gnn.prediction_tasks.task_options import PredictionTask
from tfx_gnn.prediction_tasks.task_tables import Reference, TaskTable, TaskTables, open_task_tables
from tfx_gnn.tables.prepared_tables import ROW_TIME
from tfx_gnn.tables.row_times import SECONDS
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import SOURCE_KEY, TARGET_KEY

_ENDS: dict[str, Literal["source", "target"]] = {SOURCE_KEY: "source", TARGET_KEY: "target"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recommended:
    """The nodes that a task recommends to its entities.

    Attributes:
        node_set: their node set.
        edge_set: the edge set between entities and these nodes.
        end: the end of its edges that is recommended.
        top: how many are recommended.
    """

    node_set: str
    edge_set: str
    end: Literal["source", "target"]
    top: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shortcut:
    """An edge set from entities to what is recommended, which was written because no table had it.

    Attributes:
        name: its name.
        declared: what a schema says of it.
        remark: what was decided, a sentence.
    """

    name: str
    declared: EdgeSet
    remark: str


def find_recommended(tables: TaskTables, distinct: Distinct, entity: TaskTable, field: str) -> Recommended:
    """Finds what is recommended, and the edge set that joins it with the entities.

    Args:
        tables: the tables.
        distinct: what is recommended.
        entity: table of the entities.
        field: field of the task, for errors.

    Raises:
        ValueError: if the column is no foreign key, or there is no such edge set.
    """
    path, reference = _ways(tables, distinct.aggregate, entity, field)
    node_set = reference.node_set
    if _is_edge_set(path, reference):
        end = _ENDS[reference.key]
        return Recommended(node_set=node_set, edge_set=reference.table, end=end, top=distinct.top)
    time_along(path, tables, distinct.aggregate, field)
    name = _shortcut(distinct.aggregate, entity)
    table = tables.tables.get(name)
    ends = [node_set_of_end for _, node_set_of_end in table.ends.values()] if table is not None else []
    if ends != [entity.name, node_set]:
        raise ValueError(
            f"{place_in(field, distinct.aggregate.position)} must aggregate an edge set from {entity.name} to "
            f"{node_set}, or the graph schema must have one, {name!r}, with an edge for each row of "
            f"{reference.table} and the row's time; got {'another one' if ends else 'none'}. Write that table, and "
            "declare it; `tfx-gnn new` does so for tables without a schema."
        )
    return Recommended(node_set=node_set, edge_set=name, end="target", top=distinct.top)


def write_shortcut(task: PredictionTask, tables_dir: str, access: TableAccess) -> Shortcut | None:
    """Writes the edges from entities to what is recommended, if no table has them: one for each row between the two.

    Args:
        task: the task.
        tables_dir: folder of graph_schema.pbtxt and the tables, where the edges are written as a Parquet file.
        access: the schema's file name, and which files may be read.

    Returns:
        The edge set, which no schema has yet; None if there is nothing to write.

    Raises:
        ValueError: if the task does not fit the tables.
    """
    predicted = parse_predicted(task.predict) if task.predict else None
    if not isinstance(predicted, Distinct):
        return None
    with open_task_tables(tables_dir, times=task.times, access=access) as tables:
        entity, aggregate = tables.table(task.for_each, "`for_each`"), predicted.aggregate
        path, reference = _ways(tables, aggregate, entity, "predict")
        if _is_edge_set(path, reference):
            return None
        table = tables.tables[aggregate.table]
        time = time_along(path, tables, aggregate, "predict", "entity")
        to_entity, source = join_along(path, tables, "entity")
        to_target, target = join_along((reference,), tables, "target")
        # An edge is there as soon as all that it stands for is.
        steps = [(step, f"entity_{number}") for number, step in enumerate(path, 1)] + [(reference, "target_1")]
        times = [tables.time_of(tables.tables[one.edge_set], alias) for one, alias in steps if one.edge_set]
        latest = f"greatest({', '.join([time, *filter(None, times)])})"
        edges = tables.connection.sql(
            f"SELECT * FROM (SELECT {source} AS source, {target} AS target, {latest} AS {ROW_TIME} "
            f"FROM {table.view} AS rows_of_table{to_entity}{to_target}) AS edges "
            f"WHERE source IS NOT NULL AND target IS NOT NULL ORDER BY {ROW_TIME}, source, target"
        ).to_arrow_table()
    name = _shortcut(aggregate, entity)
    at = edges.schema.get_field_index(ROW_TIME)
    edges = edges.set_column(at, ROW_TIME, edges[ROW_TIME].cast(SECONDS, safe=False))
    pq.write_table(edges, os.path.join(tables_dir, f"{name}.parquet"))
    declared = EdgeSet(source=entity.name, target=reference.node_set)
    declared.metadata.filename = f"{name}.parquet"
    declared.metadata.cardinality = edges.num_rows
    declared.features[ROW_TIME].dtype = tf.int64.as_datatype_enum
    remark = (
        f"{name} joins {entity.name} with {reference.node_set}, by {edges.num_rows:,} rows of {table.name} and their "
        "times: what is recommended is an edge of it."
    )
    return Shortcut(name=name, declared=declared, remark=remark)


def _ways(tables: TaskTables, aggregate: Aggregate, entity: TaskTable, field: str) -> tuple[Path, Reference]:
    """Finds the way from the rows to the entities, and the foreign key that names what is recommended."""
    path = find_path(tables, aggregate, entity, field)
    references = tables.references_of(tables.tables[aggregate.table])
    found = [one for one in references if aggregate.column in one.names]
    if len(found) != 1:
        known = [one.names[0] for one in references]
        raise ValueError(
            f"{place_in(field, aggregate.column_position)} must be a foreign key of {aggregate.table}, among "
            f"{sorted(known)}, whose nodes are recommended; got {aggregate.column!r}. "
            f"{did_you_mean(aggregate.column, known)}"
        )
    if found[0] == path[0]:
        raise ValueError(
            f"{place_in(field, aggregate.column_position)} must be another foreign key than the one that leads to "
            f"{entity.name}; got {aggregate.column!r} for both. Name the other one, or choose the way by `by`."
        )
    return path, found[0]


def _is_edge_set(path: Path, reference: Reference) -> bool:
    """Whether the rows are edges from entities to what is recommended."""
    return bool(reference.key) and len(path) == 1 and bool(path[0].key)


def _shortcut(aggregate: Aggregate, entity: TaskTable) -> str:
    return f"{entity.name}_{aggregate.table}_{aggregate.column}"
