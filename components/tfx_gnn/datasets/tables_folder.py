"""Writes a folder of tables: Parquet files and the graph schema that describes them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import FULL, Feature, GraphSchema, Metadata
from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE

_ROWS_PER_GROUP = 1 << 16  # number of rows that one worker reads at once
_HEADER = (
    "# proto-file: tfx_gnn/graph/proto/graph_schema.proto\n"  # recognized by editors and formatters of text protos
    "# proto-message: tfx_gnn.v1.GraphSchema\n"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescribedTable:
    """A table and its entry in the graph schema.

    Attributes:
        table: the rows, without nulls.
        description: description of one row.
        features: columns that are features, with their descriptions. Other columns are only in the
            file; users can declare them.
        extra: settings of the table, such as "id_column".
        filename: name of the file.
    """

    table: pa.Table
    description: str
    filename: str
    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    extra: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescribedGraph:
    """All tables of a graph.

    Attributes:
        node_sets: tables by node set.
        edge_sets: tables by edge set.
        ends: by edge set, its source node set and its target node set.
        context: table of graph-level features, one row per graph; None if there is only one graph.
        loose_tables: by file name, tables that are not part of the graph, such as seeds.
    """

    node_sets: Mapping[str, DescribedTable]
    edge_sets: Mapping[str, DescribedTable]
    ends: Mapping[str, tuple[str, str]]
    context: DescribedTable | None = None
    loose_tables: Mapping[str, pa.Table] = dataclasses.field(default_factory=dict)

    @property
    def tables(self) -> dict[str, DescribedTable]:
        """All tables by file name, context first, then nodes, then edges."""
        context = [self.context] if self.context is not None else []
        described = [*context, *self.node_sets.values(), *self.edge_sets.values()]
        return {table.filename: table for table in described}


def graph_schema_of(graph: DescribedGraph) -> GraphSchema:
    """Makes the graph schema of tables, whose `metadata` has the file name and number of rows of each table."""
    schema = GraphSchema()
    schema.info.graph_type = FULL
    if graph.context is not None:
        _describe(schema.context.features, schema.context.metadata, graph.context)
    for name, described in sorted(graph.node_sets.items()):
        node_set = schema.node_sets[name]
        node_set.description = described.description
        _describe(node_set.features, node_set.metadata, described)
    for name, described in sorted(graph.edge_sets.items()):
        edge_set = schema.edge_sets[name]
        edge_set.description = described.description
        edge_set.source, edge_set.target = graph.ends[name]
        _describe(edge_set.features, edge_set.metadata, described)
    schema_validation.validate_schema(schema)
    return schema


def write_tables_folder(output_dir: str, graph: DescribedGraph) -> None:
    """Writes tables as Parquet, and their schema.

    Equal tables result in equal bytes.
    """
    tf.io.gfile.makedirs(output_dir)
    described = {filename: described.table for filename, described in graph.tables.items()}
    for filename, table in {**described, **graph.loose_tables}.items():
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", row_group_size=_ROWS_PER_GROUP)
        _write(os.path.join(output_dir, filename), sink.getvalue().to_pybytes())
    text: str = text_format.MessageToString(graph_schema_of(graph))
    _write(os.path.join(output_dir, GRAPH_SCHEMA_FILE), (_HEADER + text).encode())


def _write(path: str, data: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def _describe(features: Mapping[str, Feature], metadata: Metadata, described: DescribedTable) -> None:
    for name, description in sorted(described.features.items()):
        column = described.table.schema.field(name)
        # Reading an entry of a protobuf map creates it.
        features[name].description = description
        features[name].dtype = tf.as_dtype("string" if _is_text(column.type) else str(column.type)).as_datatype_enum
    metadata.filename = described.filename
    metadata.cardinality = described.table.num_rows
    for key, value in sorted(described.extra.items()):
        metadata.extra.add(key=key, value=value)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))
