"""The manifest of a folder of precomputed batches: its contents and origin.

Records are read at nearly the speed of copying memory. Tensors of static shape and no strings, which are nearly all,
lie in a record of a fixed number of bytes, one dtype after another, each dtype at a multiple of 64 bytes. Reading such
a record is one copy, and one more for each dtype that parts its tensors; there is no step for each value, nor for
each graph. Strings and the values of ragged features go into a tf.Example beside it, if there are any.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tfx_gnn
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import parse_json
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS, PaddedBatch

FORMAT_VERSION = 1


MANIFEST_FILE = "precomputed_batches.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecomputedBatchesOptions:
    """Which batches to precompute.

    Attributes:
        num_epochs: passes over the split to store, at least 1, each in another order and batched anew.
        split: split of the transformed examples.
        batching: "packed", "fit_or_skip" or "tight".
        batch_size: graphs of a batch that the budget was learned for; 0 for the learner's own.
        success_ratio: which fit-or-skip budget to take; no other kind has one.
        shuffle_buffer_size: examples that are mixed at a time, at least 1.
        seed: seed of the order, in [0, 2**31).
    """

    num_epochs: int = 1
    split: str = "train"
    batching: str = "packed"
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("num_epochs", 1), ("shuffle_buffer_size", 1), ("batch_size", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        if self.batching not in BUDGET_KINDS:
            raise ValueError(
                f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {self.batching!r}. Choose one of these."
            )
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"`seed` must lie in [0, 2**31); got {self.seed}. Choose another number.")
        if not self.split:
            raise ValueError("`split` must name a split; got ''. Give the split to train on.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadyEpoch:
    """One stored pass over a split.

    Attributes:
        num_batches: batches.
        num_graphs: graphs in them.
        num_removed_batches: batches that did not fit, of fit-or-skip.
        num_removed_graphs: graphs in these.
        num_bytes: bytes on disk.
    """

    num_batches: int
    num_graphs: int
    num_removed_batches: int
    num_removed_graphs: int
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecomputedBatchesManifest:
    """The content of `precomputed_batches.json`.

    Attributes:
        data_fingerprint: `fingerprint_examples` of the split.
        graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
        options: what was asked for.
        budget: what batches are padded to.
        tensors: the tensors of a batch in the order in which they are stored.
        epochs: the stored epochs.
        tfx_gnn_version: version of the library that wrote the folder.
        format_version: version of this form.
    """

    data_fingerprint: str
    graph_schema_fingerprint: str
    options: PrecomputedBatchesOptions
    budget: Budget
    tensors: tuple[str, ...]
    epochs: tuple[ReadyEpoch, ...]
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = FORMAT_VERSION

    @property
    def num_bytes(self) -> int:
        """Bytes of all epochs on disk."""
        return sum(epoch.num_bytes for epoch in self.epochs)

    def check_matches(self, *, data_fingerprint: str, graph_schema_fingerprint: str, budget: Budget) -> None:
        """Refuses batches that were made of something else.

        Args:
            data_fingerprint: `fingerprint_examples` of the split at hand.
            graph_schema_fingerprint: `fingerprint_graph_schema` of its schema.
            budget: what batches are to be padded to.

        Raises:
            ValueError: if any differs.
        """
        for found, expected, what in (
            (self.data_fingerprint, data_fingerprint, "examples"),
            (self.graph_schema_fingerprint, graph_schema_fingerprint, "graph schema"),
        ):
            if found != expected:
                raise ValueError(
                    f"`precomputed_batches_dir` must hold batches of the same {what}; got those of fingerprint "
                    f"{found[:12]}..., the {what} at hand have {expected[:12]}.... Run `tfx-gnn batches` again."
                )
        found_budget, expected_budget = (_what_batches_depend_on(each) for each in (self.budget, budget))
        if found_budget != expected_budget:
            different = [name for name, value in found_budget.items() if value != expected_budget[name]]
            raise ValueError(
                "`precomputed_batches_dir` must hold batches of the same budget; got "
                f"{ {name: found_budget[name] for name in different} }, the budget at hand has "
                f"{ {name: expected_budget[name] for name in different} }. Run `tfx-gnn batches` again, or train with "
                "the budget that these were made with."
            )


def write_manifest(manifest: PrecomputedBatchesManifest, precomputed_batches_dir: str) -> None:
    """Writes `precomputed_batches.json`.

    Args:
        manifest: what to write.
        precomputed_batches_dir: existing folder.
    """
    text = json.dumps(json.loads(options_json.to_json(manifest)), indent=2, sort_keys=True)
    with tf.io.gfile.GFile(os.path.join(precomputed_batches_dir, MANIFEST_FILE), "w") as file:
        file.write(text + "\n")


def read_manifest(precomputed_batches_dir: str) -> PrecomputedBatchesManifest:
    """Reads `precomputed_batches.json`.

    Args:
        precomputed_batches_dir: folder of precomputed batches.

    Returns:
        Its content.

    Raises:
        ValueError: if there is no such file, or it is damaged, or of another version.
    """
    path = os.path.join(precomputed_batches_dir, MANIFEST_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`precomputed_batches_dir` must hold {MANIFEST_FILE}; got {precomputed_batches_dir!r}. "
            "Point at an output of `tfx-gnn batches`."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    try:
        content = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"`precomputed_batches_dir` must hold a whole {MANIFEST_FILE}; got text that is no JSON of it in {path!r}: "
            f"{error}. Run `tfx-gnn batches` again."
        ) from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"`format_version` must be {FORMAT_VERSION}; got {version!r} in {path!r}. "
            "Run `tfx-gnn batches` of this version of tfx_gnn again."
        )
    return options_json.from_json(data.decode(), PrecomputedBatchesManifest)


def _what_batches_depend_on(budget: Budget) -> dict[str, object]:
    return {
        "kind": budget.kind,
        "batch_size": budget.batch_size,
        "window": budget.window,
        **budget.constraints._asdict(),
    }


#: TensorFlow shares slices of a buffer that begin at multiples of it, and copies others.
_ALIGNMENT = 64


class PrecomputedBatchRecords:
    """Writes and reads the records of padded batches of one element spec."""

    def __init__(self, batch_spec: PaddedBatch) -> None:
        """Lays out the tensors.

        Args:
            batch_spec: the `element_spec` of a data set of `PaddedBatch`.
        """
        self._graph_spec = batch_spec.graph
        specs = _flat_specs(batch_spec)
        self._varying = {key: spec for key, spec in specs.items() if not _is_fixed(spec)}
        fixed = sorted((spec.dtype.name, key) for key, spec in specs.items() if _is_fixed(spec))
        # For each dtype the first byte, and the tensors.
        self._groups: list[tuple[int, tf.DType, dict[str, tf.TensorSpec]]] = []
        end = 0
        for dtype, keys in itertools.groupby(fixed, lambda item: item[0]):
            group = {key: specs[key] for _, key in keys}
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            self._groups.append((start, tf.as_dtype(dtype), group))
            end = start + tf.as_dtype(dtype).size * sum(_num_values(spec) for spec in group.values())
        self.num_bytes = end
        """Bytes of the record of a batch."""
        self.has_example = bool(self._varying)
        """Whether there is a tf.Example, too."""
        self.description = tuple(
            f"{key} {spec.dtype.name} {spec.shape.as_list()}"
            for group in (*(group for _, _, group in self._groups), self._varying)
            for key, spec in group.items()
        )
        """The tensors in the order of their values; equal if records are read alike."""

    def write(self, batch: PaddedBatch) -> tuple[bytes, bytes]:
        """Writes a batch.

        Args:
            batch: eager tensors.

        Returns:
            The record, of `num_bytes` little-endian bytes, and a serialized tf.Example.
        """
        flat = _flat_tensors(batch)
        record = np.zeros([self.num_bytes], np.uint8)
        for start, _, group in self._groups:
            parts = [np.ascontiguousarray(flat[key].numpy()).reshape([-1]).view(np.uint8) for key in group]
            values = np.concatenate(parts)
            record[start : start + values.size] = values
        example = tf.train.Example()
        for key, spec in self._varying.items():
            values = flat[key].numpy()
            strings = values.reshape([-1]).tolist() if spec.dtype == tf.string else [values.tobytes()]
            example.features.feature[key].bytes_list.value.extend(strings)
        return record.tobytes(), example.SerializeToString(deterministic=True)

    def read(self, record: tf.Tensor, example: tf.Tensor | None = None) -> PaddedBatch:
        """Reads a batch; part of a function of `tf.data.Dataset.map`.

        Args:
            record: string scalar, the record.
            example: string scalar, the tf.Example; None if `has_example` is False.

        Returns:
            The batch.
        """
        flat = self._read_fixed(record)
        if example is not None and self.has_example:
            flat |= self._read_varying(example)
        others = {name: flat.pop(name) for name in PaddedBatch._fields[1:]}
        return PaddedBatch(graph_from_flat_tensors(self._graph_spec, flat), **others)

    def _read_fixed(self, record: tf.Tensor) -> dict[str, tf.Tensor]:
        data = tf.ensure_shape(tf.io.decode_raw(record, tf.uint8), [self.num_bytes])
        flat: dict[str, tf.Tensor] = {}
        for start, dtype, group in self._groups:
            counts = [_num_values(spec) for spec in group.values()]
            values = _from_bytes(data[start : start + dtype.size * sum(counts)], dtype)
            for (key, spec), part in zip(group.items(), tf.split(values, counts), strict=True):
                flat[key] = part if spec.shape.rank == 1 else tf.reshape(part, spec.shape)
        return flat

    def _read_varying(self, example: tf.Tensor) -> dict[str, tf.Tensor]:
        features: dict[str, Any] = {}
        for key, spec in self._varying.items():
            if spec.dtype != tf.string:
                features[key] = tf.io.FixedLenFeature([], tf.string)
            elif spec.shape.is_fully_defined():
                features[key] = tf.io.FixedLenFeature(spec.shape, tf.string)
            else:
                features[key] = tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)
        parsed = tf.io.parse_single_example(example, features)
        for key, spec in self._varying.items():
            if spec.dtype != tf.string:
                parsed[key] = _from_bytes(tf.io.decode_raw(parsed[key], tf.uint8), spec.dtype)
            if not spec.shape.is_fully_defined():
                parsed[key] = _shaped(parsed[key], spec)
        return dict(parsed)


def _flat_specs(batch_spec: PaddedBatch) -> dict[str, tf.TensorSpec]:
    return graph_flat_tensor_specs(batch_spec.graph) | _others(batch_spec)


def _flat_tensors(batch: PaddedBatch) -> dict[str, tf.Tensor]:
    return graph_to_flat_tensors(batch.graph) | _others(batch)


def _others(batch: PaddedBatch) -> dict[str, Any]:
    """Returns all but the graph; no key of a graph is like these."""
    return {name: getattr(batch, name) for name in PaddedBatch._fields[1:]}


def _is_fixed(spec: tf.TensorSpec) -> bool:
    return bool(spec.shape.is_fully_defined() and spec.dtype != tf.string)


def _num_values(spec: tf.TensorSpec) -> int:
    return int(spec.shape.num_elements())


def _from_bytes(data: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Takes bytes, uint8 of shape [n], for values of a dtype, of shape [n / size]."""
    if dtype == tf.bool:
        return tf.cast(data, tf.bool)
    if dtype.size == 1:
        return tf.bitcast(data, dtype)
    return tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)


def _shaped(values: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Gives flat values a shape of which all but the first dimension are static."""
    inner: Mapping[int, int] | list[int] = spec.shape[1:].as_list()
    return tf.reshape(values, [-1, *inner]) if inner else values
