"""Asks a model about whole files of examples on Apache Beam; each file is one unit of work."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.components.graph_bulk_inferrer.answer_columns import RECORD, answer_columns, count_nonfinite
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.table_writers import SUFFIXES, whole_table
from tfx_gnn.graph.graph_constants import CONTEXT
from tfx_gnn.io.finished_shards import FinishedShards
from tfx_gnn.io.whole_files import write_whole
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, reading_progress, split_dir
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR

_ROWS_AT_ONCE = 16384  # rows of a part of a file: a row group of Parquet
_MAX_REASONS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileCounts:
    """What became of the examples of one file.

    Attributes:
        num_examples: examples read.
        num_refused: examples that the model refused.
        num_without_pairs: examples of links without a candidate pair, and so without a row.
        num_rows: rows written.
        num_nonfinite: floating point values among them that are NaN or infinite.
        columns: by name of each column, its Arrow type as text; empty if there are no rows.
        reasons: the first refusals.
    """

    num_examples: int
    num_refused: int
    num_without_pairs: int
    num_rows: int
    num_nonfinite: int
    columns: dict[str, str]
    reasons: list[str]


def infer_files(
    files: Sequence[RecordFile],
    *,
    saved_model_dir: str,
    folder: str,
    options: GraphBulkInferrerOptions,
    beam_args: Sequence[str],
) -> dict[tuple[str, int], FileCounts]:
    """Writes a table for each file that has none yet, and returns the counts of all, by split and shard.

    Every worker must be able to read the files and the model, and to write `folder`.
    """
    log = FinishedShards(folder)
    finished = log.read()
    missing = [file for file in files if (file.split, file.shard) not in finished]
    if missing:
        with reading_progress("inference", missing), make_pipeline(beam_args) as pipeline:
            _ = (
                pipeline
                | "Files" >> beam.Create(missing, reshuffle=False)
                | "Spread" >> beam.Reshuffle()
                | "Infer" >> beam.ParDo(_InferFile(saved_model_dir, folder, options))
            )
    noted = log.read()
    return {key: FileCounts(**noted[key]) for key in ((file.split, file.shard) for file in files)}


class _InferFile(beam.DoFn):
    """Writes the table of a file, its dead letters, and then a note that it is finished."""

    def __init__(self, saved_model_dir: str, folder: str, options: GraphBulkInferrerOptions) -> None:
        self._saved_model_dir = saved_model_dir
        self._folder = folder
        self._options = options
        self._models: list[ServingModel] = []
        self._inputs: dict[str, str] = {}

    def setup(self) -> None:
        model = ServingModel(self._saved_model_dir)
        self._models = [model]
        recorded = read_recorded_plan(os.path.join(self._saved_model_dir, model_interface.SAMPLING_PLAN_FILE))
        self._inputs = (
            {name: recorded.plan.seed_table_features[name] for name in recorded.plan.seed_inputs} if recorded else {}
        )
        if "embeddings" in self._options.outputs:
            self._models.append(model.with_signature(model_interface.EMBEDDINGS_SIGNATURE))

    def process(self, element: RecordFile) -> Iterable[None]:
        asking = _Asking(self._models, element, with_scores="scores" in self._options.outputs, inputs=self._inputs)
        parts = _joined(asking.tables(self._options.batch_size))
        num_rows = num_nonfinite = 0
        columns: dict[str, str] = {}
        first = next(parts, None)
        # A file without rows would have no columns either, and no reader could read it.
        if first is not None:
            columns = {field.name: str(field.type) for field in first.schema}
            with whole_table(self._table_file(element), self._options.file_format) as writer:
                for part in itertools.chain([first], parts):
                    writer.write(part)
                    num_rows += part.num_rows
                    num_nonfinite += count_nonfinite(part)
        if asking.refused:
            folder = os.path.join(self._folder, DEAD_LETTERS_DIR)
            tf.io.gfile.makedirs(folder)
            lines = "".join(f"{json.dumps(letter, ensure_ascii=False)}\n" for letter in asking.refused)
            write_whole(os.path.join(folder, f"{element.split}-{element.shard:05d}.jsonl"), lines)
        counts = FileCounts(
            num_examples=asking.num_examples,
            num_refused=len(asking.refused),
            num_without_pairs=asking.num_examples - len(asking.refused) - asking.num_answered,
            num_rows=num_rows,
            num_nonfinite=num_nonfinite,
            columns=columns,
            reasons=[letter["message"] for letter in asking.refused[:_MAX_REASONS]],
        )
        FinishedShards(self._folder).note(element.split, element.shard, dataclasses.asdict(counts))
        return ()

    def _table_file(self, file: RecordFile) -> str:
        name = f"predictions-{file.shard:05d}-of-{file.num_shards:05d}{SUFFIXES[self._options.file_format]}"
        return os.path.join(split_dir(self._folder, file.split), name)


class _Asking:
    """Asks the model about the examples of a file, batch by batch; those that it refuses one by one."""

    def __init__(
        self, models: Sequence[ServingModel], file: RecordFile, *, with_scores: bool, inputs: Mapping[str, str]
    ) -> None:
        """Starts a file; `inputs` has the types of what examples say of their seeds beside ids."""
        self._models = models
        self._file = file
        self._with_scores = with_scores
        self._inputs = {
            name: tf.io.RaggedFeature(tf.as_dtype(dtype), value_key=f"{CONTEXT}/{name}")
            for name, dtype in inputs.items()
        }
        self.num_examples = 0
        self.num_answered = 0
        self.refused: list[dict[str, Any]] = []

    def tables(self, batch_size: int) -> Iterator[pa.Table]:
        records = read_records(self._file)
        while batch := list(itertools.islice(records, batch_size)):
            first = self.num_examples
            self.num_examples += len(batch)
            try:
                yield self._table(first, batch)
            except tf.errors.InvalidArgumentError:
                for position, record in enumerate(batch, first):
                    yield from self._alone(position, record)

    def _alone(self, position: int, record: bytes) -> Iterator[pa.Table]:
        try:
            yield self._table(position, [record])
        except tf.errors.InvalidArgumentError as error:
            place = place_of(self._file, position)
            self.refused.append({"place": place, "record": position, "message": f"{error.message} It is {place}."})

    def _table(self, first: int, batch: Sequence[bytes]) -> pa.Table:
        examples = tf.constant(batch, tf.string)
        outputs = {name: value.numpy() for model in self._models for name, value in model(examples).items()}
        # The model has answered, so that there is one value of each.
        parsed = tf.io.parse_example(examples, self._inputs) if self._inputs else {}
        table = answer_columns(
            np.arange(first, first + len(batch)),
            outputs,
            with_scores=self._with_scores,
            inputs={name: values.flat_values.numpy() for name, values in parsed.items()},
        )
        self.num_answered += len(table.column(RECORD).unique())
        return table


def _joined(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Joins small tables to parts of some thousand rows."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(part.num_rows for part in held) >= _ROWS_AT_ONCE:
            yield pa.concat_tables(held)
            held = []
    if any(part.num_rows for part in held):
        yield pa.concat_tables(held)
