"""The state of a build, and the pipeline that runs its steps one after the other.

A step divides its work on each table into tasks, which workers run in any order, and then gathers their small results
into the state; rows go through files (see `exchange`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.sampling.beam.messages import pack, unpack
from tfx_gnn.sampling.index.column_files import FileRecord
from tfx_gnn.tables.row_rules import RowRules, TableReport
from tfx_gnn.tables.table_files import TableUnit
from tfx_gnn.tables.table_layout import TableLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One index to build. It is sent to every worker.

    Attributes:
        folder: where to write the files of the index.
        scratch: folder in it for temporary files.
        layouts: the tables: node sets, edge sets, context.
        units: the units of each table, up to the first one that cannot be read.
        ends: by name of the edge set, the node sets at its ends by key.
        rules: what to do with rows that break a rule.
        edge_times: see `read_tables`.
        group_rows: most rows of a table that are handled at once.
        group_bytes: about how many bytes of rows are handled at once.
        part_rows: about how many nodes or edges are sorted at once.
    """

    folder: str
    scratch: str
    layouts: tuple[TableLayout, ...]
    units: tuple[tuple[TableUnit, ...], ...]
    ends: Mapping[str, Mapping[str, str]]
    rules: RowRules
    edge_times: Mapping[str, str]
    group_rows: int = 1 << 19
    group_bytes: int = 1 << 26
    part_rows: int = 1 << 20

    def path(self, kind: str, table: int, *numbers: int | str) -> str:
        """Names a temporary file."""
        return "/".join((self.scratch, ".".join(map(str, (kind, table, *numbers)))))

    def node_layout(self, name: str) -> TableLayout:
        """Returns the layout of a node set."""
        return next(layout for layout in self.layouts if (layout.kind, layout.name) == ("node", name))

    def num_parts(self, num_rows: int, num_bytes: int = 0) -> int:
        """Returns into how many parts rows are divided to be sorted."""
        return max(-(-num_rows // self.part_rows), -(-num_bytes // (2 * self.group_bytes)), 1)

    def sample_size(self, num_rows: int) -> int:
        """Returns how many of some rows are looked at to divide all of them: about 64 for each part."""
        return min(num_rows, 1 + 64 * num_rows // self.part_rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows of one unit of a table in a temporary file, some of each block in a batch.

    Attributes:
        path: the file; its columns are those of the table and the row in the unit.
        unit: `TableUnit.index`.
        first_row: first row in the unit.
        num_rows: number of rows.
        num_bytes: size of the rows in memory.
        blocks: number in the unit of the block of each batch.
    """

    path: str
    unit: int
    first_row: int
    num_rows: int
    num_bytes: int
    blocks: tuple[int, ...]


@dataclasses.dataclass(kw_only=True)
class TableState:
    """What is known of a table so far.

    Attributes:
        position: of its layout.
        report: counts of its rows so far.
        unit_starts: row of the table at which each unit begins, and the number of rows.
        groups: the rows that can be used by themselves.
        problem_files: files of rows that were dropped.
        first_problem: message about the first of them.
        splitters: of a node table, where the parts of its ids begin.
        part_starts: of a node table, the row at which each part begins, and the number of nodes.
        edge_splitters: of an edge table, by direction, starts and hashes at which the parts of its edges begin.
        edge_part_starts: of an edge table, by direction, the edges before each part, and the number of edges.
        num_kept: of an edge table, the used rows of each group.
        row_bound: of an edge table, the last row that is used, plus one.
    """

    position: int
    report: TableReport
    unit_starts: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64))
    groups: list[RowGroup] = dataclasses.field(default_factory=list)
    problem_files: list[str] = dataclasses.field(default_factory=list)
    first_problem: str = ""
    splitters: pa.Array | None = None
    part_starts: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64))
    edge_splitters: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]] = dataclasses.field(
        default_factory=dict
    )
    edge_part_starts: dict[str, npt.NDArray[np.int64]] = dataclasses.field(default_factory=dict)
    num_kept: list[int] = dataclasses.field(default_factory=list)
    row_bound: int = 0

    @property
    def num_parts(self) -> int:
        """Number of parts of a node table."""
        return 1 + len(self.splitters if self.splitters is not None else ())

    @property
    def num_rows(self) -> int:
        """Number of nodes or edges in the index."""
        return self.report.rows_used

    @property
    def has_gaps(self) -> bool:
        """Whether rows of an edge table were dropped."""
        return self.report.rows_used < self.report.rows_read

    def first_row(self, group: RowGroup) -> int:
        """Returns the row of the table at which a group begins, counting every record."""
        return int(self.unit_starts[group.unit]) + group.first_row

    def note_problems(self, paths: Iterable[str], first: str) -> None:
        """Adds rows that were dropped."""
        self.problem_files += paths
        self.first_problem = self.first_problem or first


@dataclasses.dataclass(kw_only=True)
class BuildState:
    """What is known so far.

    Attributes:
        tables: the tables, up to the first one that is refused: no later one can change the error.
        error: why it is refused; "" if none is.
        files: the files of the index that were written.
    """

    tables: list[TableState] = dataclasses.field(default_factory=list)
    error: str = ""
    files: dict[str, FileRecord] = dataclasses.field(default_factory=dict)

    def refuse(self, position: int, error: ValueError) -> None:
        """Notes that a table is refused; those before it go on."""
        self.tables, self.error = self.tables[:position], str(error)

    def nodes(self, job: BuildJob, name: str) -> TableState:
        """Returns a node table; those at the ends of a table's edges come before it."""
        layout = job.node_layout(name)
        return next(table for table in self.tables if job.layouts[table.position] is layout)

    def ends(self, job: BuildJob, table: TableState) -> dict[str, TableState]:
        """Returns the node tables at the ends of an edge table, by key."""
        return {key: self.nodes(job, name) for key, name in job.ends[job.layouts[table.position].name].items()}


class Step:
    """One step of a build.

    Attributes:
        kinds: kinds of the tables that it works on.
    """

    kinds: tuple[str, ...] = ()

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterable[Any]:
        """Divides the work on one table; a task says all that a worker must know besides the job."""
        raise NotImplementedError

    def run(self, job: BuildJob, task: Any) -> Any:
        """Does a task, on a worker, and returns what `gather` needs of it."""
        raise NotImplementedError

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[Any]) -> None:
        """Adds the results of a table's tasks, in their order, to the state; a ValueError refuses the table."""
        raise NotImplementedError


def add_steps(pipeline: beam.Pipeline, job: BuildJob, state: BuildState, steps: Sequence[Step], path: str) -> None:
    """Adds the steps of a build to an empty pipeline; `read_state` reads the state at the end."""
    states: Any = pipeline | "Begin" >> beam.Create([pack(state)])
    for step in steps:
        name = type(step).__name__
        results = (
            states
            | f"{name}: divide" >> beam.FlatMap(_divide, job, step)
            | f"{name}: spread" >> beam.Reshuffle()
            | f"{name}: run" >> beam.Map(_run, job, step)
        )
        known = states | f"{name}: keep" >> beam.Map(lambda packed: ("", packed))
        states = (
            (known, results)
            | f"{name}: join" >> beam.Flatten()
            | f"{name}: group" >> beam.GroupByKey()
            | f"{name}: gather" >> beam.Map(_gather, job, step)
        )
    _ = states | "End" >> beam.Map(_write_state, path)


def read_state(path: str) -> BuildState:
    """Reads the state at the end of the pipeline."""
    with tf.io.gfile.GFile(path, "rb") as file:
        state: BuildState = unpack(file.read())
    return state


def _divide(packed: bytes, job: BuildJob, step: Step) -> Iterator[bytes]:
    state: BuildState = unpack(packed)
    for table in state.tables:
        if job.layouts[table.position].kind in step.kinds:
            for number, task in enumerate(step.tasks(job, state, table)):
                yield pack((table.position, number, task))


def _run(packed: bytes, job: BuildJob, step: Step) -> tuple[str, bytes]:
    position, number, task = unpack(packed)
    return "", pack((position, number, step.run(job, task)))


def _gather(group: tuple[str, Iterable[bytes]], job: BuildJob, step: Step) -> bytes:
    state = BuildState()
    results: dict[int, list[tuple[int, Any]]] = {}
    for packed in group[1]:
        found = unpack(packed)
        if isinstance(found, BuildState):
            state = found
        else:
            results.setdefault(found[0], []).append(found[1:])
    for table in state.tables:
        if job.layouts[table.position].kind in step.kinds:
            in_order = sorted(results.get(table.position, ()), key=lambda numbered: numbered[0])
            try:
                step.gather(job, state, table, [result for _, result in in_order])
            except ValueError as error:
                state.refuse(table.position, error)
                break
    return pack(state)


def _write_state(packed: bytes, path: str) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(packed)
