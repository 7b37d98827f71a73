"""Makes the seed table of a prediction task: one row for each entity and anchor, with its label and split."""

from __future__ import annotations

import dataclasses
import filecmp
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tfx_gnn.prediction_tasks.candidates import UNKNOWN_ENTITY, Candidates, candidates_in_words
from tfx_gnn.prediction_tasks.given_rows import candidates_in_rows
from tfx_gnn.prediction_tasks.seed_table_description import SeedTableDescription, describe_seed_table
from tfx_gnn.prediction_tasks.table_views import quoted
from tfx_gnn.prediction_tasks.task_options import SPLITS, PredictionTask
from tfx_gnn.prediction_tasks.task_tables import TaskTables, open_task_tables
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE

_MOST_ANCHORS_SHOWN = 1_000
_BATCH_ROWS = 65_536
_LABEL_TYPES = {"truth": pa.int64(), "number": pa.float32(), "text": pa.string()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorStatistics:
    """What became of the candidates of a split, or of one of its anchors.

    Attributes:
        split: the split.
        time: the anchor; empty for all of the split.
        num_candidates: pairs of an entity and the anchor, or given rows.
        num_seeds: candidates that became seeds.
        dropped: by reason, candidates that did not.
        mean_label: mean of the labels, which is the base rate of truth values; None for texts, and without seeds.
    """

    split: str
    time: str = ""
    num_candidates: int
    num_seeds: int
    dropped: Mapping[str, int]
    mean_label: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedTableReport:
    """A seed table that was made.

    Attributes:
        description: what its columns are.
        splits: statistics of each split.
        anchors: statistics of each anchor, ascending; none if there are more than a thousand, or each entity has its
            own.
        num_training_labels: how many different labels the seeds of training have.
        has_own_times: whether the time of each seed is that of its entity.
        incomplete_anchors: anchors that were left out because their windows end after the data.
        remarks: what a user should know, a sentence each.
        statements: the SQL that made it, in order; the last one selects all candidates.
    """

    description: SeedTableDescription
    splits: tuple[AnchorStatistics, ...]
    anchors: tuple[AnchorStatistics, ...]
    num_training_labels: int
    has_own_times: bool
    incomplete_anchors: tuple[str, ...]
    remarks: tuple[str, ...]
    statements: tuple[str, ...]

    @property
    def num_seeds(self) -> int:
        """Number of rows of the seed table."""
        return sum(split.num_seeds for split in self.splits)


def make_seed_table(
    task: PredictionTask,
    tables_dir: str,
    path: str,
    *,
    folder: str = "",
    access: TableAccess | None = None,
) -> SeedTableReport:
    """Makes the seed table of a task, and its statistics beside it, as JSON.

    The same task and tables give the same bytes. A file that would stay the same is not written again.

    Args:
        task: the task.
        tables_dir: local folder of graph_schema.pbtxt and CSV or Parquet tables.
        path: the Parquet file to write; the name of the statistics ends with .json instead. Empty: nothing is written.
        folder: where relative paths of the task's files start.
        access: the schema's file name, and which files may be read.

    Returns:
        Statistics, and the SQL.

    Raises:
        ModuleNotFoundError: if DuckDB is not installed.
        ValueError: if the task does not fit the tables, a split has no seeds, two seeds are equal, or a label is no
            finite number.
    """
    files = {"": task.table} if task.table else task.split_tables
    files = {split: os.path.join(folder, file) for split, file in files.items()}
    for file in files.values():
        if not os.path.isfile(file):
            raise ValueError(f"`{task.source}` must name a file; got {file!r}, which is not there. Check the path.")
    with open_task_tables(tables_dir, times=task.times, files=tuple(files.values()), access=access) as tables:
        found = candidates_in_words(task, tables) if task.predict else candidates_in_rows(task, tables, files)
        for statement in found.statements:
            tables.connection.execute(statement)
        tables.connection.execute(f"CREATE TABLE candidates AS {found.query}")
        _check_seeds(task, tables, found)
        report = _report(tables, found, describe_seed_table(task, tables, found))
        _check_splits(task, report)
        if path:
            _write(tables, report, path)
    return report


def _check_seeds(task: PredictionTask, tables: TaskTables, found: Candidates) -> None:
    field = task.source
    unknown, example = tables.one(
        f"SELECT count(*), min(CAST(id AS VARCHAR)) FROM candidates WHERE dropped = '{UNKNOWN_ENTITY}'"
    )
    if unknown and task.unknown_entities == "refuse":
        raise ValueError(
            f"`{field}` must have rows of entities that are in {task.for_each}; got {unknown:,} of others, such as "
            f"{example!r}. Correct the ids, or set `unknown_entities: drop` to leave these rows out."
        )
    kept = "FROM candidates WHERE dropped = ''"
    if found.has_times:
        # Entities without a time of their own are not there yet.
        which = "dropped = ''" if task.predict else f"dropped <> '{UNKNOWN_ENTITY}'"
        (num_timeless,) = tables.one(f"SELECT count(*) FROM candidates WHERE time IS NULL AND {which}")
        (num_fractions,) = tables.one(f"SELECT count(*) {kept} AND time <> date_trunc('second', time)")
        if num_timeless or num_fractions:
            raise ValueError(
                f"`{field}` must have seeds whose times are whole seconds, as those of tables are; got "
                f"{num_timeless:,} without a time and {num_fractions:,} with fractions. Round them down."
            )
    group = "id, time" if found.recommended is None else "id, time, label"
    repeated = tables.connection.execute(
        f"SELECT CAST(id AS VARCHAR), time, count(*) {kept} GROUP BY {group} HAVING count(*) > 1 ORDER BY {group} "
        "LIMIT 1"
    ).fetchall()
    for entity, time, number in repeated:
        raise ValueError(
            f"`{field}` must have each pair of an entity and a time once; got {entity!r} at {time} {number} times. "
            "Aggregate the rows, or remove what is repeated."
        )
    if found.label_kind == "number":
        (num_broken,) = tables.one(f"SELECT count(*) {kept} AND NOT isfinite(label)")
        if num_broken:
            raise ValueError(
                f"`{field}` must give finite labels; got {num_broken:,} that are NaN or infinite. Clean the column, or "
                "leave such rows out by a condition."
            )


def _report(tables: TaskTables, found: Candidates, description: SeedTableDescription) -> SeedTableReport:
    (num_times,) = tables.one("SELECT count(DISTINCT time) FROM candidates")
    (num_labels,) = tables.one("SELECT count(DISTINCT label) FROM candidates WHERE dropped = '' AND split = 'train'")
    few = found.has_anchors and 0 < num_times <= _MOST_ANCHORS_SHOWN
    return SeedTableReport(
        description=description,
        splits=tuple(_statistics(tables, found, "NULL")),
        anchors=tuple(_statistics(tables, found, "time")) if few else (),
        num_training_labels=num_labels,
        has_own_times=bool(description.task.predict) and found.has_times and not found.has_anchors,
        incomplete_anchors=tuple(map(str, found.incomplete)),
        remarks=(*tables.remarks, *found.remarks, *_remarks(found, num_labels), *_remarks_of_targets(tables, found)),
        statements=(*tables.statements, *found.statements, found.query),
    )


def _statistics(tables: TaskTables, found: Candidates, time: str) -> Iterator[AnchorStatistics]:
    kept = "FILTER (WHERE dropped = '')"
    # In one order, so that it does not depend on the number of threads.
    mean = "NULL" if found.label_kind == "text" else f"avg(CAST(label AS DOUBLE) ORDER BY label) {kept}"
    rows = tables.connection.execute(
        f"SELECT split, {time} AS at, count(*), count(*) {kept}, {mean}, "
        "histogram(dropped) FILTER (WHERE dropped <> '') FROM candidates GROUP BY ALL"
    ).fetchall()
    order = {split: number for number, split in enumerate(SPLITS)}
    for split, at, num_candidates, num_seeds, mean_label, dropped in sorted(
        rows, key=lambda row: (order[row[0]], str(row[1]))
    ):
        yield AnchorStatistics(
            split=split,
            time="" if at is None else str(at),
            num_candidates=num_candidates,
            num_seeds=num_seeds,
            dropped=dict(sorted((dropped or {}).items())),
            mean_label=mean_label,
        )


def _remarks(found: Candidates, num_labels: int) -> Iterator[str]:
    if found.incomplete:
        times = f"{found.incomplete[0]}{f' to {found.incomplete[-1]}' if found.incomplete[1:] else ''}"
        yield (
            f"Anchors that are left out, because their windows end after the data: {len(found.incomplete)}, {times}. "
            "If the tables are complete until later than their last row, say so by `anchors.complete_until`."
        )
    if num_labels == 1:
        yield "All labels of the training split are equal: nothing can be learned from them."


def _remarks_of_targets(tables: TaskTables, found: Candidates) -> Iterator[str]:
    """Says how many true answers there are among how many: where they are many, negatives are often true ones."""
    if found.recommended is None:
        return
    node_set = found.recommended.node_set
    num_true, num_asked = tables.one("SELECT count(*), count(DISTINCT (id, time)) FROM candidates WHERE dropped = ''")
    (num_targets,) = tables.one(f"SELECT count(*) FROM {tables.tables[node_set].view}")
    yield (
        f"Recommended are {node_set}: where any is right, {num_true / max(num_asked, 1):.2f} of {num_targets:,} are on "
        "average. Those that an entity had before may be right again."
    )


def _check_splits(task: PredictionTask, report: SeedTableReport) -> None:
    counts = {split.split: split.num_seeds for split in report.splits}
    needed = SPLITS if task.predict or task.anchors else tuple(counts)
    empty = [split for split in needed if not counts.get(split)]
    if empty:
        dropped: dict[str, int] = {}
        for split in report.splits:
            for reason, number in split.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + number
        advice = "change `where`" if task.predict else f"correct the rows of `{task.source}`"
        raise ValueError(
            f"The task must leave every split a seed; got none in {empty}, seeds by split {counts}, dropped by reason "
            f"{dropped}. Move the anchors, or {advice}."
        )


def _write(tables: TaskTables, report: SeedTableReport, path: str) -> None:
    columns = report.description
    of_entity = _id_type(tables, columns.task.for_each)
    selected: dict[str, tuple[str, pa.DataType]] = {columns.entity_end: ("id", of_entity)}
    if columns.recommended is None:
        selected[columns.label] = "label", _LABEL_TYPES[columns.label_kind]
    else:
        selected[columns.recommended.end] = "label", _id_type(tables, columns.recommended.node_set)
    selected[columns.split] = ("split", pa.string())
    if columns.time:
        selected[columns.time] = ("time", pa.timestamp("s"))
    reader = tables.connection.sql(
        f"SELECT {', '.join(f'{column} AS {name}' for name, (column, _) in selected.items())} FROM candidates "
        "WHERE dropped = '' ORDER BY candidates.time, candidates.id, candidates.label"
    ).to_arrow_reader(_BATCH_ROWS)
    fields = [pa.field(name, dtype) for name, (_, dtype) in selected.items()]
    schema = pa.schema(fields, metadata=columns.metadata())
    folder, name = os.path.split(path)
    writing = os.path.join(folder, f".{name}.writing")
    with pq.ParquetWriter(writing, schema) as writer:
        for batch in reader:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    _replace(writing, path)
    statistics = os.path.join(folder, f".{name}.statistics.writing")
    with open(statistics, "w", encoding="utf-8") as file:
        json.dump(_as_json(report), file, indent=2)
    _replace(statistics, f"{path.removesuffix('.parquet')}.json")


def _id_type(tables: TaskTables, node_set: str) -> pa.DataType:
    ids = tables.connection.sql(f"SELECT {quoted(ID_FEATURE)} FROM {tables.tables[node_set].view} LIMIT 0")
    return pa.int64() if pa.types.is_integer(ids.to_arrow_table().schema.field(0).type) else pa.string()


def _replace(writing: str, path: str) -> None:
    """Puts a file in its place; one with the same bytes keeps its time, by which later steps know it."""
    if os.path.isfile(path) and filecmp.cmp(writing, path, shallow=False):
        os.remove(writing)
    else:
        os.replace(writing, path)


def _as_json(report: SeedTableReport) -> dict[str, Any]:
    return {**dataclasses.asdict(report), "num_seeds": report.num_seeds}
