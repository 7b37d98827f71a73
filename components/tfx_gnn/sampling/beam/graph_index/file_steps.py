"""The last step: puts the rows of all parts together as the files of the index, by the writers of a local build."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.sampling.beam.graph_index import exchange
from tfx_gnn.sampling.beam.graph_index.edge_steps import OFFSET
from tfx_gnn.sampling.beam.graph_index.join_steps import ENDS_OF_DIRECTION, POSITION
from tfx_gnn.sampling.beam.graph_index.node_steps import CODE, ROW
from tfx_gnn.sampling.beam.graph_index.steps import BuildJob, BuildState, Step, TableState
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.column_files import ColumnWriter, FileRecord, ValuesWriter
from tfx_gnn.sampling.index.external_sort import row_dtype
from tfx_gnn.sampling.index.files import DIRECTIONS
from tfx_gnn.sampling.index.index_writer import END_FILES
from tfx_gnn.tables.table_layout import ID_FEATURE


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FileTask:
    """The files of one column, or of one array.

    Attributes:
        place: first part of the names of the files, or the name of the file.
        dtype: Arrow type of a column, or NumPy type of an array.
        column: name of the column in the temporary files.
        paths: the temporary files, in order.
        added: what is added to the numbers of each of them; empty for nothing.
        kept: files of edges that are kept of each of them; empty for all rows.
    """

    place: str
    dtype: Any
    column: str
    paths: Sequence[str]
    added: Sequence[int] = ()
    kept: Sequence[str] = ()


class WriteFiles(Step):
    """Writes the files of the index, each from beginning to end by one worker, which holds one batch at a time."""

    kinds = ("node", "edge", "context")

    def tasks(self, job: BuildJob, state: BuildState, table: TableState) -> Iterator[_FileTask]:
        """Yields the files, in the order of a local build; none if a table is refused."""
        if state.error:
            return
        layout = job.layouts[table.position]
        groups = [group.path for group in table.groups]
        if layout.kind == "node":
            yield from _node_files(job, table)
        elif layout.kind == "edge":
            yield from _edge_files(job, table, groups, state.ends(job, table))
        else:
            for key, column in layout.columns.items():
                yield _FileTask(place=files.context_file(key), dtype=column.arrow_type, column=key, paths=groups)

    def run(self, job: BuildJob, task: _FileTask) -> dict[str, FileRecord]:
        """Writes the files of a column or an array."""
        with _local_folder(job) as folder:
            is_column = isinstance(task.dtype, pa.DataType)
            writer = (ColumnWriter if is_column else ValuesWriter)(folder, task.place, task.dtype)
            for rows, added in _pieces(task):
                writer.append(rows if is_column else rows.to_numpy(zero_copy_only=False) + added)
            records: dict[str, FileRecord] = writer.finish()
        return records

    def gather(
        self, job: BuildJob, state: BuildState, table: TableState, results: Sequence[dict[str, FileRecord]]
    ) -> None:
        """Adds what was written."""
        for records in results:
            state.files.update(records)


@contextlib.contextmanager
def _local_folder(job: BuildJob) -> Iterator[str]:
    """Yields a new local folder, whose files are moved to the folder of the index at the end."""
    is_local = has_locks(job.folder)
    with tempfile.TemporaryDirectory(dir=job.scratch if is_local else None) as place:
        yield place
        for name in os.listdir(place):
            source, target = os.path.join(place, name), os.path.join(job.folder, name)
            if is_local:
                os.replace(source, target)
            else:
                tf.io.gfile.copy(source, target, overwrite=True)


def _node_files(job: BuildJob, table: TableState) -> Iterator[_FileTask]:
    layout = job.layouts[table.position]
    paths = [job.path("nodes", table.position, part) for part in range(table.num_parts)]
    for key, column in layout.columns.items():
        parts = (key,) if key == ID_FEATURE else ("column", key)
        place = files.nodes_file(layout.name, *parts)
        yield _FileTask(place=place, dtype=column.arrow_type, column=key, paths=paths)
    yield _FileTask(place=files.nodes_file(layout.name, "codes"), dtype=np.uint64, column=CODE, paths=paths)
    if pa.types.is_large_string(layout.columns[ID_FEATURE].arrow_type):
        lookup = [job.path("lookup", table.position, part) for part in range(table.num_parts)]
        for name, of_lookup, dtype in (("codes", CODE, np.uint64), ("rows", ROW, row_dtype(table.num_rows))):
            place = files.nodes_file(layout.name, "lookup", name)
            yield _FileTask(place=place, dtype=dtype, column=of_lookup, paths=lookup)


def _edge_files(
    job: BuildJob, table: TableState, groups: Sequence[str], ends: Mapping[str, TableState]
) -> Iterator[_FileTask]:
    layout = job.layouts[table.position]
    kept = [job.path("kept", table.position, number) for number in range(len(groups))]
    for key, column in layout.columns.items():
        if key not in ends:
            place = files.edges_file(layout.name, "column", key)
            yield _FileTask(place=place, dtype=column.arrow_type, column=key, paths=groups, kept=kept)
    for key, name in END_FILES.items():
        place = files.edges_file(layout.name, name)
        yield _FileTask(place=place, dtype=row_dtype(ends[key].num_rows), column=key, paths=kept)
    if table.has_gaps:
        place = files.edges_file(layout.name, "table_rows")
        yield _FileTask(place=place, dtype=np.int64, column=ROW, paths=kept)
    for direction in DIRECTIONS:
        _, end = ENDS_OF_DIRECTION[direction]
        starts = table.edge_part_starts[direction].tolist()
        paths = {
            kind: [job.path(kind, table.position, direction, part) for part in range(len(starts) - 1)]
            for kind in ("offsets", "sorted")
        }
        for name, kind, of_edges, dtype, added in (
            ("offsets", "offsets", OFFSET, np.int64, starts[:-1]),
            ("neighbors", "sorted", end, row_dtype(ends[end].num_rows), ()),
            ("rows", "sorted", ROW, row_dtype(table.row_bound), ()),
        ):
            place = files.edges_file(layout.name, direction, name)
            yield _FileTask(place=place, dtype=dtype, column=of_edges, paths=paths[kind], added=added)


def _pieces(task: _FileTask) -> Iterator[tuple[pa.Array, int]]:
    """Yields the rows piece by piece, and what is added to each piece."""
    for path, added, kept in itertools.zip_longest(task.paths, task.added, task.kept, fillvalue=None):
        first, positions = 0, None if kept is None else _positions(kept)
        for batch in exchange.read_batches(str(path), [task.column]):
            rows, last = batch.column(0), first + batch.num_rows
            if positions is not None:
                here = positions[slice(*np.searchsorted(positions, [first, last]))]
                rows = rows.take(pa.array(here - first))
            yield rows, added or 0
            first = last


def _positions(path: str) -> Any:
    return exchange.numbers(exchange.join_batches(exchange.read_batches(path, [POSITION])), POSITION)
