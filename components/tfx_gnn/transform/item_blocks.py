"""Blocks of items for deduplication, each identity at most once per file."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.records.example_batches import ExampleBatch
from tfx_gnn.records.graph_layout import GraphLayout, SetLayout
from tfx_gnn.records.record_files import RecordFile
from tfx_gnn.records.value_hashes import Hashes
from tfx_gnn.transform.item_columns import ItemColumns
from tfx_gnn.transform.item_identities import IdentityRule, identity_rule

BucketKey = tuple[int, int]
"""Number of the set, and of the bucket."""

_MAX_PENDING_BYTES = 64 << 20
_MAX_REMEMBERED = 1 << 22  # Identities a set: 64 MiB.
_IDENTITY, _CONTENT, _PLACE = "#identity", "#content", "#place"
_NO_HASHES: Hashes = np.zeros(0, np.uint64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetPart:
    """What is needed of one set.

    Attributes:
        rule: how its items are identified.
        analyzed: features that statistics of tf.Transform are taken of.
        carried: those, what else is summarized, and the "#id".
    """

    rule: IdentityRule
    analyzed: ItemColumns
    carried: ItemColumns

    @property
    def prefix(self) -> str:
        """The set, as in "nodes/package"."""
        return self.rule.one_set.prefix

    @property
    def keys(self) -> frozenset[str]:
        """tf.Example keys that are read."""
        return frozenset({*self.carried.keys, *self.rule.keys, *self.rule.one_set.structure_keys[:1]})


def set_part(
    one_set: SetLayout, layout: GraphLayout, keys: Collection[str], *, summarizes: bool, as_sampled: bool
) -> SetPart:
    """Chooses what is needed of a set.

    `keys` are the features that statistics of tf.Transform are taken of; with `summarizes` all features are summarized;
    with `as_sampled` every occurrence of an item counts.
    """
    rule = IdentityRule(one_set=one_set) if as_sampled else identity_rule(one_set, layout)
    analyzed = tuple(column for column in one_set.features if column.key in keys)
    carried = tuple(
        column for column in one_set.features if summarizes or column in analyzed or column == rule.id_column
    )
    return SetPart(rule=rule, analyzed=ItemColumns(one_set, analyzed), carried=ItemColumns(one_set, carried))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItemBlock:
    """Items of one set, of one bucket and of one part of a file.

    Attributes:
        origin: split, position of the file in it, and position of the part in the file; None for items that
            count elsewhere.
        items: columns of features, and identities, contents and places; None if there are none.
        identities: uint64: identities of items whose contents differ; of items that count elsewhere, all.
    """

    origin: tuple[str, int, int] | None = None
    items: pa.RecordBatch | None
    identities: Hashes


class SeenItems:
    """Remembers identities, and a hash of the contents of each."""

    def __init__(self) -> None:
        self._identities: Hashes = _NO_HASHES
        self._contents: Hashes = _NO_HASHES

    def add(self, identities: Hashes, contents: Hashes) -> tuple[npt.NDArray[np.int64], Hashes]:
        """Takes items by identity and hash of their contents, both uint64 [n].

        Returns positions of the items that are new, the first of each identity, in ascending order; and identities of
        items whose contents are not those of the first.
        """
        found = np.searchsorted(self._identities, identities)
        is_new = np.ones(len(identities), bool)
        inside = found < len(self._identities)
        is_new[inside] = self._identities[found[inside]] != identities[inside]
        known = np.flatnonzero(~is_new)
        differing = identities[known[contents[known] != self._contents[found[known]]]]
        new = np.flatnonzero(is_new)
        different, first, inverse = np.unique(identities[new], return_index=True, return_inverse=True)
        rows = new[first]
        others = identities[new[contents[new] != contents[rows][inverse]]]
        self._remember(different, contents[rows])
        return np.sort(rows), np.unique(np.concatenate([differing, others]))

    def _remember(self, identities: Hashes, contents: Hashes) -> None:
        if len(self._identities) + len(identities) > _MAX_REMEMBERED:
            self._identities, self._contents = identities, contents
            return
        joined = np.concatenate([self._identities, identities])
        order = np.argsort(joined, kind="stable")
        self._identities = joined[order]
        self._contents = np.concatenate([self._contents, contents])[order]


class ItemCollector:
    """Collects the items of one set in one file, and hands them out by bucket."""

    def __init__(self, number: int, part: SetPart, file: RecordFile, num_buckets: int) -> None:
        self._number, self._part, self._file, self._num_buckets = number, part, file, num_buckets
        self._seen = SeenItems()
        self._pending: list[pa.RecordBatch] = []
        self._differing: list[Hashes] = []
        self._num_items = self._num_flushed = self._pending_bytes = 0

    def add(self, batch: ExampleBatch) -> Iterator[tuple[BucketKey, ItemBlock]]:
        """Takes the items of examples that follow one another; yields blocks if there are many items now."""
        identities = self._part.rule.identities(batch)
        items = self._part.carried.take(batch)
        contents = np.zeros(len(identities), np.uint64)
        if self._part.rule.id_column is not None:  # Else the identity tells all features.
            contents = self._part.analyzed.hash(batch)
        rows, differing = self._seen.add(identities, contents)
        self._differing.append(differing)
        if len(rows):
            known = {_IDENTITY: identities, _CONTENT: contents, _PLACE: self._num_items + np.arange(len(identities))}
            # Together, for there may be no feature at all.
            together = pa.RecordBatch.from_arrays(
                [*items.columns, *map(pa.array, known.values())], [*items.schema.names, *known]
            )
            self._pending.append(together.take(pa.array(rows)))
            self._pending_bytes += self._pending[-1].nbytes
        self._num_items += len(identities)
        if self._pending_bytes > _MAX_PENDING_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[BucketKey, ItemBlock]]:
        """Yields all items that are left, in blocks by bucket."""
        items = _concat(self._pending) if self._pending else None
        differing = np.unique(np.concatenate([_NO_HASHES, *self._differing]))
        rows = by_bucket(_NO_HASHES if items is None else _numbers(items, _IDENTITY), self._num_buckets)
        differing_rows = by_bucket(differing, self._num_buckets)
        for bucket in sorted({*rows, *differing_rows}):
            yield (
                (self._number, bucket),
                ItemBlock(
                    origin=(self._file.split, self._file.shard, self._num_flushed),
                    items=items.take(pa.array(rows[bucket])) if items is not None and bucket in rows else None,
                    identities=differing[differing_rows[bucket]] if bucket in differing_rows else _NO_HASHES,
                ),
            )
        self._pending, self._differing = [], []
        self._pending_bytes = 0
        self._num_flushed += 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptItems:
    """The first item of each identity of a bucket.

    Attributes:
        items: columns of features, and others.
        identities: uint64 [n].
        places: int64 [n]; position of each among all items of the set in its file.
        files: split, and position in it, of each file that they come from.
        owners: int64 [n]; positions of their files in `files`, which may name a file more than once.
        num_differing: identities whose items differ.
        differing_row: position in `items` of one of those; -1 if there is none.
    """

    items: pa.RecordBatch
    identities: Hashes
    places: npt.NDArray[np.int64]
    files: Sequence[tuple[str, int]]
    owners: npt.NDArray[np.int64]
    num_differing: int
    differing_row: int


def keep_first(blocks: Sequence[ItemBlock]) -> KeptItems | None:
    """Keeps one item of each identity of a bucket: the first of the first file.

    Items that count elsewhere are left out; None if no other is left.
    """
    found = [(block.origin, block.items) for block in blocks if block.origin is not None and block.items is not None]
    if not found:
        return None
    found.sort(key=lambda pair: pair[0])
    items = _concat([part for _, part in found])
    identities = _numbers(items, _IDENTITY)
    rows, differing = SeenItems().add(identities, _numbers(items, _CONTENT))
    elsewhere = np.concatenate([_NO_HASHES, *(block.identities for block in blocks if block.origin is None)])
    rows = rows[~np.isin(identities[rows], elsewhere)]
    ends = np.cumsum([part.num_rows for _, part in found])
    kept = items.take(pa.array(rows))
    told = [block.identities for block in blocks if block.origin is not None]
    is_differing = np.isin(identities[rows], np.concatenate([differing, *told]))
    return KeptItems(
        items=kept,
        identities=identities[rows],
        places=_numbers(kept, _PLACE),
        files=[(split, shard) for (split, shard, _), _ in found],
        owners=np.searchsorted(ends, rows, side="right"),
        num_differing=int(is_differing.sum()),
        differing_row=int(np.argmax(is_differing)) if is_differing.any() else -1,
    )


def by_bucket(hashes: Hashes, num_buckets: int) -> dict[int, npt.NDArray[np.int64]]:
    """Parts hashes by their highest bits: positions in ascending order, by bucket; `num_buckets` is a power of two."""
    if not len(hashes):
        return {}
    # A shift by all 64 bits would be none at all.
    shift = np.uint64(64 - (num_buckets - 1).bit_length())
    buckets = hashes >> shift if num_buckets > 1 else np.zeros(len(hashes), np.uint64)
    order = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def _concat(batches: Sequence[Any]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _numbers(items: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    return items.column(items.schema.get_field_index(name)).to_numpy(zero_copy_only=False)
