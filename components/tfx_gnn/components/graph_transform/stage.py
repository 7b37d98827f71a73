"""GraphTransform: analyzes the data for the user's preprocessing, and applies it to every example."""

from __future__ import annotations

import dataclasses
import itertools
import os
import uuid
from collections.abc import Sequence

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tfx_bsl.public import tfxio

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.graph.schema.context_labels import context_labels
from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.file_names import SAMPLING_PLAN_FILE
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.io.folder_listing import is_folder
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.records import examples_folder
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE
from tfx_gnn.records.example_gen_report import find_same_span
from tfx_gnn.records.examples_folder import (
    RecordFile,
    files_by_span,
    fingerprint_examples_folder,
    reading_progress,
    record_files,
)
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline, take_merged, write_merged
from tfx_gnn.records.tfmd_schema import make_tfmd_schema, write_tfmd_schema
from tfx_gnn.sampling.plan.recorded_plan import copy_recorded_plan
from tfx_gnn.serving.model_interface import ANALYZER_CACHE_FOLDER, MODEL_ARTIFACT_FOLDER
from tfx_gnn.tables.graph_tables import list_table_files
from tfx_gnn.tables.spans import has_span
from tfx_gnn.tables.stable_tables import StableTables
from tfx_gnn.transform.analysis import AnalyzedData, CacheFolders, analyze
from tfx_gnn.transform.analyze_modes import AS_SAMPLED, TABLES
from tfx_gnn.transform.application import (
    RAW_METADATA_DIR,
    TRANSFORM_FN_DIR,
    TRANSFORMED_METADATA_DIR,
    TransformRecord,
    rewrite_transformed_metadata,
)
from tfx_gnn.transform.finite_values import check_finite
from tfx_gnn.transform.preprocessing import (
    TensorPreprocessingFn,
    analyzed_keys,
    check_nonfinite_features,
    check_statistics_of_items,
    keys_of_transformed,
    tensor_preprocessing_fn,
)
from tfx_gnn.transform.ready_preprocessing import load_preprocessing_fn
from tfx_gnn.transform.shards import (
    SHARDS,
    SUMMARIES,
    TransformedShards,
    TransformFiles,
    merge_transformed_shards,
)
from tfx_gnn.transform.statistics import WriteItemStatistics
from tfx_gnn.transform.tables import plan_table_reading
from tfx_gnn.transform.unique_items import REPRESENTATIVES
from tfx_gnn.transform.unique_items import SUMMARIES as ITEM_SUMMARIES


def transform_graphs(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    transform_graph_dir: str,
    transformed_examples_dir: str,
    transformed_graph_schema_dir: str,
    options: GraphTransformOptions,
    tables_dir: str = "",
    tables_contents: str = "",
    earlier_examples_dirs: Sequence[str] = (),
    analyzer_cache_dir: str = "",
    blessed_model_dir: str = "",
    updated_analyzer_cache_dir: str = "",
    pre_transform_stats_dir: str = "",
    post_transform_stats_dir: str = "",
    beam_args: Sequence[str] = (),
) -> graph_schema_pb2.GraphSchema:
    """Computes full-pass statistics, transforms all examples, and saves the transform for serving.

    The statistics of tf.Transform's analyzers count every node and edge once, however many
    subgraphs it was sampled into. Items of one set with the same "#id" are the same item, represented by one of its
    occurrences, so the features of such sets must depend on the item alone, not on its place in a subgraph. Edges
    without "#id" are identified by the "#id" of their end nodes, their features and their number among equal edges.
    Other items, such as readouts, and the context count once per example. `options.analyze` can change
    this. The order of examples and the number of files are preserved.

    If the examples are of a rolling window of spans, each span is a snapshot of the whole graph, and an item counts
    once in each span that has it; the statistics outputs are of the newest span.

    Args:
        examples_dir: graph tf.Examples; these are transformed.
        graph_schema_dir: folder with the `graph_schema.pbtxt` of the examples.
        transform_graph_dir: absent or empty folder for the files that `tft.TFTransformOutput` and
            `SavedGraphTransform` read.
        transformed_examples_dir: absent or empty folder for the transformed examples, with their
            `graph_schema.pbtxt` next to the splits.
        transformed_graph_schema_dir: absent or empty folder for the same `graph_schema.pbtxt`.
        options: how to transform.
        tables_dir: folder of the tables that the examples were sampled from, or the pattern of which it is the span;
            only for `analyze="tables"`.
        tables_contents: the `fingerprint_files` that the files of the tables must have; any if it is empty.
        earlier_examples_dirs: graph tf.Examples of earlier spans, in order. Statistics cover these spans and
            `examples_dir`; an item is counted in the first span that has it. Earlier spans are not transformed.
        analyzer_cache_dir: the `updated_analyzer_cache_dir` of an earlier run. Spans with cached statistics
            are not read again, unless an analyzer cannot be cached.
        blessed_model_dir: output of LatestBlessedModelResolver instead; the cache is that of the run which trained the
            model, if it was pushed with it.
        updated_analyzer_cache_dir: absent or empty folder in which to keep the statistics of these spans.
        pre_transform_stats_dir: absent or empty folder for statistics of the raw features of the items in
            `examples_dir`, in the splits to analyze, in the format of TFX's StatisticsGen; see
            `tfx_gnn.transform.statistics`.
        post_transform_stats_dir: the same for the transformed features of the same items.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        The schema of the transformed graphs.

    Raises:
        ValueError: if a split is missing or empty, a declared feature is unknown or of another type, a transformed
            feature has a value that is NaN or infinite, the function's result does not match the graph or cannot be
            served, a statistic depends on the structure of the sampled subgraphs, the tables lack a feature or change
            while they are read, the analyzer cache does not exist, or two are given.
        TypeError: if the function does not return a GraphView of tensors.
    """
    if bool(tables_dir) != (options.analyze == TABLES):
        raise ValueError(
            f"`tables_dir` must be given with analyze={TABLES!r}, and only then; got {tables_dir!r} with "
            f"analyze={options.analyze!r}. Name the tables that the examples were sampled from, or leave them out."
        )
    if has_span(tables_dir):
        tables_dir = find_same_span(tables_dir, examples_dir).folder
    spans, is_window = _spans_to_analyze(examples_dir, earlier_examples_dirs, options.analyze_splits)
    analyzer_cache_dir = _find_cache(analyzer_cache_dir, blessed_model_dir)
    files = record_files(examples_dir)
    raw_schema = graph_schema_io.read_schema(examples_folder.graph_schema_path(graph_schema_dir))
    layout = graph_layout(raw_schema)
    preprocessing_fn = tensor_preprocessing_fn(
        load_preprocessing_fn(options.preprocessing_fn, options.features, layout), layout
    )
    raw_tfmd = make_tfmd_schema(layout)
    source = tfxio.TFExampleBeamRecord(physical_format="tfrecord", telemetry_descriptors=["tfx_gnn"], schema=raw_tfmd)
    type_specs = source.TensorAdapter().TypeSpecs()
    keys = analyzed_keys(preprocessing_fn, type_specs)
    check_nonfinite_features(options.nonfinite_features, preprocessing_fn, type_specs)
    if options.analyze != AS_SAMPLED:
        check_statistics_of_items(keys, layout)
    tables = None
    if tables_dir:
        tables = StableTables(lambda: list_table_files(tables_dir, access=options.access), contents=tables_contents)
    data = AnalyzedData(
        raw_schema=raw_schema,
        layout=layout,
        keys=keys,
        spans=spans,
        # What is pushed is for windows, the first of which may have one span: identities would only make it larger.
        is_window=is_window or (bool(blessed_model_dir) and not earlier_examples_dirs),
        as_sampled=options.analyze == AS_SAMPLED,
        tables=plan_table_reading(tables_dir, layout, keys, options.rules, options.access) if tables_dir else None,
        summarizes=bool(pre_transform_stats_dir or post_transform_stats_dir),
    )

    folders = {
        "transformed_graph_schema_dir": transformed_graph_schema_dir,
        "transform_graph_dir": transform_graph_dir,
        "transformed_examples_dir": transformed_examples_dir,
        "pre_transform_stats_dir": pre_transform_stats_dir,
        "post_transform_stats_dir": post_transform_stats_dir,
        "updated_analyzer_cache_dir": updated_analyzer_cache_dir,
    }
    with atomic_folders(folders) as (
        schema_partial,
        transform_partial,
        examples_partial,
        *stats_and_cache,
    ):
        outputs = _Outputs(
            transform_graph=transform_partial,
            transformed_examples=examples_partial,
            pre_transform_stats=stats_and_cache[0],
            post_transform_stats=stats_and_cache[1],
            analyzer_cache=stats_and_cache[2],
        )
        raw_metadata_dir = os.path.join(transform_partial, RAW_METADATA_DIR)
        tf.io.gfile.makedirs(raw_metadata_dir)
        write_tfmd_schema(raw_tfmd, raw_metadata_dir)
        graph_schema_io.write_schema(raw_schema, examples_folder.graph_schema_path(raw_metadata_dir))
        copy_recorded_plan(
            os.path.join(examples_dir, SAMPLING_PLAN_FILE), os.path.join(raw_metadata_dir, SAMPLING_PLAN_FILE)
        )

        shards, num_spans_read = _run(
            files=files,
            data=data,
            source=source,
            preprocessing_fn=preprocessing_fn,
            analyze_splits=options.analyze_splits,
            analyzer_cache_dir=analyzer_cache_dir,
            outputs=outputs,
            beam_args=beam_args,
        )
        if tables is not None:
            tables.check()
        _check_shards(shards, options, examples_dir)
        labels = {f"{const.CONTEXT}/{name}" for name in context_labels(raw_schema)}
        check_finite(
            # A label may be missing, for graphs as well as for nodes.
            {
                key: counts
                for key, counts in shards.transformed.items()
                if key not in labels or key in options.nonfinite_features
            },
            shards.raw,
            allowed=options.nonfinite_features,
            made_of=lambda key: keys_of_transformed(preprocessing_fn, type_specs, key),
            is_declared=not options.preprocessing_fn,
        )
        _check_vocabularies(transform_partial)
        schema = rewrite_transformed_metadata(transform_partial, raw_schema)
        for folder in (schema_partial, examples_partial, os.path.join(transform_partial, TRANSFORMED_METADATA_DIR)):
            graph_schema_io.write_schema(schema, examples_folder.graph_schema_path(folder))
        record = TransformRecord(
            transform=fingerprint_folders([transform_partial]),
            raw_examples=fingerprint_examples_folder(examples_dir),
            nonfinite_features=options.nonfinite_features,
            num_spans=len(data.spans),
            num_spans_read=num_spans_read,
        )
        for folder in (transform_partial, examples_partial):
            record.write(folder)
    return schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Outputs:
    """Existing folders to write to; empty for outputs that are not requested."""

    transform_graph: str
    transformed_examples: str
    pre_transform_stats: str
    post_transform_stats: str
    analyzer_cache: str


def _run(
    *,
    files: list[RecordFile],
    data: AnalyzedData,
    source: tfxio.TFExampleBeamRecord,
    preprocessing_fn: TensorPreprocessingFn,
    analyze_splits: Sequence[str],
    analyzer_cache_dir: str,
    outputs: _Outputs,
    beam_args: Sequence[str],
) -> tuple[TransformedShards, int]:
    """Runs the pipeline; returns what it did, and how many spans it read for the statistics."""
    scratch_dir = os.path.join(outputs.transform_graph, f"scratch-{uuid.uuid4().hex}")
    tf.io.gfile.makedirs(scratch_dir)
    shards_path = os.path.join(scratch_dir, "shards.json")
    cache = CacheFolders(read=analyzer_cache_dir, written=outputs.analyzer_cache)
    # The transform reads the analyzed files once more.
    read = [*itertools.chain.from_iterable(data.spans), *files]
    with (
        reading_progress("transform", read),
        make_pipeline(beam_args) as pipeline,
        tft_beam.Context(temp_dir=scratch_dir, force_tf_compat_v1=False),
    ):
        analysis = analyze(pipeline, data, source, preprocessing_fn, cache)
        counted = analysis.summarized
        written = analysis.transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(outputs.transform_graph)
        if outputs.pre_transform_stats:
            write = WriteItemStatistics(outputs.pre_transform_stats, analyze_splits)
            _ = counted[ITEM_SUMMARIES] | "PreTransformStats" >> write
        summarizes = bool(outputs.post_transform_stats)
        transformed = (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Transform"
            >> TransformFiles(
                outputs.transform_graph,
                outputs.transformed_examples,
                written,
                representatives=counted[REPRESENTATIVES] if summarizes else None,
                summarized_splits=analyze_splits if summarizes else (),
                as_sampled=data.as_sampled,
            )
        )
        if summarizes:
            write = WriteItemStatistics(outputs.post_transform_stats, analyze_splits)
            _ = transformed[SUMMARIES] | "PostTransformStats" >> write
        write_merged(transformed[SHARDS], merge_transformed_shards, shards_path)
    result = take_merged(shards_path, TransformedShards)
    tf.io.gfile.rmtree(scratch_dir)
    return result, analysis.num_spans_read


def _spans_to_analyze(
    examples_dir: str, earlier_examples_dirs: Sequence[str], splits: Sequence[str]
) -> tuple[tuple[tuple[RecordFile, ...], ...], bool]:
    """Lists the files to analyze by span, the last one last, and tells whether they are of a rolling window."""
    folders = (*earlier_examples_dirs, examples_dir)
    if len(set(folders)) < len(folders):
        raise ValueError(
            f"`earlier_examples_dirs` must name each folder once, and not `examples_dir`; got {list(folders)}. "
            "Remove the repetition."
        )
    by_folder = [files_by_span(record_files(folder, splits)) for folder in folders]
    is_window = any(len(spans) > 1 for spans in by_folder)
    if is_window and earlier_examples_dirs:
        raise ValueError(
            "`earlier_examples_dirs` must be left out, unless each folder of examples is of one span; got "
            f"{list(earlier_examples_dirs)} with windows of {[len(spans) for spans in by_folder]} spans. Leave them "
            "out, or sample each span alone."
        )
    return tuple(itertools.chain.from_iterable(by_folder)), is_window


def _find_cache(analyzer_cache_dir: str, blessed_model_dir: str) -> str:
    """Returns the folder of the analyzer cache to read; empty if there is none."""
    if analyzer_cache_dir and blessed_model_dir:
        raise ValueError(
            f"`blessed_model_dir` must be left out with `analyzer_cache_dir`; got {blessed_model_dir!r} and "
            f"{analyzer_cache_dir!r}. Give one of them."
        )
    if blessed_model_dir:
        record = read_shaped_json(os.path.join(blessed_model_dir, LATEST_BLESSED_MODEL_FILE), {"found": bool})
        folder = os.path.join(blessed_model_dir, MODEL_ARTIFACT_FOLDER, ANALYZER_CACHE_FOLDER)
        return folder if record["found"] and is_folder(folder) else ""
    if analyzer_cache_dir and not tf.io.gfile.isdir(analyzer_cache_dir):
        raise ValueError(
            f"`analyzer_cache_dir` must be a folder in which an earlier run kept its statistics; got none at "
            f"{analyzer_cache_dir!r}. Name its `updated_analyzer_cache_dir`, or leave it out in the first run."
        )
    return analyzer_cache_dir


def _check_shards(shards: TransformedShards, options: GraphTransformOptions, examples_dir: str) -> None:
    if shards.problem:
        raise ValueError(shards.problem)
    empty = [split for split in options.analyze_splits if not shards.num_examples.get(split)]
    if empty:
        raise ValueError(
            f"`analyze_splits` must hold at least one example each; got none in {empty} of {examples_dir!r}. "
            "Make the examples again, or analyze other splits."
        )


def _check_vocabularies(transform_graph_dir: str) -> None:
    files = tf.io.gfile.glob(os.path.join(transform_graph_dir, TRANSFORM_FN_DIR, "assets", "*.tfrecord.gz"))
    if files:
        raise ValueError(
            "`preprocessing_fn` must store vocabularies as text; got file_format='tfrecord_gzip' for "
            f"{sorted(os.path.basename(path) for path in files)}. Leave `file_format` out: TensorFlow cannot save such "
            "a vocabulary again, as part of a model."
        )
