"""Steps that put the rows of nodes in place of their ids at the ends of edges."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.beam.graph_index import exchange
from tfx_gnn.sampling.beam.graph_index.node_steps import CODE, REQUESTED, ROW, node_range
from tfx_gnn.sampling.beam.graph_index.steps import BuildJob, BuildState, RowGroup, Step, TableState
from tfx_gnn.sampling.index.build import DANGLING, describe_dangling
from tfx_gnn.sampling.index.files import DIRECTIONS
from tfx_gnn.sampling.index.node_lookup import make_lookup
from tfx_gnn.sampling.random_choice import edge_hash, mix
from tfx_gnn.tables.row_rules import RowProblem, refusal
from tfx_gnn.tables.table_files import no_records
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

POSITION, PAIR, TIME = "#table/position", "#table/pair", "#table/time"
"""Columns of temporary files: positions of edges in their group, and what tells edges apart."""
ENDS_OF_DIRECTION = {"forward": (SOURCE_KEY, TARGET_KEY), "backward": (TARGET_KEY, SOURCE_KEY)}
"""The keys of the ends where edges start and end, by direction."""

_Integers = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AnswerTask:
    position: int
    key: str
    nodes: int
    part: int
    first_row: int
    num_groups: int


class FindEnds(Step):
    """Finds the rows of the ids that groups of edges ask a range of nodes for."""

    kinds = ("edge",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_AnswerTask]:
        """Yields the ranges of nodes at each end."""
        for key, nodes in state.ends(job, table).items():
            for part in range(nodes.num_parts):
                yield _AnswerTask(
                    position=table.position,
                    key=key,
                    nodes=nodes.position,
                    part=part,
                    first_row=int(nodes.part_starts[part]),
                    num_groups=len(table.groups),
                )

    def run(self, job: BuildJob, task: _AnswerTask) -> None:
        """Answers all groups, each in one batch: the row of each id, or -1."""
        nodes = node_range(job, task.nodes, task.part)
        lookup = make_lookup(
            nodes.column(ID_FEATURE), exchange.numbers(nodes, CODE).astype(np.uint64), job.layouts[task.nodes].label
        )

        def answer(number: int) -> pa.RecordBatch:
            requests = exchange.read_part(job.path("requests", task.position, task.key, number), task.part)
            rows = lookup.find(requests.column(REQUESTED))
            return pa.RecordBatch.from_pydict({ROW: np.where(rows < 0, -1, rows + task.first_row)})

        schema = pa.schema([(ROW, pa.int64())])
        path = job.path("answers", task.position, task.key, task.part)
        exchange.write_batches(path, schema, map(answer, range(task.num_groups)))

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[None]) -> None:
        """Adds nothing: the files are all there is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _GroupTask:
    """A group of edges, the number of parts that pairs of ends are divided into, and what is known of both ends."""

    position: int
    number: int
    group: RowGroup
    unit_start: int
    num_parts: int
    num_targets: int
    splitters: Mapping[str, pa.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Dangling:
    """Edges of one block without a node at an end."""

    block: int
    key: str
    count: int
    first: RowProblem


@dataclasses.dataclass(frozen=True, kw_only=True)
class _JoinedEdges:
    """Dangling edges of a group, and by direction the starts and hashes of a sample of the others."""

    unit: int
    dangling: Sequence[_Dangling]
    problem_files: Sequence[str]
    samples: Mapping[str, tuple[_Integers, _Hashes]]


class JoinEnds(Step):
    """Puts the rows of nodes in place of their ids, drops dangling edges, and divides the pairs of ends by hash."""

    kinds = ("edge",)

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_GroupTask]:
        """Yields the groups of edges."""
        ends = state.ends(job, table)
        for number, group in enumerate(table.groups):
            yield _GroupTask(
                position=table.position,
                number=number,
                group=group,
                unit_start=int(table.unit_starts[group.unit]),
                num_parts=num_pair_parts(job, table),
                num_targets=max(ends[TARGET_KEY].num_rows, 1),
                splitters={key: nodes.splitters for key, nodes in ends.items() if nodes.splitters is not None},
            )

    def run(self, job: BuildJob, task: _GroupTask) -> _JoinedEdges:
        """Joins the edges of a group."""
        time = job.edge_times.get(job.layouts[task.position].name, "")
        columns = [SOURCE_KEY, TARGET_KEY, ROW, *([time] if time else [])]
        batches = list(exchange.read_batches(task.group.path, columns))
        edges = exchange.join_batches(batches)
        found = {key: self._find(job, task, key, edges.column(key)) for key in DANGLING}
        is_used, dangling, problems = self._check(job, task, batches, edges, found)
        used = np.flatnonzero(is_used)
        rows = exchange.numbers(edges, ROW)[used] + task.unit_start
        joined = {POSITION: used, ROW: rows, **{key: of_end[used] for key, of_end in found.items()}}
        exchange.write_rows(job.path("ends", task.position, task.number), pa.RecordBatch.from_pydict(joined))
        pairs = {PAIR: joined[SOURCE_KEY] * task.num_targets + joined[TARGET_KEY], ROW: rows}
        if time:
            pairs[TIME] = exchange.numbers(edges, time)[used].astype(np.int64)
        parts = (mix(pairs[PAIR].astype(np.uint64)) % np.uint64(task.num_parts)).astype(np.int64)
        order = np.argsort(parts, kind="stable")
        exchange.write_parts(
            job.path("pairs", task.position, task.number),
            pa.RecordBatch.from_pydict(pairs).take(pa.array(order)),
            np.searchsorted(parts[order], np.arange(task.num_parts + 1)).tolist(),
        )
        chosen = np.random.default_rng(task.number).choice(len(rows), job.sample_size(len(rows)), replace=False)
        return _JoinedEdges(
            unit=task.group.unit,
            dangling=dangling,
            problem_files=exchange.write_problems(job.path("dangling", task.position, task.number), problems),
            samples={
                direction: (joined[start][chosen], edge_hash(rows[chosen]))
                for direction, (start, _) in ENDS_OF_DIRECTION.items()
            },
        )

    def _find(self, job: BuildJob, task: _GroupTask, key: str, ids: pa.Array) -> _Integers:
        splitters = task.splitters[key]
        _, places, _ = exchange.split_distinct(ids, splitters)
        answers = [
            exchange.numbers(exchange.read_part(job.path("answers", task.position, key, part), task.number), ROW)
            for part in range(len(splitters) + 1)
        ]
        rows: _Integers = np.concatenate(answers)[places]
        return rows

    def _check(
        self,
        job: BuildJob,
        task: _GroupTask,
        batches: Sequence[pa.RecordBatch],
        edges: pa.RecordBatch,
        found: Mapping[str, _Integers],
    ) -> tuple[npt.NDArray[np.bool_], list[_Dangling], list[RowProblem]]:
        layout = job.layouts[task.position]
        is_used = np.ones(edges.num_rows, np.bool_)
        dangling: list[_Dangling] = []
        problems: list[RowProblem] = []
        first = 0
        for block, batch in zip(task.group.blocks, batches, strict=True):
            here = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            for key in DANGLING:
                missing = here[(found[key][here] < 0) & is_used[here]]
                is_used[missing] = False
                if not len(missing):
                    continue
                refuses = job.rules.dangling_edges == "refuse"
                shown = missing[:1] if refuses else missing
                node_set = job.ends[layout.name][key]
                of_key = describe_dangling(
                    layout,
                    job.units[task.position][task.group.unit],
                    key,
                    rows=exchange.numbers(edges, ROW)[shown],
                    ids=edges.column(key).take(pa.array(shown)),
                    node_set=node_set,
                    node_file=job.node_layout(node_set).declared_as,
                )
                dangling.append(_Dangling(block=block, key=key, count=len(missing), first=of_key[0]))
                problems += [] if refuses else of_key
        return is_used, dangling, problems

    def gather(self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[_JoinedEdges]) -> None:
        """Counts dangling edges or refuses them, and divides the edges of each direction into about equal parts."""
        # Rows of a block may be in several groups; a build in memory checks all its sources before its targets.
        found = sorted(
            (
                (result.unit, one.block, list(DANGLING).index(one.key), one)
                for result in results
                for one in result.dangling
            ),
            key=lambda one: one[:3],
        )
        dangling = [one for *_, one in found]
        if job.rules.dangling_edges == "refuse":
            _refuse_dangling(dangling)
        if table.report.rows_read:
            for nodes in state.ends(job, table).values():
                if not nodes.report.rows_read:
                    raise no_records(job.layouts[nodes.position])
        dropped = collections.Counter(table.report.dropped)
        for one in dangling:
            dropped[DANGLING[one.key]] += one.count
            table.note_problems([], one.first.dropped_message)
        for result in results:
            table.note_problems(result.problem_files, "")
        num_used = table.report.rows_read - dropped.total()
        table.report = dataclasses.replace(table.report, rows_used=num_used, dropped=dict(dropped))
        for direction in DIRECTIONS:
            sample = [result.samples[direction] for result in results]
            table.edge_splitters[direction] = _choose_edge_splitters(sample, job.num_parts(num_used))


def _refuse_dangling(dangling: Sequence[_Dangling]) -> None:
    """Raises an error for edges without a source, or else for those without a target."""
    for key in DANGLING:
        of_key = [one for one in dangling if one.key == key]
        if of_key:
            raise refusal(of_key[0].first, sum(one.count for one in of_key))


def _choose_edge_splitters(sample: Sequence[tuple[_Integers, _Hashes]], num_parts: int) -> tuple[_Integers, _Hashes]:
    """Returns ascending starts and hashes that divide a sample of edges into about equal parts."""
    starts = np.concatenate([np.zeros(0, np.int64), *(starts for starts, _ in sample)])
    hashes = np.concatenate([np.zeros(0, np.uint64), *(hashes for _, hashes in sample)])
    order = np.lexsort((hashes, starts))
    at = order[np.arange(1, num_parts if len(order) else 1) * len(order) // num_parts]
    return starts[at], hashes[at]


def num_pair_parts(job: BuildJob, table: TableState) -> int:
    """Returns into how many parts the pairs of ends are divided."""
    # The same before and after dangling edges are dropped.
    return job.num_parts(sum(group.num_rows for group in table.groups))
