"""Writes the tables of a database as tables of a graph: each node with an id, each foreign key as a table of edges.

The edges of a foreign key have the time of the row that holds it, so that plans can hide what is newer than a seed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_values import ColumnValues, as_texts, parse_times
from tfx_gnn.tables.database import Database, ForeignKey, joined_key, key_texts
from tfx_gnn.tables.schema_inference import ColumnEvidence, read_all_columns, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import TableLayout
from tfx_gnn.tables.table_names import names_other_time, names_time
from tfx_gnn.tables.table_roles import EdgeRole, FoundTable, TableRoles

_TEXT = pa.large_string()
_SECONDS = pa.timestamp("s")
_EPOCHS = {"s": 4_102_444_800, "ms": 4_102_444_800_000, "us": 4_102_444_800_000_000}
"""The year 2100 in units of time."""
_LEAST_OF_TIMES = 2
"""A column of one time in all rows tells nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedTables:
    """What was written.

    Attributes:
        schema: graph schema of the tables.
        node_times: by node set, the feature with the time of its rows, where one column of its table holds times.
        edge_times: by edge set, the feature with the time of its edges.
        num_without_edge: by edge set, rows whose foreign key is empty.
        undecided_times: by table, its columns of times, where there are several.
    """

    schema: GraphSchema
    node_times: Mapping[str, str]
    edge_times: Mapping[str, str]
    num_without_edge: Mapping[str, int]
    undecided_times: Mapping[str, tuple[str, ...]]


def write_prepared_tables(
    database: Database, tables_dir: str, folder: str, *, access: TableAccess | None = None
) -> PreparedTables:
    """Writes node tables and edge tables as Parquet files, whose ids are texts.

    Tables are read block by block; of entities without a table, the different ids are held in memory.

    Args:
        database: how the tables refer to each other.
        tables_dir: their folder.
        folder: an existing folder for the files, one for each node set and edge set.
        access: the largest record, and whether links may lead out of the folder.

    Returns:
        The schema, which is not written, and what was learned on the way.

    Raises:
        ValueError: if a table is broken.
    """
    return _Writer(database, tables_dir, folder, access or TableAccess()).write()


class _Writer:
    def __init__(self, database: Database, tables_dir: str, folder: str, access: TableAccess) -> None:
        self._database = database
        self._tables_dir = tables_dir
        self._folder = folder
        self._access = access
        self._written: dict[str, FoundTable] = {}
        self._id_columns: dict[str, str] = {}
        self._edges: dict[str, EdgeRole] = {}
        self._edge_times: dict[str, str] = {}
        self._num_without_edge: dict[str, int] = {}

    def write(self) -> PreparedTables:
        """Writes the node tables with their foreign keys, the edge tables, and the entities."""
        times = {name: time_columns(table) for name, table in self._database.tables.items()}
        of_rows = {name: row_times(table) for name, table in self._database.tables.items()}
        time_of = {name: found[0] for name, found in of_rows.items() if len(found) == 1}
        for name in self._database.keys:
            self._write_nodes(name, times[name], time_of.get(name, ""))
        for name, role in self._database.edges.items():
            self._write_edges(name, role, times[name])
            if name in time_of:
                self._edge_times[name] = time_of[name]
        for name, places in self._database.entities.items():
            self._write_entities(name, places)
        roles = TableRoles(tables=self._written, id_columns=self._id_columns, edges=self._edges)
        schema = roles.infer_schema(self._folder, self._access)
        # A time that is a key, or names another table, is no feature.
        return PreparedTables(
            schema=schema,
            node_times={
                name: column
                for name, column in time_of.items()
                if name in self._database.keys and column in schema.node_sets[name].features
            },
            edge_times={
                name: column for name, column in self._edge_times.items() if column in schema.edge_sets[name].features
            },
            num_without_edge={name: number for name, number in self._num_without_edge.items() if number},
            undecided_times={name: found for name, found in of_rows.items() if len(found) > 1},
        )

    def _write_nodes(self, name: str, times: Sequence[str], time: str) -> None:
        table, key = self._database.tables[name], self._database.keys[name]
        foreign_keys = [one for one in self._database.foreign_keys if one.table == name]
        layout, types = self._layout(table), self._types(table, times)
        single = key[0] if len(key) == 1 else ""
        gone = {single, *(one.columns[0] for one in foreign_keys if len(one.columns) == 1)}
        features = [column for column in types if column not in gone]
        id_column = single or ("id" if "id" not in features else "row_id")
        edges = {one: self._edge_set(one, time) for one in foreign_keys}
        with contextlib.ExitStack() as stack:
            nodes = stack.enter_context(
                self._open(name, {id_column: _TEXT, **{column: types[column] for column in features}})
            )
            time_types = {time: types[time]} if time else {}
            files = {
                one: stack.enter_context(self._open(edge_set, {"source": _TEXT, "target": _TEXT, **time_types}))
                for one, edge_set in edges.items()
            }
            num_rows = 0
            for columns in self._blocks(table, layout):
                length = len(next(iter(columns.values())))
                if single:
                    ids = key_texts(_texts(columns[single]))
                elif key:
                    ids = joined_key([_texts(columns[column]) for column in key])
                else:
                    ids = pa.array(range(num_rows, num_rows + length), pa.int64()).cast(_TEXT)
                num_rows += length
                typed = {column: _typed(columns[column], types[column]) for column in types}
                nodes.write_table(pa.table({id_column: ids, **{column: typed[column] for column in features}}))
                for one, file in files.items():
                    targets = self._targets(one, columns)
                    edge_columns = {"source": ids, "target": targets, **({time: typed[time]} if time else {})}
                    has_edge = targets.is_valid()
                    self._num_without_edge[edges[one]] += length - int(pc.sum(has_edge).as_py() or 0)
                    file.write_table(pa.table(edge_columns).filter(has_edge))
        self._id_columns[name] = id_column

    def _edge_set(self, key: ForeignKey, time: str) -> str:
        """Names the edge set of a foreign key, and notes what its edges join."""
        name = key.edge_set({*self._database.tables, *self._database.entities, *self._edges})
        self._edges[name] = EdgeRole(
            table=name, source_column="source", source=key.table, target_column="target", target=key.node_set
        )
        if time:
            self._edge_times[name] = time
        self._num_without_edge[name] = 0
        return name

    def _targets(self, key: ForeignKey, columns: Mapping[str, pa.Array]) -> pa.Array:
        texts = [_texts(columns[column]) for column in key.columns]
        return key_texts(texts[0]) if len(texts) == 1 else joined_key(texts)

    def _write_edges(self, name: str, role: EdgeRole, times: Sequence[str]) -> None:
        table = self._database.tables[name]
        types = self._types(table, times)
        ends = {"source": role.source_column, "target": role.target_column}
        features = {column: dtype for column, dtype in types.items() if column not in ends.values()}
        renamed = {column: column if column not in ends else f"{column}_of_{name}" for column in features}
        self._num_without_edge[name] = 0
        with self._open(name, dict.fromkeys(ends, _TEXT) | {renamed[one]: features[one] for one in features}) as file:
            for columns in self._blocks(table, self._layout(table)):
                written = {end: key_texts(_texts(columns[column])) for end, column in ends.items()}
                has_edge = pc.and_(written["source"].is_valid(), written["target"].is_valid())
                self._num_without_edge[name] += len(has_edge) - int(pc.sum(has_edge).as_py() or 0)
                written |= {renamed[one]: _typed(columns[one], features[one]) for one in features}
                file.write_table(pa.table(written).filter(has_edge))
        self._edges[name] = dataclasses.replace(role, source_column="source", target_column="target")

    def _write_entities(self, name: str, places: Sequence[tuple[str, str]]) -> None:
        values = [self._database.tables[table].columns[column].values for table, column in places]
        ids = pc.unique(pa.chunked_array([key_texts(one) for one in values], _TEXT))
        with self._open(name, {"id": _TEXT}) as file:
            file.write_table(pa.table({"id": ids.take(pc.sort_indices(ids))}))
        self._id_columns[name] = "id"

    def _layout(self, table: FoundTable) -> TableLayout:
        return undeclared_layout("node", table.name, self._tables_dir, table.filename, self._access)

    def _blocks(self, table: FoundTable, layout: TableLayout) -> Iterator[dict[str, pa.Array]]:
        left_out = self._database.left_out.get(table.name, {})
        for block in read_all_columns(layout):
            if block.problems:
                raise ValueError(
                    f"`{table.filename}` must have as many cells in each record as its header, as UTF-8; got "
                    f"{len(block.problems)} others. Correct them: `tfx-gnn tables infer-schema` counts them by table."
                )
            if block.columns.num_rows:
                yield {name: block.columns.column(name) for name in table.columns if name not in left_out}

    def _types(self, table: FoundTable, times: Sequence[str]) -> dict[str, pa.DataType]:
        """Finds the types of the columns; columns that no feature can hold are left out, as from any table."""
        layout = self._layout(table)
        evidence = {name: ColumnEvidence() for name in table.columns}
        types: dict[str, pa.DataType] = {}
        for columns in self._blocks(table, layout):
            for name, array in columns.items():
                evidence[name].add(array, are_cells=layout.format == "csv")
                types.setdefault(name, array.type)
                if pa.types.is_null(types[name]):
                    types[name] = array.type
        if layout.format == "csv":
            types = {name: evidence[name].dtype or _TEXT for name in types}
        types |= dict.fromkeys(times, _SECONDS)
        return types

    def _open(self, name: str, types: Mapping[str, pa.DataType]) -> pq.ParquetWriter:
        filename = f"{name}.parquet"
        self._written[name] = FoundTable(name=name, filename=filename, columns={})
        return pq.ParquetWriter(os.path.join(self._folder, filename), pa.schema(list(types.items())))


def _texts(array: pa.Array) -> pa.Array:
    texts = as_texts(array, "a key")
    assert texts is not None, array.type
    return texts


def _typed(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if array.type == dtype:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(dtype):
        return _as_seconds(array)
    if not pa.types.is_large_binary(array.type):
        return array.cast(dtype)
    texts = array.cast(_TEXT)
    return pc.equal(pc.utf8_lower(texts), "true") if pa.types.is_boolean(dtype) else texts.cast(dtype)


def _as_seconds(times: pa.Array) -> pa.Array:
    """Leaves out fractions of seconds and the zone; a time without a zone is taken for UTC."""
    if not pa.types.is_temporal(times.type):
        texts = key_texts(_texts(times))
        parsed = parse_times(texts)
        times = _since_1970(texts) if parsed is None else parsed
    return times.cast(pa.timestamp("us"), safe=False).cast(_SECONDS, safe=False)


def _since_1970(texts: pa.Array) -> pa.Array:
    """Reads whole numbers as seconds, or as milliseconds or microseconds, which are too large for seconds."""
    numbers = texts.cast(pa.int64())
    largest = pc.max(numbers).as_py() or 0
    unit = next(unit for unit, end in _EPOCHS.items() if largest < end)
    return numbers.cast(pa.timestamp(unit))


def time_columns(table: FoundTable) -> tuple[str, ...]:
    """Lists the columns of a table that hold several times: dates, time stamps, and numbers that are named so."""
    return tuple(
        name
        for name, column in table.columns.items()
        if column.num_distinct >= _LEAST_OF_TIMES and (column.holds_times or (names_time(name) and _are_epochs(column)))
    )


def row_times(table: FoundTable) -> tuple[str, ...]:
    """Lists the columns that may hold the time of each row: the declared one, or those not named after another time."""
    declared = table.declared.time_column
    return (declared,) if declared else tuple(name for name in time_columns(table) if not names_other_time(name))


def _are_epochs(column: ColumnValues) -> bool:
    """Whether all values are times since 1970, none before 1980, in one unit."""
    try:
        numbers = key_texts(column.values).drop_null().cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    bounds = pc.min_max(numbers).as_py()
    return any(end * 315_532_800 // 4_102_444_800 <= bounds["min"] and bounds["max"] < end for end in _EPOCHS.values())
