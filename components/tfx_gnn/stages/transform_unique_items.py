"""Every node and edge once, for statistics.

Sampled subgraphs repeat nodes: a hub is in the neighbourhood of all its
neighbours. Here the examples are taken apart into items, one of each identity
is kept, and the kept ones are packed into tf.Examples of the same layout.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.stages.example_values import INTS, KIND_OF_DTYPE, BrokenRuleError, Features, set_size, values_of
from tfx_gnn.stages.graph_layout import FeatureColumn, GraphLayout, SetLayout
from tfx_gnn.stages.record_files import RecordFile, place_of, read_records

ITEMS_PER_EXAMPLE = 64
"""About the nodes of a sampled subgraph, so that batches of both take the same memory."""

_MAX_REMEMBERED = 1 << 20  # Identities a worker remembers at a time: some 100 MB.
_WITHOUT_ID = "without_id"

Row = list[list[Any]]
"""The values of one item, one list for each key in `SetPart.keys`."""
Identity = tuple[int, Any]
"""Number of the set, and the value of "#id"."""


@dataclasses.dataclass(frozen=True)
class SetPart:
    """What is needed of one set.

    Attributes:
        layout: the set.
        columns: the features that statistics are taken of.
    """

    layout: SetLayout
    columns: tuple[FeatureColumn, ...]

    @property
    def has_ids(self) -> bool:
        """Whether the items of the set have an identity by which repetitions are told."""
        return self.layout.set_type != const.CONTEXT and self.layout.id_column is not None

    @property
    def keys(self) -> list[tuple[str, str]]:
        """tf.Example keys of the columns, row lengths included, with their kind of values."""
        keys = []
        for column in self.columns:
            keys.append((column.key, KIND_OF_DTYPE[column.dtype]))
            keys += [(key, INTS) for key in column.row_length_keys.values()]
        return keys


class UniqueItemExamples(beam.PTransform):
    """Record files to serialized tf.Examples in which every identity occurs once.

    Items of sets without "#id", and the context, have no identity: they count once in each example.
    The result holds the given keys and `#size`, no edge ends.
    """

    def __init__(self, layout: GraphLayout, keys: Collection[str]) -> None:
        """Chooses what to keep.

        Args:
            layout: the keys of the graph.
            keys: the features that statistics are taken of; the rest is not even shuffled.
        """
        super().__init__()
        parts = (
            SetPart(one_set, tuple(column for column in one_set.features if column.key in keys))
            for one_set in layout.sets
        )
        self._parts = tuple(part for part in parts if part.columns)

    def expand(self, input_or_inputs: Any) -> Any:
        """Builds the steps.

        Args:
            input_or_inputs: PCollection of `RecordFile`.

        Returns:
            PCollection of bytes.
        """
        taken_apart: Any = input_or_inputs | "TakeApart" >> beam.ParDo(_TakeApart(self._parts)).with_outputs(
            _WITHOUT_ID, main="with_id"
        )
        unique = (
            taken_apart.with_id
            | "ByIdentity" >> beam.GroupByKey()
            | "KeepOne" >> beam.MapTuple(lambda identity, rows: (identity[0], next(iter(rows))))
            | "Pack" >> beam.ParDo(_Pack(self._parts))
        )
        return (unique, taken_apart[_WITHOUT_ID]) | "Together" >> beam.Flatten()


class _TakeApart(beam.DoFn):
    """Record files to ((set, id), row) and, tagged, to examples of what has no identity."""

    def __init__(self, parts: Sequence[SetPart]) -> None:
        self._with_id = [(number, part) for number, part in enumerate(parts) if part.has_ids]
        self._without_id = [part for part in parts if not part.has_ids]
        self._seen: set[Identity] = set()

    def start_bundle(self) -> None:
        self._seen = set()

    def process(self, element: RecordFile) -> Iterator[Any]:
        if not self._with_id and not self._without_id:
            return
        for number, record in enumerate(read_records(element)):
            features = tf.train.Example.FromString(record).features.feature
            try:
                yield from self._unseen(features)
                if self._without_id:
                    rest = [
                        (part, _row_reader(features, part)(0, set_size(features, part.layout)))
                        for part in self._without_id
                    ]
                    sizes = [set_size(features, part.layout) for part in self._without_id]
                    yield pvalue.TaggedOutput(
                        _WITHOUT_ID,
                        _encode([(part, row, size) for (part, row), size in zip(rest, sizes, strict=True)]),
                    )
            except BrokenRuleError as error:
                raise ValueError(error.message(place_of(element, number))) from error

    def _unseen(self, features: Features) -> Iterator[tuple[Identity, Row]]:
        for number, part in self._with_id:
            size = set_size(features, part.layout)
            if not size:
                continue
            column = part.layout.id_column
            assert column is not None
            ids = values_of(features, column.key, KIND_OF_DTYPE[column.dtype])
            if len(ids) != size:
                raise BrokenRuleError(
                    f"{column.key!r} tells every item's identity", f"{len(ids)} for {size} items", "Write all ids."
                )
            read_row = _row_reader(features, part)
            for position, value in enumerate(ids):
                identity = (number, value)
                if identity not in self._seen:
                    if len(self._seen) >= _MAX_REMEMBERED:
                        self._seen.clear()
                    self._seen.add(identity)
                    yield identity, read_row(position, position + 1)


class _Pack(beam.DoFn):
    """(set, row) to serialized examples of many rows."""

    def __init__(self, parts: Sequence[SetPart]) -> None:
        self._parts = parts
        self._waiting: dict[int, list[Row]] = {}

    def start_bundle(self) -> None:
        self._waiting = {}

    def process(self, element: tuple[int, Row]) -> Iterator[bytes]:
        number, row = element
        rows = self._waiting.setdefault(number, [])
        rows.append(row)
        if len(rows) >= ITEMS_PER_EXAMPLE:
            yield self._packed(number)

    def finish_bundle(self) -> Any:
        for number in sorted(self._waiting):
            if self._waiting[number]:
                window = GlobalWindow()
                yield WindowedValue(self._packed(number), window.max_timestamp(), (window,))

    def _packed(self, number: int) -> bytes:
        rows = self._waiting.pop(number)
        joined = [list(itertools.chain.from_iterable(slot)) for slot in zip(*rows, strict=True)]
        return _encode([(self._parts[number], joined, len(rows))])


def _row_reader(features: Features, part: SetPart) -> Callable[[int, int], Row]:
    """Prepares cutting: gives a function from a range of items to their values, key by key."""
    slots: list[tuple[list[Any], list[int] | range]] = []
    num_items = set_size(features, part.layout)
    for column in part.columns:
        values = values_of(features, column.key, KIND_OF_DTYPE[column.dtype])
        bounds: list[int] | range = range(num_items + 1)
        row_lengths = []
        for axis, size in enumerate(column.shape):
            if size is not None:
                bounds = [bound * size for bound in bounds]
                continue
            key = column.row_length_keys[axis]
            lengths = values_of(features, key, INTS)
            _check_length(key, lengths, bounds[-1])
            row_lengths.append((lengths, bounds))
            ends = [0, *itertools.accumulate(lengths)]
            bounds = [ends[bound] for bound in bounds]
        _check_length(column.key, values, bounds[-1])
        slots += [(values, bounds), *row_lengths]
    return lambda begin, end: [values[bounds[begin] : bounds[end]] for values, bounds in slots]


def _check_length(key: str, values: Sequence[Any], expected: int) -> None:
    if len(values) != expected:
        raise BrokenRuleError(
            f"{key!r} has {expected} values, by `#size` and shape",
            f"{len(values)}",
            "Check the examples by GraphSchemaGen.",
        )


def _encode(content: Sequence[tuple[SetPart, Row, int]]) -> bytes:
    example = tf.train.Example()
    feature = example.features.feature
    for part, row, size in content:
        if part.layout.set_type != const.CONTEXT:
            feature[part.layout.size_key].int64_list.value.append(size)
        for (key, kind), values in zip(part.keys, row, strict=True):
            getattr(feature[key], kind).value.extend(values)
    record: bytes = example.SerializeToString()
    return record
