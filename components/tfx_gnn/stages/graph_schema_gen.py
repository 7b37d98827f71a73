"""GraphSchemaGen: what do the examples look like, and is that what they are said to look like?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.graph import schema as graph_schema_io
from tfx_gnn.graph import schema_validation
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.stages import examples_folder
from tfx_gnn.stages.atomic_folder import atomic_folder
from tfx_gnn.stages.example_check import BrokenRuleError, check_example
from tfx_gnn.stages.example_summary import ExamplesSummary, add_evidence, add_presence, merge_summaries
from tfx_gnn.stages.graph_layout import GraphLayout, graph_layout
from tfx_gnn.stages.graph_schema_inference import infer_graph_schema
from tfx_gnn.stages.record_files import RecordFile, place_of, read_records, record_files
from tfx_gnn.stages.summary_pass import summarize_files
from tfx_gnn.stages.tfmd_schema import make_tfmd_schema, write_tfmd_schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSchemaGenOptions:
    """What to read.

    Attributes:
        splits: splits to read; empty for all.
    """

    splits: tuple[str, ...] = ()


def generate_graph_schema(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    schema_dir: str,
    options: GraphSchemaGenOptions,
    beam_args: Sequence[str] = (),
) -> graph_schema_pb2.GraphSchema:
    """Checks examples against the graph schema beside them, or makes one if there is none.

    All examples of the chosen splits are read, once, by Apache Beam.

    Args:
        examples_dir: graph tf.Examples, with or without `graph_schema.pbtxt` beside the splits.
        graph_schema_dir: absent or empty folder for `graph_schema.pbtxt`.
        schema_dir: absent or empty folder for `schema.pbtxt`, the TensorFlow Metadata schema by which
            StatisticsGen, ExampleValidator and tf.Transform read the same examples.
        options: what to read.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        The graph schema.

    Raises:
        ValueError: if the schema is not valid, an example breaks it (the message names split, file, record,
            key and rule), a split is missing or empty, or the data leave open what the schema should be.
    """
    files = record_files(examples_dir, options.splits)
    schema = _schema_beside(examples_dir)
    layout = None if schema is None else graph_layout(schema)
    with atomic_folder(graph_schema_dir) as graph_schema_partial, atomic_folder(schema_dir) as schema_partial:
        summary = summarize_files(
            files,
            summarize=_SummarizeFile(layout),
            merge=merge_summaries,
            kind=ExamplesSummary,
            scratch_dir=graph_schema_partial,
            beam_args=beam_args,
        )
        if summary.num_broken:
            raise ValueError(f"{summary.first_broken} Examples that break a rule: {summary.num_broken}.")
        if not summary.num_examples:
            raise ValueError(
                f"`examples_dir` must hold at least one example; got none in {len(files)} files of {examples_dir!r}. "
                "Make the examples again."
            )
        if schema is None:
            schema = infer_graph_schema(summary)
            layout = graph_layout(schema)
        assert layout is not None
        presence = {key: found.num_present / summary.num_examples for key, found in summary.keys.items()}
        graph_schema_io.write_schema(schema, examples_folder.graph_schema_path(graph_schema_partial))
        write_tfmd_schema(make_tfmd_schema(layout, presence), schema_partial)
    return schema


def _schema_beside(examples_dir: str) -> graph_schema_pb2.GraphSchema | None:
    path = examples_folder.graph_schema_path(examples_dir)
    if not tf.io.gfile.exists(path):
        return None
    schema = graph_schema_io.read_schema(path)
    schema_validation.validate_schema(schema)
    return schema


@dataclasses.dataclass(frozen=True)
class _SummarizeFile:
    """What the examples of a file show; with a layout, they are checked against it."""

    layout: GraphLayout | None

    def __call__(self, file: RecordFile) -> ExamplesSummary:
        summary = ExamplesSummary()
        for number, record in enumerate(read_records(file)):
            place = place_of(file, number)
            try:
                features = _parse(record).features.feature
                if self.layout is None:
                    add_evidence(summary, features, place)
                else:
                    check_example(features, self.layout)
                    add_presence(summary, features)
            except BrokenRuleError as error:
                summary.num_broken += 1
                summary.first_broken = summary.first_broken or error.message(place)
        return summary


def _parse(record: bytes) -> tf.train.Example:
    try:
        return tf.train.Example.FromString(record)
    except DecodeError as error:
        raise BrokenRuleError(
            "every record is a serialized tf.Example", f"{len(record)} other bytes", "Write tf.Examples."
        ) from error
