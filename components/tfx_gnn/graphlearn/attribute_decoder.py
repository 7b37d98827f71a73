"""GraphLearn's `Decoder`: the columns of a table, its packed attributes, and the graph schema of GraphLearn's files."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

import pyarrow as pa
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, GraphSchema, NodeSet
from tfx_gnn.graphlearn.feature_spec import EncodingError, FeatureSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.tables.csv_table import CsvFormat
from tfx_gnn.tables.data_files import resolve_table_files
from tfx_gnn.tables.packed_column import PackedColumn, PackedPart, parse_packed_column
from tfx_gnn.tables.table_layout import ID_FEATURE, TableLayout

VALUE_DELIMITER = ","
"""Separator of the values of a multi-valued attribute."""

ID, SOURCE_ID, TARGET_ID = "id", "src_id", "dst_id"
WEIGHT, LABEL, TIMESTAMP, ATTRIBUTES = "weight", "label", "timestamp", "attributes"

REVERSE_SUFFIX = "_reverse"
"""Suffix of the names of edge sets that hold the reverse of undirected edges between two node types."""

MISSING_VALUES: Mapping[str, float | int] = {WEIGHT: 0.0, LABEL: -1, TIMESTAMP: -1}
"""Values of these columns for nodes and edges that are not in the table."""

_TYPES = ("int", "float", "string")
_ARROW_TYPES = {"int": pa.int64(), "float": pa.float32(), "string": pa.large_string()}
_MISSING_ATTRIBUTES: Mapping[str, float | int | str] = {"int": 0, "float": 0.0, "string": ""}

_INTEGERS = {"int32": types_pb2.DT_INT32, "int": types_pb2.DT_INT64, "int64": types_pb2.DT_INT64}
_COLUMN_TYPES: Mapping[str, Mapping[str, int]] = {
    ID: {"int64": types_pb2.DT_INT64, "int": types_pb2.DT_INT64, "string": types_pb2.DT_STRING},
    WEIGHT: {"float": types_pb2.DT_FLOAT, "double": types_pb2.DT_FLOAT},
    LABEL: _INTEGERS,
    TIMESTAMP: {"int64": types_pb2.DT_INT64, "int": types_pb2.DT_INT64},
    ATTRIBUTES: {"string": types_pb2.DT_STRING},
}
_TYPE_NAMES = frozenset(name for known in _COLUMN_TYPES.values() for name in known)
_ATTRIBUTE_TYPES = {
    pa.int64(): types_pb2.DT_INT64,
    pa.float32(): types_pb2.DT_FLOAT,
    pa.large_string(): types_pb2.DT_STRING,
    pa.large_list(pa.large_string()): types_pb2.DT_STRING,
}

AttributeType = Union[str, Sequence[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribute:
    """One of the attributes packed in a column.

    Attributes:
        name: name of the feature that the attribute becomes.
        type_name: type of its values: "int", "float" or "string".
        bucket_size: number of buckets that its values are hashed to; None: not hashed.
        is_multivalued: whether it holds any number of strings, separated by commas.
        dimension: width of its encoding; None: not embedded.
    """

    name: str
    type_name: str
    bucket_size: int | None = None
    is_multivalued: bool = False
    dimension: int | None = None

    @property
    def stored_type(self) -> str:
        """Type in which it is stored: a single string that is hashed becomes an "int"."""
        is_hashed = self.type_name == "string" and self.bucket_size is not None and not self.is_multivalued
        return "int" if is_hashed else self.type_name

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of its decoded column: int64, float32 or large_string, or a large_list of large_string."""
        dtype = _ARROW_TYPES[self.stored_type]
        return pa.large_list(dtype) if self.is_multivalued else dtype


@dataclasses.dataclass(frozen=True)
class Decoder:
    """Describes the columns of a node table or an edge table.

    The columns have this order: `id` of a node, or `src_id` and `dst_id` of an edge;
    then weight, label, timestamp and attributes, as far as they exist. The attributes
    of a row are one string, such as "28:0:0.2:Hangzhou:1,5,12:1000008".

    The type of an attribute is "int", "float" or "string", or a tuple. With
    `(type, bucket_size)` it is hashed; `("string", bucket_size or None, True)` is any
    number of strings, separated by commas. A single string with a bucket size is stored
    as its bucket; integers and multi-valued strings are hashed when they are embedded.

    | type | dimension | encoded as |
    |---|---|---|
    | "int", "float" | None or 0 | the number itself |
    | "int", "string" | d | embedding, number of values unknown |
    | ("int", b), ("string", b) | d | embedding of b rows |
    | ("string", b, True) | d | combined embeddings of b rows |
    | ("string", None, True) | d | combined embeddings, number of values unknown |

    Attributes:
        weighted: whether there is a weight, float32.
        labeled: whether there is a label, an integer.
        timestamped: whether there is a timestamp, int64.
        attr_types: types of the attributes, in order; if empty, there are no attributes.
        attr_delimiter: separator between attributes.
        attr_dims: dimension of each attribute's encoding; if empty, no attribute is embedded.
        attr_names: names of the features that the attributes become; if empty,
            "attribute_0" and so on.

    Raises:
        TypeError: if a flag is not a bool.
        ValueError: if the type of an attribute is unknown, or the numbers of types,
            dimensions and names differ.

    Example:
        >>> decoder = Decoder(weighted=True, attr_types=["int", ("string", 10), ("string", None, True)])
        >>> decoder.int_attr_num, decoder.string_attr_num, decoder.data_format
        (2, 1, 18)
    """

    weighted: bool = False
    labeled: bool = False
    timestamped: bool = False
    attr_types: Sequence[AttributeType] = ()
    attr_delimiter: str = ":"
    attr_dims: Sequence[int | None] = ()
    attr_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in ("weighted", "labeled", "timestamped"):
            flag = getattr(self, field)
            if not isinstance(flag, bool):
                raise TypeError(
                    f"`{field}` must be True or False; got {flag!r}. By position, arguments are weighted, labeled, "
                    "timestamped, attr_types."
                )
        for field in ("attr_types", "attr_dims", "attr_names"):
            value = getattr(self, field)
            if isinstance(value, str):
                raise ValueError(f"`{field}` must be a list; got the text {value!r}. Write [{value!r}] for one.")
            object.__setattr__(self, field, tuple(value or ()))
        for field in ("attr_dims", "attr_names"):
            given = len(getattr(self, field))
            if given not in (0, len(self.attr_types)):
                raise ValueError(
                    f"`{field}` must have one item an attribute; got {given} for {len(self.attr_types)} `attr_types`. "
                    "Add or remove items."
                )
        if self.attributes:
            self.packed_column(ATTRIBUTES)

    @functools.cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, in order."""
        names = self.attr_names or tuple(f"attribute_{i}" for i in range(len(self.attr_types)))
        dims = self.attr_dims or (None,) * len(self.attr_types)
        return tuple(
            _attribute(name, attr_type, dim) for name, attr_type, dim in zip(names, self.attr_types, dims, strict=True)
        )

    @property
    def attributed(self) -> bool:
        """Whether there are attributes."""
        return bool(self.attr_types)

    @property
    def int_attr_num(self) -> int:
        """Number of attributes that are stored as integers, hashed strings included."""
        return self._count("int")

    @property
    def float_attr_num(self) -> int:
        """Number of attributes that are stored as floats."""
        return self._count("float")

    @property
    def string_attr_num(self) -> int:
        """Number of attributes that are stored as strings, multi-valued attributes included."""
        return self._count("string")

    @property
    def data_format(self) -> int:
        """GraphLearn's number of the format: 2 if weighted + 4 if labeled + 8 if timestamped + 16 if attributed."""
        return 2 * self.weighted + 4 * self.labeled + 8 * self.timestamped + 16 * self.attributed

    @functools.cached_property
    def feature_spec(self) -> FeatureSpec:
        """How the attributes are encoded.

        Raises:
            EncodingError: if a string or a hashed integer has no dimension, or a float has one.
        """
        spec = FeatureSpec(len(self.attributes), self.weighted, self.labeled)
        for attribute in self.attributes:
            _append(spec, attribute)
        return spec

    def column_names(self, kind: Literal["node", "edge"]) -> tuple[str, ...]:
        """Returns the names of the columns of a table.

        Args:
            kind: "node" or "edge".

        Returns:
            The names, in the order of the columns.
        """
        optional = {
            WEIGHT: self.weighted,
            LABEL: self.labeled,
            TIMESTAMP: self.timestamped,
            ATTRIBUTES: self.attributed,
        }
        keys = (ID,) if kind == "node" else (SOURCE_ID, TARGET_ID)
        return (*keys, *(name for name, is_there in optional.items() if is_there))

    def packed_column(self, name: str) -> PackedColumn:
        """Returns how the attributes of a row are split.

        Args:
            name: name of the column that packs the attributes.

        Returns:
            The column, which decodes to strings, lists of strings, and buckets.
        """
        return PackedColumn(
            name=name,
            parts=tuple(
                PackedPart(
                    name=attribute.name,
                    value_delimiter=VALUE_DELIMITER if attribute.is_multivalued else "",
                    num_buckets=attribute.bucket_size
                    if attribute.stored_type == "int" and attribute.type_name == "string"
                    else None,
                )
                for attribute in self.attributes
            ),
            delimiter=self.attr_delimiter,
        )

    @property
    def missing_values(self) -> dict[str, float | int | str]:
        """Values for nodes and edges that are not in the table, by name of the column or attribute."""
        columns = [name for name in self.column_names("node") if name in MISSING_VALUES]
        return {
            **{name: MISSING_VALUES[name] for name in columns},
            **{attribute.name: _MISSING_ATTRIBUTES[attribute.stored_type] for attribute in self.attributes},
        }

    def _count(self, stored_type: str) -> int:
        return sum(attribute.stored_type == stored_type for attribute in self.attributes)


def _attribute(name: str, attr_type: AttributeType, dimension: int | None) -> Attribute:
    items = (attr_type,) if isinstance(attr_type, str) else tuple(attr_type)
    type_name, bucket_size, is_multivalued = (*items, *(None, None, None)[len(items) :])[:3]
    if not 1 <= len(items) <= 3 or type_name not in _TYPES:
        raise ValueError(
            f"`attr_types` must hold one of {list(_TYPES)}, or tuples (type, bucket size, multi-valued); got "
            f"{attr_type!r} for {name!r}. {did_you_mean(type_name, _TYPES, otherwise='Correct it.')}"
        )
    if is_multivalued and type_name != "string":
        raise ValueError(
            f"`attr_types` must have the type 'string' where there are several values; got {attr_type!r} for {name!r}. "
            "Declare it as a string."
        )
    if bucket_size is not None and (not isinstance(bucket_size, int) or bucket_size < 1 or type_name == "float"):
        raise ValueError(
            f"`attr_types` must have a bucket size of at least 1, and none for a float; got {attr_type!r} for "
            f"{name!r}. Correct or remove it."
        )
    return Attribute(
        name=name,
        type_name=type_name,
        bucket_size=bucket_size,
        is_multivalued=bool(is_multivalued),
        dimension=dimension or None,
    )


def _append(spec: FeatureSpec, attribute: Attribute) -> None:
    dimension = attribute.dimension
    if dimension is None:
        if attribute.type_name == "string" or attribute.bucket_size is not None:
            raise EncodingError(
                f"`attr_dims` must give a dimension to a text and to what is hashed; got none for {attribute.name!r}, "
                f"{attribute.type_name} with bucket size {attribute.bucket_size}. Add the dimension of its embedding."
            )
        spec.append_dense(attribute.type_name == "float")
    elif attribute.type_name == "float":
        raise EncodingError(
            f"`attr_dims` must be None or 0 for a float, which is not embedded; got {dimension} for "
            f"{attribute.name!r}. Remove the dimension."
        )
    elif attribute.is_multivalued:
        spec.append_multival(attribute.bucket_size, dimension, VALUE_DELIMITER)
    else:
        spec.append_sparse(attribute.bucket_size, dimension, attribute.type_name == "int")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedNodes:
    """A node table of GraphLearn.

    Attributes:
        filename: a file, a glob or a sharded file, relative to the tables folder; several
            names are separated by commas.
        decoder: description of the columns.
    """

    filename: str
    decoder: Decoder = dataclasses.field(default_factory=Decoder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedEdges:
    """An edge table of GraphLearn.

    Attributes:
        filename: a file, a glob or a sharded file, relative to the tables folder; several
            names are separated by commas.
        source: node set of the sources.
        target: node set of the targets.
        decoder: description of the columns.
        is_directed: if False, there is also an edge set `<name>_reverse` with the same
            edges in reverse. (Hops can follow edges backward without it.)
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

    Files have a header line of `name:type` fields, separated by tabs. The columns have the
    order given by the decoder, regardless of their names. Weight, label and timestamp become
    the features `weight`, `label` and `timestamp`. Each attribute becomes a separate
    feature; a multi-valued attribute becomes a feature of shape [-1]. A quote at the
    beginning of a cell has the same meaning as in CSV files.

    Args:
        tables_dir: folder that file names are relative to.
        nodes: node tables by node set.
        edges: edge tables by edge set.
        delimiter: separator of columns, one character.

    Returns:
        The schema; write it to `tables_dir` as graph_schema.pbtxt to read the tables.

    Raises:
        ValueError: if a file is missing or its header does not fit the decoder, or an edge
            set names an unknown node set.
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
            ways.append(
                (f"{name}{REVERSE_SUFFIX}", edge_table.target, edge_table.source, ("target_column", "source_column"))
            )
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
        if name in (WEIGHT, LABEL, TIMESTAMP):
            declared.features[name].dtype = dtype
            declared.features[name].source = column
        elif name == ATTRIBUTES:
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
    # A file without any expected name or type may not be a table, so its content is not shown.
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
        known = _COLUMN_TYPES[ID if name in (SOURCE_ID, TARGET_ID) else name]
        type_name = column.rpartition(":")[2]
        if ":" not in column or type_name not in known:
            raise ValueError(
                f"`{name}` must have a header 'name:type' of type {' or '.join(sorted(known))}; got "
                f"{repr(column) if is_table else 'another text'} in {files[0]}. Correct the header or the decoder."
            )
        types.append(known[type_name])
    return header, types
