"""Artifact types of this library, and what its components write into TFX's own.

Kubeflow reads a custom type's name as an import path with exactly one dot, so
these classes resolve at the top of the package, and it cannot carry declared
properties, so there are none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfx.types import artifact, artifact_utils

PAYLOAD_FORMAT_PROPERTY = "payload_format"
"""Custom property of Examples that tells stock components how to parse a record."""
FILE_FORMAT_PROPERTY = "file_format"
"""Custom property of Examples that tells stock components how to open a file."""


class GraphSchemaArtifact(artifact.Artifact):
    """A graph schema.

    File structure:
        `graph_schema.pbtxt`: text form of the GraphSchema proto message.
    """

    TYPE_NAME = "tfx_gnn.GraphSchemaArtifact"


class SizeConstraintsArtifact(artifact.Artifact):
    """Padding budgets of a batch of graphs.

    File structure:
        `size_constraints.json`: the budgets by name, with the options and the
        fingerprints of the data that they were learned from.
    """

    TYPE_NAME = "tfx_gnn.SizeConstraintsArtifact"


def describe_examples(examples: artifact.Artifact, splits: Sequence[str]) -> None:
    """Marks an Examples artifact as gzipped TFRecords of tf.Examples.

    Stock components (StatisticsGen, BulkInferrer and others) read such an
    artifact without further settings.

    Args:
        examples: artifact of type Examples to mark, in place.
        splits: names of its splits.
    """
    examples.split_names = artifact_utils.encode_split_names(list(splits))
    examples.set_string_custom_property(PAYLOAD_FORMAT_PROPERTY, "FORMAT_TF_EXAMPLE")
    examples.set_string_custom_property(FILE_FORMAT_PROPERTY, "tfrecords_gzip")


def describe_blessing(blessing: artifact.Artifact, model: artifact.Artifact, *, blessed: bool) -> None:
    """Marks a ModelBlessing artifact as TFX's Evaluator does, so that its Pusher understands it.

    Args:
        blessing: artifact of type ModelBlessing to mark, in place.
        model: the model that was judged.
        blessed: the verdict.
    """
    blessing.set_int_custom_property("blessed", int(blessed))
    blessing.set_string_custom_property("current_model", model.uri)
    blessing.set_int_custom_property("current_model_id", model.id)


def describe_pushed_model(pushed_model: artifact.Artifact, path: str, version: int | None) -> None:
    """Marks a PushedModel artifact as TFX's Pusher does.

    Args:
        pushed_model: artifact of type PushedModel to mark, in place.
        path: the version's folder; of no meaning if nothing was pushed.
        version: the version's number, or None if nothing was pushed.
    """
    pushed_model.set_int_custom_property("pushed", int(version is not None))
    if version is not None:
        pushed_model.set_string_custom_property("pushed_destination", path)
        pushed_model.set_string_custom_property("pushed_version", str(version))
