"""Samples the seeds' own columns and their labels on Apache Beam."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from tfx_gnn.components.graph_evaluator.column_sample import ColumnSample
from tfx_gnn.components.graph_evaluator.measures import Measure, parse_features
from tfx_gnn.components.graph_evaluator.paired_bootstrap import hash_examples
from tfx_gnn.components.graph_evaluator.seed_columns import SeedColumns
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records

_READ_AT_ONCE = 1024
_PENDING = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnReader:
    """What is read of each example.

    Attributes:
        columns: columns of the seeds.
        measures: by task, how its labels are read.
    """

    columns: SeedColumns
    measures: Mapping[str, Measure]

    def sample_file(self, file: RecordFile) -> Iterator[ColumnSample]:
        """Samples the examples of a file; one sample, or none if the file is empty."""
        records = enumerate(read_records(file))
        pending: list[ColumnSample] = []
        while batch := list(itertools.islice(records, _READ_AT_ONCE)):
            hashes = hash_examples([record for _, record in batch])
            places = [place_of(file, position) for position, _ in batch]
            examples = [parse_features(record, place) for (_, record), place in zip(batch, places, strict=True)]
            labels = {task: measure.truth(examples, places) for task, measure in self.measures.items()}
            pending.append(ColumnSample.of(hashes, self.columns.values(examples, places), labels))
            if len(pending) > _PENDING:
                pending = [ColumnSample.merged(pending)]
        if pending:
            yield ColumnSample.merged(pending)


def sample_columns(pipeline: Any, files: Mapping[str, Sequence[RecordFile]], reader: ColumnReader) -> Any:
    """Samples the examples of files by name, in a PCollection of names and `ColumnSample`s."""
    named = [(name, file) for name, of_name in files.items() for file in of_name]
    return (
        pipeline
        | "ColumnFiles" >> beam.Create(named)
        | "SpreadColumns" >> beam.Reshuffle()
        | "SampleColumns" >> beam.FlatMapTuple(lambda name, file: ((name, one) for one in reader.sample_file(file)))
        | "MergeColumns" >> beam.CombinePerKey(ColumnSample.merged)
    )
