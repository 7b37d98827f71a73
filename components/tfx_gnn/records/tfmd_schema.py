"""The standard TensorFlow Metadata schema of graph tf.Examples.

StatisticsGen, ExampleValidator and tf.Transform read it. Each feature of the graph
has one `ragged_tensor` representation: its first dimension is the items of an
example, followed by the declared shape.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.io.text_files import describe_mistake
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout

SCHEMA_FILE = "schema.pbtxt"
_DEFAULT_GROUP = ""
_TYPES = {tf.int64: schema_pb2.INT, tf.float32: schema_pb2.FLOAT, tf.string: schema_pb2.BYTES}


def make_tfmd_schema(layout: GraphLayout, presence: Mapping[str, float] | None = None) -> schema_pb2.Schema:
    """Makes the TensorFlow Metadata schema of a graph's tf.Examples, with one feature per key.

    Its default tensor representation group holds one `ragged_tensor` per feature of the graph, including the structure;
    row lengths of ragged dimensions are parts of it. `presence` is the fraction of examples that have each key: a key
    with fraction 1.0 is required in all later examples. Raises ValueError for a dimension of size 0, which such a
    schema cannot express.
    """
    schema = schema_pb2.Schema()
    for one_set in layout.sets:
        structure = tuple(
            FeatureColumn(key=key, name=key.rpartition(".")[2], dtype=tf.int64) for key in one_set.structure_keys
        )
        for column in structure + one_set.features:
            _add_feature(schema, column, presence or {})
            if column.name == const.SIZE_NAME:
                schema.feature[-1].value_count.min = schema.feature[-1].value_count.max = 1
    return schema


def write_tfmd_schema(schema: schema_pb2.Schema, folder: str) -> None:
    """Writes `schema.pbtxt`, the only file of a standard Schema artifact, into an existing folder."""
    with tf.io.gfile.GFile(os.path.join(folder, SCHEMA_FILE), "w") as file:
        file.write(text_format.MessageToString(schema))


def read_tfmd_schema(folder: str) -> schema_pb2.Schema:
    """Reads `schema.pbtxt` from a Schema artifact, or from a metadata folder of a TransformGraph."""
    path = os.path.join(folder, SCHEMA_FILE)
    with tf.io.gfile.GFile(path, "rb") as file:
        data: bytes = file.read()
    try:
        return text_format.Parse(data, schema_pb2.Schema())
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"`{path}` must be a schema of TensorFlow Metadata; got a mistake in it: "
            f"{describe_mistake(error, data, schema_pb2.Schema())}. Write it again."
        ) from error


def _add_feature(schema: schema_pb2.Schema, column: FeatureColumn, presence: Mapping[str, float]) -> None:
    if 0 in column.shape:
        raise ValueError(
            f"`shape` must have no dimension of size 0; got {column.shape} for {column.key!r}. "
            "Remove the feature, it holds no value."
        )
    _add_column(schema, column.key, column.dtype, presence)
    representation = schema.tensor_representation_group[_DEFAULT_GROUP].tensor_representation[column.key]
    representation.ragged_tensor.feature_path.step.append(column.key)
    row_length_keys = column.row_length_keys
    for axis, size in enumerate(column.shape):
        partition = representation.ragged_tensor.partition.add()
        if size is None:
            partition.row_length = row_length_keys[axis]
            _add_column(schema, row_length_keys[axis], tf.int64, presence)
        else:
            partition.uniform_row_length = size


def _add_column(schema: schema_pb2.Schema, key: str, dtype: tf.DType, presence: Mapping[str, float]) -> None:
    feature = schema.feature.add(name=key, type=_TYPES[dtype])
    if presence.get(key, 0.0) == 1.0:
        feature.presence.min_fraction = 1.0
        feature.presence.min_count = 1
