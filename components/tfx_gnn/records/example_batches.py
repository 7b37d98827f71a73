"""Batches of graph tf.Examples as flat columns.

tf.Examples are decoded in C++ (tfx_bsl) into Arrow, one column per key, so the code works on
a few arrays instead of thousands of records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from tfx_gnn.graph import graph_constants as const

BYTES, INTS, FLOATS = "bytes_list", "int64_list", "float_list"
KIND_OF_DTYPE = {tf.string: BYTES, tf.int64: INTS, tf.float32: FLOATS}
"""The list of a tf.train.Feature that holds values of each dtype."""

MAX_RECORDS = 1024
"""Largest number of records in a batch."""

MAX_BYTES = 32 << 20
"""Largest size of a batch's records in bytes, unless a single record is larger."""

_KINDS = {pa.int64(): INTS, pa.float32(): FLOATS, pa.large_binary(): BYTES, pa.binary(): BYTES}

Features = Mapping[str, tf.train.Feature]


class BrokenRuleError(ValueError):
    """An example breaks a rule. The caller adds the place of the example."""

    def __init__(self, rule: str, got: str, advice: str) -> None:
        """Takes the rule, such as "'nodes/a.#size' is one number", what this example has, and advice."""
        super().__init__(rule, got, advice)
        self.rule, self.got, self.advice = rule, got, advice

    def message(self, place: str) -> str:
        """Returns the whole message; `place` is the record's name from `place_of`."""
        return f"`examples_dir` must hold examples in which {self.rule}; got {self.got} in {place}. {self.advice}"


def values_of(features: Features, key: str, kind: str) -> list[Any]:
    """Reads the values of a key from a parsed tf.Example; none if the key is absent or empty.

    `kind` is `BYTES`, `INTS` or `FLOATS`. Raises BrokenRuleError if the values are of another kind.
    """
    if key not in features:
        return []
    found = features[key].WhichOneof("kind")
    if found == kind:
        return list(getattr(features[key], kind).value)
    if num_values(features[key]):
        raise BrokenRuleError(f"{key!r} is a {kind}", f"a {found}", "Write the values in the declared dtype.")
    return []


def num_values(feature: tf.train.Feature) -> int:
    """Counts the values of a feature of any kind."""
    kind = feature.WhichOneof("kind")
    return len(getattr(feature, kind).value) if kind else 0


def describe_item_id(record: bytes, id_key: str, number: int) -> str:
    """Returns the original id of the item at a position in its set, for messages; "" if the example has none."""
    found = tf.train.Example.FromString(record).features.feature[id_key]
    ids = getattr(found, found.WhichOneof("kind") or "bytes_list").value
    if number >= len(ids):
        return ""
    known = ids[number]
    return repr(known.decode(errors="replace") if isinstance(known, bytes) else known)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """The values of one key in all examples of a batch.

    Attributes:
        kind: "bytes_list", "int64_list" or "float_list"; "" if no example has the key with a kind.
        values: all values, concatenated over examples; length `splits[-1]`.
        splits: int64 [num_examples + 1]; example i has `values[splits[i]:splits[i + 1]]`.
        is_present: bool [num_examples]; whether the example has the key with a kind, even without values.
    """

    kind: str
    values: pa.Array
    splits: npt.NDArray[np.int64]
    is_present: npt.NDArray[np.bool_]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64 [num_examples]: number of values of each example."""
        return np.diff(self.splits)

    @functools.cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """Returns the values as an int64 or float32 array, shape [num_values]; not for strings."""
        return self.values.to_numpy(zero_copy_only=False)

    def owners(self) -> npt.NDArray[np.int64]:
        """Returns the example of each value: int64 [num_values]."""
        return np.repeat(np.arange(len(self.splits) - 1), self.lengths)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleBatch:
    """Some examples of one file.

    Attributes:
        numbers: int64 [num_examples]; position of each record in its file.
        columns: the columns by key; keys that no example has are absent.
    """

    numbers: npt.NDArray[np.int64]
    columns: Mapping[str, Column]

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.numbers)

    def column(self, key: str) -> Column:
        """Returns the column of a key; one without values if no example has it."""
        if key in self.columns:
            return self.columns[key]
        return Column(
            kind="",
            values=pa.array([], pa.int64()),
            splits=np.zeros(self.num_examples + 1, np.int64),
            is_present=np.zeros(self.num_examples, bool),
        )

    def keep(self, mask: npt.NDArray[np.bool_]) -> ExampleBatch:
        """Returns some of the examples, in the same order; `mask` is bool [num_examples]."""
        if mask.all():
            return self
        columns = {}
        for key, column in self.columns.items():
            lengths = column.lengths
            columns[key] = Column(
                kind=column.kind,
                values=column.values.filter(pa.array(np.repeat(mask, lengths))),
                splits=splits_of(lengths[mask]),
                is_present=column.is_present[mask],
            )
        return ExampleBatch(numbers=self.numbers[mask], columns=columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedRecords:
    """Examples decoded from records, and the records that are not tf.Examples.

    Attributes:
        batches: the examples, in one batch unless a key has values of two kinds.
        undecodable: int64; positions in the file of records that are not tf.Examples.
    """

    batches: tuple[ExampleBatch, ...]
    undecodable: npt.NDArray[np.int64]


def splits_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Computes where each of n runs begins and where the last one ends: int64 [n + 1], from 0."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def flat_index(batch: ExampleBatch, key: str, node_set: str) -> npt.NDArray[np.int64]:
    """Returns one end of all examples' edges, as positions among all examples' nodes in order: int64 [num_edges]."""
    column = batch.column(key)
    if not len(column.values):
        return np.zeros(0, np.int64)
    return column.numbers + item_splits(batch, f"{const.NODES}/{node_set}")[column.owners()]


def item_splits(batch: ExampleBatch, prefix: str) -> npt.NDArray[np.int64]:
    """Computes where each example's items begin among the items of all examples: int64 [num_examples + 1]."""
    if prefix == const.CONTEXT:
        return np.arange(batch.num_examples + 1)
    column = batch.column(f"{prefix}.{const.SIZE_NAME}")
    sizes = np.zeros(batch.num_examples, np.int64)
    sizes[column.lengths == 1] = column.numbers
    return splits_of(sizes)


def list_column(array: pa.LargeListArray) -> Column:
    """Makes a column from an array without nulls, which has a list of int64, float32 or large_binary per example."""
    offsets = array.offsets.to_numpy()
    return Column(
        kind=_kind_of(array.type),
        values=array.flatten(),
        splits=offsets - offsets[0],
        is_present=np.ones(len(array), bool),
    )


def group_records(records: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Splits a stream of records into groups of bounded size; yields the first record's position and the records."""
    piece: list[bytes] = []
    first, num_bytes = 0, 0
    for record in records:
        if piece and (len(piece) == MAX_RECORDS or num_bytes + len(record) > MAX_BYTES):
            yield first, piece
            first, piece, num_bytes = first + len(piece), [], 0
        piece.append(record)
        num_bytes += len(record)
    if piece:
        yield first, piece


class ExampleDecoder:
    """Decodes records; reuse a decoder, because making one takes time."""

    def __init__(self, schema: schema_pb2.Schema | None = None) -> None:
        """Makes a decoder; decoding only the features of a `schema` is faster than decoding all.

        With a schema, a record with values of another kind is undecodable.
        """
        self._decoder = example_coder.ExamplesToRecordBatchDecoder(schema and schema.SerializeToString())

    def decode(self, first: int, records: Sequence[bytes]) -> DecodedRecords:
        """Decodes consecutive records, the first at position `first` of their file."""
        numbers = np.arange(first, first + len(records))
        whole = self._try(records)
        if whole is not None:
            return DecodedRecords(batches=(_batch(whole, numbers),), undecodable=np.zeros(0, np.int64))
        alone = [self._try([record]) for record in records]
        is_example = np.array([batch is not None for batch in alone])
        groups = _groups_of_one_kind([batch for batch in alone if batch is not None])
        positions = np.flatnonzero(is_example)
        batches = []
        for group in groups:
            chosen = positions[group]
            decoded = self._try([records[position] for position in chosen])
            assert decoded is not None
            batches.append(_batch(decoded, numbers[chosen]))
        return DecodedRecords(batches=tuple(batches), undecodable=numbers[~is_example])

    def _try(self, records: Sequence[bytes]) -> pa.RecordBatch | None:
        try:
            return self._decoder.DecodeBatch(list(records))
        except RuntimeError:
            # The decoder raises the same class for a broken record and for two kinds of values under one key.
            return None


def _groups_of_one_kind(singles: Sequence[pa.RecordBatch]) -> list[list[int]]:
    """Groups examples so that no key has values of two kinds within a group."""
    kinds: dict[str, set[str]] = {}
    of_each = [
        {field.name: _kind_of(field.type) for field in batch.schema if not pa.types.is_null(field.type)}
        for batch in singles
    ]
    for found in of_each:
        for key, kind in found.items():
            kinds.setdefault(key, set()).add(kind)
    mixed = sorted(key for key, found in kinds.items() if len(found) > 1)
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, found in enumerate(of_each):
        groups.setdefault(tuple(found.get(key, "") for key in mixed), []).append(position)
    return list(groups.values())


def _batch(decoded: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> ExampleBatch:
    return ExampleBatch(
        numbers=numbers,
        columns={
            field.name: _column(array, len(numbers))
            for field, array in zip(decoded.schema, decoded.columns, strict=True)
        },
    )


def _column(array: pa.Array, num_examples: int) -> Column:
    if pa.types.is_null(array.type):
        return Column(
            kind="",
            values=pa.array([], pa.int64()),
            splits=np.zeros(num_examples + 1, np.int64),
            is_present=np.zeros(num_examples, bool),
        )
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(
        kind=_kind_of(array.type),
        values=array.flatten(),
        splits=splits_of(lengths),
        is_present=array.is_valid().to_numpy(zero_copy_only=False),
    )


def _kind_of(list_type: pa.DataType) -> str:
    return _KINDS[list_type.value_type]
