"""Records of precomputed batches: the tensors of one padded batch as bytes.

Records are read at nearly the speed of a memory copy. Tensors of static shape that are not strings, which are nearly
all, are stored in a record of fixed size, one dtype after another, each dtype at a multiple of 64 bytes. Reading such a
record takes one copy, and one more per dtype to split it into tensors; nothing is done per value or per graph. Strings
and the values of ragged features, if any, go into a separate tf.Example.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.training.data.padded_batches import PaddedBatch

#: TensorFlow shares memory with slices of a buffer that start at multiples of this, and copies other slices.
_ALIGNMENT = 64


class PrecomputedBatchRecords:
    """Writes and reads the records of padded batches of one element spec."""

    def __init__(self, batch_spec: PaddedBatch) -> None:
        """Lays out the tensors of batches with an `element_spec`."""
        self._graph_spec = batch_spec.graph
        specs = _flat_specs(batch_spec)
        self._varying = {key: spec for key, spec in specs.items() if not _is_fixed(spec)}
        fixed = sorted((spec.dtype.name, key) for key, spec in specs.items() if _is_fixed(spec))
        # For each dtype, its first byte and its tensors.
        self._groups: list[tuple[int, tf.DType, dict[str, tf.TensorSpec]]] = []
        end = 0
        for dtype, keys in itertools.groupby(fixed, lambda item: item[0]):
            group = {key: specs[key] for _, key in keys}
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            self._groups.append((start, tf.as_dtype(dtype), group))
            end = start + tf.as_dtype(dtype).size * sum(_num_values(spec) for spec in group.values())
        self.num_bytes = end
        """Size of a batch's record in bytes."""
        self.has_example = bool(self._varying)
        """Whether each batch also has a tf.Example."""
        self.description = tuple(
            f"{key} {spec.dtype.name} {spec.shape.as_list()}"
            for group in (*(group for _, _, group in self._groups), self._varying)
            for key, spec in group.items()
        )
        """The tensors in the order of their values; equal layouts read records the same way."""

    def write(self, batch: PaddedBatch) -> tuple[bytes, bytes]:
        """Writes an eager batch as a record of `num_bytes` little-endian bytes and a serialized tf.Example."""
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
        """Reads a batch inside `tf.data.Dataset.map`; `example` is None if `has_example` is False."""
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
    """Returns all tensors but the graph's, under keys that no graph uses."""
    return {name: getattr(batch, name) for name in PaddedBatch._fields[1:]}


def _is_fixed(spec: tf.TensorSpec) -> bool:
    return bool(spec.shape.is_fully_defined() and spec.dtype != tf.string)


def _num_values(spec: tf.TensorSpec) -> int:
    return int(spec.shape.num_elements())


def _from_bytes(data: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Reinterprets bytes, uint8 of shape [n], as values of a dtype, of shape [n / size]."""
    if dtype == tf.bool:
        return tf.cast(data, tf.bool)
    if dtype.size == 1:
        return tf.bitcast(data, dtype)
    return tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)


def _shaped(values: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Gives flat values a shape whose dimensions are static, except perhaps the first."""
    inner: Mapping[int, int] | list[int] = spec.shape[1:].as_list()
    return tf.reshape(values, [-1, *inner]) if inner else values
