"""Infers a graph schema from tables, block by block."""

from __future__ import annotations

import collections
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.proto.graph_schema_pb2 import Context, EdgeSet, Feature, GraphSchema, Metadata, NodeSet
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema.feature_defaults import declare_time
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.tables.column_types import DIGITS_OF_DOUBLE, casts, count_rounded, is_list, list_lengths, nan_as_null
from tfx_gnn.tables.data_files import format_of_name, resolve_table_files
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_format import RawBlock, show_columns, table_format
from tfx_gnn.tables.table_layout import ID_FEATURE, TableKind, TableLayout
from tfx_gnn.tables.tfrecord_table import read_examples

# "007" and "+1" are names rather than integers: as numbers they would be indistinguishable from "7" and "1".
_INTEGER = r"^(0|-?[1-9][0-9]*)$"
# So are numbers with more digits than int64 holds. A column with any of them is text, not floats.
_NAME_OF_DIGITS = r"^([+-]?(0[0-9]+|[0-9]{19,})|\+[0-9]+)$"
_BYTES = pa.binary(1)
"""Stands for bytes that are no text, which no feature holds."""
_TRUTH = r"(?i)^(true|false)$"


@dataclasses.dataclass
class ColumnEvidence:
    """What is known about one column.

    CSV files do not declare types, so every cell is inspected: a column holds integers,
    floats or booleans if all of its cells do. Blocks of other formats have a type.

    Attributes:
        num_rows: rows that were seen.
        num_missing: rows without a value.
        num_nan: those of them that hold NaN, which columns of floats may have.
        num_infinite: values that are not finite as float32, in a column of numbers.
        num_rounded: decimals of more digits than a double holds, which are rounded to floats.
        dtypes: Arrow types of the values, from blocks that have a type.
        lengths: by level of nested lists, the smallest and the greatest length.
    """

    num_rows: int = 0
    num_missing: int = 0
    num_nan: int = 0
    num_infinite: int = 0
    num_rounded: int = 0
    dtypes: set[pa.DataType] = dataclasses.field(default_factory=set)
    lengths: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    _has_cells: bool = False
    _cell_kinds: set[str] = dataclasses.field(default_factory=lambda: {"bool", "int", "float"})

    def add(self, array: pa.Array, *, are_cells: bool = False) -> None:
        """Adds a block of values, null where a value is missing; cells of a CSV file are large_binary."""
        self.num_rows += len(array)
        num_null = array.null_count
        array = array if are_cells else nan_as_null(array)
        self.num_missing += array.null_count
        self.num_nan += array.null_count - num_null
        array = array.drop_null()
        if not len(array):
            return
        if are_cells:
            self._add_cells(array)
            return
        level = 0
        while is_list(array.type):
            lengths = list_lengths(array)
            if len(lengths):
                self.add_lengths(level, int(lengths.min()), int(lengths.max()))
            array, level = array.flatten(), level + 1
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_decimal(array.type):
            self.num_rounded += count_rounded(array)
        if pa.types.is_decimal(array.type) and array.type.scale == 0 and not casts(array, pa.int64()):
            self.dtypes.add(pa.float32())  # More digits than int64 holds.
        elif not pa.types.is_null(array.type):
            self.dtypes.add(array.type if _is_text(array) else _BYTES)
        if pa.types.is_float32(array.type) or pa.types.is_float64(array.type):
            self._count_infinite(array)

    def add_lengths(self, level: int, least: int, greatest: int) -> None:
        """Adds the smallest and the greatest length of lists at a level of nesting, from 0."""
        if level == len(self.lengths):
            self.lengths.append((least, greatest))
        self.lengths[level] = min(least, self.lengths[level][0]), max(greatest, self.lengths[level][1])

    @property
    def dtype(self) -> pa.DataType | None:
        """Type that holds all values: bool, an integer type, float32 or large_string.

        None if there are no values, or none of these types holds them.
        """
        if self._has_cells:
            kinds = {"int": pa.int64(), "bool": pa.bool_(), "float": pa.float32()}
            return next((kinds[kind] for kind in kinds if kind in self._cell_kinds), pa.large_string())
        found = {_declarable(dtype) for dtype in self.dtypes}
        if len(found) <= 1:
            return found.pop() if found else None
        if all(dtype is not None and pa.types.is_integer(dtype) for dtype in found):
            return pa.int64()
        if all(dtype is not None and (pa.types.is_integer(dtype) or dtype == pa.float32()) for dtype in found):
            return pa.float32()
        return None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """`()` for single values, sizes for a fixed shape, `(-1,)` for any number of values; otherwise None."""
        if all(least == greatest > 0 for least, greatest in self.lengths):
            return tuple(least for least, _ in self.lengths)
        return (-1,) if len(self.lengths) == 1 else None

    def _add_cells(self, cells: pa.Array) -> None:
        self._has_cells = True
        try:
            texts = cells.cast(pa.large_string())
        except pa.ArrowInvalid:  # not UTF-8: reading the table reports where
            self._cell_kinds.clear()
            return
        if "bool" in self._cell_kinds and not _all_match(texts, _TRUTH):
            self._cell_kinds.discard("bool")
        if "int" in self._cell_kinds and not (_all_match(texts, _INTEGER) and casts(texts, pa.int64())):
            self._cell_kinds.discard("int")
        if "float" in self._cell_kinds:
            if pc.any(pc.match_substring_regex(texts, _NAME_OF_DIGITS)).as_py() or not casts(texts, pa.float32()):
                self._cell_kinds.discard("float")
            else:
                self._count_infinite(texts.cast(pa.float32()))

    def _count_infinite(self, numbers: pa.Array) -> None:
        finite = pc.is_finite(numbers.cast(pa.float32(), safe=False))
        self.num_infinite += len(numbers) - int(pc.sum(finite).as_py() or 0)


def _is_text(array: pa.Array) -> bool:
    """Whether bytes, if the array holds such, are texts."""
    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        return True
    try:
        array.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _declarable(dtype: pa.DataType) -> pa.DataType | None:
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return dtype
    if pa.types.is_floating(dtype):
        return pa.float32()
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        return pa.int64()
    if pa.types.is_decimal(dtype):
        return pa.int64() if dtype.scale == 0 else pa.float32()
    return pa.large_string() if dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()) else None


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


_DTYPES = {
    pa.bool_(): types_pb2.DT_BOOL,
    pa.int8(): types_pb2.DT_INT8,
    pa.int16(): types_pb2.DT_INT16,
    pa.int32(): types_pb2.DT_INT32,
    pa.int64(): types_pb2.DT_INT64,
    pa.uint8(): types_pb2.DT_UINT8,
    pa.uint16(): types_pb2.DT_UINT16,
    pa.uint32(): types_pb2.DT_UINT32,
    pa.uint64(): types_pb2.DT_UINT64,
    pa.float32(): types_pb2.DT_FLOAT,
    pa.large_string(): types_pb2.DT_STRING,
}


_EXAMPLE_TYPES = {"bytes_list": pa.large_string(), "float_list": pa.float32(), "int64_list": pa.int64()}


_NOTE = "note"  # key in the context's `metadata.extra`, because a context has no description


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Evidence:
    """What is known about a table."""

    columns: Mapping[str, ColumnEvidence]
    num_rows: int
    num_broken: int


def infer_schema(
    *,
    node_tables: Mapping[str, str],
    edge_tables: Mapping[str, tuple[str, str, str]] | None = None,
    context_table: str = "",
    tables_dir: str = "",
    id_columns: Mapping[str, str] | None = None,
    source_columns: Mapping[str, str] | None = None,
    target_columns: Mapping[str, str] | None = None,
    access: TableAccess | None = None,
) -> GraphSchema:
    """Infers the schema of tables, for a person to review and complete.

    Every column except ids becomes a feature. Parquet columns and tf.Example features
    have types; in a CSV file all cells are inspected. Digits become integers where
    nothing is lost ("007" stays text). Floats of any width become DT_FLOAT, dates and
    times DT_INT64: seconds since 1970, which `metadata.extra` declares as "unit.<feature>".
    Lists that all have the same length get a fixed shape, other lists the shape [-1].

    A `description` tells the reviewer how many rows of a feature have no value and so need
    `metadata { extra { key: "default.<feature>" } }`, and which columns no feature can hold.

    Tables are read once, in bounded memory. The same tables give the same schema.

    Args:
        node_tables: by node set, the file of its table, relative to `tables_dir`; a
            glob or shards are allowed.
        edge_tables: by edge set, the node set of the sources, that of the targets, and
            the file.
        context_table: file of features of the whole graph; empty: there is none.
        tables_dir: folder that file names are relative to; by default the current one.
        id_columns: by node set, the column of its ids, if not `id` or `#id`.
        source_columns: by edge set, the column of the sources' ids, if not `source` or
            `#source`.
        target_columns: by edge set, the column of the targets' ids, if not `target` or
            `#target`.
        access: which files may be read; should be the same as where the schema is used. By
            default files of `tables_dir`, or any files if no `tables_dir` is given.

    Returns:
        The schema. To use it, write it to `tables_dir` as graph_schema.pbtxt.

    Raises:
        ValueError: if a file is missing or broken, has no id column or several columns of
            the same name; if the files of a table have different columns; or if an edge
            set names an unknown node set.
    """
    edge_tables = edge_tables or {}
    access = access or TableAccess(allow_outside_files=not tables_dir)
    _check_names(node_tables, edge_tables, id_columns or {}, source_columns or {}, target_columns or {})
    schema = GraphSchema()
    for name, filename in sorted(node_tables.items()):
        node_set = schema.node_sets[name]
        evidence = _read("node", name, tables_dir, filename, access)
        column = _key_column(evidence, "id", (id_columns or {}).get(name, ""), node_set.metadata, filename)
        dtype = evidence.columns[column].dtype if evidence.columns else None
        if dtype is not None and pa.types.is_integer(dtype):
            node_set.features[ID_FEATURE].dtype = types_pb2.DT_INT64
        _describe(node_set, evidence, filename, {column})
    for name, (source, target, filename) in sorted(edge_tables.items()):
        edge_set = schema.edge_sets[name]
        edge_set.source, edge_set.target = source, target
        evidence = _read("edge", name, tables_dir, filename, access)
        keys = {
            _key_column(evidence, end, (given or {}).get(name, ""), edge_set.metadata, filename)
            for end, given in (("source", source_columns), ("target", target_columns))
        }
        _describe(edge_set, evidence, filename, keys)
    if context_table:
        evidence = _read("context", "", tables_dir, context_table, access)
        _describe(schema.context, evidence, context_table, set())
    return schema


def _check_names(
    node_tables: Mapping[str, str],
    edge_tables: Mapping[str, tuple[str, str, str]],
    id_columns: Mapping[str, str],
    source_columns: Mapping[str, str],
    target_columns: Mapping[str, str],
) -> None:
    for name in (*node_tables, *edge_tables):
        if get_aux_type_prefix(name) == READOUT_NODE_SET:
            raise ValueError(
                f"`{'node_tables' if name in node_tables else 'edge_tables'}` must not name a set {READOUT_NODE_SET}, "
                f"which is what labels are read out from; got {name!r}. Give the set another name."
            )
    for name, (source, target, _) in edge_tables.items():
        for node_set in (source, target):
            if node_set not in node_tables:
                raise ValueError(
                    f"`edge_tables` must join node sets of `node_tables`, {sorted(node_tables)}; got {node_set!r} in "
                    f"{name!r}. Add the node table or correct the name."
                )
    for field, given, known in (
        ("id_columns", id_columns, node_tables),
        ("source_columns", source_columns, edge_tables),
        ("target_columns", target_columns, edge_tables),
    ):
        for name in given:
            if name not in known:
                advice = did_you_mean(name, known)
                raise ValueError(f"`{field}` must name sets that have a table, {sorted(known)}; got {name!r}. {advice}")


def _read(kind: TableKind, name: str, tables_dir: str, filename: str, access: TableAccess) -> _Evidence:
    layout = undeclared_layout(kind, name, tables_dir, filename, access)
    return _read_examples(layout) if layout.format == "tfrecord" else _read_columns(layout)


def undeclared_layout(kind: TableKind, name: str, tables_dir: str, filename: str, access: TableAccess) -> TableLayout:
    """Describes a table that no schema declares yet, without columns; its file name decides the format.

    Raises:
        ValueError: if there is no such file, it must not be read, or its name does not tell the format.
    """
    path = os.path.join(tables_dir, filename)
    told = format_of_name(filename)
    if told is None:
        raise ValueError(
            f"`filename` must name a table as .csv, .tsv, .parquet or .tfrecord; got {filename!r}. Rename the file, or "
            'write the schema by hand with metadata { extra { key: "format" } }.'
        )
    place = f"{kind} set {name!r}" if name else kind
    files = resolve_table_files(tables_dir, filename, allow_outside_files=access.allow_outside_files, place=place)
    if not files:
        raise ValueError(
            f"`filename` must name a file that exists; got {filename!r} in {tables_dir or '.'!r}. Correct the name."
        )
    return TableLayout(
        kind=kind,
        name=name,
        files=files,
        format=told[0],
        columns={},
        delimiter=told[1],
        declared_as=path,
        max_record_bytes=access.max_record_bytes,
    )


def read_all_columns(layout: TableLayout) -> Iterator[RawBlock]:
    """Reads all columns of a table block by block, as its format stores them.

    Raises:
        ValueError: if a file is broken, or its columns are not those of the first one, each once.
    """
    reader = table_format(layout)
    names = list(reader.column_names(layout.files[0]))
    for path in layout.files:
        found = list(reader.column_names(path))
        if len(set(found)) != len(found) or set(found) != set(names):
            raise ValueError(
                f"`{path}` must have each column once, and those of the other files of the table; got "
                f"{show_columns(found, names)}, and {show_columns(names, found)} in {layout.files[0]}. "
                "Correct the names of the columns."
            )
        for unit in reader.list_units(path):
            yield from reader.read_raw_blocks(path, unit, sorted(names))


def _read_columns(layout: TableLayout) -> _Evidence:
    reader = table_format(layout)
    columns = {name: ColumnEvidence() for name in reader.column_names(layout.files[0])}
    num_rows = num_broken = 0
    for block in read_all_columns(layout):
        num_rows += block.num_rows_read
        num_broken += len(block.problems)
        for name, evidence in columns.items():
            evidence.add(block.columns.column(name), are_cells=layout.format == "csv")
    if not num_rows:
        for name, dtype in reader.column_types(layout.files[0]).items():
            columns[name].dtypes.add(dtype)
    return _Evidence(columns=columns, num_rows=num_rows, num_broken=num_broken)


def _read_examples(layout: TableLayout) -> _Evidence:
    """Inspects every feature of every record, because a feature may be in some records only."""
    columns: dict[str, ColumnEvidence] = {}
    seen: collections.Counter[str] = collections.Counter()
    num_rows = num_broken = 0
    for path in layout.files:
        for example in read_examples(path, layout):
            num_rows += 1
            if example is None:
                num_broken += 1
                continue
            for name, feature in example.features.feature.items():
                kind = feature.WhichOneof("kind")
                values = getattr(feature, kind).value if kind else ()
                evidence = columns.setdefault(name, ColumnEvidence())
                evidence.add_lengths(0, len(values), len(values))
                if values:
                    seen[name] += 1
                    evidence.dtypes.add(_EXAMPLE_TYPES[kind])
                    evidence.num_infinite += sum(not math.isfinite(value) for value in values if kind == "float_list")
    for name, evidence in columns.items():
        evidence.num_rows = num_rows - num_broken
        evidence.num_missing = evidence.num_rows - seen[name]
        # A tf.Example does not distinguish a single value from a list of one, nor a missing list from an empty one.
        _, greatest = evidence.lengths[0]
        if greatest <= 1:
            evidence.lengths = []
        elif evidence.num_missing:
            evidence.lengths, evidence.num_missing = [(0, greatest)], 0
    return _Evidence(columns=columns, num_rows=num_rows, num_broken=num_broken)


def _key_column(evidence: _Evidence, end: str, given: str, metadata: Metadata, filename: str) -> str:
    candidates = (given,) if given else (end, f"#{end}")
    for name in candidates:
        # A file of tf.Examples without records has no column names.
        if name in evidence.columns or not (evidence.columns or evidence.num_rows):
            if given:
                metadata.extra.add(key=f"{end}_column", value=given)
            return name
    # A single column may be a line of a file that is not a table at all, so its name is not shown.
    known = evidence.columns if len(evidence.columns) > 1 else ()
    raise ValueError(
        f"`{end}_columns` must name the column of ids that the table has; got none of {list(candidates)} among "
        f"{show_columns(sorted(evidence.columns), known)} in {filename}. Give its name."
    )


def _describe(declared: NodeSet | EdgeSet | Context, evidence: _Evidence, filename: str, keys: set[str]) -> None:
    declared.metadata.filename = filename
    declared.metadata.cardinality = evidence.num_rows - evidence.num_broken
    notes = [f"Records that cannot be read: {evidence.num_broken}."] if evidence.num_broken else []
    for name in sorted(set(evidence.columns) - keys):
        column = evidence.columns[name]
        reason = _reason_to_leave_out(name, column)
        if reason:
            notes.append(f"Column {name!r} is left out: {reason}.")
        else:
            _declare(declared.features[name], name, column)
            if column.dtypes and all(map(pa.types.is_temporal, column.dtypes)):
                declare_time(declared, name)
    if notes:
        if isinstance(declared, Context):
            declared.metadata.extra.add(key=_NOTE, value=" ".join(notes))
        else:
            declared.description = " ".join(notes)


def _reason_to_leave_out(name: str, column: ColumnEvidence) -> str:
    if name.startswith("#") and name != "#weight":
        return "names that begin with # are reserved"
    if not name:
        return "it has no name"
    if (column.num_rows and column.num_missing == column.num_rows) or (column.dtype is None and not column.dtypes):
        return "it has no values"
    if column.dtype is None:
        found = ("bytes that are no text" if dtype == _BYTES else str(dtype) for dtype in column.dtypes)
        return f"no feature holds values of type {', '.join(sorted(found))}"
    if column.shape is None:
        return "no feature holds lists of lists of several lengths"
    return ""


def _declare(feature: Feature, name: str, column: ColumnEvidence) -> None:
    feature.dtype = _DTYPES[column.dtype]
    for size in column.shape or ():
        feature.shape.dim.add(size=size)
    notes = []
    if column.num_missing:
        notes.append(
            f"Rows without a value: {column.num_missing} of {column.num_rows}; "
            f'declare what it stands for under the key "default.{name}".'
        )
    if column.num_nan:
        notes.append(f"NaN in {column.num_nan} of them.")
    if column.num_infinite and column.dtype == pa.float32():
        number = column.num_infinite
        notes.append(f"Values that are not finite 32-bit floats, which are refused: {number}. Correct or empty them.")
    if column.num_rounded and column.dtype == pa.float32():
        notes.append(
            f"Decimals of more than {DIGITS_OF_DOUBLE} digits, which are rounded to floats: {column.num_rounded}. If "
            "they are names, store them as texts."
        )
    if notes:
        feature.description = " ".join(notes)


def schema_notes(schema: GraphSchema) -> Iterator[tuple[str, str]]:
    """Lists the notes of `infer_schema` for the reviewer, by place, such as "node set 'user', feature 'age'"."""
    for kind, sets in (("node set", schema.node_sets), ("edge set", schema.edge_sets)):
        for name in sorted(sets):
            if sets[name].description:
                yield f"{kind} {name!r}", sets[name].description
            for feature in sorted(sets[name].features):
                if sets[name].features[feature].description:
                    yield f"{kind} {name!r}, feature {feature!r}", sets[name].features[feature].description
    for entry in schema.context.metadata.extra:
        if entry.key == _NOTE:
            yield "context", entry.value
    for feature in sorted(schema.context.features):
        if schema.context.features[feature].description:
            yield f"context, feature {feature!r}", schema.context.features[feature].description
