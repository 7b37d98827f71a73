"""A record of which outputs of GraphTransform belong together.

The note lies in the transform graph and beside the transformed examples. Outputs of releases that wrote none are
taken as they are.

tf.Transform describes a ragged output by columns of its own making
(`<key>$ragged_values`, `<key>$row_lengths_1`), which the transformed examples do not
have. Here its schema is written anew with the keys that they do have.
"""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_metadata.proto.v0 import schema_pb2

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema.context_labels import remove_lost_marks
from tfx_gnn.io.text_files import read_json
from tfx_gnn.records.graph_layout import graph_layout, schema_features
from tfx_gnn.records.tfmd_schema import make_tfmd_schema, read_tfmd_schema, write_tfmd_schema

TRANSFORMED_METADATA_DIR = "transformed_metadata"
"""Where `tft.TFTransformOutput` looks for the schema of transformed data."""


_DTYPES = {
    schema_pb2.INT: types_pb2.DT_INT64,
    schema_pb2.FLOAT: types_pb2.DT_FLOAT,
    schema_pb2.BYTES: types_pb2.DT_STRING,
}


def rewrite_transformed_metadata(
    transform_graph_dir: str, raw_schema: graph_schema_pb2.GraphSchema
) -> graph_schema_pb2.GraphSchema:
    """Gives `transformed_metadata/schema.pbtxt` the keys of the transformed examples.

    Domains and annotations that tf.Transform wrote (vocabulary sizes, ranges of indices) stay. Returns the transformed
    graph: the same sets with other features, whose dtypes are int64, float32 and string. All dimensions up to the last
    ragged one are declared ragged.
    """
    folder = os.path.join(transform_graph_dir, TRANSFORMED_METADATA_DIR)
    written = read_tfmd_schema(folder)
    schema = _transformed_graph_schema(written, raw_schema)
    rewritten = make_tfmd_schema(graph_layout(schema))
    columns = {feature.name: feature for feature in written.feature}
    representations = written.tensor_representation_group[""].tensor_representation
    for feature in rewritten.feature:
        if feature.name in representations:
            key = feature.name
            feature.MergeFrom(columns[_value_column(representations[key])])
            feature.name = key
    rewritten.annotation.CopyFrom(written.annotation)
    write_tfmd_schema(rewritten, folder)
    return schema


def _transformed_graph_schema(
    written: schema_pb2.Schema, raw_schema: graph_schema_pb2.GraphSchema
) -> graph_schema_pb2.GraphSchema:
    layout = graph_layout(raw_schema)
    schema = graph_schema_pb2.GraphSchema()
    schema.CopyFrom(raw_schema)
    schema.context.features.clear()
    for name in schema.node_sets:
        schema.node_sets[name].features.clear()
    for name in schema.edge_sets:
        schema.edge_sets[name].features.clear()
    structure = {key for one_set in layout.sets for key in one_set.structure_keys}
    columns = {feature.name: feature for feature in written.feature}
    representations = written.tensor_representation_group[""].tensor_representation
    for key in sorted(set(representations) - structure):
        owner = layout.owner_of(key)
        name = key[len(owner.prefix) + 1 :]
        feature = schema_features(schema, owner.prefix)[name]
        raw_features = schema_features(raw_schema, owner.prefix)
        if name in raw_features and raw_features[name].HasField("description"):
            feature.description = raw_features[name].description
        feature.dtype = _DTYPES[columns[_value_column(representations[key])].type]
        for partition in representations[key].ragged_tensor.partition:
            size = partition.uniform_row_length if partition.HasField("uniform_row_length") else -1
            feature.shape.dim.add(size=size)
    remove_lost_marks(schema)
    return schema


def _value_column(representation: schema_pb2.TensorRepresentation) -> str:
    step: str = representation.ragged_tensor.feature_path.step[0]
    return step


TRANSFORM_RECORD_FILE = "graph_transform.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformRecord:
    """One call of GraphTransform.

    Attributes:
        transform: fingerprint of the transform graph; every run makes another, as its program holds names of functions
            that are counted in each process.
        raw_examples: `fingerprint_examples_folder` of the examples before the transform.
        nonfinite_features: tf.Example keys of transformed features that may be NaN or infinite.
    """

    transform: str
    raw_examples: str
    nonfinite_features: tuple[str, ...] = ()

    def write(self, folder: str) -> None:
        """Writes the record into an existing folder."""
        with tf.io.gfile.GFile(os.path.join(folder, TRANSFORM_RECORD_FILE), "w") as file:
            file.write(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read_transform_record(folder: str) -> TransformRecord | None:
    """Reads the record of a transform graph, or of transformed examples; None if there is none."""
    path = os.path.join(folder, TRANSFORM_RECORD_FILE)
    if not tf.io.gfile.exists(path):
        return None
    found = read_json(path)
    try:
        return TransformRecord(
            transform=str(found["transform"]),
            raw_examples=str(found["raw_examples"]),
            nonfinite_features=tuple(map(str, found["nonfinite_features"])),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"`{path}` must be a note of GraphTransform; got something else. Transform the examples again."
        ) from error


def check_transformed_by(transformed_examples_dir: str, transform_graph_dir: str) -> None:
    """Refuses examples that another transform made; those of which either folder has no record pass."""
    examples, graph = map(read_transform_record, (transformed_examples_dir, transform_graph_dir))
    if examples and graph and examples.transform != graph.transform:
        raise ValueError(
            f"`transform_graph_dir` must hold the transform that made the examples; got {transform_graph_dir!r}, "
            f"which did not make {transformed_examples_dir!r}. Name two outputs of the same run of GraphTransform: "
            "the model would see other features when it is served."
        )
