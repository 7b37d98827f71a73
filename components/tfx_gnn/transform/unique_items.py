"""Deduplicates nodes and edges, so that statistics count each once.

Sampled subgraphs repeat nodes: a hub is in the neighbourhood of all its
neighbours. Here the items of the examples become columns, one item of each identity
is kept, and the kept items are packed into tf.Examples of the same layout.

Among items with the same identity, the first one in the first file is kept, so the choice depends on
neither the runner nor the order of processing. Beam shuffles blocks of items, grouped into buckets by
their hash, in which an item occurs once for each file that has it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from apache_beam import pvalue
from apache_beam.metrics import Metrics
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2

from tfx_gnn.records.example_batches import (
    KIND_OF_DTYPE,
    BrokenRuleError,
    ExampleBatch,
    ExampleDecoder,
    group_records,
    values_of,
)
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records
from tfx_gnn.records.graph_layout import GraphLayout, SetLayout
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.records.value_hashes import Hashes, by_bucket
from tfx_gnn.transform.items import BrokenRecordError, IdentityRule, ItemColumns, identity_rule
from tfx_gnn.transform.statistics import ItemSummaries

ITEMS_PER_EXAMPLE = 64
"""About as many as a sampled subgraph has nodes, so that batches of both take the same memory."""

EXAMPLES, IDENTITIES, REPRESENTATIVES, SUMMARIES = "examples", "identities", "representatives", "summaries"
"""Names of the outputs of `UniqueItems`."""

_LOG = logging.getLogger(__name__)
_ADVICE = "Make the examples again."
_BLOCKS, _DIFFERENCES = "blocks", "differences"

BucketKey = tuple[int, int]
"""Number of the set, and of the bucket."""

_MAX_PENDING_BYTES = 64 << 20
_MAX_REMEMBERED = 1 << 22  # Identities per set: 64 MiB.
_IDENTITY, _CONTENT, _PLACE = "#identity", "#content", "#place"
_NO_HASHES: Hashes = np.zeros(0, np.uint64)


class UniqueItems(beam.PTransform):
    """Maps record files to the items that statistics are computed from.

    Items that an `IdentityRule` recognizes count once over all files; others, and the
    context, count once in each example.
    """

    def __init__(
        self,
        layout: GraphLayout,
        keys: Collection[str],
        *,
        num_buckets: int = 1,
        summarizes: bool = False,
        as_sampled: bool = False,
        known: Any = None,
    ) -> None:
        """Chooses what to keep.

        `keys` are the features that tf.Transform computes statistics of; `summarizes` also summarizes all features;
        with `as_sampled` every occurrence of an item counts, even if items are recognized. `num_buckets` is a power
        of two. `known` is a PCollection of (prefix of the set, uint64 identities) of items that are counted elsewhere
        and left out here.
        """
        super().__init__()
        parts = (
            set_part(one_set, layout, keys, summarizes=summarizes, as_sampled=as_sampled) for one_set in layout.sets
        )
        self._parts = tuple(
            part
            for part in parts
            if part.analyzed.features or (summarizes and (part.carried.features or part.rule.recognizes_items))
        )
        self._layout, self._num_buckets, self._summarizes, self._known = layout, num_buckets, summarizes, known
        self._reasons = (
            {} if as_sampled else {part.prefix: part.rule.reason for part in self._parts if part.rule.reason}
        )

    def expand(self, input_or_inputs: Any) -> dict[str, Any]:
        """Maps a PCollection of `RecordFile` to PCollections by name.

        `EXAMPLES`: bytes, packed tf.Examples with the given keys and `#size`, without edge ends.
        `IDENTITIES`: (prefix of the set, uint64 identities) of items that are kept and recognized.
        `REPRESENTATIVES`: ((split, position of the file in the split), `PlacesOfSet`) of the same items.
        `SUMMARIES`: (split, `ItemSummaries`), if requested.
        """
        for prefix, reason in self._reasons.items():
            _LOG.info("Each occurrence of an item of %r counts in statistics: %s.", prefix, reason)
        taken_apart: Any = input_or_inputs | "TakeApart" >> beam.ParDo(
            _TakeApart(self._layout, self._parts, self._num_buckets, summarizes=self._summarizes)
        ).with_outputs(EXAMPLES, SUMMARIES, main=_BLOCKS)
        blocks = taken_apart[_BLOCKS]
        if self._known is not None:
            known = self._known | "Known" >> beam.FlatMap(_known_blocks, self._parts, self._num_buckets)
            blocks = (blocks, known) | "WithKnown" >> beam.Flatten()
        kept: Any = (
            blocks
            | "ByIdentity" >> beam.GroupByKey()
            | "KeepFirst"
            >> beam.ParDo(_KeepFirst(self._parts, summarizes=self._summarizes)).with_outputs(
                IDENTITIES, REPRESENTATIVES, SUMMARIES, _DIFFERENCES, main=EXAMPLES
            )
        )
        _ = (
            kept[_DIFFERENCES]
            | "AddDifferences" >> beam.CombinePerKey(_add_differences)
            | "WarnOfDifferences" >> beam.MapTuple(_warn_of_differences)
        )
        results = {name: kept[name] for name in (IDENTITIES, REPRESENTATIVES)}
        for name in (EXAMPLES, SUMMARIES) if self._summarizes else (EXAMPLES,):
            results[name] = (kept[name], taken_apart[name]) | f"All_{name}" >> beam.Flatten()
        return results


class _TakeApart(beam.DoFn):
    """Maps record files to blocks by set and bucket and, as tagged outputs, to what counts in each example."""

    def __init__(self, layout: GraphLayout, parts: Sequence[SetPart], num_buckets: int, *, summarizes: bool) -> None:
        self._parts, self._num_buckets, self._summarizes = parts, num_buckets, summarizes
        needed = frozenset().union(*(part.keys for part in parts))
        self._schema = schema_pb2.Schema(
            feature=[feature for feature in make_tfmd_schema(layout).feature if feature.name in needed]
        )
        dtypes = {column.key: column.dtype for column in layout.features.values()}
        self._kinds = {key: KIND_OF_DTYPE[dtypes.get(key, tf.int64)] for key in sorted(needed)}

    def setup(self) -> None:
        self._decoder = ExampleDecoder(self._schema)

    def process(self, element: RecordFile) -> Iterator[Any]:
        if not self._parts:
            return
        summaries = ItemSummaries()
        collectors = {
            part.prefix: ItemCollector(number, part, element, self._num_buckets)
            for number, part in enumerate(self._parts)
            if part.rule.recognizes_items
        }
        for first, records in group_records(read_records(element)):
            summaries.num_examples += len(records)
            try:
                for batch in self._decode(first, records):
                    for part in self._parts:
                        if part.prefix in collectors:
                            yield from collectors[part.prefix].add(batch)
                        else:
                            yield from self._all_items(part, batch, summaries)
            except BrokenRecordError as error:
                raise ValueError(error.message(place_of(element, error.number))) from error
        for collector in collectors.values():
            yield from collector.flush()
        if self._summarizes:
            yield pvalue.TaggedOutput(SUMMARIES, (element.split, summaries))

    def _all_items(self, part: SetPart, batch: ExampleBatch, summaries: ItemSummaries) -> Iterator[Any]:
        items = part.carried.take(batch)
        if self._summarizes:
            summaries.add(part.carried.columns(items))
        for packed in _pack(part, items):
            yield pvalue.TaggedOutput(EXAMPLES, packed)

    def _decode(self, first: int, records: Sequence[bytes]) -> tuple[ExampleBatch, ...]:
        decoded = self._decoder.decode(first, records)
        if len(decoded.undecodable):
            for number, record in enumerate(records, first):
                self._check(record, number)
            raise BrokenRecordError(
                "every record is a tf.Example", "one that cannot be decoded", _ADVICE, int(decoded.undecodable[0])
            )
        return decoded.batches

    def _check(self, record: bytes, number: int) -> None:
        try:
            features = tf.train.Example.FromString(record).features.feature
            for key, kind in self._kinds.items():
                values_of(features, key, kind)
        except DecodeError as error:
            got = f"{len(record)} other bytes"
            raise BrokenRecordError("every record is a tf.Example", got, _ADVICE, number) from error
        except BrokenRuleError as error:
            raise BrokenRecordError(error.rule, error.got, error.advice, number) from error


class _KeepFirst(beam.DoFn):
    """Maps the blocks of a bucket to one item of each identity."""

    def __init__(self, parts: Sequence[SetPart], *, summarizes: bool) -> None:
        self._parts, self._summarizes = parts, summarizes

    def process(self, element: tuple[BucketKey, Iterable[ItemBlock]]) -> Iterator[Any]:
        (number, _), blocks = element
        part, kept = self._parts[number], keep_first(list(blocks))
        if kept is None:
            return
        yield from _pack(part, kept.items)
        yield pvalue.TaggedOutput(IDENTITIES, (part.prefix, kept.identities))
        yield from self._of_files(part, kept)
        if kept.num_differing:
            assert part.rule.id_column is not None
            ids = part.carried.columns(kept.items)[part.rule.id_column.key].values
            example = repr(ids[kept.differing_row].as_py())
            yield pvalue.TaggedOutput(_DIFFERENCES, (part.prefix, (kept.num_differing, example)))

    def _of_files(self, part: SetPart, kept: KeptItems) -> Iterator[Any]:
        """Yields the kept items of each file."""
        for owner in np.unique(kept.owners).tolist():
            is_of_file = kept.owners == owner
            split, shard = kept.files[owner]
            yield pvalue.TaggedOutput(REPRESENTATIVES, ((split, shard), (part.prefix, kept.places[is_of_file])))
            if self._summarizes:
                summaries = ItemSummaries()
                rows = pa.array(np.flatnonzero(is_of_file))
                summaries.add(part.carried.columns(kept.items.take(rows)))
                yield pvalue.TaggedOutput(SUMMARIES, (split, summaries))


def _pack(part: SetPart, items: pa.RecordBatch) -> Iterator[bytes]:
    return part.analyzed.pack(items, ITEMS_PER_EXAMPLE) if part.analyzed.features else iter(())


def _known_blocks(
    known: tuple[str, Hashes], parts: Sequence[SetPart], num_buckets: int
) -> Iterator[tuple[BucketKey, ItemBlock]]:
    prefix, identities = known
    for number, part in enumerate(parts):
        if part.prefix == prefix:
            for bucket, rows in by_bucket(identities, num_buckets).items():
                yield (number, bucket), ItemBlock(items=None, identities=identities[rows])


def _add_differences(found: Iterable[tuple[int, str]]) -> tuple[int, str]:
    listed = list(found)
    return sum(count for count, _ in listed), min((example for _, example in listed), default="")


def _warn_of_differences(prefix: str, found: tuple[int, str]) -> None:
    count, example = found
    Metrics.counter("tfx_gnn", "ids_of_different_items").inc(count)
    _LOG.warning(
        "Items with the same '#id' must have the same features wherever they were sampled; %d of %r differ, such as "
        "%s. Statistics use the first of each. Compute features of an item's place in a subgraph after the statistics.",
        count,
        prefix,
        example,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetPart:
    """What to read of one set.

    Attributes:
        rule: how its items are identified.
        analyzed: features that tf.Transform computes statistics of.
        carried: the analyzed features, other summarized features, and the "#id".
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
    """Chooses what to read of a set.

    `keys` are the features that tf.Transform computes statistics of; `summarizes` summarizes all features; with
    `as_sampled` every occurrence of an item counts.
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
        origin: split, position of the file in the split, and position of the part in the file; None for items
            that count elsewhere.
        items: columns of features, identities, contents and places; None if there are no items.
        identities: uint64: identities of items whose contents differ; of all items that count elsewhere.
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
        """Adds items by identity and hash of their contents, both uint64 [n].

        Returns the positions of new items, the first of each identity, in ascending order; and the identities of
        items whose contents differ from the first one's.
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
            # An item may then occur twice from one file; `keep_first` drops the second.
            self._identities, self._contents = identities, contents
            return
        joined = np.concatenate([self._identities, identities])
        order = np.argsort(joined, kind="stable")
        self._identities = joined[order]
        self._contents = np.concatenate([self._contents, contents])[order]


class ItemCollector:
    """Collects the items of one set in one file, and returns them by bucket."""

    def __init__(self, number: int, part: SetPart, file: RecordFile, num_buckets: int) -> None:
        self._number, self._part, self._file, self._num_buckets = number, part, file, num_buckets
        self._seen = SeenItems()
        self._pending: list[pa.RecordBatch] = []
        self._differing: list[Hashes] = []
        self._num_items = self._num_flushed = self._pending_bytes = 0

    def add(self, batch: ExampleBatch) -> Iterator[tuple[BucketKey, ItemBlock]]:
        """Adds the items of consecutive examples; yields blocks once there are many items."""
        identities = self._part.rule.identities(batch)
        items = self._part.carried.take(batch)
        contents = np.zeros(len(identities), np.uint64)
        if self._part.rule.id_column is not None:  # Otherwise the identity covers all features.
            contents = self._part.analyzed.hash(batch)
        rows, differing = self._seen.add(identities, contents)
        self._differing.append(differing)
        if len(rows):
            known = {_IDENTITY: identities, _CONTENT: contents, _PLACE: self._num_items + np.arange(len(identities))}
            # In one batch: if there are no features, these columns give its number of rows.
            together = pa.RecordBatch.from_arrays(
                [*items.columns, *map(pa.array, known.values())], [*items.schema.names, *known]
            )
            self._pending.append(together.take(pa.array(rows)))
            self._pending_bytes += self._pending[-1].nbytes
        self._num_items += len(identities)
        if self._pending_bytes > _MAX_PENDING_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[BucketKey, ItemBlock]]:
        """Yields all remaining items, in blocks by bucket."""
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
        places: int64 [n]; position of each item among all items of the set in its file.
        files: split, and position in the split, of each file that the items come from.
        owners: int64 [n]; positions of the items' files in `files`, which may name a file more than once.
        num_differing: number of identities whose items differ.
        differing_row: position in `items` of one item with such an identity; -1 if there is none.
    """

    items: pa.RecordBatch
    identities: Hashes
    places: npt.NDArray[np.int64]
    files: Sequence[tuple[str, int]]
    owners: npt.NDArray[np.int64]
    num_differing: int
    differing_row: int


def keep_first(blocks: Sequence[ItemBlock]) -> KeptItems | None:
    """Keeps one item of each identity of a bucket: the first one in the first file.

    Items that count elsewhere are left out; None if there are no others.
    """
    found = [(block.origin, block.items) for block in blocks if block.origin is not None and block.items is not None]
    if not found:
        return None
    # Beam returns the blocks of a bucket in any order.
    found.sort(key=lambda pair: pair[0])
    items = _concat([part for _, part in found])
    identities = _numbers(items, _IDENTITY)
    rows, differing = SeenItems().add(identities, _numbers(items, _CONTENT))
    elsewhere = np.concatenate([_NO_HASHES, *(block.identities for block in blocks if block.origin is None)])
    rows = rows[~np.isin(identities[rows], elsewhere)]
    ends = np.cumsum([part.num_rows for _, part in found])
    kept = items.take(pa.array(rows))
    reported = [block.identities for block in blocks if block.origin is not None]
    is_differing = np.isin(identities[rows], np.concatenate([differing, *reported]))
    return KeptItems(
        items=kept,
        identities=identities[rows],
        places=_numbers(kept, _PLACE),
        files=[(split, shard) for (split, shard, _), _ in found],
        owners=np.searchsorted(ends, rows, side="right"),
        num_differing=int(is_differing.sum()),
        differing_row=int(np.argmax(is_differing)) if is_differing.any() else -1,
    )


def _concat(batches: Sequence[Any]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _numbers(items: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    return items.column(items.schema.get_field_index(name)).to_numpy(zero_copy_only=False)
