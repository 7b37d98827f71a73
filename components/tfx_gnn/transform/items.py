"""Items of a set: unpacked from examples as Arrow columns, packed again, and recognized by their identities.

Identities are 64-bit hashes (`value_hashes`). Hashes of integer ids never collide. Among a billion
items with other ids, the chance that any two collide is about one in forty; one of the two would
then not be counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import BrokenRuleError, Column, ExampleBatch, flat_index, list_column, splits_of
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout, SetLayout
from tfx_gnn.records.value_hashes import Hashes, hash_items, hash_pairs
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder
from tfx_gnn.sampling.random_choice import mix

_Splits = npt.NDArray[np.int64]


class BrokenRecordError(BrokenRuleError):
    """An example breaks a rule; says which example.

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
        """Takes the items of a batch, concatenated over all examples.

        The result has one row per item, and one column of lists for each of `keys`. Raises BrokenRecordError if an
        example's number of values does not match `#size` and the shapes.
        """
        sizes = set_sizes(batch, self.one_set)
        arrays, names = [], []
        for feature in self.features:
            for key, values, splits in _value_splits(batch, feature, sizes):
                arrays.append(pa.LargeListArray.from_arrays(pa.array(splits), values))
                names.append(key)
        return pa.RecordBatch.from_arrays(arrays, names)

    def check(self, batch: ExampleBatch) -> None:
        """Raises BrokenRecordError if `take` would do so for a batch."""
        sizes = set_sizes(batch, self.one_set)
        for feature in self.features:
            list(_value_splits(batch, feature, sizes))

    def hash(self, batch: ExampleBatch) -> Hashes:
        """Hashes the values of these features for each item of a checked batch: uint64 [num_items]."""
        hashes: Hashes = np.zeros(int(set_sizes(batch, self.one_set).sum()), np.uint64)
        for feature in self.features:
            hashes = mix(hashes ^ hash_items(batch, feature, self.one_set.prefix))
        return hashes

    def pack(self, items: pa.RecordBatch, items_per_example: int) -> Iterator[bytes]:
        """Packs items from `take` into serialized tf.Examples with `keys` and `#size`, without other columns."""
        bounds = np.append(np.arange(0, items.num_rows, items_per_example), items.num_rows)
        columns = self.columns(items)
        rows = {key: (np.arange(len(column.values)), column.splits[bounds]) for key, column in columns.items()}
        sizes = {}
        if self.one_set.set_type != const.CONTEXT:
            sizes[self.one_set.size_key] = (np.diff(bounds), np.arange(len(bounds)))
        encoder = RecordEncoder({key: column.values for key, column in columns.items()})
        yield from encoder.encode(len(bounds) - 1, rows, sizes)

    def columns(self, items: pa.RecordBatch) -> dict[str, Column]:
        """Reads items from `take` as if each were an example of its own, without other columns."""
        return {key: list_column(items.column(items.schema.get_field_index(key))) for key in self.keys}


@dataclasses.dataclass(frozen=True, kw_only=True)
class IdentityRule:
    """How the items of one set are identified.

    Items of a set with "#id" are identified by it. Other edges are identified by the "#id" of the nodes at both ends,
    by all their features, and by the number of equal edges before them in the example, so that parallel edges keep
    their number. All other items have no identity, and each occurrence counts.

    Attributes:
        one_set: the set.
        id_column: its "#id", if it has one.
        ends: for an edge set without "#id", the "#id" of the source and the target node set, by the key of the end;
            empty if either node set has none.
    """

    one_set: SetLayout
    id_column: FeatureColumn | None = None
    ends: tuple[tuple[str, SetLayout], ...] = ()

    @property
    def recognizes_items(self) -> bool:
        """Whether items are recognized in other subgraphs and files."""
        return self.id_column is not None or bool(self.ends)

    @property
    def keys(self) -> tuple[str, ...]:
        """tf.Example keys that identities are made from, including sizes."""
        if self.id_column is not None:
            return (self.one_set.size_key, self.id_column.key)
        if not self.ends:
            return ()
        keys = [self.one_set.size_key]
        for column in self.one_set.features:
            keys += [column.key, *column.row_length_keys.values()]
        for key, nodes in self.ends:
            assert nodes.id_column is not None
            keys += [key, nodes.size_key, nodes.id_column.key]
        return tuple(keys)

    @property
    def reason(self) -> str:
        """The reason why each occurrence of an item counts; empty if items are recognized."""
        if self.recognizes_items:
            return ""
        if self.one_set.set_type == const.EDGES:
            return "neither the edges nor the nodes at both of their ends have '#id'"
        if self.one_set.set_type == const.NODES:
            return "its nodes have no '#id'"
        return "each graph has its own"

    def identities(self, batch: ExampleBatch) -> Hashes:
        """Hashes the identities of the items of a batch, concatenated over all examples: uint64 [num_items].

        Raises BrokenRecordError if an item lacks its "#id" or a feature, or an edge its source or target.
        """
        prefix = self.one_set.prefix
        if self.id_column is not None:
            check_ids(batch, self.one_set, self.id_column)
            return hash_items(batch, self.id_column, prefix)
        check_ends(batch, self.one_set, self.ends)
        ItemColumns(self.one_set, self.one_set.features).check(batch)
        ends = []
        for key, nodes in self.ends:
            assert nodes.id_column is not None
            check_ids(batch, nodes, nodes.id_column)
            ids = hash_items(batch, nodes.id_column, nodes.prefix)
            ends.append(ids[flat_index(batch, key, nodes.name)])
        hashes = hash_pairs(*ends)
        for column in self.one_set.features:
            hashes = hash_pairs(hashes, hash_items(batch, column, prefix))
        return mix(hashes ^ mix(_earlier_equals(hashes, batch.column(self.ends[0][0]).owners())))


def identity_rule(one_set: SetLayout, layout: GraphLayout) -> IdentityRule:
    """Finds how the items of a set are identified."""
    if one_set.set_type == const.CONTEXT:
        return IdentityRule(one_set=one_set)
    if one_set.id_column is not None or one_set.set_type == const.NODES:
        return IdentityRule(one_set=one_set, id_column=one_set.id_column)
    ends = tuple(
        (key, layout.set_by_prefix[f"{const.NODES}/{name}"])
        for key, name in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target))
    )
    has_ids = all(nodes.id_column is not None for _, nodes in ends)
    return IdentityRule(one_set=one_set, ends=ends if has_ids else ())


def _earlier_equals(hashes: Hashes, owners: npt.NDArray[np.int64]) -> Hashes:
    """Counts, for each value, the equal values of the same owner before it; uint64 [n]."""
    counts = np.zeros(len(hashes), np.uint64)
    if len(hashes):
        # A stable sort: equal edges keep their order in the example.
        order = np.lexsort([hashes, owners])
        is_first = np.ones(len(hashes), bool)
        is_first[1:] = (hashes[order][1:] != hashes[order][:-1]) | (owners[order][1:] != owners[order][:-1])
        positions = np.arange(len(hashes))
        counts[order] = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    return counts


def set_sizes(batch: ExampleBatch, one_set: SetLayout) -> _Splits:
    """Reads the number of items in each example: int64 [num_examples]; 1 for the context, 0 without `#size`."""
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
    """Raises BrokenRecordError unless each example has one "#id" per item."""
    sizes, lengths = set_sizes(batch, one_set), batch.column(id_column.key).lengths
    for row in np.flatnonzero(sizes != lengths)[:1]:
        raise BrokenRecordError(
            f"{id_column.key!r} identifies every item",
            f"{lengths[row]} for {sizes[row]} items",
            "Write all ids.",
            int(batch.numbers[row]),
        )


def check_ends(batch: ExampleBatch, edges: SetLayout, ends: Sequence[tuple[str, SetLayout]]) -> None:
    """Raises BrokenRecordError unless each example has as many edge ends as edges, each at one of its nodes.

    `ends` are the keys of the edge ends, and their node sets.
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
    """Yields the values of a feature and of its row lengths, each with the positions where an item's values begin."""
    rows = sizes  # rows of each example
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
