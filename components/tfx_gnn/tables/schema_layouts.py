"""The table layouts that a graph schema declares: files, format, and columns of the declared features."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, Feature, GraphSchema, Metadata, NodeSet
from tfx_gnn.graph.schema.feature_defaults import DEFAULT_KEY, feature_defaults
from tfx_gnn.graph.schema.hyperedges import refuse_hyperedges
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.index_features import NO_NODE
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.tables.column_types import check_default
from tfx_gnn.tables.data_files import format_of_name, resolve_table_files
from tfx_gnn.tables.packed_column import parse_packed_column
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_format import FORMAT_NAMES
from tfx_gnn.tables.table_layout import (
    EXTRA_PREFIX,
    ID_FEATURE,
    SOURCE_KEY,
    TARGET_KEY,
    ColumnDecoder,
    TableColumn,
    TableKind,
    TableLayout,
)

CONTEXT: Final = "context"
"""Label of the context table, and its key in extra columns and decoders."""

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
"""Arrow types by the declared dtype of a feature."""

ColumnsByTable = Mapping[str, Sequence[str]]
DecodersByTable = Mapping[str, Mapping[str, ColumnDecoder]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableLayouts:
    """The tables of a graph.

    Attributes:
        node_sets: by name of the node set.
        edge_sets: by name of the edge set.
        context: the table of the whole graph, or of many graphs; None if there is none.
    """

    node_sets: Mapping[str, TableLayout]
    edge_sets: Mapping[str, TableLayout]
    context: TableLayout | None = None

    @property
    def all(self) -> tuple[TableLayout, ...]:
        """Every table: node sets, edge sets, context."""
        return (*self.node_sets.values(), *self.edge_sets.values(), *([self.context] if self.context else []))


def layouts_of(
    schema: GraphSchema,
    tables_dir: str,
    *,
    node_sets: Collection[str] | None = None,
    edge_sets: Collection[str] | None = None,
    extra_columns: ColumnsByTable | None = None,
    decoders: DecodersByTable | None = None,
    access: TableAccess | None = None,
) -> TableLayouts:
    """Finds the tables of a graph and the columns to read from them.

    The location of a table is `metadata.filename`, relative to `tables_dir`: a file, a
    glob, shards or several names (see `resolve_table_files`); or it is
    `metadata.bigquery`. The columns are the declared features, each named by the
    feature's `source` if it has one; `id` (or `#id`) in a node table; and `source` and
    `target` (or `#source` and `#target`) in an edge table. Ids are text, or integers
    where the node set declares a feature `#id` of type DT_INT64.

    Keys of `metadata.extra` change this:

    - "format": the format, if the file name does not tell it.
    - "delimiter": the character between the cells of a text file; "tab" is a tab.
    - "id_column", "source_column", "target_column": the name of the column. The `source`
      of a feature `#id` names the id column too.
    - "edge_type": if "reversed", sources are read from the column of targets and vice versa.
    - "default.<feature>": the value of the feature where it is missing.
    - "unit.<feature>": "seconds since 1970" says that the feature holds times; other units are for readers.
    - "decoder.<column>": how a packed column is split into features (see `parse_packed_column`).
    - "index_feature/<feature>": the node set of which the feature holds indices (see `mark_index_features`). Its column
      holds ids of nodes; a missing one, or "", stands for no node.

    By default, all sets are read except auxiliary sets without a table, such as `_readout`. `extra_columns` (read as
    text) and `decoders` are keyed by the name of the set, or by the label of its table: "nodes/<set>", "edges/<set>",
    "context". The files of the layouts exist.
    """
    _check_known("node_sets", node_sets or (), schema.node_sets)
    _check_known("edge_sets", edge_sets or (), schema.edge_sets)
    labels = [*(f"nodes/{name}" for name in schema.node_sets), *(f"edges/{name}" for name in schema.edge_sets)]
    for argument, keys in (("extra_columns", extra_columns), ("decoders", decoders)):
        _check_known(argument, keys or (), [*schema.node_sets, *schema.edge_sets, *labels, CONTEXT])
    refuse_hyperedges(schema, "tables")
    maker = _LayoutMaker(schema, tables_dir, extra_columns or {}, decoders or {}, access or TableAccess())
    return TableLayouts(
        node_sets={name: maker.node_layout(name) for name in _names(schema.node_sets, node_sets)},
        edge_sets={name: maker.edge_layout(name) for name in _names(schema.edge_sets, edge_sets)},
        context=maker.context_layout(),
    )


def try_layouts(
    schema: GraphSchema, tables_dir: str, access: TableAccess | None = None
) -> Iterator[tuple[str, TableLayout | ValueError]]:
    """Finds the tables of a graph one by one, and continues after one that cannot be read.

    Yields the label of each table, node sets first and the context last, with its layout or with the error.
    """
    maker = _LayoutMaker(schema, tables_dir, {}, {}, access or TableAccess())
    makers: list[tuple[str, Callable[[], TableLayout | None]]] = [
        *((f"nodes/{name}", functools.partial(maker.node_layout, name)) for name in _names(schema.node_sets, None)),
        *((f"edges/{name}", functools.partial(maker.edge_layout, name)) for name in _names(schema.edge_sets, None)),
        (CONTEXT, maker.context_layout),
    ]
    for label, make in makers:
        try:
            layout = make()
        except ValueError as error:
            yield label, error
        else:
            if layout is not None:
                yield label, layout


def seeds_layout(
    tables_dir: str,
    filename: str,
    columns: Mapping[str, TableColumn],
    *,
    kind: Literal["seeds", "pairs"] = "seeds",
    delimiter: str = "",
    access: TableAccess | None = None,
) -> TableLayout:
    """Describes a table that the schema does not declare; without a `delimiter`, its file name decides it."""
    metadata = Metadata(filename=filename)
    if delimiter:
        metadata.extra.add(key="delimiter", value=delimiter)
    place = f"the table of {kind} of {tables_dir}"
    return _make_layout(
        metadata,
        tables_dir,
        place,
        kind=kind,
        name="",
        columns=dict(columns),
        decoders={},
        access=access or TableAccess(),
    )


def id_type(node_set: NodeSet, place: str) -> pa.DataType:
    """Returns the type of the ids of nodes: large_string or int64."""
    if ID_FEATURE not in node_set.features:
        return pa.large_string()
    dtype = tf.dtypes.as_dtype(node_set.features[ID_FEATURE].dtype)
    if dtype not in (tf.string, tf.int64):
        raise ValueError(
            f"`{ID_FEATURE}` must be DT_STRING or DT_INT64; got {dtype.name} in {place}. Declare one of the two."
        )
    return _ARROW_TYPES[dtype]


def _check_known(argument: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(
                f"`{argument}` must name tables of the graph schema; got {name!r}, not one of {sorted(known)}. "
                f"{did_you_mean(name, known)}"
            )


class _LayoutMaker:
    """Makes the layouts of one schema."""

    def __init__(
        self,
        schema: GraphSchema,
        tables_dir: str,
        extra_columns: ColumnsByTable,
        decoders: DecodersByTable,
        access: TableAccess,
    ) -> None:
        self._access = access
        self._schema = schema
        self._tables_dir = tables_dir
        self._extra_columns = extra_columns
        self._decoders = decoders
        self._index_features = index_features(schema)

    def node_layout(self, name: str) -> TableLayout:
        node_set, place = self._schema.node_sets[name], f"node set {name!r}"
        columns = {ID_FEATURE: _key_column(node_set, "id", id_type(node_set, place))}
        return self._layout("node", name, node_set, columns, place)

    def edge_layout(self, name: str) -> TableLayout:
        edge_set, place = self._schema.edge_sets[name], f"edge set {name!r}"
        columns = {}
        is_reversed = _extra_value(edge_set.metadata, "edge_type") == "reversed"  # TF-GNN's way to say it
        ends = ("target", "source") if is_reversed else ("source", "target")
        node_sets = edge_set.source, edge_set.target
        for key, end, node_set in zip((SOURCE_KEY, TARGET_KEY), ends, node_sets, strict=True):
            dtype = id_type(self._schema.node_sets[node_set], f"node set {node_set!r}")
            columns[key] = _key_column(edge_set, end, dtype)
        if ID_FEATURE in edge_set.features:
            if not edge_set.metadata.HasField("bigquery"):
                raise ValueError(
                    f"`{ID_FEATURE}` must not be declared for an edge table; got it in {place}. It is the row number."
                )
            columns[ID_FEATURE] = _key_column(edge_set, "id", pa.int64())
        return self._layout("edge", name, edge_set, columns, place)

    def context_layout(self) -> TableLayout | None:
        context = self._schema.context
        if not (context.features or context.metadata.filename or context.metadata.HasField("bigquery")):
            return None
        return self._layout(CONTEXT, "", context, {}, CONTEXT)

    def _layout(
        self,
        kind: TableKind,
        name: str,
        declared: NodeSet | EdgeSet | Context,
        columns: dict[str, TableColumn],
        place: str,
    ) -> TableLayout:
        label = TableLayout(kind=kind, name=name, files=(), format="", columns={}).label
        decoders: dict[str, ColumnDecoder] = {
            key: parse_packed_column(key, template, place)
            for key, template in _extra_values(declared.metadata, "decoder.").items()
        }
        decoders.update(self._decoders.get(label, self._decoders.get(name or CONTEXT, {})))
        columns = columns | _feature_columns(declared, decoders, place)
        for feature, node_sets in self._index_features.get(label, {}).items():
            columns[feature] = self._index_column(columns[feature], node_sets, f"feature {feature!r} of {place}")
        for column in self._extra_columns.get(label, self._extra_columns.get(name or CONTEXT, ())):
            columns[EXTRA_PREFIX + column] = TableColumn(name=column, dtype=pa.large_string())
        return _make_layout(
            declared.metadata,
            self._tables_dir,
            place,
            kind=kind,
            name=name,
            columns=columns,
            decoders=decoders,
            access=self._access,
        )

    def _index_column(self, column: TableColumn, node_sets: str | tuple[str, ...], where: str) -> TableColumn:
        """Describes a column of ids of nodes, from which the indices of examples are made."""
        if column.shape or not isinstance(node_sets, str):
            raise ValueError(
                f"`metadata.extra` must mark features of one index in tables; got shape {list(column.shape)} for "
                f"{where}. Declare one feature and one column for each index."
            )
        dtype = id_type(self._schema.node_sets[node_sets], f"node set {node_sets!r}")
        default = column.default
        if default is None:
            default = "" if dtype == pa.large_string() else str(NO_NODE)
        described = dataclasses.replace(column, dtype=dtype, default=default)
        check_default(described, where)
        return described


def _make_layout(
    metadata: Metadata,
    tables_dir: str,
    place: str,
    *,
    kind: TableKind,
    name: str,
    columns: Mapping[str, TableColumn],
    decoders: Mapping[str, ColumnDecoder],
    access: TableAccess,
) -> TableLayout:
    filename = metadata.filename
    where = f"{place} in {access.schema_path(tables_dir)}"
    path = os.path.join(tables_dir, filename)
    files: tuple[str, ...] = ()
    if metadata.HasField("bigquery"):
        format_name, delimiter = "bigquery", ""
    else:
        format_name, delimiter = _format_of(metadata, where)
        files = resolve_table_files(tables_dir, filename, allow_outside_files=access.allow_outside_files, place=where)
        if not files:
            raise ValueError(
                f"`metadata.filename` must name a file that exists, relative to the tables folder; got {filename!r} "
                f"for {where}. Correct the name or put the file there."
            )
    if format_name == "csv":
        for key, column in columns.items():
            if column.shape and not column.packed_in:
                raise ValueError(
                    f"`shape` must be that of a scalar for a CSV column; got {list(column.shape)} for feature {key!r} "
                    f"of {place}. Use one column and one feature for each component, or declare a decoder."
                )
    return TableLayout(
        kind=kind,
        name=name,
        files=files,
        format=format_name,
        columns=columns,
        decoders=decoders,
        delimiter=delimiter,
        declared_as=path,
        bigquery=metadata.bigquery if metadata.HasField("bigquery") else None,
        max_record_bytes=access.max_record_bytes,
    )


def _format_of(metadata: Metadata, where: str) -> tuple[str, str]:
    """Returns the name of the format, and the delimiter of a text format."""
    told = format_of_name(metadata.filename)
    declared = _extra_value(metadata, "format")
    if declared is not None:
        if declared not in FORMAT_NAMES or declared == "bigquery":
            raise ValueError(
                f"`metadata.extra` must give a format of files; got {declared!r} for {where}. "
                f"Choose one of {[name for name in FORMAT_NAMES if name != 'bigquery']}."
            )
        told = (declared, told[1] if told else ",")
    if told is None or not metadata.filename:
        raise ValueError(
            "`metadata.filename` must name a table as .csv, .tsv, .parquet or .tfrecord; got "
            f'{metadata.filename!r} for {where}. Rename the file, or add metadata {{ extra {{ key: "format" }} }}.'
        )
    delimiter = _extra_value(metadata, "delimiter")
    if delimiter is None:
        return told
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if told[0] != "csv" or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise ValueError(
            f"`metadata.extra` must give one ASCII character as delimiter of a text file; got {delimiter!r} for "
            f'{where}, which is {told[0]}. Write "tab" for a tab.'
        )
    return told[0], delimiter


def _key_column(declared: NodeSet | EdgeSet, end: str, dtype: pa.DataType) -> TableColumn:
    name = _extra_value(declared.metadata, f"{end}_column")
    if not name and end == "id" and ID_FEATURE in declared.features:
        name = declared.features[ID_FEATURE].source
    return TableColumn(name=name or end, dtype=dtype, alternatives=() if name else (f"#{end}",))


def _names(declared: Mapping[str, NodeSet | EdgeSet], wanted: Iterable[str] | None) -> list[str]:
    if wanted is not None:
        return sorted(wanted)
    # A set without a table describes what examples will have, as TF-GNN requires it for link seeds.
    is_table = {name: not get_aux_type_prefix(name) or declared[name].HasField("metadata") for name in declared}
    return sorted(name for name in declared if is_table[name])


def _feature_columns(
    declared: NodeSet | EdgeSet | Context, decoders: Mapping[str, ColumnDecoder], place: str
) -> dict[str, TableColumn]:
    """Lists the columns that become features, by feature, without the id column."""
    features = declared.features
    defaults = feature_defaults(declared)
    for name in defaults:
        if name not in features:
            raise ValueError(
                f"`metadata.extra` must give defaults to declared features; got {DEFAULT_KEY + name!r} in {place}, "
                f"which declares {sorted(features)}. {did_you_mean(name, features)}"
            )
    packed_in: dict[str, str] = {}
    for packed, decoder in decoders.items():
        for name in decoder.feature_names:
            if name not in features or name in packed_in:
                raise ValueError(
                    f"`decoder.{packed}` must make declared features, each once; got {name!r} in {place}, which "
                    f"declares {sorted(features)}. Declare the feature, or leave it out of the decoder."
                )
            packed_in[name] = packed
    columns = {}
    for name in sorted(features):
        if name == ID_FEATURE:
            continue
        where = f"feature {name!r} of {place}"
        shape = _shape(features[name], where)
        default = defaults.get(name)
        if shape == (-1,) and default:
            raise ValueError(
                "`metadata.extra` must give the empty default to a feature with any number of values; got "
                f'{default!r} for {where}. Write "" for no values.'
            )
        columns[name] = TableColumn(
            name=name if name in packed_in else features[name].source or name,
            dtype=_ARROW_TYPES[tf.dtypes.as_dtype(features[name].dtype)],
            default=default,
            shape=shape,
            packed_in=packed_in.get(name, ""),
        )
        check_default(columns[name], where)
    return columns


def _shape(feature: Feature, where: str) -> tuple[int, ...]:
    shape = tuple(dim.size for dim in feature.shape.dim)
    if -1 in shape and shape != (-1,):
        raise ValueError(
            f"`shape` must be fixed, or [-1] alone; got {list(shape)} for {where}. "
            "Flatten the values, or keep the inner dimensions as features of their own."
        )
    return shape


def _extra_value(metadata: Metadata, key: str) -> str | None:
    """Returns the value of a key of `metadata.extra`: the last one if there are several, None if there is none."""
    values = [entry.value for entry in metadata.extra if entry.key == key]
    return values[-1] if values else None


def _extra_values(metadata: Metadata, prefix: str) -> dict[str, str]:
    """Returns the values of `metadata.extra` whose keys have a prefix, keyed by the rest of the key."""
    return {entry.key.removeprefix(prefix): entry.value for entry in metadata.extra if entry.key.startswith(prefix)}
