"""Artifact types of this library, and the properties that its components set on TFX's standard artifacts.

Kubeflow reads a custom type's name as an import path with exactly one dot, so
these classes are exported at the top of the package. Kubeflow cannot carry declared
properties, so the types declare none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tfx.types import artifact, artifact_utils

from tfx_gnn.tables.spans import TablesSpan

PAYLOAD_FORMAT_PROPERTY = "payload_format"
"""Custom property of Examples that tells stock components how to parse a record."""
FILE_FORMAT_PROPERTY = "file_format"
"""Custom property of Examples that tells stock components how to open a file."""
SPAN_NAME_PROPERTY = "span_name"
"""Custom property of Examples with the number or the date of their span."""
BLESSED_PROPERTY = "blessed"
"""Custom property that holds the verdict."""


class ExamplesBlessingArtifact(artifact.Artifact):
    """The verdict on whether examples may be used for training.

    File structure:
        `BLESSED` or `NOT_BLESSED`: empty file.
        `reasons.json`: the verdict and its reasons.
    """

    TYPE_NAME = "tfx_gnn.ExamplesBlessingArtifact"


class GraphIndexArtifact(artifact.Artifact):
    """An index of a whole graph, to be mapped into memory.

    File structure:
        `graph_index.json`: the format, the tables, and the size and checksum of each file.
        `graph_schema.pbtxt`: schema of the tables.
        `nodes.*`, `edges.*`, `context.*`: raw columns and edges by node.
        `dead_letters`: rows that were dropped, if any.
    """

    TYPE_NAME = "tfx_gnn.GraphIndexArtifact"


class GraphSchemaArtifact(artifact.Artifact):
    """A graph schema.

    File structure:
        `graph_schema.pbtxt`: text form of the GraphSchema proto message.
    """

    TYPE_NAME = "tfx_gnn.GraphSchemaArtifact"


class InferenceTableArtifact(artifact.Artifact):
    """What a model answers to many examples.

    File structure:
        `Split-<name>/predictions-<file>-of-<files>`: Parquet, CSV or gzipped TFRecord files.
        `inference.json`: numbers of examples and rows, and the columns.
        `dead_letters/`: examples that the model refused, if it refused any.
    """

    TYPE_NAME = "tfx_gnn.InferenceTableArtifact"


class SizeConstraintsArtifact(artifact.Artifact):
    """Padding budgets for a batch of graphs: size constraints in TF-GNN's terms.

    File structure:
        `size_constraints.json`: the budgets by name, with the options and the
        fingerprints of the data from which they were learned.
    """

    TYPE_NAME = "tfx_gnn.SizeConstraintsArtifact"


class SkewReportArtifact(artifact.Artifact):
    """The differences between what training and serving make of the same examples.

    File structure:
        `skew.json`: every feature with its largest difference and the place where it occurs.
    """

    TYPE_NAME = "tfx_gnn.SkewReportArtifact"


def describe_examples(examples: artifact.Artifact, splits: Sequence[str]) -> None:
    """Marks an Examples artifact as gzipped TFRecords of tf.Examples.

    Stock components (StatisticsGen, BulkInferrer and others) read such an artifact without further settings.
    """
    examples.split_names = artifact_utils.encode_split_names(list(splits))
    examples.set_string_custom_property(PAYLOAD_FORMAT_PROPERTY, "FORMAT_TF_EXAMPLE")
    examples.set_string_custom_property(FILE_FORMAT_PROPERTY, "tfrecords_gzip")


def describe_span(examples: artifact.Artifact, found: TablesSpan | None) -> None:
    """Marks an Examples artifact with the span and the version of its tables, if any, as TFX's ExampleGen does."""
    if found is None:
        return
    examples.span = found.span
    examples.set_string_custom_property(SPAN_NAME_PROPERTY, found.name)
    if found.version is not None:
        examples.version = found.version


def take_over_span(examples: artifact.Artifact, tables: Sequence[artifact.Artifact] | None) -> None:
    """Marks an Examples artifact with the span and the version of the artifact of its tables, if it has one."""
    for one in tables or ():
        examples.span, examples.version = one.span, one.version


def sort_by_span(examples: Sequence[artifact.Artifact]) -> list[artifact.Artifact]:
    """Sorts Examples artifacts by span, then version, then id, from the earliest."""
    return sorted(examples, key=lambda one: (one.span, one.version, one.id))


def optional_uri(artifacts: Sequence[artifact.Artifact] | None) -> str:
    """Returns the folder of an optional input, or an empty string if it has no artifact."""
    return artifact_utils.get_single_uri(list(artifacts)) if artifacts else ""


def describe_statistics(statistics: artifact.Artifact, examples: artifact.Artifact, splits: Sequence[str]) -> None:
    """Marks an ExampleStatistics artifact as TFX's StatisticsGen does."""
    statistics.split_names = artifact_utils.encode_split_names(list(splits))
    statistics.span = examples.span


def describe_anomalies(
    anomalies: artifact.Artifact, examples: artifact.Artifact, blessed_splits: Mapping[str, bool]
) -> None:
    """Marks an ExampleAnomalies artifact as TFX's ExampleValidator does."""
    anomalies.split_names = artifact_utils.encode_split_names(list(blessed_splits))
    anomalies.span = examples.span
    verdicts = {split: int(blessed) for split, blessed in blessed_splits.items()}
    anomalies.set_json_value_custom_property(BLESSED_PROPERTY, verdicts)


def describe_examples_blessing(blessing: artifact.Artifact, examples: artifact.Artifact, *, blessed: bool) -> None:
    """Marks an ExamplesBlessingArtifact with its verdict."""
    blessing.set_int_custom_property(BLESSED_PROPERTY, int(blessed))
    blessing.set_string_custom_property("examples", examples.uri)


def describe_blessing(blessing: artifact.Artifact, model: artifact.Artifact, *, blessed: bool) -> None:
    """Marks a ModelBlessing or InfraBlessing artifact as TFX's Evaluator does, so that its Pusher understands it."""
    blessing.set_int_custom_property(BLESSED_PROPERTY, int(blessed))
    blessing.set_string_custom_property("current_model", model.uri)
    blessing.set_int_custom_property("current_model_id", model.id)


def describe_skew(skew: artifact.Artifact, largest_difference: float) -> None:
    """Marks a SkewReportArtifact with its largest difference.

    Infinity is written as the largest float.
    """
    skew.set_float_custom_property("largest_difference", min(largest_difference, sys.float_info.max))


def describe_inference(inference: artifact.Artifact, *, blessed: bool, num_rows: int) -> None:
    """Marks an InferenceTableArtifact: whether the model was asked, and the number of rows."""
    inference.set_int_custom_property(BLESSED_PROPERTY, int(blessed))
    inference.set_int_custom_property("num_rows", num_rows)


def describe_pushed_model(
    pushed_model: artifact.Artifact, path: str, version: int | None, *, identical_to: int | None = None
) -> None:
    """Marks a PushedModel artifact as TFX's Pusher does, and with the version that has the same model, if any.

    If nothing was pushed, `version` is None and `path` has no meaning.
    """
    pushed_model.set_int_custom_property("pushed", int(version is not None))
    if version is not None:
        pushed_model.set_string_custom_property("pushed_destination", path)
        pushed_model.set_string_custom_property("pushed_version", str(version))
    if identical_to is not None:
        pushed_model.set_string_custom_property("identical_to_version", str(identical_to))
