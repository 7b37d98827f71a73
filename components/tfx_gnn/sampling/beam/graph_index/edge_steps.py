"""Steps that find repeated edges, and sort edges by node."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.graph_index import exchange
from tfx_gnn.sampling.beam.graph_index.join_steps import ENDS_OF_DIRECTION, PAIR, POSITION, TIME, num_pair_parts
from tfx_gnn.sampling.beam.graph_index.node_steps import ROW
from tfx_gnn.sampling.beam.graph_index.steps import BuildJob, BuildState, RowGroup, Step, TableState
from tfx_gnn.sampling.index.external_sort import adjacency_order, find_repeats
from tfx_gnn.sampling.index.files import DIRECTIONS
from tfx_gnn.sampling.random_choice import edge_hash
from tfx_gnn.tables.row_rules import DUPLICATE_EDGE, RowProblem, check_used_edges, duplicate_edge_problem, refusal
from tfx_gnn.tables.table_format import table_format
from tfx_gnn.tables.table_layout import SOURCE_KEY, TARGET_KEY

OFFSET = "#table/offset"
"""Column of temporary files: where the edges of nodes begin in their part."""

_Integers = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RepeatsTask:
    position: int
    part: int
    group_starts: _Integers


class FindRepeats(Step):
    """Finds edges with the ends (and time) of an earlier one, in each range of hashes of pairs."""

    kinds = ("edge",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_RepeatsTask]:
        """Yields the ranges of hashes."""
        starts = np.array([table.first_row(group) for group in table.groups], np.int64)
        for part in range(num_pair_parts(job, table)):
            yield _RepeatsTask(position=table.position, part=part, group_starts=starts)

    def run(self, job: BuildJob, task: _RepeatsTask) -> int:
        """Writes the rows of repeated edges, those of each group in one batch, and returns their number."""
        num_groups = len(task.group_starts)
        if not num_groups:
            return 0
        paths = (job.path("pairs", task.position, number) for number in range(num_groups))
        edges = exchange.join_batches(exchange.read_part(path, task.part) for path in paths)
        times = exchange.numbers(edges, TIME) if TIME in edges.schema.names else None
        again = np.sort(exchange.numbers(edges, ROW)[find_repeats(exchange.numbers(edges, PAIR), times)])
        if job.rules.duplicate_edges != "keep":
            bounds = [*np.searchsorted(again, task.group_starts).tolist(), len(again)]
            rows = pa.RecordBatch.from_pydict({ROW: again})
            exchange.write_parts(job.path("again", task.position, task.part), rows, bounds)
        return len(again)

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[int]) -> None:
        """Counts repeated edges."""
        table.report = dataclasses.replace(table.report, duplicate_edges=sum(results))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DropTask:
    position: int
    number: int
    group: RowGroup
    unit_start: int
    num_parts: int
    is_one_set: bool
    splitters: Mapping[str, tuple[_Integers, _Hashes]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _KeptEdges:
    num_kept: int
    row_bound: int
    self_loops: int
    num_again: int
    first_again: RowProblem | None
    problem_files: Sequence[str]


class DropRepeats(Step):
    """Drops or refuses repeated edges, and divides the others by the parts of both directions."""

    kinds = ("edge",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_DropTask]:
        """Yields the groups of edges."""
        names = job.ends[job.layouts[table.position].name]
        for number, group in enumerate(table.groups):
            yield _DropTask(
                position=table.position,
                number=number,
                group=group,
                unit_start=int(table.unit_starts[group.unit]),
                num_parts=num_pair_parts(job, table),
                is_one_set=names[SOURCE_KEY] == names[TARGET_KEY],
                splitters=table.edge_splitters,
            )

    def run(self, job: BuildJob, task: _DropTask) -> _KeptEdges:
        """Writes the edges that are kept."""
        edges = exchange.join_batches(exchange.read_batches(job.path("ends", task.position, task.number)))
        again = np.zeros(0, np.int64)
        if job.rules.duplicate_edges != "keep":
            parts = (job.path("again", task.position, part) for part in range(task.num_parts))
            found = [exchange.numbers(exchange.read_part(path, task.number), ROW) for path in parts]
            again = np.searchsorted(exchange.numbers(edges, ROW), np.sort(np.concatenate(found)))
        problems = self._describe(job, task, edges, again)
        kept = edges.take(pa.array(np.delete(np.arange(edges.num_rows), again)))
        exchange.write_rows(job.path("kept", task.position, task.number), kept)
        rows = exchange.numbers(kept, ROW)
        hashes = edge_hash(rows)
        for direction, (start, end) in ENDS_OF_DIRECTION.items():
            starts = exchange.numbers(kept, start)
            order = adjacency_order(starts.astype(np.uint64), hashes)
            by_node = pa.RecordBatch.from_pydict({start: starts, end: exchange.numbers(kept, end), ROW: rows})
            exchange.write_parts(
                job.path("edges", task.position, direction, task.number),
                by_node.take(pa.array(order)),
                _bounds(starts[order], hashes[order], task.splitters[direction]),
            )
        loops = int((exchange.numbers(kept, SOURCE_KEY) == exchange.numbers(kept, TARGET_KEY)).sum())
        return _KeptEdges(
            num_kept=kept.num_rows,
            row_bound=int(rows[-1]) + 1 if len(rows) else 0,
            self_loops=loops if task.is_one_set else 0,
            num_again=len(again),
            first_again=problems[0] if problems else None,
            problem_files=exchange.write_problems(job.path("doubles", task.position, task.number), problems),
        )

    def _describe(self, job: BuildJob, task: _DropTask, edges: pa.RecordBatch, again: _Integers) -> list[RowProblem]:
        if not len(again):
            return []
        layout = job.layouts[task.position]
        shown = edges.take(pa.array(again[:1] if job.rules.duplicate_edges == "refuse" else again))
        time = job.edge_times.get(layout.name, "")
        keys = [SOURCE_KEY, TARGET_KEY, *([time] if time else [])]
        given = exchange.join_batches(exchange.read_batches(task.group.path, keys))
        values = given.take(shown.column(POSITION))
        reader, unit = table_format(layout), job.units[task.position][task.group.unit]
        in_unit = (exchange.numbers(shown, ROW) - task.unit_start).tolist()
        numbers = reader.locate(unit.path, unit.part, in_unit)
        columns = [values.column(key).to_pylist() for key in keys]
        return [
            duplicate_edge_problem(
                table=layout.label, file=unit.path, row=number, row_word=reader.row_word, value=value
            )
            for number, value in zip(numbers, zip(*columns, strict=True), strict=True)
        ]

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[_KeptEdges]) -> None:
        """Counts the edges of each group, and refuses the table if the rules do."""
        num_again = sum(result.num_again for result in results)
        dropped = dict(table.report.dropped)
        if num_again:
            first = next(result.first_again for result in results if result.first_again is not None)
            if job.rules.duplicate_edges == "refuse":
                raise refusal(first, num_again)
            dropped[DUPLICATE_EDGE] = num_again
            table.note_problems((path for result in results for path in result.problem_files), first.dropped_message)
        table.num_kept = [result.num_kept for result in results]
        table.row_bound = max((result.row_bound for result in results), default=0)
        table.report = dataclasses.replace(
            table.report,
            rows_used=sum(table.num_kept),
            dropped=dropped,
            self_loops=sum(result.self_loops for result in results),
        )
        check_used_edges(table.report, job.rules, table.first_problem)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SortTask:
    """A part of the edges of a direction, and the nodes whose edges begin in it."""

    position: int
    direction: str
    part: int
    num_groups: int
    first_node: int
    last_node: int


class SortEdges(Step):
    """Sorts the edges of each part by (start, hash), and counts how many are before those of each node."""

    kinds = ("edge",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_SortTask]:
        """Yields the parts of both directions."""
        ends = state.ends(job, table)
        for direction in DIRECTIONS:
            starts, hashes = table.edge_splitters[direction]
            # A node whose edges begin before a splitter that it has itself begins in the part before.
            bounds = [0, *(starts + (hashes > 0)).tolist(), ends[ENDS_OF_DIRECTION[direction][0]].num_rows + 1]
            for part, (first, last) in enumerate(itertools.pairwise(bounds)):
                yield _SortTask(
                    position=table.position,
                    direction=direction,
                    part=part,
                    num_groups=len(table.groups),
                    first_node=first,
                    last_node=last,
                )

    def run(self, job: BuildJob, task: _SortTask) -> tuple[str, int]:
        """Sorts a part; returns its direction and number of edges."""
        start, end = ENDS_OF_DIRECTION[task.direction]
        schema = pa.schema([(start, pa.int64()), (end, pa.int64()), (ROW, pa.int64())])
        paths = (job.path("edges", task.position, task.direction, number) for number in range(task.num_groups))
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        edges = exchange.join_batches([empty, *(exchange.read_part(path, task.part) for path in paths)])
        order = adjacency_order(
            exchange.numbers(edges, start).astype(np.uint64), edge_hash(exchange.numbers(edges, ROW))
        )
        edges = edges.take(pa.array(order))
        exchange.write_rows(job.path("sorted", task.position, task.direction, task.part), edges)
        starts = exchange.numbers(edges, start)

        def offsets() -> Iterator[pa.RecordBatch]:
            for first in range(task.first_node, task.last_node, job.group_rows):
                nodes = np.arange(first, min(first + job.group_rows, task.last_node))
                yield pa.RecordBatch.from_pydict({OFFSET: np.searchsorted(starts, nodes)})

        path = job.path("offsets", task.position, task.direction, task.part)
        exchange.write_batches(path, pa.schema([(OFFSET, pa.int64())]), offsets())
        return task.direction, edges.num_rows

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[tuple[str, int]]) -> None:
        """Counts the edges before each part."""
        for direction in DIRECTIONS:
            sizes = [size for of_direction, size in results if of_direction == direction]
            table.edge_part_starts[direction] = np.cumsum([0, *sizes])


def _bounds(starts: _Integers, hashes: _Hashes, splitters: tuple[_Integers, _Hashes]) -> list[int]:
    """Returns where the parts of edges that ascend by (start, hash) begin, and the number of edges."""
    bounds = [0]
    for start, code in zip(*splitters, strict=True):
        first, last = np.searchsorted(starts, start), np.searchsorted(starts, start, side="right")
        bounds.append(int(first + np.searchsorted(hashes[first:last], code)))
    return [*bounds, len(starts)]
