"""Which rows of tables are nodes and edges of the graph, where rules drop or pass over some.

What the rules refuse was refused when the examples were sampled from the tables, and is
not looked for again. What they drop or pass over is left out here too: rows meet by the hash
of their ids, in buckets that a worker holds one of at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.metrics import Metrics

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.sampling.random_choice import hash_ids, mix
from tfx_gnn.tables.row_rules import DANGLING_SOURCE, DANGLING_TARGET, DUPLICATE_EDGE, DUPLICATE_NODE, RowRules
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY

ROW_KEYS = (ID_FEATURE, SOURCE_KEY, TARGET_KEY)
"""Columns that tell what a row is."""

_NUM_BUCKETS = 64
_Hashes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableRows:
    """Some rows of a table.

    Attributes:
        label: label of the table, "nodes/<set>" or "edges/<set>".
        unit: position of their unit in the table.
        rows: int64 [num_rows], positions in the unit, ascending.
        columns: their values by key of the layout, ids among them.
    """

    label: str
    unit: int
    rows: npt.NDArray[np.int64]
    columns: pa.Table

    def take(self, positions: npt.NDArray[np.int64]) -> TableRows:
        """Chooses rows.

        Args:
            positions: int64 [n], which ones, ascending.

        Returns:
            Those rows.
        """
        # What is sliced would travel as a whole.
        return dataclasses.replace(self, rows=self.rows[positions], columns=self.columns.take(pa.array(positions)))


def count_dropped(label: str, rule: str, count: int = 1) -> None:
    """Counts rows that statistics leave out, as a counter of the Beam pipeline.

    Args:
        label: label of their table.
        rule: the rule that they break.
        count: how many.
    """
    Metrics.counter("tfx_gnn.GraphTransform", f"{label}:{rule}").inc(count)


class KeptRows(beam.PTransform):
    """`TableRows` to those that the rules keep."""

    def __init__(self, rules: RowRules, ends: Mapping[str, tuple[str, str]]) -> None:
        """Takes the rules.

        Args:
            rules: what to do with rows that break a rule.
            ends: by label of an edge table, labels of the node tables at its ends.
        """
        super().__init__()
        self._rules = rules
        self._ends = ends

    def expand(self, input_or_inputs: Any) -> Any:
        """Builds the steps; none if no rule needs them.

        Args:
            input_or_inputs: PCollection of `TableRows`.

        Returns:
            The same, without rows that are not kept.
        """
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
    """Of the rows of a table with the same ids, the first in the order of the files."""

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
        for bucket, positions in _buckets(_hash_rows(rows, self._keys)):
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
    """Edges and nodes to the edges of which one end is among the nodes."""

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
        for bucket, positions in _buckets(_hash_rows(edges, (self._key,))):
            yield (self._node_sets[edges.label], bucket), edges.take(positions)

    def _known(self, element: tuple[tuple[str, int], Iterable[TableRows | _Hashes]]) -> Iterator[TableRows]:
        parts = list(element[1])
        nodes = np.concatenate([np.zeros(0, np.uint64), *(part for part in parts if isinstance(part, np.ndarray))])
        for part in parts:
            if isinstance(part, TableRows):
                is_there = np.isin(_hash_rows(part, (self._key,)), nodes)
                count_dropped(part.label, self._rule, int((~is_there).sum()))
                yield part.take(np.flatnonzero(is_there))


def _is_of_nodes(rows: TableRows) -> bool:
    return rows.label.startswith(f"{const.NODES}/")


def _ids_by_bucket(nodes: TableRows) -> Iterator[tuple[tuple[str, int], _Hashes]]:
    hashes = _hash_rows(nodes, (ID_FEATURE,))
    for bucket, positions in _buckets(hashes):
        yield (nodes.label, bucket), hashes[positions]


def _hash_rows(rows: TableRows, keys: Sequence[str]) -> _Hashes:
    hashes = np.zeros(len(rows.rows), np.uint64)
    for key in keys:
        hashes = mix(hashes) ^ hash_ids(rows.columns.column(key).combine_chunks())
    return hashes


def _buckets(hashes: _Hashes) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yields buckets, and the positions of what is in them."""
    buckets = (mix(hashes) % np.uint64(_NUM_BUCKETS)).astype(np.int64)
    for bucket in np.unique(buckets).tolist():
        yield bucket, np.flatnonzero(buckets == bucket)
