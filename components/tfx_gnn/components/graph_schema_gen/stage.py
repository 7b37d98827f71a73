"""GraphSchemaGen: infers or checks the graph schema of examples, and derives a schema of their plain features."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2

from tfx_gnn.components.graph_example_validator.checks import CHECKS
from tfx_gnn.components.graph_schema_gen.edge_ends import find_edge_ends
from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.records import examples_folder
from tfx_gnn.records.batch_check import READABLE, UNDECLARED_FEATURE, BatchChecker
from tfx_gnn.records.example_batches import BYTES, FLOATS, INTS, BrokenRuleError, ExampleDecoder, group_records
from tfx_gnn.records.example_summary import (
    Evidence,
    ExamplesSummary,
    add_evidence,
    add_presence,
    is_size_key,
    merge_summaries,
    row_length_axes,
    row_length_key,
)
from tfx_gnn.records.examples_folder import RecordFile, place_of, read_records, record_files
from tfx_gnn.records.findings import Finding, Findings
from tfx_gnn.records.graph_layout import graph_layout, prefix_of_key, schema_features
from tfx_gnn.records.summary_pass import summarize_files
from tfx_gnn.records.tfmd_schema import make_tfmd_schema, write_tfmd_schema

_LOG = logging.getLogger(__name__)
_DTYPE_OF_KIND = {BYTES: types_pb2.DT_STRING, INTS: types_pb2.DT_INT64, FLOATS: types_pb2.DT_FLOAT}
_WRITE_A_SCHEMA = "Give a graph schema that declares it: next to the splits, or as `declared_graph_schema`."
_DECISIVE = READABLE | {UNDECLARED_FEATURE}  # GraphExampleValidator checks the values themselves, such as for NaN.


def generate_graph_schema(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    schema_dir: str,
    options: GraphSchemaGenOptions,
    declared_schema_dir: str = "",
    beam_args: Sequence[str] = (),
) -> graph_schema_pb2.GraphSchema:
    """Checks examples against their graph schema, or infers one if there is none.

    Apache Beam reads all examples of the chosen splits once.

    What edges join is inferred from the names of readouts and from the indices: a node set is ruled out if some example
    has too few of its nodes. If exactly one is left, it is taken, and the edge set's `description` holds the evidence.

    Args:
        examples_dir: graph tf.Examples, with or without `graph_schema.pbtxt` next to the splits.
        graph_schema_dir: absent or empty folder for `graph_schema.pbtxt`.
        schema_dir: absent or empty folder for `schema.pbtxt`, the TensorFlow Metadata schema with which
            StatisticsGen, ExampleValidator and tf.Transform read the same examples.
        options: what to read.
        declared_schema_dir: folder with the `graph_schema.pbtxt` that the examples must match, instead of one next to
            the splits; empty for none.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        The graph schema.

    Raises:
        ValueError: if the schema is invalid, an example violates it (the message names split, file, record,
            key and rule), a split is missing or empty, or the data do not determine the schema.
    """
    files = record_files(examples_dir, options.splits)
    schema = _given_schema(examples_dir, options, declared_schema_dir)
    summarize: Callable[[RecordFile], ExamplesSummary] = _gather_evidence
    if schema is not None:
        summarize = functools.partial(_check_file, checker=BatchChecker.by(schema, decisive=_DECISIVE))
    outputs = {"graph_schema_dir": graph_schema_dir, "schema_dir": schema_dir}
    with atomic_folders(outputs) as (graph_schema_partial, schema_partial):
        with examples_folder.reading_progress("reading examples", files):
            summary = summarize_files(
                files,
                summarize=summarize,
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
            schema = _infer_graph_schema(summary, options.edge_set_ends)
        presence = {key: found.num_present / summary.num_examples for key, found in summary.keys.items()}
        graph_schema_io.write_schema(schema, examples_folder.graph_schema_path(graph_schema_partial))
        write_tfmd_schema(make_tfmd_schema(graph_layout(schema), presence), schema_partial)
    return schema


def _given_schema(
    examples_dir: str, options: GraphSchemaGenOptions, declared_schema_dir: str
) -> graph_schema_pb2.GraphSchema | None:
    """Returns the declared schema, or that next to the splits, or None."""
    path = os.path.join(examples_dir, options.schema_file)
    if declared_schema_dir:
        path = examples_folder.graph_schema_path(declared_schema_dir)
        if not tf.io.gfile.exists(path):
            raise ValueError(
                f"`declared_graph_schema` must hold {GRAPH_SCHEMA_FILE}; got none in {declared_schema_dir!r}. Point "
                "the Importer at the folder that holds it."
            )
    elif not tf.io.gfile.exists(path):
        if options.schema_file != GRAPH_SCHEMA_FILE:
            raise ValueError(
                f"`schema_file` must name a file next to the splits; got {options.schema_file!r}, which "
                f"{examples_dir!r} does not hold. Correct the name."
            )
        return None
    schema = graph_schema_io.read_schema(path)
    schema_validation.validate_schema(schema)
    for name, (source, target) in options.edge_set_ends.items():
        declared = (schema.edge_sets[name].source, schema.edge_sets[name].target) if name in schema.edge_sets else None
        if declared != (source, target):
            raise ValueError(
                f"`edge_set_ends` must agree with the graph schema; got {(source, target)} for edge set {name!r}, for "
                f"which {path!r} declares {declared}. Leave it out: the schema says what edges join."
            )
    return schema


def _check_file(file: RecordFile, checker: BatchChecker) -> ExamplesSummary:
    """Checks the examples of a file against their schema."""
    summary, findings, decoder = ExamplesSummary(), Findings(), ExampleDecoder()
    num_records = 0
    for first, records in group_records(read_records(file)):
        num_records += len(records)
        for batch in checker.read(decoder, first, records, file, findings):
            add_presence(summary, batch)
    summary.num_broken = num_records - summary.num_examples
    if summary.num_broken:
        broken = [finding for finding in findings.found if finding.check in checker.decisive]
        summary.first_broken = _message(min(broken, key=lambda finding: finding.places[0].record), file)
    return summary


def _message(finding: Finding, file: RecordFile) -> str:
    check, place = CHECKS[finding.check], finding.places[0]
    about = f"{finding.about!r}: " if finding.about else ""
    return (
        f"`examples_dir` must hold examples that match the graph schema next to them; got {about}{place.detail} in "
        f"{place_of(file, place.record)}. {check.summary}. {check.advice}"
    )


def _gather_evidence(file: RecordFile) -> ExamplesSummary:
    """Collects what the examples of a file reveal about their schema."""
    summary = ExamplesSummary()
    for number, record in enumerate(read_records(file)):
        place = place_of(file, number)
        try:
            add_evidence(summary, _parse(record).features.feature, place)
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


def _infer_graph_schema(
    summary: ExamplesSummary, edge_set_ends: Mapping[str, tuple[str, str]]
) -> graph_schema_pb2.GraphSchema:
    """Infers the schema of a data set from its summary.

    A set exists if some example has its `#size`. A feature's dtype is string, int64 or float32. Its shape is what
    `#size` and the row lengths leave for one item. Consecutive uniform dimensions cannot be distinguished from a
    single one and are inferred as one.

    Data that are ambiguous or contradictory are refused.
    """
    schema = graph_schema_pb2.GraphSchema()
    prefixes = sorted(key.rpartition(".")[0] for key in summary.keys if is_size_key(key))
    for prefix in prefixes:
        set_type, _, name = prefix.partition("/")
        if set_type == const.NODES:
            schema.node_sets[name].SetInParent()
    edge_sets = [prefix.removeprefix(f"{const.EDGES}/") for prefix in prefixes if prefix.startswith(f"{const.EDGES}/")]
    for name, ends in find_edge_ends(summary, sorted(schema.node_sets), edge_sets, edge_set_ends).items():
        schema.edge_sets[name].source, schema.edge_sets[name].target = ends.source, ends.target
        if ends.evidence:
            schema.edge_sets[name].description = ends.evidence
            _LOG.warning("Inferred that edge set %r leads from %r to %r. %s", name, *ends)
    ragged = row_length_axes(summary.keys)
    row_length_keys = {row_length_key(key, axis) for key, axes in ragged.items() for axis in axes}
    for key in sorted(set(summary.keys) - row_length_keys):
        feature_set_prefix = prefix_of_key(key, prefixes)
        if feature_set_prefix is None:
            continue  # It never has a value; otherwise the example without `#size` would have been refused.
        name = key[len(feature_set_prefix) + 1 :]
        _check_always_there(summary, key, feature_set_prefix)
        if name in const.RESERVED_FEATURES:
            continue
        feature = schema_features(schema, feature_set_prefix)[name]
        feature.dtype = _dtype(summary, key)
        for size in _shape(summary, key, ragged.get(key, [])):
            feature.shape.dim.add(size=size)
    return schema


def _check_always_there(summary: ExamplesSummary, key: str, prefix: str) -> None:
    expected = (
        summary.num_examples if prefix == const.CONTEXT else summary.keys[f"{prefix}.{const.SIZE_NAME}"].num_with_items
    )
    found = summary.keys[key].num_with_items
    if found != expected:
        raise ValueError(
            f"`examples_dir` must hold {key!r} in every example in which its set has items; got it in {found} of "
            f"{expected}. Write the feature to all examples, or to none."
        )


def _dtype(summary: ExamplesSummary, key: str) -> types_pb2.DataType.ValueType:
    kinds = summary.keys[key].kinds
    if len(kinds) != 1:
        seen = (
            "no value in any example" if not kinds else "; ".join(f"{kind} in {kinds[kind]}" for kind in sorted(kinds))
        )
        raise ValueError(
            f"`examples_dir` must hold values of one kind for {key!r}; got {seen}. "
            f"{_WRITE_A_SCHEMA if not kinds else 'Make the examples again.'}"
        )
    return _DTYPE_OF_KIND[next(iter(kinds))]


def _shape(summary: ExamplesSummary, key: str, ragged_axes: list[int]) -> list[int]:
    shape: list[int] = []
    for axis in ragged_axes:
        length_key = row_length_key(key, axis)
        rows = _only(summary.keys[length_key].rows_per_item, length_key)
        num_uniform = axis - 1 - len(shape)
        if num_uniform > 1 or (num_uniform == 0 and rows != 1):
            raise ValueError(
                f"`examples_dir` must show the dimensions before a ragged one; got {rows} row lengths for each row in "
                f"{length_key!r}, which implies {num_uniform} dimensions. {_WRITE_A_SCHEMA}"
            )
        shape += [rows] * num_uniform + [-1]
    values = _only(summary.keys[key].rows_per_item, key)
    return shape if values == 1 else [*shape, values]


def _only(evidence: Evidence, key: str) -> int:
    if len(evidence) > 1:
        seen = "; ".join(f"{rows} in {evidence[rows]}" for rows in sorted(evidence))
        raise ValueError(
            f"`examples_dir` must hold the same number of values for each item or row in {key!r}; got {seen}. "
            "Write row lengths of ragged features, or make the examples again."
        )
    return next(iter(evidence), 1)
