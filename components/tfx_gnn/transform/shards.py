"""Applies the saved transform to record files, one output file per input file."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from apache_beam import pvalue

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.codec.canonical_bytes import canonical_examples
from tfx_gnn.graph.tensor.fields import row_indices
from tfx_gnn.io.renames import rename_file
from tfx_gnn.records import examples_folder
from tfx_gnn.records.example_batches import splits_of
from tfx_gnn.records.examples_folder import RecordFile, place_of
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout
from tfx_gnn.sampling.examples.record_encoder import RecordEncoder
from tfx_gnn.transform.application import EXAMPLES_AT_ONCE, SavedGraphTransform, transform_merged_features
from tfx_gnn.transform.finite_values import BatchPlaces, NumberCounts, merge_counts
from tfx_gnn.transform.statistics import ItemChoice, PlacesOfSet

SHARDS, SUMMARIES = "shards", "summaries"
"""Names of the outputs of `TransformFiles`."""

_RAW, _TRANSFORMED = "raw", "transformed"

_Batch = dict[str, Any]
_Slot = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
"""The values of one tf.Example key in all examples of a batch, and the positions where each example's begin."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformedShards:
    """Results of some files.

    Attributes:
        num_examples: examples written, by split.
        problem: message about the first file that could not be transformed; empty if all could.
        transformed: counts of the transformed features, by tf.Example key, without those of auxiliary sets, such as
            labels, which may be missing.
        raw: counts of the raw features, in the same form.
    """

    num_examples: dict[str, int] = dataclasses.field(default_factory=dict)
    problem: str = ""
    transformed: dict[str, NumberCounts] = dataclasses.field(default_factory=dict)
    raw: dict[str, NumberCounts] = dataclasses.field(default_factory=dict)


def merge_transformed_shards(parts: Iterable[TransformedShards]) -> TransformedShards:
    """Merges results of disjoint files."""
    num_examples: dict[str, int] = {}
    problem = ""
    parts = list(parts)
    for part in parts:
        for split, count in part.num_examples.items():
            num_examples[split] = num_examples.get(split, 0) + count
        problem = min(filter(None, (problem, part.problem)), default="")
    return TransformedShards(
        num_examples=num_examples,
        problem=problem,
        transformed=merge_counts([part.transformed for part in parts]),
        raw=merge_counts([part.raw for part in parts]),
    )


class TransformFiles(beam.PTransform):
    """Transforms record files into record files of the same split, position and order."""

    def __init__(
        self,
        transform_graph_dir: str,
        output_dir: str,
        written: Any,
        *,
        representatives: Any = None,
        summarized_splits: Collection[str] = (),
        as_sampled: bool = False,
    ) -> None:
        """Names the folders.

        `written` is a PCollection that exists once the transform is written, which is read with the first file.
        `representatives` are the items to summarize, from `UniqueItems`; None for none. Those of a window's earlier
        spans are not summarized.
        """
        super().__init__()
        self._written, self._representatives = written, representatives
        self._shard = _TransformShard(
            transform_graph_dir, output_dir, summarized_splits=summarized_splits, as_sampled=as_sampled
        )

    def expand(self, input_or_inputs: Any) -> dict[str, Any]:
        """Maps `RecordFile`s to `SHARDS` (`TransformedShards`) and `SUMMARIES` (split, `ItemSummaries`)."""
        files: Any = input_or_inputs | "ByFile" >> beam.Map(lambda file: ((file.split, file.shard), file))
        if self._representatives is None:
            with_items = files | "WithoutItems" >> beam.MapTuple(lambda _, file: (file, []))
        else:
            with_items = (
                (files, self._representatives)
                | "FilesAndItems" >> beam.CoGroupByKey()
                | "WithItems" >> beam.FlatMapTuple(lambda _, found: [(file, list(found[1])) for file in found[0]])
            )
        results = with_items | "Transform" >> beam.ParDo(self._shard, pvalue.AsIter(self._written)).with_outputs(
            SUMMARIES, main=SHARDS
        )
        return {name: results[name] for name in (SHARDS, SUMMARIES)}


class _TransformShard(beam.DoFn):
    """Maps a file, with the items to summarize, to its results."""

    def __init__(
        self, transform_graph_dir: str, output_dir: str, *, summarized_splits: Collection[str], as_sampled: bool
    ) -> None:
        self._transform_graph_dir = transform_graph_dir
        self._output_dir = output_dir
        self._summarized_splits = frozenset(summarized_splits)
        self._as_sampled = as_sampled
        self._transform: SavedGraphTransform | None = None
        self._transform_batch: Callable[[tf.Tensor], _Batch] | None = None

    def process(self, element: tuple[RecordFile, list[PlacesOfSet]], *_: object) -> Iterator[Any]:
        file, places = element
        if self._transform is None or self._transform_batch is None:
            self._transform = SavedGraphTransform(self._transform_graph_dir)
            self._transform_batch = _batch_function(self._transform)
        choice = None
        if file.split in self._summarized_splits and not file.earlier_span:
            choice = ItemChoice(self._transform.raw_layout, places, as_sampled=self._as_sampled)
        # Write elsewhere, then rename: a retry by Beam never leaves a partial file.
        counts: dict[str, dict[str, NumberCounts]] = {_RAW: {}, _TRANSFORMED: {}}
        attempt_dir = os.path.join(self._output_dir, f".attempt-{uuid.uuid4().hex}")
        try:
            count = examples_folder.write_split_shard(
                attempt_dir, file.split, file.shard, file.num_shards, self._records(file, choice, counts)
            )
        except _ShardError as error:
            tf.io.gfile.rmtree(attempt_dir)
            yield TransformedShards(problem=str(error))
            return
        (written,) = examples_folder.split_files(attempt_dir, file.split)
        folder = examples_folder.split_dir(self._output_dir, file.split)
        tf.io.gfile.makedirs(folder)
        rename_file(written, os.path.join(folder, os.path.basename(written)))
        tf.io.gfile.rmtree(attempt_dir)
        if choice is not None:
            yield pvalue.TaggedOutput(SUMMARIES, (file.split, choice.summaries))
        yield TransformedShards(num_examples={file.split: count}, transformed=counts[_TRANSFORMED], raw=counts[_RAW])

    def _records(
        self, file: RecordFile, choice: ItemChoice | None, counts: dict[str, dict[str, NumberCounts]]
    ) -> Iterator[bytes]:
        assert self._transform is not None
        assert self._transform_batch is not None
        dataset = tf.data.TFRecordDataset(file.path, compression_type="GZIP").batch(EXAMPLES_AT_ONCE).prefetch(1)
        num_records = 0
        try:
            for records in dataset:
                batch = tf.nest.map_structure(lambda tensor: tensor.numpy(), self._transform_batch(records))
                yield from _encode(batch, self._transform.raw_layout, file)
                found = _count_numbers(batch, self._transform.raw_layout, file, num_records, records.numpy())
                counts.update({part: merge_counts([counts[part], found[part]]) for part in counts})
                num_records += len(records)
                examples_folder.count_records(records.numpy())
                if choice is not None:
                    choice.summaries.num_examples += len(records)
                    _summarize(batch, choice, file)
        except tf.errors.OpError as error:
            raise _ShardError(
                "`preprocessing_fn` must be able to transform every example; got an error from TensorFlow in "
                f"{place_of(file)}. Check the examples by GraphSchemaGen. Cause: {error.message}"
            ) from error


class _ShardError(ValueError):
    """A file could not be transformed; the message says where and why."""


def _batch_function(transform: SavedGraphTransform) -> Callable[[tf.Tensor], _Batch]:
    layout = transform.raw_layout

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def transform_batch(records: tf.Tensor) -> _Batch:
        sizes, ends, raw = _parse(records, layout)
        features = transform_merged_features(transform, raw, sizes)
        return {
            "sizes": sizes,
            "ends": ends,
            _TRANSFORMED: {key: _components(value) for key, value in features.items()},
            _RAW: {key: _components(raw[key]) for key, column in layout.features.items() if column.dtype != tf.string},
        }

    result: Callable[[tf.Tensor], _Batch] = transform_batch
    return result


def _components(value: const.Field) -> list[tf.Tensor]:
    return [value.flat_values, *value.nested_row_splits] if isinstance(value, tf.RaggedTensor) else [value]


def _count_numbers(
    batch: _Batch, layout: GraphLayout, file: RecordFile, first_record: int, records: Sequence[bytes]
) -> dict[str, dict[str, NumberCounts]]:
    """Counts the numbers of a batch before and after the transform, by tf.Example key."""
    item_splits = _item_splits(batch)
    counts: dict[str, dict[str, NumberCounts]] = {_RAW: {}, _TRANSFORMED: {}}
    for part, of_part in counts.items():
        for key, (flat_values, *row_splits) in batch[part].items():
            one_set = layout.owner_of(key)
            if one_set.name.startswith("_") or not np.issubdtype(flat_values.dtype, np.number):
                continue
            if part == _RAW or np.issubdtype(flat_values.dtype, np.floating):
                places = BatchPlaces(
                    file=file,
                    first_record=first_record,
                    records=records,
                    one_set=one_set,
                    item_splits=item_splits[one_set.prefix],
                )
                of_part[key] = places.count(flat_values, row_splits, finds_lowest=part == _RAW)
    return counts


def _item_splits(batch: _Batch) -> dict[str, npt.NDArray[np.int64]]:
    sizes = batch["sizes"]
    num_graphs = len(next(iter(sizes.values())))
    return {const.CONTEXT: np.arange(num_graphs + 1), **{prefix: splits_of(value) for prefix, value in sizes.items()}}


def _parse(
    records: tf.Tensor, layout: GraphLayout
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, const.Field]]:
    """Returns sizes by prefix, edge ends as stored by key, and merged features and edge ends by key."""
    spec: dict[str, Any] = {}
    for one_set in layout.sets:
        keys = [*one_set.structure_keys]
        for column in one_set.features:
            spec[column.key] = tf.io.RaggedFeature(column.dtype, row_splits_dtype=tf.int64)
            keys += column.row_length_keys.values()
        spec.update({key: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for key in keys})
        if one_set.set_type != const.CONTEXT:
            spec[one_set.size_key] = tf.io.FixedLenFeature([], tf.int64, default_value=0)
    parsed = tf.io.parse_example(canonical_examples(records), spec)
    sizes = {one_set.prefix: parsed[one_set.size_key] for one_set in layout.sets if one_set.set_type != const.CONTEXT}
    ends: dict[str, tf.Tensor] = {}
    raw: dict[str, const.Field] = {column.key: _shaped(parsed, column) for column in layout.features.values()}
    for one_set in layout.sets:
        if one_set.set_type == const.EDGES:
            for key, node_set in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target)):
                begins = tf.cumsum(sizes[f"{const.NODES}/{node_set}"], exclusive=True)
                ends[key] = parsed[key].values
                raw[key] = ends[key] + tf.gather(begins, row_indices(parsed[key]))
    return sizes, ends, raw


def _shaped(parsed: Mapping[str, tf.RaggedTensor], column: FeatureColumn) -> const.Field:
    """Returns the values of all examples in the column's shape, `[total_items, *shape]`."""
    sizes = list(column.shape)
    inner: list[int] = []
    while sizes and sizes[-1] is not None:
        inner.insert(0, sizes.pop() or 0)
    value: const.Field = tf.reshape(parsed[column.key].values, [-1, *inner])
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        if size is None:
            lengths = parsed[column.row_length_keys[axis]].values
        else:
            num_rows = value.nrows() if isinstance(value, tf.RaggedTensor) else tf.shape(value, tf.int64)[0]
            lengths = tf.fill([num_rows // size], tf.constant(size, tf.int64))
        value = tf.RaggedTensor.from_row_lengths(value, lengths, validate=False)
    return value


def _summarize(batch: _Batch, choice: ItemChoice, file: RecordFile) -> None:
    sizes = {prefix: int(value.sum()) for prefix, value in batch["sizes"].items()}
    sizes[const.CONTEXT] = len(next(iter(batch["sizes"].values())))
    keys_by_prefix: dict[str, list[str]] = {prefix: [] for prefix in sizes}
    for key in batch[_TRANSFORMED]:
        keys_by_prefix[choice.layout.owner_of(key).prefix].append(key)
    for prefix, keys in keys_by_prefix.items():
        splits = np.arange(sizes[prefix] + 1)
        slots: dict[str, _Slot] = {}
        for key in keys:
            flat_values, *row_splits = batch[_TRANSFORMED][key]
            slots |= _feature_slots(key, flat_values, row_splits, splits, file)
        items = {
            key: pa.LargeListArray.from_arrays(pa.array(splits), _arrow(values))
            for key, (values, splits) in slots.items()
        }
        choice.add(prefix, sizes[prefix], items)


def _encode(batch: _Batch, layout: GraphLayout, file: RecordFile) -> list[bytes]:
    sizes = batch["sizes"]
    num_graphs = len(next(iter(sizes.values())))
    item_splits = _item_splits(batch)
    slots = {
        layout.set_by_prefix[prefix].size_key: (value, np.arange(num_graphs + 1)) for prefix, value in sizes.items()
    }
    for key, value in batch["ends"].items():
        slots[key] = (value, item_splits[layout.owner_of(key).prefix])
    for key, (flat_values, *row_splits) in batch[_TRANSFORMED].items():
        slots |= _feature_slots(key, flat_values, row_splits, item_splits[layout.owner_of(key).prefix], file)
    encoder = RecordEncoder({key: _arrow(values) for key, (values, _) in slots.items()})
    rows = {key: (np.arange(len(values)), splits) for key, (values, splits) in slots.items()}
    return encoder.encode(num_graphs, rows, {})


def _arrow(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values, pa.large_binary() if values.dtype == object else None)


def _feature_slots(
    key: str,
    flat_values: npt.NDArray[Any],
    row_splits: list[npt.NDArray[np.int64]],
    item_splits: npt.NDArray[np.int64],
    file: RecordFile,
) -> dict[str, _Slot]:
    """Returns the values of a feature and its row lengths, by key."""
    num_rows = len(row_splits[0]) - 1 if row_splits else len(flat_values)
    if num_rows != item_splits[-1]:
        raise _ShardError(
            f"`preprocessing_fn` must give one row for each item; got {num_rows} rows of {key!r} for "
            f"{item_splits[-1]} items in {place_of(file)}. Keep the first dimension of the features."
        )
    slots: dict[str, _Slot] = {}
    splits = item_splits
    for axis, ends in enumerate(row_splits):
        slots[f"{key}.d{axis + 1}"] = (np.diff(ends), splits)
        splits = ends[splits]
    values_per_row = int(np.prod(flat_values.shape[1:], dtype=np.int64))
    return {key: (flat_values.reshape(-1), splits * values_per_row), **slots}
