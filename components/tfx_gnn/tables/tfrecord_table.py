"""Reads TFRecord files of tf.Examples as tables, as TF-GNN stores a full graph."""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.graph.codec.canonical_bytes import canonical_examples
from tfx_gnn.tables import row_rules
from tfx_gnn.tables.data_files import TableBytes, is_gzip, open_table_bytes
from tfx_gnn.tables.row_rules import show_value
from tfx_gnn.tables.table_format import MAX_BLOCK_ROWS, RawBlock, TableFormat, too_large_record
from tfx_gnn.tables.table_layout import CellProblem, TableColumn, TableLayout

HEAD_BYTES = 12
"""Bytes of a record before its data: the length, and a checksum of the length."""


FRAME_BYTES = 16
"""Bytes of a record in addition to its data: the head, and a checksum of the data."""


_READ_BYTES = 1 << 20  # read at once to skip data, where a stream cannot seek


def record_heads(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yields the head of each record of an unzipped file without keeping the data.

    Stops where the file is damaged; reading the records reports the error.
    """
    num_bytes = 0
    if stream.seekable():
        num_bytes = stream.seek(0, io.SEEK_END)
        stream.seek(0)
    position = 0
    try:
        while len(head := stream.read(HEAD_BYTES)) == HEAD_BYTES and is_record_head(head):
            yield head
            rest = int.from_bytes(head[:8], "little") + FRAME_BYTES - HEAD_BYTES
            position += HEAD_BYTES + rest
            if not num_bytes:
                _pass_over(stream, rest)
            elif position <= num_bytes:  # seeking past the end of one of TensorFlow's files raises
                stream.seek(rest, io.SEEK_CUR)
            else:
                return
    except ValueError:
        return


def _pass_over(stream: io.BufferedReader, num_bytes: int) -> None:
    """Reads and discards up to a number of bytes, fewer at the end of the stream."""
    while num_bytes > 0 and (data := stream.read(min(num_bytes, _READ_BYTES))):
        num_bytes -= len(data)


def is_record_head(head: bytes) -> bool:
    """Returns whether `HEAD_BYTES` bytes are the head of a record, by their checksum."""
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in head[:8]:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return int.from_bytes(head[8:12], "little") == masked


@functools.lru_cache(maxsize=1)
def _crc_table() -> tuple[int, ...]:
    """Computes the table of CRC-32C (RFC 3720), reflected polynomial 0x82F63B78."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return tuple(table)


_BLOCK_BYTES = 1 << 25  # of records; their parsed columns take a small multiple


_READ_AT_ONCE = 1024  # records; the first batch determines the columns of a file


_MOST_DEFLATED = 1100  # upper bound of the compression ratio of gzip


_TRACE = re.compile(r"^\{\{.*?\}\} *| *\[Op:.*", re.DOTALL)  # text that TensorFlow adds around a message


_KINDS = {"bytes_list": tf.string, "float_list": tf.float32, "int64_list": tf.int64}


_ARROW_TYPES = {tf.string: pa.large_binary(), tf.float32: pa.float32(), tf.int64: pa.int64()}


class TFRecordFormat(TableFormat):
    """TFRecord files of tf.Examples, gzipped or not; the content of a file tells which.

    A column is a feature. It is missing from a record where the feature is absent or
    has no values, unless the declared shape allows an empty list. A feature whose kind does
    not match the declared type (such as a number written as text) is converted if nothing is
    lost. The file is the unit, and records are counted from 0.
    """

    row_word = "record"

    def __init__(self, layout: TableLayout) -> None:
        """Takes the types and shapes of the layout; see `TableFormat`."""
        super().__init__(layout)
        self._column_names: dict[str, tuple[str, ...]] = {}
        self._read_at_once: dict[str, int] = {}

    def column_names(self, path: str) -> Sequence[str]:
        """Lists the features of the first records; see `TableFormat`."""
        if path not in self._column_names:
            records = next(self._batches(path), None)
            names = () if records is None else tuple(sorted(_names(records.numpy())))
            self._column_names[path] = names
        return self._column_names[path]

    def resolve_column(self, path: str, column: TableColumn) -> str:
        """Finds the feature of a column, even if no record of this file has it; see `TableFormat`.

        A column with any number of values must be in some file of the table; a column
        with a default need not be.
        """
        wanted = (column.name, *column.alternatives)
        found = set(self.column_names(path))
        if not found.isdisjoint(wanted) or not found:
            return next((name for name in wanted if name in found), column.name)
        for other in (path, *(self.layout.files if column.is_ragged else ())):
            for records in self._batches(other):
                later = _names(records.numpy())
                if not later.isdisjoint(wanted):
                    return next(name for name in wanted if name in later)
        return column.name if column.default is not None else super().resolve_column(path, column)

    def read_raw_blocks(self, path: str, unit: int, column_names: Sequence[str]) -> Iterator[RawBlock]:
        """Parses the records in bulk; see `TableFormat`."""
        del unit
        shapes = self._shapes(column_names)
        kinds = self._declared_kinds(column_names)
        start = 0
        for records in _blocks(self._batches(path)):
            good, problems, values = _parse(records, kinds)
            columns = []
            keeps = np.ones(len(good), bool)
            for name in column_names:
                array, bad = _column(values[name], shapes[name])
                columns.append(array)
                for position in bad.tolist():
                    if keeps[position]:
                        problems.append(_too_many(int(good[position]), name, values[name], position))
                        keeps[position] = False
            if not keeps.all():
                columns = [column.filter(pa.array(keeps)) for column in columns]
            yield RawBlock(
                columns=pa.RecordBatch.from_arrays(columns, names=list(column_names)),
                rows=start + good[keeps],
                num_rows_read=len(records),
                problems=tuple(
                    dataclasses.replace(problem, row=problem.row + start)
                    for problem in sorted(problems, key=lambda problem: problem.row)
                ),
            )
            start += len(records)

    def _batches(self, path: str) -> Iterator[tf.Tensor]:
        if path not in self._read_at_once:
            self._read_at_once[path] = _records_at_once(path, self.layout)
        return _batches(path, self._read_at_once[path])

    def _shapes(self, column_names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(column_names, ())
        for column in self.layout.columns.values():
            for name in (column.name, *column.alternatives):
                if name in shapes and column.shape and not column.packed_in:
                    shapes[name] = column.shape
        return shapes

    def _declared_kinds(self, column_names: Iterable[str]) -> dict[str, tf.DType]:
        """Returns the kind of feature that matches the declared type of each column."""
        kinds = dict.fromkeys(column_names, tf.string)
        for column in self.layout.columns.values():
            if column.packed_in:
                continue
            for name in (column.name, *column.alternatives):
                if name in kinds:
                    is_whole = pa.types.is_integer(column.dtype) or pa.types.is_boolean(column.dtype)
                    is_float = pa.types.is_floating(column.dtype)
                    kinds[name] = tf.int64 if is_whole else tf.float32 if is_float else tf.string
        return kinds


def read_examples(path: str, layout: TableLayout) -> Iterator[tf.train.Example | None]:
    """Reads the records of a file one by one, which is slow but sees every feature.

    Yields None for a record that is not a tf.Example.
    """
    for records in _batches(path, _records_at_once(path, layout)):
        yield from map(_example, records.numpy())


def _parse(
    records: tf.Tensor, kinds: dict[str, tf.DType]
) -> tuple[npt.NDArray[np.int64], list[CellProblem], Mapping[str, tf.RaggedTensor]]:
    """Parses the records of a block.

    If a feature has another kind than in `kinds`, `kinds` is corrected for this and the following
    blocks; a record whose kind differs from the most frequent one is a problem. Returns the positions
    of the records that could be parsed, the problems of the others, and the parsed values by feature.
    """
    everything = np.arange(len(records))
    try:
        return everything, [], _parse_ragged(records, kinds)
    except tf.errors.InvalidArgumentError:
        # Some record has a feature of another kind, or is not a tf.Example at all: inspect each record.
        pass
    problems: list[CellProblem] = []
    found: list[dict[str, str]] = []
    cleaned = records.numpy()
    for row, record in enumerate(cleaned):
        example = _example(record)
        if example is None:
            problems.append(
                CellProblem(
                    row=row,
                    rule=row_rules.CELLS,
                    column="",
                    requirement="be a tf.Example in every record",
                    value=f"{len(record)} bytes that are none",
                    advice="Write the file again.",
                )
            )
        found.append(_kinds_of(example, kinds))
        if example is not None and any(name not in found[-1] for name in kinds):
            cleaned[row] = _without_empty(example, kinds)
    for name in kinds:
        of_feature = [kind[name] for kind in found if name in kind]
        if of_feature:
            kinds[name] = _KINDS[max(sorted(set(of_feature)), key=of_feature.count)]
    bad = {problem.row for problem in problems}
    for row, kind in enumerate(found):
        for name, actual in kind.items():
            if _KINDS[actual] != kinds[name] and row not in bad:
                bad.add(row)
                expected = next(kind for kind, dtype in _KINDS.items() if dtype == kinds[name])
                problems.append(
                    CellProblem(
                        row=row,
                        rule=row_rules.TYPE,
                        column=name,
                        requirement=f"be of kind {expected}, as in other records",
                        value=actual,
                        advice="Write it the same way in every record.",
                    )
                )
    good = np.setdiff1d(everything, np.fromiter(bad, np.int64, len(bad)))
    return good, problems, _parse_ragged(tf.constant(cleaned[good], tf.string), kinds)


def _parse_ragged(records: tf.Tensor, kinds: Mapping[str, tf.DType]) -> dict[str, tf.RaggedTensor]:
    if not kinds:
        return {}
    features = {name: tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64) for name, kind in kinds.items()}
    parsed: dict[str, tf.RaggedTensor] = tf.io.parse_example(canonical_examples(records), features)
    return parsed


def _column(ragged: tf.RaggedTensor, shape: tuple[int, ...]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Makes an Arrow array, and returns the rows that have several values where only one is allowed."""
    splits = ragged.row_splits.numpy()
    values = pa.array(ragged.values.numpy(), _ARROW_TYPES[ragged.dtype])
    lengths = np.diff(splits)
    if shape:
        is_missing = (lengths == 0) & (shape != (-1,)) & (int(np.prod(shape)) != 0)
        offsets = pa.array(splits, mask=np.append(is_missing, False)) if is_missing.any() else pa.array(splits)
        return pa.LargeListArray.from_arrays(offsets, values), np.empty(0, np.int64)
    if (lengths == 1).all():
        return values, np.empty(0, np.int64)
    firsts = pa.array(splits[:-1], mask=lengths == 0)
    return values.take(firsts), np.flatnonzero(lengths > 1)


def _too_many(row: int, name: str, ragged: tf.RaggedTensor, position: int) -> CellProblem:
    values = ragged[position].numpy()
    return CellProblem(
        row=row,
        rule=row_rules.SHAPE,
        column=name,
        requirement="have one value in every record",
        value=f"{len(values)} values, {show_value(values.tolist())}",
        advice="Correct the values, or declare a shape in the graph schema.",
    )


def _example(record: bytes) -> tf.train.Example | None:
    try:
        return tf.train.Example.FromString(record)
    except DecodeError:
        return None


def _kinds_of(example: tf.train.Example | None, names: Iterable[str]) -> dict[str, str]:
    """Returns the kind of each feature that has values."""
    if example is None:
        return {}
    features = example.features.feature
    kinds = {name: features[name].WhichOneof("kind") for name in names if name in features}
    return {name: kind for name, kind in kinds.items() if kind and getattr(features[name], kind).value}


def _without_empty(example: tf.train.Example, names: Iterable[str]) -> bytes:
    """Serializes an example without its empty features, whose kind means nothing."""
    features = example.features.feature
    for name in names:
        if name in features and not _kinds_of(example, [name]):
            del features[name]
    record: bytes = example.SerializeToString()
    return record


def _names(records: Iterable[bytes]) -> set[str]:
    names: set[str] = set()
    for record in records:
        example = _example(record)
        if example is not None:
            names.update(example.features.feature)
    return names


def _blocks(batches: Iterable[tf.Tensor]) -> Iterator[tf.Tensor]:
    """Yields string tensors of records, joined up to the size limits of a block."""
    gathered: list[tf.Tensor] = []
    num_records = num_bytes = 0
    for records in batches:
        if gathered and (num_bytes >= _BLOCK_BYTES or num_records + len(records) > MAX_BLOCK_ROWS):
            yield tf.concat(gathered, 0)
            gathered, num_records, num_bytes = [], 0, 0
        gathered.append(records)
        num_records += len(records)
        num_bytes += int(tf.reduce_sum(tf.strings.length(records)))
    if gathered:
        yield tf.concat(gathered, 0)


def _records_at_once(path: str, layout: TableLayout) -> int:
    """Returns how many records to read at once; refuses a record that is too large before TensorFlow reads it."""
    with TableBytes(path) as file:
        num_bytes = file.seek(0, io.SEEK_END)
    if num_bytes * (_MOST_DEFLATED if _compression(path) else 1) <= min(_BLOCK_BYTES, layout.max_record_bytes):
        return _READ_AT_ONCE
    longest = 1
    with open_table_bytes(path) as stream:
        for number, head in enumerate(record_heads(stream)):
            length = int.from_bytes(head[:8], "little")
            if length > layout.max_record_bytes:
                raise ValueError(too_large_record(path, layout, f"record {number}"))
            longest = max(longest, length)
    return max(1, min(_READ_AT_ONCE, _BLOCK_BYTES // longest))


def _batches(path: str, read_at_once: int) -> Iterator[tf.Tensor]:
    """Yields string tensors of `read_at_once` records each."""
    compression = _compression(path)
    dataset = tf.data.TFRecordDataset(path, compression_type=compression, buffer_size=1 << 20)
    num_bytes = 0
    try:
        for records in dataset.batch(read_at_once):
            num_bytes += int(tf.reduce_sum(tf.strings.length(records))) + FRAME_BYTES * len(records)
            yield records
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        raise ValueError(
            f"`{path}` must be a whole TFRecord file; got {_TRACE.sub('', error.message)} in record "
            f"{_count_whole(dataset)}. Write or copy the file again."
        ) from error
    if compression:
        _check_whole_gzip(path, num_bytes)


def _check_whole_gzip(path: str, num_bytes: int) -> None:
    """Refuses a truncated gzip file, which TensorFlow does not notice if the cut is between records."""
    with TableBytes(path) as file:
        file.seek(max(file.seek(0, io.SEEK_END) - 4, 0))
        declared: bytes = file.read(4)
    # A file of several gzip members has another size too, so a mismatch only means that the file must be read.
    if not num_bytes or int.from_bytes(declared, "little") != num_bytes % (1 << 32):
        with open_table_bytes(path) as unzipped:
            while unzipped.read(1 << 20):
                pass


def _count_whole(dataset: tf.data.Dataset) -> int:
    count = 0
    try:
        for _ in dataset:
            count += 1
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        return count
    return count


def _compression(path: str) -> str:
    """Detects the compression of a file from its first bytes.

    The length at the beginning of an uncompressed record may look like the beginning of a gzip
    file, so its checksum decides.
    """
    with TableBytes(path) as file:
        head: bytes = file.read(HEAD_BYTES)
    if not head or is_record_head(head):
        return ""
    if is_gzip(head):
        return "GZIP"
    raise ValueError(
        f"`{path}` must be a TFRecord file, gzipped or not; got one that does not begin as either. "
        "Correct the name, the format or the compression."
    )
