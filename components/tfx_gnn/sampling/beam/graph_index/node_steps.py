"""Steps that read tables, send ids to ranges of ids, and sort the nodes of each range."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.graph_index import exchange
from tfx_gnn.sampling.beam.graph_index.steps import BuildJob, BuildState, RowGroup, Step, TableState
from tfx_gnn.sampling.index.node_lookup import same_hash
from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.tables.graph_checks import check_nodes
from tfx_gnn.tables.graph_tables import check_context_rows
from tfx_gnn.tables.row_rules import RowProblem, TableReport, refusal
from tfx_gnn.tables.table_files import Table, TableUnit, count_scanned, read_unit
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

ROW, CODE, REQUESTED = "#table/row", "#table/code", "#table/requested"
"""Columns of temporary files: rows, the hashes of ids, and ids that are looked for."""

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadUnit:
    """What was read of one unit; `error` says why it is refused."""

    groups: tuple[RowGroup, ...] = ()
    sample: pa.Array | None = None
    num_read: int = 0
    num_used: int = 0
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    problem_files: Sequence[str] = ()
    first_problem: str = ""
    error: str = ""


class ReadRows(Step):
    """Reads units of tables, checks each row by itself, and writes the usable ones as groups of rows."""

    kinds = ("node", "edge", "context")

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[tuple[int, TableUnit]]:
        """Yields the units."""
        for unit in job.units[table.position]:
            yield table.position, unit

    def run(self, job: BuildJob, task: tuple[int, TableUnit]) -> _ReadUnit:
        """Reads a unit."""
        position, unit = task
        layout, groups = job.layouts[position], _GroupWriter(job, position, unit)
        num_read, num_used, problems = 0, 0, list[RowProblem]()
        try:
            for number, block in enumerate(read_unit(layout, unit, job.rules)):
                num_read += block.num_rows_read
                num_used += block.num_rows
                problems += block.problems
                # Blocks may name the items of lists differently.
                columns = {key: block.columns[key].cast(column.arrow_type) for key, column in layout.columns.items()}
                rows = pa.RecordBatch.from_pydict({**columns, ROW: block.rows})
                for first in range(0, block.num_rows, job.group_rows):
                    groups.add(rows.slice(first, job.group_rows), number)
        except ValueError as error:
            return _ReadUnit(error=str(error))
        groups.flush()
        return _ReadUnit(
            groups=tuple(groups.written),
            sample=groups.sample(),
            num_read=num_read,
            num_used=num_used,
            dropped=collections.Counter(problem.rule for problem in problems),
            problem_files=exchange.write_problems(job.path("invalid", position, unit.index), problems),
            first_problem=problems[0].message if problems else "",
        )

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[_ReadUnit]) -> None:
        """Counts the rows, and divides the ids of nodes into ranges of about equal numbers of nodes."""
        layout = job.layouts[table.position]
        dropped: collections.Counter[str] = collections.Counter()
        for result in results:
            if result.error:
                raise ValueError(result.error)
            table.groups += result.groups
            table.note_problems(result.problem_files, result.first_problem)
            dropped.update(result.dropped)
        table.unit_starts = np.cumsum([0, *(result.num_read for result in results)])
        table.report = count_scanned(
            layout,
            job.rules,
            num_read=int(table.unit_starts[-1]),
            num_used=sum(result.num_used for result in results),
            dropped=dropped,
            first_problem=table.first_problem,
        )
        if layout.kind == "context":
            check_context_rows(layout, table.report.rows_used)
        if layout.kind == "node":
            samples = [result.sample for result in results if result.sample is not None]
            num_bytes = sum(group.num_bytes for group in table.groups)
            table.splitters = exchange.choose_splitters(
                pa.concat_arrays([pa.array([], layout.columns[ID_FEATURE].arrow_type), *samples]),
                job.num_parts(table.report.rows_used, num_bytes) if samples else 1,
            )


class _GroupWriter:
    """Writes batches of rows of a unit as groups."""

    def __init__(self, job: BuildJob, position: int, unit: TableUnit) -> None:
        self._job = job
        self._position = position
        self._unit = unit
        self._batches: list[tuple[pa.RecordBatch, int]] = []
        self._num_rows = 0
        self._num_bytes = 0
        self._draw = np.random.default_rng(unit.index)
        self._samples: list[pa.Array] = []
        self.written: list[RowGroup] = []

    def add(self, rows: pa.RecordBatch, block: int) -> None:
        job = self._job
        if self._num_rows and (self._num_rows + rows.num_rows > job.group_rows or self._num_bytes > job.group_bytes):
            self.flush()
        self._batches.append((rows, block))
        self._num_rows += rows.num_rows
        self._num_bytes += rows.nbytes
        if job.layouts[self._position].kind == "node":
            chosen = self._draw.choice(rows.num_rows, job.sample_size(rows.num_rows), replace=False)
            self._samples.append(rows.column(ID_FEATURE).take(pa.array(chosen)))

    def flush(self) -> None:
        if not self._batches:
            return
        batches = [rows for rows, _ in self._batches]
        path = self._job.path("rows", self._position, self._unit.index, len(self.written))
        exchange.write_batches(path, batches[0].schema, batches)
        group = RowGroup(
            path=path,
            unit=self._unit.index,
            first_row=batches[0].column(ROW)[0].as_py(),
            num_rows=self._num_rows,
            num_bytes=self._num_bytes,
            blocks=tuple(block for _, block in self._batches),
        )
        self.written.append(group)
        self._batches, self._num_rows, self._num_bytes = [], 0, 0

    def sample(self) -> pa.Array | None:
        return pa.concat_arrays(self._samples) if self._samples else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RouteTask:
    position: int
    number: int
    group: RowGroup
    unit_start: int
    splitters: Mapping[str, pa.Array]


class RouteIds(Step):
    """Divides nodes by the range of their ids, and the distinct ids at each end of edges by the same ranges."""

    kinds = ("node", "edge")

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_RouteTask]:
        """Yields the groups of rows."""
        tables = {ID_FEATURE: table} if job.layouts[table.position].kind == "node" else state.ends(job, table)
        splitters = {key: of_ids.splitters for key, of_ids in tables.items() if of_ids.splitters is not None}
        for number, group in enumerate(table.groups):
            yield _RouteTask(
                position=table.position,
                number=number,
                group=group,
                unit_start=int(table.unit_starts[group.unit]),
                splitters=splitters,
            )

    def run(self, job: BuildJob, task: _RouteTask) -> None:
        """Divides a group."""
        if ID_FEATURE in task.splitters:
            rows = exchange.join_batches(exchange.read_batches(task.group.path))
            order, bounds = exchange.split_by_id(rows.column(ID_FEATURE), task.splitters[ID_FEATURE])
            rows = exchange.with_column(rows, ROW, exchange.numbers(rows, ROW) + task.unit_start)
            routed = job.path("routed", task.position, task.number)
            exchange.write_parts(routed, rows.take(pa.array(order)), bounds)
            return
        for key, splitters in task.splitters.items():
            ids = exchange.join_batches(exchange.read_batches(task.group.path, [key])).column(0)
            distinct, _, bounds = exchange.split_distinct(ids, splitters)
            requests = pa.RecordBatch.from_pydict({REQUESTED: distinct})
            exchange.write_parts(job.path("requests", task.position, key, task.number), requests, bounds)

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[None]) -> None:
        """Adds nothing: the files are all there is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _NodesTask:
    position: int
    part: int
    num_parts: int
    num_groups: int
    unit_starts: _Integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SortedNodes:
    """The number of nodes of a part, and its repeated ones: how many, and row and description of the first."""

    num_nodes: int
    num_again: int = 0
    first_row: int = 0
    first_problem: RowProblem | None = None
    problem_files: Sequence[str] = ()


class SortNodes(Step):
    """Sorts the nodes of each range of ids, finds repeated ids, and divides the hashes of texts by range of hashes."""

    kinds = ("node",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_NodesTask]:
        """Yields the ranges."""
        for part in range(table.num_parts):
            yield _NodesTask(
                position=table.position,
                part=part,
                num_parts=table.num_parts,
                num_groups=len(table.groups),
                unit_starts=table.unit_starts,
            )

    def run(self, job: BuildJob, task: _NodesTask) -> _SortedNodes:
        """Sorts the nodes of a range."""
        layout = job.layouts[task.position]
        routed = [job.path("routed", task.position, number) for number in range(task.num_groups)]
        if routed:
            rows = exchange.join_batches(exchange.read_part(path, task.part) for path in routed)
        else:
            rows = _no_rows(layout)
        rows = rows.take(pa.array(np.argsort(exchange.numbers(rows, ROW))))
        table = Table(
            layout=layout,
            columns={key: rows.column(key) for key in layout.columns},
            rows=exchange.numbers(rows, ROW),
            units=job.units[task.position],
            unit_starts=task.unit_starts,
            report=TableReport(table=layout.label, rows_read=rows.num_rows, rows_used=rows.num_rows),
            problems=(),
        )
        checked = check_nodes(table, dataclasses.replace(job.rules, duplicate_nodes="keep_first"))
        nodes = rows.take(pa.array(checked.positions))
        codes = hash_ids(nodes.column(ID_FEATURE))
        exchange.write_rows(job.path("nodes", task.position, task.part), exchange.with_column(nodes, CODE, codes))
        if pa.types.is_large_string(nodes.column(ID_FEATURE).type):
            # Multiplying keeps the order of the hashes.
            parts = ((codes >> np.uint64(32)) * np.uint64(task.num_parts) >> np.uint64(32)).astype(np.int64)
            order = np.argsort(parts, kind="stable")
            by_code = pa.RecordBatch.from_pydict({CODE: codes[order], ROW: order})
            bounds = np.searchsorted(parts[order], np.arange(task.num_parts + 1)).tolist()
            exchange.write_parts(job.path("codes", task.position, task.part), by_code, bounds)
        again = np.delete(table.rows, checked.positions)
        return _SortedNodes(
            num_nodes=len(checked.positions),
            num_again=len(again),
            first_row=int(again[0]) if len(again) else 0,
            first_problem=checked.problems[0] if checked.problems else None,
            problem_files=exchange.write_problems(job.path("repeated", task.position, task.part), checked.problems),
        )

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[_SortedNodes]) -> None:
        """Counts the nodes of each range, and refuses repeated ones if the rules do."""
        table.part_starts = np.cumsum([0, *(result.num_nodes for result in results)])
        num_again = sum(result.num_again for result in results)
        if not num_again:
            return
        repeated = [result for result in results if result.first_problem is not None]
        first = min(repeated, key=lambda result: result.first_row).first_problem
        assert first is not None
        if job.rules.duplicate_nodes == "refuse":
            raise refusal(first, num_again)
        for result in repeated:
            table.note_problems(result.problem_files, first.dropped_message)
        table.report = dataclasses.replace(
            table.report,
            rows_used=table.report.rows_used - num_again,
            dropped={**table.report.dropped, first.rule: num_again},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CodesTask:
    position: int
    part: int
    part_starts: _Integers


class SortCodes(Step):
    """Sorts the hashes of texts in each range of hashes, and finds two that are equal."""

    kinds = ("node",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_CodesTask]:
        """Yields the ranges of hashes, as many as there are ranges of ids."""
        if pa.types.is_large_string(job.layouts[table.position].columns[ID_FEATURE].arrow_type):
            for part in range(table.num_parts):
                yield _CodesTask(position=table.position, part=part, part_starts=table.part_starts)

    def run(self, job: BuildJob, task: _CodesTask) -> tuple[str, str] | None:
        """Sorts a range; returns two ids with the same hash, if there are any."""
        codes, rows = [], []
        for number, start in enumerate(task.part_starts[:-1].tolist()):
            part = exchange.read_part(job.path("codes", task.position, number), task.part)
            codes.append(exchange.numbers(part, CODE))
            rows.append(exchange.numbers(part, ROW) + start)
        order = np.argsort(np.concatenate(codes), kind="stable")
        in_order, of_nodes = np.concatenate(codes)[order], np.concatenate(rows)[order]
        lookup = pa.RecordBatch.from_pydict({CODE: in_order, ROW: of_nodes})
        exchange.write_rows(job.path("lookup", task.position, task.part), lookup)
        again = np.flatnonzero(in_order[1:] == in_order[:-1])
        if not len(again):
            return None
        one, other = (_id_of(job, task, int(of_nodes[again[0] + step])) for step in (0, 1))
        return one, other

    def gather(
        self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[tuple[str, str] | None]
    ) -> None:
        """Refuses two texts with one hash, which could not be told apart."""
        for found in results:
            if found:
                raise same_hash(job.layouts[table.position].label, *found)


def node_range(job: BuildJob, position: int, part: int) -> pa.RecordBatch:
    """Reads the ids and hashes of the nodes in a range, in the order of their rows."""
    return exchange.join_batches(exchange.read_batches(job.path("nodes", position, part), [ID_FEATURE, CODE]))


def _id_of(job: BuildJob, task: _CodesTask, row: int) -> str:
    part = int(np.searchsorted(task.part_starts, row, side="right")) - 1
    ids = node_range(job, task.position, part).column(ID_FEATURE)
    return str(ids[row - int(task.part_starts[part])].as_py())


def _no_rows(layout: TableLayout) -> pa.RecordBatch:
    columns = {key: pa.array([], column.arrow_type) for key, column in layout.columns.items()}
    return pa.RecordBatch.from_pydict({**columns, ROW: pa.array([], pa.int64())})
