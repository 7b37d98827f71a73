"""Rows of a graph's tables as the input of the analysis.

A table holds every node and every edge once, including those that are in no subgraph. It is
read in blocks, each of which becomes one record batch with the same keys as the
subgraphs' tf.Examples, so tf.Transform sees no difference.

Rows that the table rules refuse were already refused when the examples were sampled, so they
are not searched for again. Rows that the rules drop or skip are left out here too: rows are
grouped by the hash of their ids into buckets, of which a worker holds one at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from apache_beam.metrics import Metrics

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout, SetLayout
from tfx_gnn.records.value_hashes import Hashes, by_bucket
from tfx_gnn.sampling.random_choice import hash_ids, mix
from tfx_gnn.tables.bigquery_table import bigquery_blocks
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import DANGLING_SOURCE, DANGLING_TARGET, DUPLICATE_EDGE, DUPLICATE_NODE, RowRules
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import TableBlock, TableUnit, list_units, read_unit
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout

ROW_KEYS = (ID_FEATURE, SOURCE_KEY, TARGET_KEY)
"""Columns that identify a row."""

_NUM_BUCKETS = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRows:
    """Some rows of a table.

    Attributes:
        label: label of the table, "nodes/<set>" or "edges/<set>".
        unit: position of the rows' unit in the table.
        rows: int64 [num_rows], positions in the unit, ascending.
        columns: values by key of the layout, including ids.
    """

    label: str
    unit: int
    rows: npt.NDArray[np.int64]
    columns: pa.Table

    def take(self, positions: npt.NDArray[np.int64]) -> TableRows:
        """Chooses rows by ascending positions, int64 [n]."""
        # Not a slice: Beam would send all of the sliced array.
        return dataclasses.replace(self, rows=self.rows[positions], columns=self.columns.take(pa.array(positions)))


def count_dropped(label: str, rule: str, count: int = 1) -> None:
    """Counts rows that a rule excludes from statistics, in a counter of the Beam pipeline."""
    Metrics.counter("tfx_gnn.GraphTransform", f"{label}:{rule}").inc(count)


class KeptRows(beam.PTransform):
    """Filters `TableRows` to those that the rules keep."""

    def __init__(self, rules: RowRules, ends: Mapping[str, tuple[str, str]]) -> None:
        super().__init__()
        self._rules = rules
        self._ends = ends

    def expand(self, input_or_inputs: Any) -> Any:
        """Drops rows of a PCollection of `TableRows`; adds no step if no rule needs one."""
        rules = self._rules
        if (rules.duplicate_nodes, rules.dangling_edges) == (
            "refuse",
            "refuse",
        ) and rules.duplicate_edges != "keep_first":
            return input_or_inputs
        nodes = input_or_inputs | "Nodes" >> beam.Filter(_is_of_nodes)
        edges = input_or_inputs | "Edges" >> beam.Filter(lambda rows: not _is_of_nodes(rows))
        if rules.duplicate_nodes == "keep_first":
            nodes = nodes | "FirstNodes" >> _KeepFirst((ID_FEATURE,), DUPLICATE_NODE)
        if rules.dangling_edges == "drop":
            sources = {label: node_sets[0] for label, node_sets in self._ends.items()}
            targets = {label: node_sets[1] for label, node_sets in self._ends.items()}
            edges = (edges, nodes) | "WithSource" >> _DropDangling(SOURCE_KEY, sources, DANGLING_SOURCE)
            edges = (edges, nodes) | "WithTarget" >> _DropDangling(TARGET_KEY, targets, DANGLING_TARGET)
        if rules.duplicate_edges == "keep_first":
            edges = edges | "FirstEdges" >> _KeepFirst((SOURCE_KEY, TARGET_KEY), DUPLICATE_EDGE)
        return (nodes, edges) | "AllKinds" >> beam.Flatten()


class _KeepFirst(beam.PTransform):
    """Keeps the first of a table's rows with the same ids, in the order of the files."""

    def __init__(self, keys: Sequence[str], rule: str) -> None:
        super().__init__()
        self._keys = keys
        self._rule = rule

    def expand(self, input_or_inputs: Any) -> Any:
        return (
            input_or_inputs
            | "ByIds" >> beam.FlatMap(self._by_ids)
            | "SameIds" >> beam.GroupByKey()
            | "First" >> beam.FlatMap(self._first)
        )

    def _by_ids(self, rows: TableRows) -> Iterator[tuple[tuple[str, int], TableRows]]:
        for bucket, positions in by_bucket(_hash_rows(rows, self._keys), _NUM_BUCKETS).items():
            yield (rows.label, bucket), rows.take(positions)

    def _first(self, element: tuple[tuple[str, int], Iterable[TableRows]]) -> Iterator[TableRows]:
        (label, _), parts = element
        ordered = sorted(parts, key=lambda part: (part.unit, int(part.rows[0])))
        hashes = np.concatenate([_hash_rows(part, self._keys) for part in ordered])
        is_first = np.zeros(len(hashes), np.bool_)
        is_first[np.unique(hashes, return_index=True)[1]] = True
        count_dropped(label, self._rule, int(len(hashes) - is_first.sum()))
        start = 0
        for part in ordered:
            stop = start + len(part.rows)
            yield part.take(np.flatnonzero(is_first[start:stop]))
            start = stop


class _DropDangling(beam.PTransform):
    """Maps edges and nodes to the edges that have one end among the nodes."""

    def __init__(self, key: str, node_sets: Mapping[str, str], rule: str) -> None:
        super().__init__()
        self._key = key
        self._node_sets = node_sets
        self._rule = rule

    def expand(self, input_or_inputs: Any) -> Any:
        edges, nodes = input_or_inputs
        return (
            (edges | "ByNode" >> beam.FlatMap(self._by_node), nodes | "ById" >> beam.FlatMap(_ids_by_bucket))
            | "Both" >> beam.Flatten()
            | "SameNode" >> beam.GroupByKey()
            | "Known" >> beam.FlatMap(self._known)
        )

    def _by_node(self, edges: TableRows) -> Iterator[tuple[tuple[str, int], TableRows]]:
        for bucket, positions in by_bucket(_hash_rows(edges, (self._key,)), _NUM_BUCKETS).items():
            yield (self._node_sets[edges.label], bucket), edges.take(positions)

    def _known(self, element: tuple[tuple[str, int], Iterable[TableRows | Hashes]]) -> Iterator[TableRows]:
        parts = list(element[1])
        nodes = np.concatenate([np.zeros(0, np.uint64), *(part for part in parts if isinstance(part, np.ndarray))])
        for part in parts:
            if isinstance(part, TableRows):
                is_there = np.isin(_hash_rows(part, (self._key,)), nodes)
                count_dropped(part.label, self._rule, int((~is_there).sum()))
                yield part.take(np.flatnonzero(is_there))


def _is_of_nodes(rows: TableRows) -> bool:
    return rows.label.startswith(f"{const.NODES}/")


def _ids_by_bucket(nodes: TableRows) -> Iterator[tuple[tuple[str, int], Hashes]]:
    hashes = _hash_rows(nodes, (ID_FEATURE,))
    for bucket, positions in by_bucket(hashes, _NUM_BUCKETS).items():
        yield (nodes.label, bucket), hashes[positions]


def _hash_rows(rows: TableRows, keys: Sequence[str]) -> Hashes:
    hashes = np.zeros(len(rows.rows), np.uint64)
    for key in keys:
        hashes = mix(hashes) ^ hash_ids(rows.columns.column(key).combine_chunks())
    return hashes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableReading:
    """Which tables to read, and what of them.

    Attributes:
        layouts: the tables to read, by label ("nodes/<set>", "edges/<set>").
        features: features to compute statistics of: by table label, tf.Example features by the key of their
            column. Tables without an entry are read only for their ids.
        ends: by label of an edge table, the labels of its source and target node tables.
        rules: what to do with rows that break a rule.
    """

    layouts: Mapping[str, TableLayout]
    features: Mapping[str, Mapping[str, FeatureColumn]]
    ends: Mapping[str, tuple[str, str]]
    rules: RowRules

    @property
    def keys(self) -> frozenset[str]:
        """tf.Example keys of all features that are read."""
        return frozenset(column.key for columns in self.features.values() for column in columns.values())


def plan_table_reading(
    tables_dir: str,
    layout: GraphLayout,
    keys: Collection[str],
    rules: RowRules,
    access: TableAccess | None = None,
) -> TableReading:
    """Finds the tables of the features that statistics are computed from.

    Nothing else is read from the tables, so neither labels nor the column of splits are. Features of the context, and
    of readouts without a table, are left out. Raises ValueError if the tables do not match their schema, a set has no
    table, or its table lacks a feature or has it with another type or shape.
    """
    schema = read_tables_schema(tables_dir, access=access)
    declared = layouts_of(schema, tables_dir, access=access)
    tables = {table.label: table for table in declared.all}
    features: dict[str, dict[str, FeatureColumn]] = {}
    ends: dict[str, tuple[str, str]] = {}
    for one_set in layout.sets:
        columns = [column for column in one_set.features if column.key in keys]
        # The context describes each example; a context table describes the graph as a whole.
        if not columns or one_set.set_type == const.CONTEXT:
            continue
        table = tables.get(one_set.prefix)
        if table is None:
            _check_made_while_sampling(one_set, tables_dir, tables)
            continue
        features[one_set.prefix] = {_checked_name(one_set, column, table): column for column in columns}
        if one_set.set_type == const.EDGES:
            declared_set = schema.edge_sets[one_set.name]
            ends[one_set.prefix] = f"{const.NODES}/{declared_set.source}", f"{const.NODES}/{declared_set.target}"
    needed = set(features)
    if rules.dangling_edges == "drop":
        needed.update(node_set for of_edges in ends.values() for node_set in of_edges)
    return TableReading(
        layouts={label: _narrowed(tables[label], features.get(label, {}), rules) for label in sorted(needed)},
        features=features,
        ends=ends,
        rules=rules,
    )


class TableBatches(beam.PTransform):
    """Reads record batches of one row each, which holds the items of one set from a block of its table."""

    def __init__(self, reading: TableReading, schema: pa.Schema) -> None:
        """Takes the columns of each batch in `schema`; columns that are not read are null."""
        super().__init__()
        self._reading = reading
        self._schema = schema

    def expand(self, input_or_inputs: Any) -> Any:
        """Reads from the pipeline into a PCollection of pa.RecordBatch."""
        reading = self._reading
        in_files = [(label, table) for label, table in reading.layouts.items() if table.bigquery is None]
        units = [(label, unit) for label, table in in_files for unit in list_units(table)]
        rows = [
            input_or_inputs
            | "Units" >> beam.Create(units)
            | "SpreadUnits" >> beam.Reshuffle()
            | "ReadUnits" >> beam.ParDo(_ReadUnits(reading))
        ]
        for label, table in reading.layouts.items():
            if table.bigquery is not None:
                blocks = bigquery_blocks(input_or_inputs.pipeline, table, reading.rules)
                rows.append(blocks | f"TakeRows {label}" >> beam.Map(_TakeRows(label)))
        return (
            rows
            | "AllRows" >> beam.Flatten()
            | "KeepRows" >> KeptRows(reading.rules, reading.ends)
            | "ToBatches" >> beam.ParDo(_ToBatch(reading.features, self._schema))
        )


class _ReadUnits(beam.DoFn):
    """Maps pairs (label, unit) to `TableRows`."""

    def __init__(self, reading: TableReading) -> None:
        self._reading = reading

    def process(self, element: tuple[str, TableUnit]) -> Iterator[TableRows]:
        label, unit = element
        yield from map(_TakeRows(label), read_unit(self._reading.layouts[label], unit, self._reading.rules))


class _TakeRows:
    """Counts the rows that were left out of a block, and passes on the others."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __call__(self, block: TableBlock) -> TableRows:
        for problem in block.problems:
            count_dropped(self._label, problem.rule)
        return TableRows(
            label=self._label,
            unit=block.unit,
            rows=block.rows,
            columns=pa.table(dict(block.columns)),
        )


class _ToBatch(beam.DoFn):
    """Maps `TableRows` to record batches."""

    def __init__(self, features: Mapping[str, Mapping[str, FeatureColumn]], schema: pa.Schema) -> None:
        self._features = features
        self._schema = schema

    def process(self, element: TableRows) -> Iterator[pa.RecordBatch]:
        features = self._features.get(element.label, {})
        if not features or not len(element.rows):
            return
        values = {f"{element.label}.{const.SIZE_NAME}": pa.array([len(element.rows)], pa.int64())}
        for name, column in features.items():
            array = element.columns.column(name).combine_chunks()
            if column.is_ragged:
                values[column.row_length_keys[0]] = pc.list_value_length(array)
            values[column.key] = array.flatten() if column.shape else array
        yield pa.RecordBatch.from_arrays(
            [_as_row(values.get(field.name), field.type) for field in self._schema], schema=self._schema
        )


def _as_row(values: pa.Array | None, row_type: pa.DataType) -> pa.Array:
    """Returns all values as the list of a single row, in the type that tf.Examples are decoded to."""
    if values is None:
        return pa.nulls(1, row_type)
    # As in tf.Examples, an unsigned integer that is too large for int64 keeps its bits.
    wire = values.cast(row_type.value_type, safe=False)
    lists = pa.LargeListArray if pa.types.is_large_list(row_type) else pa.ListArray
    return lists.from_arrays(pa.array([0, len(wire)], pa.int64() if lists is pa.LargeListArray else pa.int32()), wire)


def _check_made_while_sampling(one_set: SetLayout, tables_dir: str, tables: Collection[str]) -> None:
    if not one_set.name.startswith(READOUT_NODE_SET):
        raise ValueError(
            f"`tables_dir` must have a table of every set that statistics are taken of; got {sorted(tables)} in "
            f"{tables_dir!r}, without {one_set.label}. Give the tables that the examples were sampled from."
        )


def _checked_name(one_set: SetLayout, column: FeatureColumn, table: TableLayout) -> str:
    """Returns the key of a feature's column, after checking that it exists with the same type and shape."""
    found = table.columns.get(column.name)
    if found is None or (one_set.set_type == const.EDGES and column.name == ID_NAME):
        raise ValueError(
            f"`tables_dir` must have every feature that statistics are taken of; got {column.name!r} of "
            f"{one_set.label}, which its table {table.declared_as!r} lacks, as it was made while sampling. Add it "
            'to the table, or choose analyze="unique_items".'
        )
    shape = tuple(None if size < 0 else size for size in found.shape)
    if (_wire_type(found), shape) != (column.dtype, column.shape):
        raise ValueError(
            f"`tables_dir` must have the features of the examples; got {_wire_type(found).name} of shape {shape} for "
            f"{column.name!r} of {one_set.label} in {table.declared_as!r}, where examples have {column.dtype.name} of "
            f"shape {column.shape}. Give the tables that the examples were sampled from."
        )
    return column.name


def _wire_type(column: TableColumn) -> tf.DType:
    if pa.types.is_floating(column.dtype):
        return tf.float32
    return tf.string if pa.types.is_large_string(column.dtype) else tf.int64


def _narrowed(table: TableLayout, features: Collection[str], rules: RowRules) -> TableLayout:
    """Returns a table with only the needed columns; with all columns if any of them could cause a row to be dropped."""
    if rules.invalid_rows == "drop":
        return table
    needed = {*features, *ROW_KEYS}
    columns = {key: column for key, column in table.columns.items() if key in needed}
    packed = {column.packed_in for column in columns.values()}
    return dataclasses.replace(
        table,
        columns=columns,
        decoders={name: decoder for name, decoder in table.decoders.items() if name in packed},
    )
