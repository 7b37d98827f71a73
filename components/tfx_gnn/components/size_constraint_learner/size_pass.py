"""The single mergeable Beam pass over the sizes of graphs."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.size_constraint_learner.size_summary import (
    NO_LABEL,
    SizeColumns,
    SizeSummary,
    SplitSummary,
    merge_size_summaries,
    merge_split_summaries,
    read_summary,
    write_summary,
)
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.fields import row_indices
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.records.examples_folder import RecordFile, count_records, place_of
from tfx_gnn.records.summary_pass import make_pipeline

_READ_BATCH = 1024
#: Graphs that are summed up at a time.
_BLOCK = 1 << 17
_MAX_SIZE = 2**31 - 1
_SEED_EDGES = f"{READOUT_NODE_SET}/seed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceKeys:
    """The keys that determine a graph's label class and its seed's degree.

    Attributes:
        label_key: key of the class; empty if graphs are not sliced.
        seed_key: key of the seed's position in its node set; empty if there is no seed or its node set has no edges.
        end_keys: keys of the edge ends that count towards the degree.
    """

    label_key: str = ""
    seed_key: str = ""
    end_keys: tuple[str, ...] = ()

    @staticmethod
    def of(spec: GraphTensorSpec, label_feature: str) -> SliceKeys:
        """Finds the keys; none if `label_feature` is empty."""
        if not label_feature:
            return SliceKeys()
        readout = spec.node_sets_spec.get(READOUT_NODE_SET)
        features = dict(readout.features_spec) if readout is not None else {}
        found: Any = features.get(label_feature)
        if not isinstance(found, tf.TensorSpec) or not found.dtype.is_integer or found.shape.rank != 1:
            kinds = {name: str(feature.dtype.name) for name, feature in sorted(features.items())}
            raise ValueError(
                f"`label_feature` must name a feature of `_readout` with one integer, the class; got "
                f"{label_feature!r}, where `_readout` has {kinds}. Let the transform number the classes, and name that "
                "feature."
            )
        label_key = f"{const.NODES}/{READOUT_NODE_SET}.{label_feature}"
        if _SEED_EDGES not in spec.edge_sets_spec:
            return SliceKeys(label_key=label_key)
        seed_set = spec.edge_sets_spec[_SEED_EDGES].adjacency_spec.source_name
        end_keys = []
        for name, edge_set in spec.edge_sets_spec.items():
            if not name.startswith(f"{READOUT_NODE_SET}/"):
                ends = edge_set.adjacency_spec
                end_keys += [f"{const.EDGES}/{name}.#source"] * (ends.source_name == seed_set)
                end_keys += [f"{const.EDGES}/{name}.#target"] * (ends.target_name == seed_set)
        return SliceKeys(
            label_key=label_key,
            seed_key=f"{const.EDGES}/{_SEED_EDGES}.#source" if end_keys else "",
            end_keys=tuple(end_keys),
        )

    def parsing_spec(self) -> dict[str, tf.io.RaggedFeature]:
        """Returns the parsing spec of the keys that are read in addition to sizes."""
        keys = [key for key in (self.label_key, self.seed_key, *self.end_keys) if key]
        return {key: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for key in keys}


def summarize_sizes(
    files: Sequence[RecordFile],
    columns: SizeColumns,
    slice_keys: SliceKeys,
    *,
    scratch_dir: str,
    beam_args: Sequence[str] = (),
) -> SizeSummary:
    """Reads the sizes of all graphs, on as many workers as Beam is given; each file is one unit of work.

    From each tf.Example, the `#size` values are read and, if slices are requested, the class and the edge ends
    at the seed's node set. The parser skips the bytes of all other features. All workers and the caller
    must be able to access `scratch_dir`.
    """
    path = os.path.join(scratch_dir, f"sizes-{uuid.uuid4().hex}.npz")
    with make_pipeline(beam_args) as pipeline:
        _ = (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Summarize" >> beam.ParDo(_SummarizeFile(columns, slice_keys))
            | "Merge" >> beam.CombineGlobally(merge_size_summaries)
            | "Write" >> beam.Map(write_summary, path)
        )
    summary = read_summary(path)
    tf.io.gfile.remove(path)
    return summary


class _SummarizeFile(beam.DoFn):
    """Summarizes the sizes of the graphs of a file.

    Its function is traced once for all files of a worker.
    """

    def __init__(self, columns: SizeColumns, slice_keys: SliceKeys) -> None:
        self._columns = columns
        self._slice_keys = slice_keys

    def setup(self) -> None:
        # Nothing here needs AutoGraph.
        signature = [tf.TensorSpec([None], tf.string)]
        self._measure = tf.function(self._rows_and_hashes, input_signature=signature, autograph=False)

    def process(self, file: RecordFile) -> Iterator[SizeSummary]:
        try:
            summary = self._summarize(file)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            yield SizeSummary(
                problem="`examples_dir` must hold gzipped TFRecords of tf.Examples with one `#size` per set; got "
                f"others in {place_of(file)}. Check them with GraphSchemaGen. Cause: {error.message}"
            )
        else:
            yield SizeSummary() if summary is None else SizeSummary(splits={file.split: summary})

    def _rows_and_hashes(self, records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # A set without `#size` is empty. The parser skips even the bytes of all other keys.
        spec: dict[str, Any] = {
            key: tf.io.FixedLenFeature([], tf.int64, default_value=0) for key in self._columns.size_keys
        }
        spec.update(self._slice_keys.parsing_spec())
        parsed = tf.io.parse_example(records, spec)
        zeros = tf.zeros_like(records, tf.int64)
        sizes = [parsed[key] for key in self._columns.size_keys]
        # 63 bits of the record's content: whether a graph is sampled does not depend on its place.
        hashes = tf.strings.to_hash_bucket_fast(records, 2**63 - 1)
        label = _first(parsed, self._slice_keys.label_key, NO_LABEL, zeros)
        return tf.stack([*sizes, label, self._degree_bucket(parsed, zeros)], axis=1), hashes

    def _summarize(self, file: RecordFile) -> SplitSummary | None:
        # Not mapped: TensorFlow would trace and optimize the function once more for each file.
        records = tf.data.TFRecordDataset(file.path, compression_type="GZIP").batch(_READ_BATCH).prefetch(1)
        ties = dict(self._columns.readout_of)
        summary: list[SplitSummary] = []
        for rows, hashes in _blocks(self._measured(records)):
            sizes = rows[:, :-2]
            if sizes.min(initial=0) < 0 or sizes.max(initial=0) > _MAX_SIZE:
                message = f"A `#size` of {sizes.min()} or {sizes.max()}, not in [0, {_MAX_SIZE}]."
                raise tf.errors.InvalidArgumentError(None, None, message)
            limited = np.clip(rows, NO_LABEL, _MAX_SIZE).astype(np.int32)
            part = SplitSummary.of_graphs(limited, hashes, ties)
            summary = [merge_split_summaries([*summary, part])]
        return summary[0] if summary else None

    def _measured(self, batches: tf.data.Dataset) -> Iterator[tuple[Any, Any]]:
        for batch in batches:
            rows, hashes = self._measure(batch)
            yield np.asarray(rows), np.asarray(hashes)
            count_records(batch.numpy())

    def _degree_bucket(self, parsed: dict[str, Any], zeros: tf.Tensor) -> tf.Tensor:
        """0 for degree 0, and i for degrees in [2**(i-1), 2**i)."""
        if not self._slice_keys.seed_key:
            return zeros
        seed = _first(parsed, self._slice_keys.seed_key, -1, zeros)
        degree = zeros
        for key in self._slice_keys.end_keys:
            ends = parsed[key]
            is_seed = tf.ragged.map_flat_values(tf.equal, ends, tf.gather(seed, row_indices(ends)))
            degree += tf.reduce_sum(tf.cast(is_seed, tf.int64), axis=1)
        bound, bucket = tf.ones_like(zeros), zeros
        for _ in range(_MAX_SIZE.bit_length()):
            bucket += tf.cast(degree >= bound, tf.int64)
            bound *= 2
        return bucket


def _first(parsed: dict[str, Any], key: str, default: int, zeros: tf.Tensor) -> tf.Tensor:
    """The first value of each example, int64 [num_examples]."""
    if not key:
        return zeros
    values = parsed[key]
    return tf.squeeze(values[:, :1].to_tensor(default, shape=[None, 1]), axis=1)


def _blocks(batches: Iterable[Any]) -> Iterable[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
    """Joins batches into blocks, so that many graphs are summed up at a time within bounded memory."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(rows) for rows, _ in waiting) >= _BLOCK:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    return np.concatenate([rows for rows, _ in batches]), np.concatenate([hashes for _, hashes in batches]).astype(
        np.uint64
    )
