"""Items of a set as Arrow columns, unpacked from examples and packed again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import BrokenRuleError, Column, ExampleBatch, list_column, splits_of
from tfx_gnn.records.graph_layout import FeatureColumn, SetLayout
from tfx_gnn.records.value_hashes import Hashes, hash_items
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder
from tfx_gnn.sampling.random_choice import mix

_Splits = npt.NDArray[np.int64]


class BrokenRecordError(BrokenRuleError):
    """An example breaks a rule, and this is which.

    Attributes:
        number: position of its record in the file.
    """

    def __init__(self, rule: str, got: str, advice: str, number: int) -> None:
        super().__init__(rule, got, advice)
        self.number = number


@dataclasses.dataclass(frozen=True)
class ItemColumns:
    """Some features of one set.

    Attributes:
        one_set: the set.
        features: the features.
    """

    one_set: SetLayout
    features: tuple[FeatureColumn, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """tf.Example keys of the features and of their row lengths."""
        return tuple(key for column in self.features for key in (column.key, *column.row_length_keys.values()))

    def take(self, batch: ExampleBatch) -> pa.RecordBatch:
        """Takes the items of a batch, of all examples one below the other.

        One row an item, and one column of lists for each of `keys`. Raises BrokenRecordError if an example
        has not as many values as `#size` and the shapes say.
        """
        sizes = set_sizes(batch, self.one_set)
        arrays, names = [], []
        for feature in self.features:
            for key, values, splits in _value_splits(batch, feature, sizes):
                arrays.append(pa.LargeListArray.from_arrays(pa.array(splits), values))
                names.append(key)
        return pa.RecordBatch.from_arrays(arrays, names)

    def check(self, batch: ExampleBatch) -> None:
        """Raises BrokenRecordError if a batch lacks what `take` takes."""
        sizes = set_sizes(batch, self.one_set)
        for feature in self.features:
            list(_value_splits(batch, feature, sizes))

    def hash(self, batch: ExampleBatch) -> Hashes:
        """Hashes what the items of a checked batch have as these features: uint64 [num_items]."""
        hashes: Hashes = np.zeros(int(set_sizes(batch, self.one_set).sum()), np.uint64)
        for feature in self.features:
            hashes = mix(hashes ^ hash_items(batch, feature, self.one_set.prefix))
        return hashes

    def pack(self, items: pa.RecordBatch, items_per_example: int) -> Iterator[bytes]:
        """Writes items that `take` took as serialized tf.Examples with `keys` and `#size`, without other columns."""
        bounds = np.append(np.arange(0, items.num_rows, items_per_example), items.num_rows)
        columns = self.columns(items)
        rows = {key: (np.arange(len(column.values)), column.splits[bounds]) for key, column in columns.items()}
        sizes = {}
        if self.one_set.set_type != const.CONTEXT:
            sizes[self.one_set.size_key] = (np.diff(bounds), np.arange(len(bounds)))
        encoder = RecordEncoder({key: column.values for key, column in columns.items()})
        yield from encoder.encode(len(bounds) - 1, rows, sizes)

    def columns(self, items: pa.RecordBatch) -> dict[str, Column]:
        """Reads items that `take` took as if each were an example of its own; other columns are left out."""
        return {key: list_column(items.column(items.schema.get_field_index(key))) for key in self.keys}


def set_sizes(batch: ExampleBatch, one_set: SetLayout) -> _Splits:
    """Reads how many items each example has: int64 [num_examples]; 1 for the context; 0 where there is no `#size`."""
    if one_set.set_type == const.CONTEXT:
        return np.ones(batch.num_examples, np.int64)
    column = batch.column(one_set.size_key)
    if len(column.values) == batch.num_examples and (column.lengths == 1).all():
        sizes = column.numbers
    else:
        _check(batch, column.lengths <= 1, f"{one_set.size_key!r} is one number, at least 0", column)
        sizes = np.zeros(batch.num_examples, np.int64)
        sizes[column.lengths == 1] = column.numbers
    _check(batch, sizes >= 0, f"{one_set.size_key!r} is one number, at least 0", column)
    return sizes


def check_ids(batch: ExampleBatch, one_set: SetLayout, id_column: FeatureColumn) -> None:
    """Raises BrokenRecordError unless an example has one "#id" for each item."""
    sizes, lengths = set_sizes(batch, one_set), batch.column(id_column.key).lengths
    for row in np.flatnonzero(sizes != lengths)[:1]:
        raise BrokenRecordError(
            f"{id_column.key!r} tells every item's identity",
            f"{lengths[row]} for {sizes[row]} items",
            "Write all ids.",
            int(batch.numbers[row]),
        )


def check_ends(batch: ExampleBatch, edges: SetLayout, ends: Sequence[tuple[str, SetLayout]]) -> None:
    """Raises BrokenRecordError unless an example has as many ends as edges, each at one of its nodes.

    `ends` are keys of ends, and the node sets there.
    """
    num_edges = set_sizes(batch, edges)
    for key, nodes in ends:
        column = batch.column(key)
        _check(batch, column.lengths == num_edges, f"{key!r} has one node index for each of the edges", column)
        owners = column.owners()
        dangles = (column.numbers < 0) | (column.numbers >= set_sizes(batch, nodes)[owners])
        is_whole = np.ones(batch.num_examples, bool)
        is_whole[owners[dangles]] = False
        _check(batch, is_whole, f"{key!r} points into {nodes.label}", column)


def _check(batch: ExampleBatch, is_good: npt.NDArray[np.bool_], rule: str, column: Column) -> None:
    for row in np.flatnonzero(~is_good)[:1]:
        values = column.values[column.splits[row] : column.splits[row + 1]][:5].to_pylist()
        raise BrokenRecordError(rule, str(values), "Check the examples by GraphSchemaGen.", int(batch.numbers[row]))


def _value_splits(
    batch: ExampleBatch, feature: FeatureColumn, sizes: _Splits
) -> Iterator[tuple[str, pa.Array, _Splits]]:
    """Yields the values of a feature, and of its row lengths, and where those of each item begin."""
    rows = sizes  # of each example
    splits = np.arange(int(sizes.sum()) + 1)
    for axis, size in enumerate(feature.shape):
        if size is not None:
            rows, splits = rows * size, splits * size
            continue
        key = feature.row_length_keys[axis]
        column = batch.column(key)
        _check_length(batch, key, column, rows)
        yield key, column.values, splits
        ends = splits_of(column.numbers)
        rows, splits = np.diff(ends[column.splits]), ends[splits]
    column = batch.column(feature.key)
    _check_length(batch, feature.key, column, rows)
    yield feature.key, column.values, splits


def _check_length(batch: ExampleBatch, key: str, column: Column, expected: _Splits) -> None:
    lengths = column.lengths
    for row in np.flatnonzero(lengths != expected)[:1]:
        raise BrokenRecordError(
            f"{key!r} has {expected[row]} values, by `#size` and shape",
            str(lengths[row]),
            "Check the examples by GraphSchemaGen.",
            int(batch.numbers[row]),
        )
