"""Reads and writes graph schemas, and iterates over their sets and features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.tensor.graph_checks import is_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors
from tfx_gnn.io.text_files import check_regular_file, describe_mistake
from tfx_gnn.io.whole_files import write_whole

SchemaOrGraph = Union[schema_pb2.GraphSchema, GraphTensor]


def parse_schema(schema_text: bytes | str) -> schema_pb2.GraphSchema:
    """Reads a schema from text format.

    Args:
        schema_text: a `GraphSchema` message in protobuf's text format, UTF-8 if bytes.

    Returns:
        The message. It is well-formed but not necessarily valid: see `validate_schema`.

    Raises:
        TypeError: if the argument is neither str nor bytes.
        google.protobuf.text_format.ParseError: if the text is malformed; the message names line
            and column.

    Example:
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> sorted(schema.node_sets["paper"].features)
        ['year']
    """
    if not isinstance(schema_text, (bytes, str)):
        raise TypeError(
            f"`schema_text` must be str or bytes; got {type(schema_text).__name__}. Use `read_schema` for a file name."
        )
    return text_format.Parse(schema_text, schema_pb2.GraphSchema())


def read_schema(filename: str) -> schema_pb2.GraphSchema:
    """Reads a schema from a file in text format, by convention `graph_schema.pbtxt`.

    Args:
        filename: path, or URL of a file system that `tf.io.gfile` knows.

    Returns:
        The message. It is well-formed but not necessarily valid: see `validate_schema`.

    Raises:
        ValueError: if the file is a named pipe or a device.
        tf.errors.NotFoundError: if there is no such file.
        google.protobuf.text_format.ParseError: if the text is malformed; the message names file,
            line and column.
    """
    check_regular_file(filename)
    with tf.io.gfile.GFile(filename, "rb") as file:
        schema_text = file.read()
    try:
        return parse_schema(schema_text)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        mistake = describe_mistake(error, schema_text, schema_pb2.GraphSchema())
        raise text_format.ParseError(
            f"`filename` must name a text-format GraphSchema; got {filename}: {mistake}"
        ) from error


def write_schema(schema: schema_pb2.GraphSchema, filename: str) -> None:
    """Writes a schema to a file in text format, replacing the file if it exists.

    If the process is killed or the disk is full, the existing file stays, or no file if there was
    none; see `write_whole_file`.

    Args:
        schema: the message to write. Map entries are written in the order of their keys, so equal
            schemas give equal files.
        filename: path, or URL of a file system that `tf.io.gfile` knows.

    Raises:
        tf.errors.NotFoundError: if the folder does not exist.

    Example:
        >>> import os, tempfile
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> path = os.path.join(tempfile.mkdtemp(), "graph_schema.pbtxt")
        >>> tfx_gnn.write_schema(schema, path)
        >>> tfx_gnn.read_schema(path) == schema
        True
    """
    write_whole(filename, text_format.MessageToString(schema))


@refuses_keras_tensors()
def iter_sets(schema: SchemaOrGraph) -> Iterator[tuple[const.SetType, const.SetName, Any]]:
    """Iterates over the context, the node sets and the edge sets.

    Args:
        schema: a `GraphSchema`, or a `GraphTensor` of any shape.

    Yields:
        Triples (set type, set name, set). The set type is "context", "nodes" or "edges"; the name
        of the context is "". For a schema without a context, no context is yielded. Sets of a
        schema are sorted by name.

    Raises:
        TypeError: if the argument is neither a schema nor a graph.

    Example:
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> [(set_type, set_name) for set_type, set_name, _ in tfx_gnn.iter_sets(schema)]
        [('nodes', 'paper')]
    """
    if isinstance(schema, schema_pb2.GraphSchema):
        if schema.HasField("context"):
            yield const.CONTEXT, "", schema.context
        for name in sorted(schema.node_sets):
            yield const.NODES, name, schema.node_sets[name]
        for name in sorted(schema.edge_sets):
            yield const.EDGES, name, schema.edge_sets[name]
    elif is_graph_tensor(schema):
        yield const.CONTEXT, "", schema.context
        for name, node_set in schema.node_sets.items():
            yield const.NODES, name, node_set
        for name, edge_set in schema.edge_sets.items():
            yield const.EDGES, name, edge_set
    else:
        raise TypeError(f"`schema` must be a GraphSchema or a GraphTensor; got {type(schema).__name__}.")


@refuses_keras_tensors()
def iter_features(
    schema: SchemaOrGraph,
) -> Iterator[tuple[const.SetType, const.SetName, const.FieldName, Any]]:
    """Iterates over all features of the context, the node sets and the edge sets.

    Args:
        schema: a `GraphSchema`, or a `GraphTensor` of any shape.

    Yields:
        Tuples (set type, set name, feature name, feature): the `Feature` message of a schema, the
        tensor of a graph (its shape is `[*graph_shape, num_items, *feature_shape]`). Features of
        a schema are sorted by name.

    Raises:
        TypeError: if the argument is neither a schema nor a graph.

    Example:
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> [(set_type, set_name, name) for set_type, set_name, name, _ in tfx_gnn.iter_features(schema)]
        [('nodes', 'paper', 'year')]
    """
    for set_type, set_name, features_holder in iter_sets(schema):
        features = features_holder.features
        names = sorted(features) if isinstance(schema, schema_pb2.GraphSchema) else features
        for feature_name in names:
            yield set_type, set_name, feature_name, features[feature_name]
