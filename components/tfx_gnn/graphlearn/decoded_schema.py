"""The graph schema of files that a GraphLearn `Decoder` describes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Literal

import pyarrow as pa
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, GraphSchema, NodeSet
from tfx_gnn.graphlearn import attribute_decoder as columns
from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.tables.csv_table import CsvFormat
from tfx_gnn.tables.packed_column import parse_packed_column
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout
from tfx_gnn.tables.table_paths import resolve_table_files

_INTEGERS = {"int32": types_pb2.DT_INT32, "int": types_pb2.DT_INT64, "int64": types_pb2.DT_INT64}
_TYPES: Mapping[str, Mapping[str, int]] = {
    columns.ID: {"int64": types_pb2.DT_INT64, "int": types_pb2.DT_INT64, "string": types_pb2.DT_STRING},
    columns.WEIGHT: {"float": types_pb2.DT_FLOAT, "double": types_pb2.DT_FLOAT},
    columns.LABEL: _INTEGERS,
    columns.TIMESTAMP: {"int64": types_pb2.DT_INT64, "int": types_pb2.DT_INT64},
    columns.ATTRIBUTES: {"string": types_pb2.DT_STRING},
}
_TYPE_NAMES = frozenset(name for known in _TYPES.values() for name in known)
_ATTRIBUTE_TYPES = {
    pa.int64(): types_pb2.DT_INT64,
    pa.float32(): types_pb2.DT_FLOAT,
    pa.large_string(): types_pb2.DT_STRING,
    pa.large_list(pa.large_string()): types_pb2.DT_STRING,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedNodes:
    """A node table of GraphLearn.

    Attributes:
        filename: a file, a glob or shards, relative to the tables folder; several are
            joined by commas.
        decoder: what the columns are.
    """

    filename: str
    decoder: Decoder = dataclasses.field(default_factory=Decoder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedEdges:
    """An edge table of GraphLearn.

    Attributes:
        filename: a file, a glob or shards, relative to the tables folder; several are
            joined by commas.
        source: node set of the sources.
        target: node set of the targets.
        decoder: what the columns are.
        is_directed: if not, there is also an edge set `<name>_reverse` that reads the
            same edges the other way round. (Hops can follow edges backward without it.)
    """

    filename: str
    source: str
    target: str
    decoder: Decoder = dataclasses.field(default_factory=Decoder)
    is_directed: bool = True


def decoded_schema(
    tables_dir: str,
    *,
    nodes: Mapping[str, DecodedNodes],
    edges: Mapping[str, DecodedEdges] | None = None,
    delimiter: str = "\t",
) -> GraphSchema:
    """Describes GraphLearn's files by a graph schema, so that they are read like other tables.

    Files have a header line of `name:type`, parted by tabs. The columns stand in the order of
    the decoder, whatever their names. Weight, label and timestamp become
    the features `weight`, `label` and `timestamp`; each attribute becomes a feature of
    its own, any number of texts one of shape [-1]. A quote at the beginning of a cell
    has the meaning that it has in CSV files.
    """
    schema = GraphSchema()
    for name, node_table in nodes.items():
        types = _describe(schema.node_sets[name], node_table, tables_dir, delimiter, ("id_column",))
        if types[0] != types_pb2.DT_STRING:
            schema.node_sets[name].features[ID_FEATURE].dtype = types[0]
    for name, edge_table in (edges or {}).items():
        for node_set in (edge_table.source, edge_table.target):
            if node_set not in nodes:
                raise ValueError(
                    f"`edges` must join node sets of `nodes`, {sorted(nodes)}; got {node_set!r} in {name!r}. "
                    "Add the node table or correct the name."
                )
        ways = [(name, edge_table.source, edge_table.target, ("source_column", "target_column"))]
        if not edge_table.is_directed:
            ways.append((f"{name}_reverse", edge_table.target, edge_table.source, ("target_column", "source_column")))
        for edge_set_name, source, target, keys in ways:
            edge_set = schema.edge_sets[edge_set_name]
            edge_set.source, edge_set.target = source, target
            _describe(edge_set, edge_table, tables_dir, delimiter, keys)
    return schema


def _describe(
    declared: NodeSet | EdgeSet,
    table: DecodedNodes | DecodedEdges,
    tables_dir: str,
    delimiter: str,
    key_settings: tuple[str, ...],
) -> list[int]:
    """Declares the columns of a table; returns their types."""
    kind: Literal["node", "edge"] = "node" if isinstance(declared, NodeSet) else "edge"
    decoder, filename = table.decoder, table.filename
    names = decoder.column_names(kind)
    header, types = _read_header(tables_dir, filename, names, delimiter)
    declared.metadata.filename = filename
    settings = {"format": "csv", "delimiter": "tab" if delimiter == "\t" else delimiter}
    for name, column, dtype in zip(names, header, types, strict=True):
        if name in (columns.WEIGHT, columns.LABEL, columns.TIMESTAMP):
            declared.features[name].dtype = dtype
            declared.features[name].source = column
        elif name == columns.ATTRIBUTES:
            packed = decoder.packed_column(column)
            if parse_packed_column(column, packed.template) != packed:
                raise ValueError(
                    "`attr_names` must have none of []{}# and no delimiter in them; got "
                    f"{[attribute.name for attribute in decoder.attributes]} for {filename}. Rename the attributes."
                )
            settings[f"decoder.{column}"] = packed.template
    settings.update(zip(key_settings, header, strict=False))  # Keys come first in every header.
    for attribute in decoder.attributes:
        if attribute.name in declared.features:
            raise ValueError(
                f"`attr_names` must differ from the other columns; got {attribute.name!r} for {filename}. Rename it."
            )
        declared.features[attribute.name].dtype = _ATTRIBUTE_TYPES[attribute.arrow_type]
        if attribute.is_multivalued:
            declared.features[attribute.name].shape.dim.add(size=-1)
    for key in sorted(settings):
        declared.metadata.extra.add(key=key, value=settings[key])
    return types


def _read_header(tables_dir: str, filename: str, names: tuple[str, ...], delimiter: str) -> tuple[list[str], list[int]]:
    files = resolve_table_files(tables_dir, filename)
    if not files:
        path = os.path.join(tables_dir, filename)
        raise ValueError(f"`filename` must name a file that exists; got {path!r}. Correct the name.")
    layout = TableLayout(kind="node", name="", files=files, format="csv", columns={}, delimiter=delimiter)
    header = list(CsvFormat(layout).column_names(files[0]))
    # What has neither an expected name nor a type may be no table at all, and is not shown.
    parts = [column.rpartition(":") for column in header]
    is_table = any(start in names or end in names or end in _TYPE_NAMES for start, _, end in parts)
    if len(header) != len(names):
        shown = header if is_table else f"of {len(header)} columns"
        raise ValueError(
            f"`decoder` must describe every column, here {list(names)}; got the header {shown} in {files[0]}. "
            "Say what is weighted, labeled, timestamped and attributed, or correct the delimiter."
        )
    types = []
    for name, column in zip(names, header, strict=True):
        known = _TYPES[columns.ID if name in (columns.SOURCE_ID, columns.TARGET_ID) else name]
        type_name = column.rpartition(":")[2]
        if ":" not in column or type_name not in known:
            raise ValueError(
                f"`{name}` must have a header 'name:type' of type {' or '.join(sorted(known))}; got "
                f"{repr(column) if is_table else 'another text'} in {files[0]}. Correct the header or the decoder."
            )
        types.append(known[type_name])
    return header, types
