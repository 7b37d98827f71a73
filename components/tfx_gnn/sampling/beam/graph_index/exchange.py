"""Temporary files through which one step hands rows to the next: Arrow files with a batch for each part.

Every file appears whole under a name that follows from its content, so a runner may safely repeat work.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.tables.data_files import TableBytes
from tfx_gnn.tables.row_rules import RowProblem
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS

_Integers = npt.NDArray[np.int64]


@contextlib.contextmanager
def _whole_file(path: str) -> Iterator[str]:
    """Yields the path of a local file to write, which then appears under its name."""
    if has_locks(path):
        partial = f"{path}.{uuid.uuid4().hex}"
        yield partial
        os.replace(partial, path)
        return
    with tempfile.TemporaryDirectory() as place:
        partial = os.path.join(place, "rows")
        yield partial
        tf.io.gfile.copy(partial, path, overwrite=True)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[pa.NativeFile]:
    # Arrow reads local files without Python, in a tenth of the time.
    with pa.OSFile(path, "rb") if has_locks(path) else pa.PythonFile(TableBytes(path), "r") as file:
        yield file


def write_batches(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes batches to a file that appears whole."""
    with _whole_file(path) as partial, pa.OSFile(partial, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_parts(path: str, rows: pa.RecordBatch, bounds: Sequence[int]) -> None:
    """Writes rows as one batch for each part; `bounds` are where parts begin, and the number of rows."""
    parts = itertools.pairwise(bounds)
    write_batches(path, rows.schema, (rows.slice(start, stop - start) for start, stop in parts))


def write_rows(path: str, rows: pa.RecordBatch) -> None:
    """Writes rows that are read again one after the other, at least one batch."""
    starts = range(0, max(rows.num_rows, 1), MAX_BLOCK_ROWS)
    write_batches(path, rows.schema, (rows.slice(start, MAX_BLOCK_ROWS) for start in starts))


def read_batches(path: str, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a file; only these columns, if any are named."""
    with _opened(path) as file:
        reader = pa.ipc.open_file(file)
        if columns:
            fields = [reader.schema.get_field_index(name) for name in columns]
            reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields))
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def read_part(path: str, number: int) -> pa.RecordBatch:
    """Reads one batch of a file."""
    with _opened(path) as file:
        return pa.ipc.open_file(file).get_batch(number)


def join_batches(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches of one schema, at least one."""
    table = pa.Table.from_batches(list(batches)).combine_chunks()
    found = table.to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def with_column(batch: pa.RecordBatch, name: str, values: npt.NDArray[Any]) -> pa.RecordBatch:
    """Adds a column, or replaces it."""
    return pa.RecordBatch.from_pydict(dict(zip(batch.schema.names, batch.columns, strict=True)) | {name: values})


def numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """Returns a column of numbers."""
    values: npt.NDArray[Any] = batch.column(name).to_numpy(zero_copy_only=False)
    return values


def split_by_id(ids: pa.Array, splitters: pa.Array) -> tuple[_Integers, list[int]]:
    """Sorts ids and divides them into the ranges that begin at the splitters, which ascend.

    Returns the positions of the ids in ascending order, equal ones by position, and the bounds of the ranges.
    """
    # A splitter comes before the ids that are equal to it, because the sort is stable.
    order = np.asarray(pc.sort_indices(pa.concat_arrays([splitters, ids])).to_numpy(), np.int64)
    is_splitter = order < len(splitters)
    marks = np.flatnonzero(is_splitter)
    bounds = [0, *(marks - np.arange(len(marks))).tolist(), len(ids)]
    return order[~is_splitter] - len(splitters), bounds


def split_distinct(ids: pa.Array, splitters: pa.Array) -> tuple[pa.Array, _Integers, list[int]]:
    """Returns the distinct ids in ascending order, the place of each id among them, and the bounds of the ranges."""
    encoded = ids.dictionary_encode()
    order, bounds = split_by_id(encoded.dictionary, splitters)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), places[encoded.indices.to_numpy()], bounds


def choose_splitters(sample: pa.Array, num_parts: int) -> pa.Array:
    """Returns ascending, distinct ids that divide a sample into about equal parts."""
    in_order = sample.take(pc.sort_indices(sample))
    at = np.arange(1, num_parts) * len(in_order) // num_parts
    return pc.unique(in_order.take(pa.array(at)))


def write_problems(path: str, problems: Sequence[RowProblem]) -> list[str]:
    """Writes rows that are dropped, and returns the path of the file; nothing if there are none."""
    if not problems:
        return []
    with _whole_file(path) as partial, open(partial, "wb") as file:
        pickle.dump(tuple(problems), file)
    return [path]


def read_problems(paths: Iterable[str]) -> Iterator[RowProblem]:
    """Yields the rows that `write_problems` wrote."""
    for path in paths:
        with tf.io.gfile.GFile(path, "rb") as file:
            yield from pickle.loads(file.read())
