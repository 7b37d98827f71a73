"""Writes the tables of a database as tables of a graph: each node with an id, each foreign key as a table of edges.

The edges of a foreign key have the time of the row that holds it, so that plans can hide what is newer than a seed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.tables.column_types import nan_as_null
from tfx_gnn.tables.keys.database import Database, ForeignKey, joined_key, key_texts
from tfx_gnn.tables.keys.table_roles import EdgeRole, FoundTable, TableRoles
from tfx_gnn.tables.label_splits import SPLIT_COLUMN, LabelSplits, split_labeled_rows
from tfx_gnn.tables.row_times import SECONDS, RowTimes, as_seconds, find_row_times, texts_of, time_columns
from tfx_gnn.tables.schema_inference import ColumnEvidence, undeclared_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.whole_blocks import whole_blocks

_TEXT = pa.large_string()
_ENDS = {"source": _TEXT, "target": _TEXT}
ROW_TIME = "row_time"
"""Column with the times of edges, and of rows that have the time of what they are a part of."""

_LEAST_OF_LABELS = 20
"""Fewer different times of named rows do not divide the rows of a label."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedTables:
    """What was written.

    Attributes:
        schema: graph schema of the tables.
        node_times: by node set, the feature with the time of its rows, where one column of its table holds times.
        edge_times: by edge set, the feature with the time of its edges.
        times: by set, as in "nodes/orders", all features that hold times.
        repeated_times: edge sets whose times are told by their rows, or by other times of the set.
        num_without_edge: by edge set, rows whose foreign key is empty.
        row_times: when each row came to be.
        label_splits: the splits of the rows of the label's table, if some have no label; column "split" has them.
        integers: columns, as in "orders.size", of floats that are read as integers.
    """

    schema: GraphSchema
    node_times: Mapping[str, str]
    edge_times: Mapping[str, str]
    times: Mapping[str, tuple[str, ...]]
    repeated_times: frozenset[str]
    num_without_edge: Mapping[str, int]
    row_times: RowTimes
    label_splits: LabelSplits | None
    integers: tuple[str, ...]

    @property
    def times_of_rows(self) -> dict[str, str]:
        """By set, as in "nodes/orders", the feature with the times of its rows or edges."""
        return {f"nodes/{name}": one for name, one in self.node_times.items()} | {
            f"edges/{name}": one for name, one in self.edge_times.items()
        }


def write_prepared_tables(
    database: Database,
    tables_dir: str,
    folder: str,
    *,
    label: tuple[str, str] = ("", ""),
    access: TableAccess | None = None,
) -> PreparedTables:
    """Writes node tables and edge tables as Parquet files, whose ids are texts.

    Tables are read block by block; of entities without a table, the different ids are held in memory.

    Args:
        database: how the tables refer to each other.
        tables_dir: their folder.
        folder: an existing folder for the files, one for each node set and edge set.
        label: table and column of the label; if some rows have none, and no column says their split, one is written.
        access: the largest record, and whether links may lead out of the folder.

    Returns:
        The schema, which is not written, and what was learned on the way.

    Raises:
        ValueError: if a table is broken.
    """
    return _Writer(database, tables_dir, folder, label, access or TableAccess()).write()


class _Writer:
    def __init__(
        self, database: Database, tables_dir: str, folder: str, label: tuple[str, str], access: TableAccess
    ) -> None:
        self._label = label
        self._label_splits: LabelSplits | None = None
        self._database = database
        self._tables_dir = tables_dir
        self._folder = folder
        self._access = access
        self._written: dict[str, FoundTable] = {}
        self._id_columns: dict[str, str] = {}
        self._edges: dict[str, EdgeRole] = {}
        self._times = find_row_times(database, tables_dir, label=label, access=access)
        self._node_times: dict[str, str] = {}
        self._edge_times: dict[str, str] = {}
        self._all_times: dict[tuple[str, str], tuple[str, ...]] = {}
        self._num_without_edge: dict[str, int] = {}
        self._integers: list[str] = []
        self._alternates_read: dict[tuple[str, str], tuple[pa.Array, pa.Array]] = {}

    def write(self) -> PreparedTables:
        """Writes the node tables with their foreign keys, the edge tables, and the entities."""
        for name in self._database.keys:
            self._write_nodes(name)
        for name, role in self._database.edges.items():
            self._write_edges(name, role)
        for name, places in self._database.entities.items():
            self._write_entities(name, places)
        roles = TableRoles(tables=self._written, id_columns=self._id_columns, edges=self._edges)
        schema = roles.infer_schema(self._folder, self._access)

        def is_feature(kind: str, name: str, column: str) -> bool:
            # A time that is a key, or names another table, is no feature.
            return column in (schema.node_sets if kind == "nodes" else schema.edge_sets)[name].features

        return PreparedTables(
            schema=schema,
            node_times={name: one for name, one in self._node_times.items() if is_feature("nodes", name, one)},
            edge_times={name: one for name, one in self._edge_times.items() if is_feature("edges", name, one)},
            times={
                f"{kind}/{name}": tuple(one for one in found if is_feature(kind, name, one))
                for (kind, name), found in self._all_times.items()
            },
            repeated_times=frozenset(
                name
                for name in self._edge_times
                if name in self._times.columns
                or (name not in self._database.edges and self._edges[name].source in self._node_times)
            ),
            num_without_edge={name: number for name, number in self._num_without_edge.items() if number},
            row_times=self._times,
            label_splits=self._label_splits,
            integers=tuple(self._integers),
        )

    def _write_nodes(self, name: str) -> None:
        table, key = self._database.tables[name], self._database.keys[name]
        foreign_keys = [one for one in self._database.foreign_keys if one.table == name]
        is_of_label = name == self._label[0]
        times = time_columns(table, label=self._label[1] if is_of_label else "")
        types = self._types(table, times)
        single = key[0] if len(key) == 1 else ""
        # A time stays, also where a table of days tells more of it.
        gone = {single, *(one.columns[0] for one in foreign_keys if len(one.columns) == 1)} - ({*times} - {single})
        features = [column for column in types if column not in gone]
        id_column = single or ("id" if "id" not in features else "row_id")
        edges = {one: self._edge_set(one) for one in foreign_keys}
        edge_times = {one: found for one in foreign_keys if (found := self._times.of_edges(one)) is not None}
        added = self._name_node_times(name, times, features)
        if is_of_label:
            self._label_splits = self._split_rows(table)
            if self._label_splits is not None:
                added[SPLIT_COLUMN] = self._label_splits.values
        added_types = {one: of_table.type for one, of_table in added.items()}
        with contextlib.ExitStack() as stack:
            nodes = stack.enter_context(
                self._open(name, {id_column: _TEXT, **{one: types[one] for one in features}, **added_types})
            )
            files = {
                one: stack.enter_context(
                    self._open(edge_set, {**_ENDS, **({ROW_TIME: SECONDS} if one in edge_times else {})})
                )
                for one, edge_set in edges.items()
            }
            num_rows = 0
            for columns in self._blocks(table):
                length = len(next(iter(columns.values())))
                if single:
                    ids = key_texts(texts_of(columns[single]))
                elif key:
                    ids = joined_key([texts_of(columns[column]) for column in key])
                else:
                    ids = pa.array(range(num_rows, num_rows + length), pa.int64()).cast(_TEXT)
                typed = {column: _typed(columns[column], types[column], is_of_label=is_of_label) for column in features}
                typed |= {one: of_table.slice(num_rows, length) for one, of_table in added.items()}
                nodes.write_table(pa.table({id_column: ids, **typed}))
                for one, file in files.items():
                    targets = self._targets(one, columns)
                    edge_columns = {"source": ids, "target": targets}
                    if one in edge_times:
                        edge_columns[ROW_TIME] = edge_times[one].slice(num_rows, length)
                    has_edge = targets.is_valid()
                    self._num_without_edge[edges[one]] += length - int(pc.sum(has_edge).as_py() or 0)
                    file.write_table(pa.table(edge_columns).filter(has_edge))
                num_rows += length
        self._id_columns[name] = id_column

    def _name_node_times(self, name: str, times: Sequence[str], features: Sequence[str]) -> dict[str, pa.Array]:
        """Notes the columns of times of a node table; gives the one that is added to a part of a table with times."""
        self._all_times["nodes", name] = tuple(times)
        if name in self._times.columns:
            self._node_times[name] = self._times.columns[name]
        elif self._has_inherited_times(name) and ROW_TIME not in features:
            self._node_times[name] = ROW_TIME
            self._all_times["nodes", name] += (ROW_TIME,)
            return {ROW_TIME: self._times.by_row[name]}
        return {}

    def _has_inherited_times(self, name: str) -> bool:
        """Whether times in parts, or of rows that a table names, are good enough to be those of its own rows.

        They are for parts, such as order items, and for the table of the label, which is divided by them: a result is
        of the day of its race. But a few times, such as those on which the persons in charge were hired, say when the
        named rows came to be, and hardly more.
        """
        if self._times.is_part(name) or name in self._times.in_parts:
            return True
        times = self._times.by_row.get(name)
        if name != self._label[0] or name in self._times.undecided or times is None or times.null_count:
            return False
        return bool(pc.count_distinct(times).as_py() >= _LEAST_OF_LABELS)

    def _split_rows(self, table: FoundTable) -> LabelSplits | None:
        """Divides rows of which some have no label, unless a column does."""
        column = table.columns[self._label[1]]
        if SPLIT_COLUMN in table.columns or column.num_filled == column.num_rows:
            return None
        blocks = whole_blocks(table, self._tables_dir, self._access)
        is_labeled = np.concatenate(
            [block[self._label[1]].is_valid().to_numpy(zero_copy_only=False) for block in blocks]
        )
        return split_labeled_rows(is_labeled, self._times.by_row.get(table.name))

    def _edge_set(self, key: ForeignKey) -> str:
        """Names the edge set of a foreign key, and notes what its edges join."""
        name = key.edge_set({*self._database.tables, *self._database.entities, *self._edges})
        self._edges[name] = EdgeRole(
            table=name, source_column="source", source=key.table, target_column="target", target=key.node_set
        )
        if self._times.of_edges(key) is not None:
            self._edge_times[name] = ROW_TIME
            self._all_times["edges", name] = (ROW_TIME,)
        self._num_without_edge[name] = 0
        return name

    def _targets(self, key: ForeignKey, columns: Mapping[str, pa.Array]) -> pa.Array:
        texts = [texts_of(columns[column]) for column in key.columns]
        keys = key_texts(texts[0]) if len(texts) == 1 else joined_key(texts)
        if not key.target_column:
            return keys
        alternates, ids = self._alternates(key)
        known = ids.take(pc.index_in(keys, value_set=alternates))
        # What names no row has an edge all the same, which leads nowhere and is counted.
        unknown = pc.binary_join_element_wise(pa.scalar(key.target_column, _TEXT), keys, pa.scalar("=", _TEXT))
        return pc.coalesce(known, unknown)

    def _alternates(self, key: ForeignKey) -> tuple[pa.Array, pa.Array]:
        """Reads the column of a table by which a foreign key names its rows, and the ids of these rows."""
        place = (key.node_set, key.target_column)
        if place not in self._alternates_read:
            table, (id_column,) = self._database.tables[key.node_set], self._database.keys[key.node_set]
            blocks = list(whole_blocks(table, self._tables_dir, self._access))
            alternates, ids = (
                pa.concat_arrays([key_texts(texts_of(columns[one])) for columns in blocks])
                for one in (key.target_column, id_column)
            )
            self._alternates_read[place] = alternates.drop_null(), ids.filter(alternates.is_valid())
        return self._alternates_read[place]

    def _write_edges(self, name: str, role: EdgeRole) -> None:
        table = self._database.tables[name]
        is_of_label = name == self._label[0]
        times = time_columns(table, label=self._label[1] if is_of_label else "")
        types = self._types(table, times)
        # Users name the columns of their tables, as in a prediction task.
        ends = (role.source_column, role.target_column)
        source, target = written_ends = ends if ROW_TIME not in ends else ("source", "target")
        renamed = {
            column: column if column not in ("source", "target", ROW_TIME) else f"{column}_of_{name}"
            for column in types
            if column not in ends
        }
        row_times = self._times.of_edge_table(name)
        self._all_times["edges", name] = tuple(renamed[one] for one in times if one in renamed)
        if row_times is not None:
            self._edge_times[name] = ROW_TIME
            self._all_times["edges", name] += (ROW_TIME,)
        self._num_without_edge[name] = num_rows = 0
        time_types = {ROW_TIME: SECONDS} if row_times is not None else {}
        columns_of_file = {**dict.fromkeys(written_ends, _TEXT), **{new: types[one] for one, new in renamed.items()}}
        with self._open(name, {**columns_of_file, **time_types}) as file:
            for columns in self._blocks(table):
                written = {
                    end: key_texts(texts_of(columns[column])) for end, column in zip(written_ends, ends, strict=True)
                }
                has_edge = pc.and_(written[source].is_valid(), written[target].is_valid())
                self._num_without_edge[name] += len(has_edge) - int(pc.sum(has_edge).as_py() or 0)
                written |= {
                    new: _typed(columns[one], types[one], is_of_label=is_of_label) for one, new in renamed.items()
                }
                if row_times is not None:
                    written[ROW_TIME] = row_times.slice(num_rows, len(has_edge))
                num_rows += len(has_edge)
                file.write_table(pa.table(written).filter(has_edge))
        self._edges[name] = dataclasses.replace(role, source_column=source, target_column=target)

    def _write_entities(self, name: str, places: Sequence[tuple[str, str]]) -> None:
        values = [self._database.tables[table].columns[column].values for table, column in places]
        ids = pc.unique(pa.chunked_array([key_texts(one) for one in values], _TEXT))
        with self._open(name, {"id": _TEXT}) as file:
            file.write_table(pa.table({"id": ids.take(pc.sort_indices(ids))}))
        self._id_columns[name] = "id"

    def _blocks(self, table: FoundTable) -> Iterator[dict[str, pa.Array]]:
        left_out = self._database.left_out.get(table.name, {})
        for columns in whole_blocks(table, self._tables_dir, self._access):
            yield {name: array for name, array in columns.items() if name not in left_out}

    def _types(self, table: FoundTable, times: Sequence[str]) -> dict[str, pa.DataType]:
        """Finds the types of the columns; columns that no feature can hold are left out, as from any table."""
        layout = undeclared_layout("node", table.name, self._tables_dir, table.filename, self._access)
        are_texts = {name: layout.format == "csv" or bool(column.amounts) for name, column in table.columns.items()}
        evidence = {name: ColumnEvidence() for name in table.columns}
        types: dict[str, pa.DataType] = {}
        for columns in self._blocks(table):
            for name, array in columns.items():
                evidence[name].add(array, are_cells=are_texts[name])
                types.setdefault(name, array.type)
                if pa.types.is_null(types[name]):
                    types[name] = array.type
        types |= {name: evidence[name].dtype or _TEXT for name in types if are_texts[name]}
        floats = [name for name, dtype in types.items() if dtype in (pa.float32(), pa.float64()) and name not in times]
        for name in floats:
            if table.columns[name].are_integers_with_gaps:
                types[name] = pa.int64()
                self._integers.append(f"{table.name}.{name}")
        types |= dict.fromkeys(times, SECONDS)
        return types

    def _open(self, name: str, types: Mapping[str, pa.DataType]) -> pq.ParquetWriter:
        filename = f"{name}.parquet"
        self._written[name] = FoundTable(name=name, filename=filename, columns={})
        return pq.ParquetWriter(os.path.join(self._folder, filename), pa.schema(list(types.items())))


def _typed(array: pa.Array, dtype: pa.DataType, *, is_of_label: bool) -> pa.Array:
    if array.type == dtype:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(dtype):
        return as_seconds(array, is_of_label=is_of_label)
    if pa.types.is_floating(array.type):
        return nan_as_null(array).cast(dtype)
    is_text = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    if not is_text:
        return array.cast(dtype)
    texts = key_texts(array.cast(_TEXT)) if pa.types.is_integer(dtype) else array.cast(_TEXT)
    return pc.equal(pc.utf8_lower(texts), "true") if pa.types.is_boolean(dtype) else texts.cast(dtype)
