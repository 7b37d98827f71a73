"""A cache of statistics of earlier spans, so that they need not be read again.

A dataset is a span of examples, or the tables. tf.Transform keeps what each analyzer gathered
from it; beside that lie the identities of the items that count in it, so that a later span
knows which of its items count already.
"""

from __future__ import annotations

import dataclasses
import os
import urllib.parse
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from google.protobuf import text_format
from tensorflow_transform.beam import analysis_graph_builder, analyzer_cache

import tfx_gnn
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.records.record_files import RecordFile
from tfx_gnn.records.value_hashes import Hashes
from tfx_gnn.transform.preprocessing import TensorPreprocessingFn
from tfx_gnn.transform.tables import TableReading

_IDENTITIES = "identities"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheFolders:
    """Where caches are.

    Attributes:
        read: what an earlier run wrote; empty for nothing.
        written: existing folder to write to; empty to write nothing.
    """

    read: str = ""
    written: str = ""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.read or self.written)


def span_keys(
    spans: Sequence[Sequence[RecordFile]], raw_schema: graph_schema_pb2.GraphSchema, *, is_chain: bool, more: str = ""
) -> tuple[analyzer_cache.DatasetKey, ...]:
    """Names spans of examples after what is in them: one key per span, equal for equal data.

    Names, sizes and times of change of the files stand for their content: to read them is what a cache saves. With
    `is_chain`, what counts in a span depends on the spans before it; `more` is what else it depends on.
    """
    keys: list[analyzer_cache.DatasetKey] = []
    common = "\n".join([tfx_gnn.__version__, text_format.MessageToString(raw_schema), more])
    chain = ""
    for files in spans:
        described = [f"{file.split} {file.shard} {file.num_shards} {_describe_file(file.path)}" for file in files]
        fingerprint = fingerprint_text("\n".join([common, chain, *described]))
        chain = fingerprint if is_chain else ""
        keys.append(analyzer_cache.DatasetKey(f"span-{fingerprint}"))
    return tuple(keys)


def tables_key(reading: TableReading, raw_schema: graph_schema_pb2.GraphSchema) -> analyzer_cache.DatasetKey:
    """Names tables after what is in them.

    Tables that are not in files are never cached: changes to them cannot be detected.
    """
    tables = [f"{label} {table.declared_as}" for label, table in sorted(reading.layouts.items())]
    files = [_describe_file(path) for table in reading.layouts.values() for path in table.files]
    text = [tfx_gnn.__version__, text_format.MessageToString(raw_schema), options_json.to_json(reading.rules)]
    key = analyzer_cache.DatasetKey(f"tables-{fingerprint_text(chr(10).join([*text, *tables, *files]))}")
    return key.non_cacheable() if any(table.bigquery for table in reading.layouts.values()) else key


def datasets_to_read(
    pipeline: beam.Pipeline,
    folders: CacheFolders,
    keys: Sequence[analyzer_cache.DatasetKey],
    preprocessing_fn: TensorPreprocessingFn,
    type_specs: Mapping[str, tf.TypeSpec],
) -> tuple[Any, Collection[analyzer_cache.DatasetKey]]:
    """Reads the cache of datasets, for `AnalyzeDatasetWithCache`, and finds the datasets that must be read."""
    entries = analysis_graph_builder.get_analysis_cache_entry_keys(
        preprocessing_fn, type_specs, set(keys), force_tf_compat_v1=False
    )
    cache: Any = {}
    if folders.read:
        read = analyzer_cache.ReadAnalysisCacheFromFS(folders.read, list(keys), cache_entry_keys=entries)
        cache = pipeline | "ReadCache" >> read
    needed = analysis_graph_builder.get_analysis_dataset_keys(
        preprocessing_fn, type_specs, set(keys), cache, force_tf_compat_v1=False
    )
    return cache, needed


def write_cache(pipeline: beam.Pipeline, folders: CacheFolders, cache: Any) -> None:
    """Adds the steps that write what `AnalyzeDatasetWithCache` gathered."""
    if cache:
        _ = cache | "WriteCache" >> tft_beam.analyzer_cache.WriteAnalysisCacheToFS(pipeline, folders.written)


def copy_cache(folders: CacheFolders, keys: Collection[analyzer_cache.DatasetKey]) -> None:
    """Copies what was gathered of datasets into the folder that is written."""
    for key in keys:
        source = os.path.join(folders.read, key.key)
        if not tf.io.gfile.isdir(source):
            continue
        for parent, _, names in tf.io.gfile.walk(source):
            target = os.path.join(folders.written, key.key, os.path.relpath(parent, source))
            tf.io.gfile.makedirs(target)
            for name in names:
                tf.io.gfile.copy(os.path.join(parent, name), os.path.join(target, name))


def has_identities(folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> bool:
    """Whether a cache has the identities of a span's items in all of these sets; an empty `folder` is no cache."""
    return not prefixes or (
        bool(folder) and all(tf.io.gfile.glob(f"{_identities_path(folder, key, prefix)}-*") for prefix in prefixes)
    )


class ReadIdentities(beam.PTransform):
    """The identities of the items that count in a span: PCollection of (prefix of the set, uint64 identities)."""

    def __init__(self, folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> None:
        super().__init__()
        self._paths = {prefix: _identities_path(folder, key, prefix) for prefix in sorted(prefixes)}

    def expand(self, input_or_inputs: Any) -> Any:
        """Reads from the pipeline's file system."""
        return [
            input_or_inputs
            | f"Read {prefix}" >> beam.io.ReadFromTFRecord(f"{path}-*")
            | f"Unpack {prefix}" >> beam.Map(_unpack, prefix)
            for prefix, path in self._paths.items()
        ] | "AllSets" >> beam.Flatten(pipeline=input_or_inputs.pipeline)


class WriteIdentities(beam.PTransform):
    """Writes what `ReadIdentities` reads."""

    def __init__(self, folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> None:
        super().__init__()
        self._paths = {prefix: _identities_path(folder, key, prefix) for prefix in sorted(prefixes)}

    def expand(self, input_or_inputs: Any) -> Any:
        """Writes a PCollection of (prefix of the set, uint64 identities); gives what Beam's sinks give, by prefix."""
        return {
            prefix: input_or_inputs
            | f"Choose {prefix}" >> beam.Filter(lambda found, wanted: found[0] == wanted, prefix)
            | f"Pack {prefix}" >> beam.MapTuple(lambda _, identities: identities.astype("<u8").tobytes())
            | f"Write {prefix}" >> beam.io.WriteToTFRecord(path)
            for prefix, path in self._paths.items()
        }


def _unpack(record: bytes, prefix: str) -> tuple[str, Hashes]:
    return prefix, np.frombuffer(record, "<u8").astype(np.uint64)


def _identities_path(folder: str, key: analyzer_cache.DatasetKey, prefix: str) -> str:
    return os.path.join(folder, key.key, _IDENTITIES, urllib.parse.quote(prefix, safe=""))


def _describe_file(path: str) -> str:
    stat = tf.io.gfile.stat(path)
    return f"{os.path.basename(path)} {stat.length} {stat.mtime_nsec}"
