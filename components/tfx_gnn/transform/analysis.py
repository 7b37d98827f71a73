"""The analysis step: statistics over unique items, rows of tables, or examples as sampled.

Statistics of earlier spans are cached, so that these spans need not be read again. A dataset is a span of examples, or
the tables. tf.Transform stores what each analyzer gathered from a dataset; next to it are stored the identities of the
items counted in it, so that a later span knows which of its items were counted.

The spans of a rolling window are snapshots of one graph, not parts of it. Each of them counts its own items, so what is
stored of one does not depend on the others, and stays right when the window moves on.
"""

from __future__ import annotations

import dataclasses
import os
import urllib.parse
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from google.protobuf import text_format
from tensorflow_transform.beam import analysis_graph_builder, analyzer_cache
from tfx_bsl.public import tfxio

import tfx_gnn
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_text
from tfx_gnn.io.whole_files import copy_files
from tfx_gnn.records.examples_folder import RecordFile, describe_content, read_records
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.value_hashes import Hashes, num_buckets_for
from tfx_gnn.transform.analyze_modes import AS_SAMPLED, TABLES, UNIQUE_ITEMS
from tfx_gnn.transform.items import identity_rule
from tfx_gnn.transform.preprocessing import TensorPreprocessingFn, fingerprint_operations
from tfx_gnn.transform.tables import TableBatches, TableReading
from tfx_gnn.transform.unique_items import EXAMPLES, IDENTITIES, UniqueItems

_RECORDS_PER_BATCH = 128
_IDENTITIES_DIR = "identities"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalyzedData:
    """The data to compute statistics from.

    Attributes:
        raw_schema: schema of the examples.
        layout: the keys of the examples.
        keys: features to compute statistics of; ignored if `as_sampled`.
        spans: files of the examples by span, earlier spans first. An item counts in the first span that has it.
        is_window: whether an item counts once in each span that has it instead.
        as_sampled: whether every occurrence of an item counts, structure included.
        tables: tables to read some features from, instead of from the examples.
        summarizes: whether to summarize the items of the last span.
    """

    raw_schema: graph_schema_pb2.GraphSchema
    layout: GraphLayout
    keys: frozenset[str]
    spans: tuple[tuple[RecordFile, ...], ...]
    is_window: bool = False
    as_sampled: bool = False
    tables: TableReading | None = None
    summarizes: bool = False

    @property
    def example_keys(self) -> frozenset[str]:
        """The `keys` that are read from the examples."""
        return self.keys if self.tables is None else self.keys - self.tables.keys

    @property
    def known_sets(self) -> frozenset[str]:
        """Prefixes of the sets whose items are recognized in later spans."""
        if self.as_sampled or self.is_window:
            return frozenset()
        owners = {self.layout.owner_of(key).prefix: self.layout.owner_of(key) for key in self.example_keys}
        return frozenset(
            prefix for prefix, owner in owners.items() if identity_rule(owner, self.layout).recognizes_items
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """What `analyze` adds to a pipeline.

    Attributes:
        transform_fn: input of `WriteTransformFn`.
        summarized: output of `UniqueItems` for the last span if its items are summarized, else None.
        num_spans_read: spans whose examples are read; what the others count is in the cache.
    """

    transform_fn: Any
    summarized: Any
    num_spans_read: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheFolders:
    """Folders of caches.

    Attributes:
        read: cache of an earlier run; empty for none.
        written: existing folder to write to; empty to write nothing.
    """

    read: str = ""
    written: str = ""

    def __bool__(self) -> bool:
        """Whether a cache is read or written."""
        return bool(self.read or self.written)


def analyze(
    pipeline: beam.Pipeline,
    data: AnalyzedData,
    source: tfxio.TFExampleBeamRecord,
    preprocessing_fn: TensorPreprocessingFn,
    folders: CacheFolders,
) -> Analysis:
    """Adds the steps that compute statistics, within a context of tf.Transform."""
    reader = _Reader(pipeline, data, source)
    if folders:
        transform_fn = _analyze_with_cache(reader, preprocessing_fn, folders)
        return reader.analysis(transform_fn)
    reader.read_spans(range(len(data.spans)), {})
    if data.tables is not None:
        reader.read_tables()
    batches: Any = list(reader.batches.values())
    batches = batches[0] if len(batches) == 1 else batches | "AllBatches" >> beam.Flatten()
    transform_fn = (batches, source.TensorAdapterConfig()) | "Analyze" >> tft_beam.AnalyzeDataset(preprocessing_fn)
    return reader.analysis(transform_fn)


def _analyze_with_cache(reader: _Reader, preprocessing_fn: TensorPreprocessingFn, folders: CacheFolders) -> Any:
    pipeline, data, source = reader.pipeline, reader.data, reader.source
    type_specs = source.TensorAdapter().OriginalTypeSpecs()
    operations = fingerprint_operations(preprocessing_fn, type_specs)
    mode = AS_SAMPLED if data.as_sampled else f"{UNIQUE_ITEMS} {sorted(data.tables.features) if data.tables else []}"
    is_chain = not (data.as_sampled or data.is_window)
    keys: dict[int | str, Any] = dict(
        enumerate(span_keys(data.spans, data.raw_schema, is_chain=is_chain, more=f"{mode} {operations}"))
    )
    if data.tables is not None:
        keys[TABLES] = tables_key(data.tables, data.raw_schema, more=operations)
    cache, needed_keys = datasets_to_read(pipeline, folders, list(keys.values()), preprocessing_fn, type_specs)
    needed = {name for name, key in keys.items() if key in needed_keys}
    read, identities = set(needed), {}
    for number in reversed(range(len(data.spans))):
        if number in read or not any(later in read for later in range(number + 1, len(data.spans))):
            continue
        # An item of a span that is read may already count in this one, unless each span counts its own.
        if has_identities(folders.read, keys[number], data.known_sets):
            identities[number] = ReadIdentities(folders.read, keys[number], data.known_sets)
        else:
            read.add(number)
    reader.read_spans([number for number in range(len(data.spans)) if number in read], identities)
    if TABLES in read:
        reader.read_tables()
    datasets = {key: reader.batches.get(name) if name in needed else None for name, key in keys.items()}
    transform_fn, gathered = (datasets, cache, source.TensorAdapterConfig()) | "Analyze" >> (
        tft_beam.AnalyzeDatasetWithCache(preprocessing_fn, pipeline=pipeline)
    )
    if folders.written:
        copy_cache(folders, keys.values())
        write_cache(pipeline, folders, gathered)
        for number, found in reader.identities.items():
            _ = found | f"KeepIdentities{number}" >> WriteIdentities(folders.written, keys[number], data.known_sets)
    return transform_fn


class _Reader:
    """Adds the steps that read data.

    Attributes:
        pipeline: the pipeline.
        data: what to read.
        source: decodes tf.Examples.
        batches: PCollections of pa.RecordBatch by dataset: the number of a span, or `TABLES`.
        identities: identities of the items that count in each span; see `UniqueItems`.
    """

    def __init__(self, pipeline: beam.Pipeline, data: AnalyzedData, source: tfxio.TFExampleBeamRecord) -> None:
        self.pipeline, self.data, self.source = pipeline, data, source
        self.batches: dict[int | str, Any] = {}
        self.identities: dict[int, Any] = {}
        self._summarized: Any = None

    def read_tables(self) -> None:
        assert self.data.tables is not None
        rows = TableBatches(self.data.tables, self.source.ArrowSchema())
        self.batches[TABLES] = self.pipeline | "Tables" >> rows

    def read_spans(self, numbers: Collection[int], identities: Mapping[int, ReadIdentities]) -> None:
        """Reads some spans, given the `identities` of the items in the other spans."""
        known: list[Any] = []
        for number, files in enumerate(self.data.spans):
            label = f"Span{number}"
            if number in identities:
                known.append(self.pipeline | f"{label}Known" >> identities[number])
            if number not in numbers:
                continue
            spread = self.pipeline | f"{label}Files" >> beam.Create(files) | f"{label}Spread" >> beam.Reshuffle()
            if self.data.as_sampled:
                records = spread | f"{label}Records" >> beam.FlatMap(_records)
            else:
                # Items counted in an earlier span belong in the summaries too, so a separate pass computes them.
                summarizes = self.data.summarizes and number == len(self.data.spans) - 1 and not known
                unique = spread | f"{label}UniqueItems" >> UniqueItems(
                    self.data.layout,
                    self.data.example_keys,
                    num_buckets=num_buckets_for(files),
                    summarizes=summarizes,
                    known=known | f"{label}Earlier" >> beam.Flatten() if known else None,
                )
                records = unique[EXAMPLES]
                self.identities[number] = unique[IDENTITIES]
                if not self.data.is_window:
                    known.append(unique[IDENTITIES])
                self._summarized = unique if summarizes else None
            self.batches[number] = records | f"{label}Batches" >> record_batches(self.source)

    def analysis(self, transform_fn: Any) -> Analysis:
        """What was added, given what it ends in."""
        num_spans_read = sum(isinstance(name, int) for name in self.batches)
        return Analysis(transform_fn=transform_fn, summarized=self._summaries(), num_spans_read=num_spans_read)

    def _summaries(self) -> Any:
        """The items of the last span with their summaries, if requested."""
        if self.data.summarizes and self._summarized is None:
            files = self.data.spans[-1]
            spread = self.pipeline | "LastFiles" >> beam.Create(files) | "SpreadLast" >> beam.Reshuffle()
            self._summarized = spread | "LastItems" >> UniqueItems(
                self.data.layout,
                (),
                num_buckets=num_buckets_for(files),
                summarizes=True,
                as_sampled=self.data.as_sampled,
            )
        return self._summarized


def record_batches(source: tfxio.TFExampleBeamRecord) -> beam.PTransform:
    """Maps a PCollection of tf.Examples to one of pa.RecordBatch.

    All batches have the same number of records, because the last bits of sums of floats depend on how rows are batched.
    By default Beam chooses the number by how long each batch takes, so equal examples would give other statistics on
    another day.
    """
    return source.BeamSource(_RECORDS_PER_BATCH)


def _records(file: RecordFile) -> Iterator[bytes]:
    return read_records(file)


def span_keys(
    spans: Sequence[Sequence[RecordFile]], raw_schema: graph_schema_pb2.GraphSchema, *, is_chain: bool, more: str = ""
) -> tuple[analyzer_cache.DatasetKey, ...]:
    """Names spans of examples after their contents: one key per span, equal for equal data.

    Sizes and checksums of the files stand for their contents, because the cache exists to avoid reading them. Names do
    not count: another run may have sampled the same examples. With `is_chain`, what counts in a span depends on the
    spans before it; `more` is what else it depends on.
    """
    keys: list[analyzer_cache.DatasetKey] = []
    common = "\n".join([tfx_gnn.__version__, text_format.MessageToString(raw_schema), more])
    chain = ""
    for files in spans:
        described = [f"{file.split} {describe_content(file)}" for file in files]
        fingerprint = fingerprint_text("\n".join([common, chain, *described]))
        while analyzer_cache.DatasetKey(f"span-{fingerprint}") in keys:
            # A span with equal examples counts, too.
            fingerprint = fingerprint_text(fingerprint)
        chain = fingerprint if is_chain else ""
        keys.append(analyzer_cache.DatasetKey(f"span-{fingerprint}"))
    return tuple(keys)


def tables_key(
    reading: TableReading, raw_schema: graph_schema_pb2.GraphSchema, *, more: str = ""
) -> analyzer_cache.DatasetKey:
    """Names tables after their contents, and `more` that what counts in them depends on.

    Tables that are not files are never cached, because changes to them cannot be detected.
    """
    tables = [f"{label} {table.declared_as}" for label, table in sorted(reading.layouts.items())]
    files = [_describe_file(path) for table in reading.layouts.values() for path in table.files]
    text = [tfx_gnn.__version__, text_format.MessageToString(raw_schema), options_json.to_json(reading.rules), more]
    key = analyzer_cache.DatasetKey(f"tables-{fingerprint_text(chr(10).join([*text, *tables, *files]))}")
    return key.non_cacheable() if any(table.bigquery for table in reading.layouts.values()) else key


def datasets_to_read(
    pipeline: beam.Pipeline,
    folders: CacheFolders,
    keys: Sequence[analyzer_cache.DatasetKey],
    preprocessing_fn: TensorPreprocessingFn,
    type_specs: Mapping[str, tf.TypeSpec],
) -> tuple[Any, Collection[analyzer_cache.DatasetKey]]:
    """Reads the datasets' cache for `AnalyzeDatasetWithCache`, and finds the datasets that must be read."""
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
    """Copies the cache of some datasets into the folder that is written."""
    for key in keys:
        copy_files(os.path.join(folders.read, key.key), os.path.join(folders.written, key.key))


def has_identities(folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> bool:
    """Returns whether a cache has the identities of a span's items in all these sets; `folder` "" means no cache."""
    return not prefixes or (
        bool(folder) and all(tf.io.gfile.glob(f"{_identities_path(folder, key, prefix)}-*") for prefix in prefixes)
    )


class ReadIdentities(beam.PTransform):
    """Reads the identities of the items that count in a span: PCollection of (prefix of the set, uint64 identities)."""

    def __init__(self, folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> None:
        super().__init__()
        self._paths = {prefix: _identities_path(folder, key, prefix) for prefix in sorted(prefixes)}

    def expand(self, input_or_inputs: Any) -> Any:
        """Adds the reading steps to a pipeline."""
        return [
            input_or_inputs
            | f"Read {prefix}" >> beam.io.ReadFromTFRecord(f"{path}-*")
            | f"Unpack {prefix}" >> beam.Map(_unpack, prefix)
            for prefix, path in self._paths.items()
        ] | "AllSets" >> beam.Flatten(pipeline=input_or_inputs.pipeline)


class WriteIdentities(beam.PTransform):
    """Writes identities for `ReadIdentities`."""

    def __init__(self, folder: str, key: analyzer_cache.DatasetKey, prefixes: Collection[str]) -> None:
        super().__init__()
        self._paths = {prefix: _identities_path(folder, key, prefix) for prefix in sorted(prefixes)}

    def expand(self, input_or_inputs: Any) -> Any:
        """Writes a PCollection of (prefix of the set, uint64 identities); returns the sinks' outputs by prefix."""
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
    return os.path.join(folder, key.key, _IDENTITIES_DIR, urllib.parse.quote(prefix, safe=""))


def _describe_file(path: str) -> str:
    stat = tf.io.gfile.stat(path)
    return f"{os.path.basename(path)} {stat.length} {stat.mtime_nsec}"
