"""Node tables and edge tables: the files that a graph schema names, as typed columns."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph import schema as graph_schema
from tfx_gnn.graph import schema_validation
from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, Feature, GraphSchema, Metadata, NodeSet
from tfx_gnn.tables.csv_table import CsvColumn, CsvTable, read_csv_table

ID_FEATURE = "#id"
"""Feature with the original id of a node, or the row of an edge in its table."""

_SOURCE = "#source"
_TARGET = "#target"
_DEFAULT_PREFIX = "default."
_EXTRA_PREFIX = "#column."

_ARROW_TYPES = {
    tf.bool: pa.bool_(),
    tf.int8: pa.int8(),
    tf.int16: pa.int16(),
    tf.int32: pa.int32(),
    tf.int64: pa.int64(),
    tf.uint8: pa.uint8(),
    tf.uint16: pa.uint16(),
    tf.uint32: pa.uint32(),
    tf.uint64: pa.uint64(),
    # A tf.Example keeps every float type as float32, so what float32 cannot hold is refused here.
    tf.float16: pa.float32(),
    tf.bfloat16: pa.float32(),
    tf.float32: pa.float32(),
    tf.float64: pa.float32(),
    tf.string: pa.large_string(),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeTable:
    """Nodes of one set, in ascending order of their ids whatever the order of the file.

    Attributes:
        path: file that the table was read from.
        ids: Arrow array of large_string or int64, shape [num_nodes], no two equal.
        features: one Arrow array a feature of the schema, shape [num_nodes], no nulls.
        extra_columns: large_string arrays of columns that were asked for by name.
    """

    path: str
    ids: pa.Array
    features: Mapping[str, pa.Array]
    extra_columns: Mapping[str, pa.Array] = dataclasses.field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Number of nodes, at least 1."""
        return len(self.ids)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeTable:
    """Edges of one set, in the order of the file.

    Attributes:
        path: file that the table was read from.
        source_set: node set of the sources.
        target_set: node set of the targets.
        sources: int64 array, shape [num_edges]: rows of the source node table.
        targets: int64 array, shape [num_edges]: rows of the target node table.
        features: one Arrow array a feature of the schema, shape [num_edges], no nulls.
    """

    path: str
    source_set: str
    target_set: str
    sources: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    features: Mapping[str, pa.Array]

    @property
    def num_edges(self) -> int:
        """Number of edges, at least 1."""
        return len(self.sources)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTables:
    """A whole graph as tables.

    Attributes:
        schema: what the tables folder declares.
        node_tables: by node set.
        edge_tables: by edge set; the node sets at both ends are there.
    """

    schema: GraphSchema
    node_tables: Mapping[str, NodeTable]
    edge_tables: Mapping[str, EdgeTable]


def read_tables_schema(tables_dir: str) -> GraphSchema:
    """Reads the schema of a tables folder and checks that its files exist.

    Args:
        tables_dir: folder with `graph_schema.pbtxt`.

    Returns:
        The schema.

    Raises:
        ValueError: if the schema is missing or invalid, names an absent file, or asks
            for what cannot be read from tables.
    """
    path = os.path.join(tables_dir, "graph_schema.pbtxt")
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`tables_dir` must hold a graph_schema.pbtxt; got none in {tables_dir!r}. Describe the tables there."
        )
    try:
        schema = graph_schema.read_schema(path)
        schema_validation.validate_schema(schema)
    except (text_format.ParseError, schema_validation.ValidationError) as error:
        mistake = error.__cause__ or error  # of a parse error, what is wrong without where
        raise ValueError(
            f"`tables_dir` must hold a valid graph_schema.pbtxt; got a mistake in {path}. Correct it: {mistake}"
        ) from error
    if schema.context.features:
        raise ValueError(
            f"`context` must have no features in a graph of tables; got {sorted(schema.context.features)} in {path}. "
            "Put them on a node set."
        )
    for place, metadata in [
        *((f"node set {name!r}", schema.node_sets[name].metadata) for name in sorted(schema.node_sets)),
        *((f"edge set {name!r}", schema.edge_sets[name].metadata) for name in sorted(schema.edge_sets)),
    ]:
        filename = metadata.filename
        if metadata.HasField("bigquery") or not filename.endswith(".csv"):
            what = "a BigQuery source" if metadata.HasField("bigquery") else repr(filename)
            raise ValueError(
                f"`metadata.filename` must name a .csv file; got {what} for {place} in {path}. "
                "Export the table as CSV and name the file."
            )
        if not tf.io.gfile.exists(os.path.join(tables_dir, filename)):
            raise ValueError(
                f"`metadata.filename` must name a file that exists, relative to the schema's folder; got {filename!r} "
                f"for {place} in {path}. Correct the name or put the file there."
            )
    return schema


def read_tables(
    tables_dir: str,
    *,
    node_sets: Collection[str] | None = None,
    edge_sets: Collection[str] | None = None,
    extra_columns: Mapping[str, Sequence[str]] | None = None,
) -> GraphTables:
    """Reads the tables that a schema names, typed by it.

    The columns are those of the declared features, under the feature's `source`
    if it has one, and `id` of a node table, `source` and `target` of an edge
    table, unless `metadata.extra` gives other names for the keys "id_column",
    "source_column", "target_column". Ids are strings, or integers where the node
    set declares a feature `#id` of type DT_INT64. An empty cell is refused unless
    `metadata.extra` has the key "default.<feature>".

    Args:
        tables_dir: folder with `graph_schema.pbtxt` and the files it names.
        node_sets: node sets to read; all by default. Those at the ends of
            `edge_sets` must be among them.
        edge_sets: edge sets to read; all by default.
        extra_columns: by node set, columns to read as text, declared or not.

    Returns:
        The graph.

    Raises:
        ValueError: if schema or tables break a rule. The message names file, line
            or record, and rule.
    """
    schema = read_tables_schema(tables_dir)
    node_tables = {
        name: _read_node_table(tables_dir, name, schema.node_sets[name], (extra_columns or {}).get(name, ()))
        for name in sorted(schema.node_sets if node_sets is None else node_sets)
    }
    edge_tables = {
        name: _read_edge_table(tables_dir, name, schema.edge_sets[name], node_tables)
        for name in sorted(schema.edge_sets if edge_sets is None else edge_sets)
    }
    return GraphTables(schema=schema, node_tables=node_tables, edge_tables=edge_tables)


def _read_node_table(tables_dir: str, name: str, node_set: NodeSet, extra_columns: Sequence[str]) -> NodeTable:
    place = f"node set {name!r}"
    columns = _feature_columns(node_set, place)
    id_type = _id_type(node_set, place)
    columns[ID_FEATURE] = CsvColumn(name=_column_name(node_set.metadata, "id_column", "id"), dtype=id_type)
    for column in extra_columns:
        columns[_EXTRA_PREFIX + column] = CsvColumn(name=column, dtype=pa.large_string())
    table = read_csv_table(os.path.join(tables_dir, node_set.metadata.filename), columns)
    order = pc.sort_indices(table.columns[ID_FEATURE])
    arrays = {key: column.take(order) for key, column in table.columns.items()}
    ids = arrays.pop(ID_FEATURE)
    repeats = np.flatnonzero(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False))
    if len(repeats):
        row = int(order[int(repeats[0]) + 1].as_py())
        raise ValueError(
            f"`{columns[ID_FEATURE].name}` must be different in every record; got {ids[int(repeats[0])].as_py()!r} "
            f"again in {table.place_of(row)}. Remove one of the records of {place}."
        )
    return NodeTable(
        path=table.path,
        ids=ids,
        features={key: arrays[key] for key in arrays if not key.startswith(_EXTRA_PREFIX)},
        extra_columns={column: arrays[_EXTRA_PREFIX + column] for column in extra_columns},
    )


def _read_edge_table(tables_dir: str, name: str, edge_set: EdgeSet, node_tables: Mapping[str, NodeTable]) -> EdgeTable:
    place = f"edge set {name!r}"
    if ID_FEATURE in edge_set.features:
        raise ValueError(
            f"`{ID_FEATURE}` must not be declared for an edge table; got it in {place}. It is the row number."
        )
    columns = _feature_columns(edge_set, place)
    metadata = edge_set.metadata
    for key, setting, node_set in (
        (_SOURCE, "source", edge_set.source),
        (_TARGET, "target", edge_set.target),
    ):
        column = _column_name(metadata, f"{setting}_column", setting)
        columns[key] = CsvColumn(name=column, dtype=node_tables[node_set].ids.type)
    table = read_csv_table(os.path.join(tables_dir, metadata.filename), columns)
    return EdgeTable(
        path=table.path,
        source_set=edge_set.source,
        target_set=edge_set.target,
        sources=_rows_of(table, _SOURCE, columns[_SOURCE].name, edge_set.source, node_tables[edge_set.source]),
        targets=_rows_of(table, _TARGET, columns[_TARGET].name, edge_set.target, node_tables[edge_set.target]),
        features={key: value for key, value in table.columns.items() if key not in (_SOURCE, _TARGET)},
    )


def _rows_of(table: CsvTable, key: str, column: str, node_set: str, nodes: NodeTable) -> npt.NDArray[np.int64]:
    ids = table.columns[key]
    rows = pc.index_in(ids, value_set=nodes.ids)
    if rows.null_count:
        row = pc.index(rows.is_null(), True).as_py()
        raise ValueError(
            f"`{column}` must name a node of {node_set!r} ({nodes.path}); got {ids[row].as_py()!r} in "
            f"{table.place_of(row)}, one of {rows.null_count} such edges. Add the nodes or remove the edges."
        )
    return np.asarray(rows.to_numpy(zero_copy_only=False), np.int64)


def _feature_columns(holder: NodeSet | EdgeSet, place: str) -> dict[str, CsvColumn]:
    features = holder.features
    defaults = {
        entry.key.removeprefix(_DEFAULT_PREFIX): entry.value
        for entry in holder.metadata.extra
        if entry.key.startswith(_DEFAULT_PREFIX)
    }
    for name in defaults:
        if name not in features:
            raise ValueError(
                f"`metadata.extra` must give defaults to declared features; got {_DEFAULT_PREFIX + name!r} in {place}, "
                f"which declares {sorted(features)}. Check the spelling."
            )
    return {
        name: CsvColumn(
            name=features[name].source or name,
            dtype=_arrow_type(features[name], f"feature {name!r} of {place}"),
            default=defaults.get(name),
        )
        for name in sorted(features)
        if name != ID_FEATURE
    }


def _arrow_type(feature: Feature, place: str) -> pa.DataType:
    if feature.shape.dim or feature.shape.unknown_rank:
        raise ValueError(
            "`shape` must be that of a scalar for a CSV column; got "
            f"{[dim.size for dim in feature.shape.dim]} for {place}. Use one column and one feature for each component."
        )
    return _ARROW_TYPES[tf.dtypes.as_dtype(feature.dtype)]


def _id_type(node_set: NodeSet, place: str) -> pa.DataType:
    if ID_FEATURE not in node_set.features:
        return pa.large_string()
    dtype = tf.dtypes.as_dtype(node_set.features[ID_FEATURE].dtype)
    if dtype not in (tf.string, tf.int64):
        raise ValueError(
            f"`{ID_FEATURE}` must be DT_STRING or DT_INT64; got {dtype.name} in {place}. Declare one of the two."
        )
    return _ARROW_TYPES[dtype]


def _column_name(metadata: Metadata, key: str, default: str) -> str:
    names = [entry.value for entry in metadata.extra if entry.key == key]
    return names[-1] if names else default
