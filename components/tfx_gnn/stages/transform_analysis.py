"""What statistics are taken of: unique items of examples, rows of tables, or the examples as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from tfx_bsl.public import tfxio

from tfx_gnn.stages.graph_layout import GraphLayout
from tfx_gnn.stages.hash_buckets import num_buckets_for
from tfx_gnn.stages.record_files import RecordFile, read_records
from tfx_gnn.stages.transform_tables import TableBatches, TableReading
from tfx_gnn.stages.transform_unique_items import UniqueItemExamples

UNIQUE_ITEMS, TABLES, AS_SAMPLED = "unique_items", "tables", "as_sampled"
ANALYZE_MODES = (UNIQUE_ITEMS, TABLES, AS_SAMPLED)
"""Choices of `GraphTransformOptions.analyze`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalyzedData:
    """What statistics are taken of.

    Attributes:
        layout: the keys of the examples.
        keys: features that statistics are taken of; with `as_sampled` it does not matter.
        files: the examples.
        as_sampled: whether every occurrence of an item counts, structure included.
        tables: tables of the features that are taken from them instead of from the examples.
    """

    layout: GraphLayout
    keys: frozenset[str]
    files: tuple[RecordFile, ...]
    as_sampled: bool = False
    tables: TableReading | None = None


class AnalyzedBatches(beam.PTransform):
    """The data as record batches, as tf.Transform takes them."""

    def __init__(self, data: AnalyzedData, source: tfxio.TFExampleBeamRecord) -> None:
        """Chooses what to read.

        Args:
            data: what statistics are taken of.
            source: decodes tf.Examples with the keys of the graph.
        """
        super().__init__()
        self._data = data
        self._source = source

    def expand(self, input_or_inputs: Any) -> Any:
        """Builds the steps.

        Args:
            input_or_inputs: the pipeline.

        Returns:
            PCollection of pa.RecordBatch.
        """
        data = self._data
        files = input_or_inputs | "AnalyzedFiles" >> beam.Create(data.files) | "SpreadAnalyzed" >> beam.Reshuffle()
        if data.as_sampled:
            return files | "Records" >> beam.FlatMap(_records) | "ToRecordBatches" >> self._source.BeamSource()
        of_tables = data.tables.keys if data.tables is not None else frozenset()
        batches = (
            files
            | "UniqueItems"
            >> UniqueItemExamples(data.layout, data.keys - of_tables, num_buckets=num_buckets_for(data.files))
            | "ToRecordBatches" >> self._source.BeamSource()
        )
        if data.tables is None:
            return batches
        rows = input_or_inputs | "Tables" >> TableBatches(data.tables, self._source.ArrowSchema())
        return (batches, rows) | "ItemsAndRows" >> beam.Flatten()


def _records(file: RecordFile) -> Iterator[bytes]:
    return read_records(file)
