"""What the columns of a seed table are, and the times of other tables: kept in it for the plan that reads it."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from tfx_gnn.io import options_json
from tfx_gnn.prediction_tasks.candidates import Candidates, entity_table
from tfx_gnn.prediction_tasks.query_parser import parse_predicted
from tfx_gnn.prediction_tasks.query_syntax import columns_of
from tfx_gnn.prediction_tasks.recommended import Recommended
from tfx_gnn.prediction_tasks.task_options import SPLITS, PredictionTask
from tfx_gnn.prediction_tasks.task_tables import TaskTable, TaskTables
from tfx_gnn.tables.data_files import TableBytes

_KEY = b"tfx_gnn.seed_table"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedTableDescription:
    """A seed table; its ids are in the column `id`, those of pairs in `source` and `target`.

    Attributes:
        task: the task that it was made for.
        label: column of the labels: integers 0 and 1 of a condition, floats of a number, or texts; empty for pairs.
        label_kind: which of these; ids of recommended nodes are texts.
        recommended: what is recommended; then each seed is a pair of an entity and what it was to get. None: each is
            an entity with a label.
        split: column of the splits train, val and test.
        time: column of the times; empty if seeds have none.
        until: by split, the time before which its seeds are, in seconds since 1970; None for no bound. Empty where
            splits do not follow each other in time.
        label_columns: columns of the entities' own table that the label is made of.
        times: by table, the feature with the times of its rows; without tables that have none.
        undecided_times: tables with several columns of times, of which the task's `times` names none.
    """

    task: PredictionTask
    label: str
    label_kind: Literal["truth", "number", "text"]
    recommended: Recommended | None = None
    split: str
    time: str
    until: Mapping[str, int | None]
    label_columns: tuple[str, ...]
    times: Mapping[str, str]
    undecided_times: tuple[str, ...]

    @property
    def entity_end(self) -> str:
        """Column of the entities' ids."""
        if self.recommended is None:
            return "id"
        return "source" if self.recommended.end == "target" else "target"

    def metadata(self) -> dict[bytes, bytes]:
        """Returns itself as the metadata of a Parquet file."""
        return {_KEY: options_json.to_json(self).encode()}


def describe_seed_table(task: PredictionTask, tables: TaskTables, found: Candidates) -> SeedTableDescription:
    """Describes the seed table that a task's candidates make."""
    entity = entity_table(task, tables)
    assert found.label_kind in ("truth", "number", "text")
    label_columns = columns_of(parse_predicted(task.predict)) if task.predict else ()
    times = {
        name: [column for column in tables.time_columns(table) if column in table.features]
        for name, table in tables.tables.items()
    }
    return SeedTableDescription(
        task=task,
        label=_free_name("label", entity) if found.recommended is None else "",
        label_kind=found.label_kind,
        recommended=found.recommended,
        split=_free_name("split", entity),
        time=_free_name("time", entity) if found.has_times else "",
        until=_bounds(tables) if found.has_times else {},
        label_columns=tuple(sorted({column.name for column in label_columns} & entity.features)),
        times={name: columns[0] for name, columns in times.items() if len(columns) == 1},
        undecided_times=tuple(name for name, columns in times.items() if len(columns) > 1),
    )


def _bounds(tables: TaskTables) -> dict[str, int | None]:
    rows = tables.connection.execute(
        "SELECT split, CAST(epoch(min(time)) AS BIGINT), CAST(epoch(max(time)) AS BIGINT) FROM candidates "
        "WHERE dropped = '' GROUP BY split ORDER BY min(time)"
    ).fetchall()
    follow = all(last < first for (_, _, last), (_, first, _) in itertools.pairwise(rows))
    splits = [split for split, _, _ in rows]
    if not rows or not follow or splits != [split for split in SPLITS if split in splits]:
        return {}
    return {split: following[1] for (split, _, _), following in itertools.pairwise(rows)} | {splits[-1]: None}


def _free_name(name: str, entity: TaskTable) -> str:
    """Chooses a name that the node set's features leave free; a plan could not tell them apart."""
    return name if name not in (*entity.kinds, entity.id_column) else f"task_{name}"


def read_seed_table_description(path: str) -> SeedTableDescription | None:
    """Reads what the columns of a seed table are.

    Args:
        path: the Parquet file, on any file system that TensorFlow reads.

    Returns:
        The description; None if there is no such file, or no task made it.
    """
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return None
    try:
        metadata = pq.read_schema(pa.PythonFile(TableBytes(path), "r")).metadata or {}
    except pa.ArrowException:
        return None
    if _KEY not in metadata:
        return None
    return options_json.from_json(metadata[_KEY].decode(), SeedTableDescription, name=os.path.basename(path))
