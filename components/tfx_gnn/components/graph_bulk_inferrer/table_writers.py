"""Writes tables of answers as Parquet, CSV or TFRecord files, one part after the other."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import tensorflow as tf

from tfx_gnn.io.disk_sync import sync_path
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.renames import rename_file

SUFFIXES = {"parquet": ".parquet", "csv": ".csv", "tfrecord": ".gz"}
"""End of the names of files, by format."""


class TableWriter(Protocol):
    """Appends parts of a table to a file."""

    def write(self, part: pa.Table) -> None:
        """Appends rows; all parts have the same columns."""
        ...


@contextlib.contextmanager
def whole_table(path: str, file_format: str) -> Iterator[TableWriter]:
    """Opens a file that appears whole at the end of the block, or not at all.

    Args:
        path: the file; a killed run may leave a hidden sibling, which the next one overwrites.
        file_format: a key of `SUFFIXES`.
    """
    folder, name = os.path.split(path)
    tf.io.gfile.makedirs(folder)
    partial = os.path.join(folder, f".{name}.writing")
    with _OPENERS[file_format](partial) as writer:
        yield writer
    if has_locks(partial):
        sync_path(partial)
    rename_file(partial, path)
    if has_locks(folder):
        sync_path(folder)


@contextlib.contextmanager
def _parquet(path: str) -> Iterator[TableWriter]:
    with _Stream(path) as file, _Arrow(lambda schema: pa.parquet.ParquetWriter(file, schema)) as writer:
        yield writer


@contextlib.contextmanager
def _csv(path: str) -> Iterator[TableWriter]:
    with _Stream(path) as file, _Arrow(lambda schema: pa.csv.CSVWriter(file, schema)) as writer:
        yield _CsvTables(writer)


@contextlib.contextmanager
def _tfrecord(path: str) -> Iterator[TableWriter]:
    with tf.io.TFRecordWriter(path, options="GZIP") as file:
        yield _Examples(file)


_OPENERS = {"parquet": _parquet, "csv": _csv, "tfrecord": _tfrecord}


class _Stream(io.RawIOBase):
    """A new file of TensorFlow's file systems, as Arrow wants files to be."""

    def __init__(self, path: str) -> None:
        self._file = tf.io.gfile.GFile(path, "wb")
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._file.write(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Arrow:
    """A writer of Arrow, which needs the first part's schema; without any part, the file has no columns."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._writer: Any = None

    def __enter__(self) -> _Arrow:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, part: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._make(part.schema)
        self._writer.write_table(part)


class _CsvTables:
    """Writes lists, which CSV cannot hold, as JSON."""

    def __init__(self, writer: _Arrow) -> None:
        self._writer = writer

    def write(self, part: pa.Table) -> None:
        columns = {
            name: pa.array([json.dumps(value) for value in column.to_pylist()])
            if pa.types.is_fixed_size_list(column.type)
            else column
            for name, column in zip(part.column_names, part.columns, strict=True)
        }
        self._writer.write(pa.table(columns))


class _Examples:
    """Writes a tf.Example for each row, with the columns as features."""

    def __init__(self, writer: tf.io.TFRecordWriter) -> None:
        self._writer = writer

    def write(self, part: pa.Table) -> None:
        columns = [(name, part.column(name).to_pylist()) for name in part.column_names]
        for row in range(part.num_rows):
            example = tf.train.Example()
            for name, values in columns:
                value = values[row] if isinstance(values[row], list) else [values[row]]
                feature = example.features.feature[name]
                if isinstance(value[0], str):
                    feature.bytes_list.value.extend(text.encode() for text in value)
                elif isinstance(value[0], int):
                    feature.int64_list.value.extend(value)
                else:
                    feature.float_list.value.extend(value)
            self._writer.write(example.SerializeToString(deterministic=True))
