"""A graph index with nodes and edges added to it, as one graph that never changes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.graph_index import EdgesByRow, GraphIndex, IndexedGraph, RowColumn
from tfx_gnn.sampling.overlay.added_rows import (
    AddedEdges,
    AddedNodes,
    Batch,
    Rows,
    check_rows,
    extra_columns_of,
    features_of,
    first_added_row,
    join_batches,
    no_edges,
    no_nodes,
)
from tfx_gnn.sampling.overlay.merged_rows import Insertions, MergedColumn, MergedColumns, Pieces
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_tables import NodeTable

_Integers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSnapshot(IndexedGraph):
    """A graph index with nodes and edges added to it; see `GraphOverlay.snapshot`.

    It is the graph that the tables would be with the same rows at their ends: nodes in the order of their ids, edges
    with the rows after those of their table. So the subgraphs sampled from it are those of the next index. It reads as
    much of the index as the subgraphs need, and holds what was added in memory.

    `reports` are those of the index.

    Attributes:
        index: the index.
        added_nodes: by node set, the nodes that were added.
        added_edges: by edge set, the edges that were added.
        num_batches: how many batches of rows were added to the overlay.
    """

    index: GraphIndex
    added_nodes: Mapping[str, AddedNodes]
    added_edges: Mapping[str, AddedEdges]
    num_batches: int

    def node_codes(self, node_set: str) -> npt.NDArray[np.uint64]:
        """Returns `hash_ids` of the ids of a node set, shape [num_nodes]; see `IndexedGraph`."""
        codes = self.index.node_codes(node_set)
        added: Any = self.added_nodes[node_set]
        return _MergedCodes(codes, added) if len(added) else codes  # type: ignore[return-value]

    def find_nodes(self, node_set: str, ids: pa.Array) -> _Integers:
        """Finds nodes by their ids; see `IndexedGraph`."""
        added = self.added_nodes[node_set]
        rows = self.index.find_nodes(node_set, ids)
        if not len(added):
            return rows
        missing = np.flatnonzero(rows < 0)
        found = added.lookup.find(ids.take(pa.array(missing)))
        rows = added.insertions.move(rows)
        rows[missing] = np.where(found < 0, -1, added.insertions.positions[found])
        return rows

    def edges_by_node(
        self, hop: Hop, *, time_feature: str = "", ranks: npt.NDArray[np.int8] | None = None
    ) -> EdgesByRow:
        """Returns the edges that a hop follows, by the node where it starts; see `IndexedGraph`."""
        if not self._is_changed(hop.edge_set):
            return self.index.edges_by_node(hop, time_feature=time_feature, ranks=ranks)
        return _SnapshotEdges(self, hop, time_feature=time_feature, ranks=ranks)

    def with_rows(self, nodes: Rows | None = None, edges: Rows | None = None) -> GraphSnapshot:
        """Returns this graph with more rows, which are kept nowhere else; this graph stays as it is.

        A request about a node that is not in the graph is answered so, from its features and the ids of its neighbors.

        Args:
            nodes: columns of new nodes by node set: "#id" and all features.
            edges: columns of new edges by edge set: "#source", "#target" and all features.

        Returns:
            The graph.

        Raises:
            ValueError: see `GraphOverlay.add`.
        """
        batch = check_rows(
            self.index,
            nodes or {},
            edges or {},
            num_added={name: len(added) for name, added in self.added_nodes.items()},
            find_added=lambda node_set, ids: self.added_nodes[node_set].find(ids),
        )
        # The overlay has no such batch.
        return self.extended([dataclasses.replace(batch, num_batches=0)])

    def extended(self, batches: Sequence[Batch]) -> GraphSnapshot:
        """Returns this graph with checked rows after its own."""
        nodes, edges = dict(self.added_nodes), dict(self.added_edges)
        batch = join_batches(batches)
        for name, columns in batch.nodes.items():
            nodes[name] = nodes[name].extended(self.index, name, columns)
        for name, columns in batch.edges.items():
            edges[name] = edges[name].extended(
                self.index, name, columns, batch.handles[name], _ends(self.schema, name, nodes)
            )
        return _snapshot(self.index, nodes, edges, self.num_batches + batch.num_batches)

    def ends_of(self, edge_set: str) -> dict[str, AddedNodes]:
        """Returns the added nodes of the sets where edges start, by direction."""
        return _ends(self.schema, edge_set, self.added_nodes)

    def _is_changed(self, edge_set: str) -> bool:
        """Whether an edge set differs from that of the index, if only by the rows of its nodes."""
        return bool(len(self.added_edges[edge_set]) or any(map(len, self.ends_of(edge_set).values())))

    def merged_edges(self, edge_set: str, direction: str) -> _MergedEdges:
        """Returns the added edges of a set among those of the index, by the node where they start; made once."""
        key = edge_set, direction
        if key not in self._merged:
            self._merged[key] = _MergedEdges(self, edge_set, direction)
        return self._merged[key]

    @functools.cached_property
    def _merged(self) -> dict[tuple[str, str], _MergedEdges]:
        return {}


def _ends(schema: GraphSchema, edge_set: str, nodes: Mapping[str, AddedNodes]) -> dict[str, AddedNodes]:
    ends = schema.edge_sets[edge_set]
    return {"forward": nodes[ends.source], "backward": nodes[ends.target]}


def snapshot_of_index(index: GraphIndex) -> GraphSnapshot:
    """Returns the graph of an index to which nothing was added yet."""
    nodes = {name: no_nodes(index, name) for name in index.node_tables}
    edges = {name: no_edges(index, name) for name in index.edge_tables}
    return _snapshot(index, nodes, edges, 0)


def _snapshot(
    index: GraphIndex, nodes: Mapping[str, AddedNodes], edges: Mapping[str, AddedEdges], num_batches: int
) -> GraphSnapshot:
    node_tables, edge_tables = dict(index.node_tables), dict(index.edge_tables)
    for name, added in nodes.items():
        if len(added):
            node_tables[name] = _merged_nodes(index.node_tables[name], added)
    for name, of_set in edges.items():
        ends = _ends(index.schema, name, nodes)
        if len(of_set) or any(map(len, ends.values())):
            edge_tables[name] = _SnapshotEdgeTable(index, name, of_set, ends)
    return GraphSnapshot(
        schema=index.schema,
        node_tables=node_tables,
        edge_tables=edge_tables,
        context_table=index.context_table,
        reports=index.reports,
        problems=index.problems,
        index=index,
        added_nodes=nodes,
        added_edges=edges,
        num_batches=num_batches,
    )


def _merged_nodes(table: NodeTable, added: AddedNodes) -> NodeTable:
    ids = MergedColumn(table.ids, Pieces([added.ids]), added.insertions, added.order)
    features, extra_columns = (
        MergedColumns(columns, pieces, added.insertions, added.order)
        for columns, pieces in (
            (table.features, features_of(added.columns)),
            (table.extra_columns, extra_columns_of(added.columns)),
        )
    )
    return NodeTable(path=table.path, ids=ids, features=features, extra_columns=extra_columns)


class _MergedCodes:
    """`hash_ids` of all nodes of a set: what sampling uses of an array of them."""

    def __init__(self, codes: npt.NDArray[np.uint64], added: AddedNodes) -> None:
        self._codes = codes
        self._added = added.codes[added.order]
        self._insertions = added.insertions

    def __len__(self) -> int:
        return len(self._codes) + len(self._added)

    def __getitem__(self, rows: _Integers) -> npt.NDArray[np.uint64]:
        return _select(self._insertions, rows, self._codes, self._added)


class _MergedOffsets:
    """Where the edges of each node begin: what sampling uses of an array of offsets."""

    def __init__(self, offsets: _Integers, nodes: AddedNodes, starts: _Integers) -> None:
        """Takes the offsets of the index, the added nodes, and the node where each added edge starts, ascending."""
        self._offsets = offsets
        self._nodes = nodes.insertions
        self._starts = starts

    def __len__(self) -> int:
        return len(self._offsets) + len(self._nodes)

    def __getitem__(self, rows: _Integers) -> _Integers:
        before: _Integers = np.searchsorted(self._starts, rows)
        return self._offsets[rows - self._nodes.count_before(rows)] + before


def _select(
    insertions: Insertions, positions: _Integers, values: npt.NDArray[Any], added: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Returns values of a sequence with items inserted."""
    is_added, numbers = insertions.split(positions)
    if not is_added.any():
        return values[numbers]
    found = np.empty(len(positions), added.dtype)
    found[~is_added] = values[numbers[~is_added]]
    found[is_added] = added[numbers[is_added]]
    return found


class _MergedEdges:
    """Added edges among those of the index, by the node where they start and their hash.

    Attributes:
        offsets: where the edges of each node begin.
        insertions: where the added edges stand.
        rows: int64 array: row of each added edge in its table, in that order.
        neighbors: int64 array: handle of the node at the other end of each.
    """

    def __init__(self, snapshot: GraphSnapshot, edge_set: str, direction: str) -> None:
        index, added = snapshot.index, snapshot.added_edges[edge_set]
        offsets = index.mapped.values(files.edges_file(edge_set, direction, "offsets"))
        nodes, numbers = snapshot.ends_of(edge_set)[direction], added.numbers[direction]
        starts = nodes.rows_of(added.handles[direction][numbers], len(offsets) - 1)
        self.offsets: Any = _MergedOffsets(offsets, nodes, starts)
        self.insertions = Insertions(added.places[direction])
        self.rows = first_added_row(index, edge_set) + numbers
        self.neighbors = added.handles[_opposite(direction)][numbers]


def _opposite(direction: str) -> str:
    (other,) = set(files.DIRECTIONS) - {direction}
    return other


class _SnapshotEdges(EdgesByRow):
    """Edges of one edge set by the node at one end, with the added ones."""

    def __init__(
        self, snapshot: GraphSnapshot, hop: Hop, *, time_feature: str, ranks: npt.NDArray[np.int8] | None
    ) -> None:
        name, other = hop.edge_set, _opposite(hop.direction)
        self._merged = snapshot.merged_edges(name, hop.direction)
        self._of_index = snapshot.index.edges_by_node(hop, time_feature=time_feature)
        self._ends = snapshot.ends_of(name)[other]
        self._num_ends = len(snapshot.index.mapped.values(files.edges_file(name, other, "offsets"))) - 1
        super().__init__(
            snapshot.edge_tables[name],
            hop,
            offsets=self._merged.offsets,
            other_offsets=snapshot.merged_edges(name, other).offsets if hop.weighs_by_degree else None,
            time_feature=time_feature,
            ranks=ranks,
        )

    def rows_at(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges; see `EdgesByNode`."""
        is_added, numbers = self._merged.insertions.split(positions)
        rows = np.empty(len(positions), np.int64)
        rows[~is_added] = self._of_index.rows_at(numbers[~is_added])
        rows[is_added] = self._merged.rows[numbers[is_added]]
        return rows

    def _place_of(self, position: _Integers) -> str:
        """Describes where an edge comes from, for errors; see `EdgesByRow`."""
        is_added, numbers = self._merged.insertions.split(position)
        if not is_added[0]:
            return super()._place_of(position)
        return f"added edge {numbers[0]} of {self._hop.edge_set!r}"

    def neighbors_at(self, positions: _Integers) -> _Integers:
        """Returns the nodes at the other end; see `EdgesByNode`."""
        is_added, numbers = self._merged.insertions.split(positions)
        neighbors = np.empty(len(positions), np.int64)
        neighbors[~is_added] = self._ends.insertions.move(self._of_index.neighbors_at(numbers[~is_added]))
        neighbors[is_added] = self._ends.rows_of(self._merged.neighbors[numbers[is_added]], self._num_ends)
        return neighbors


class _SnapshotEdgeTable:
    """Edges of one set with the added ones after them: `Edges`."""

    def __init__(self, index: GraphIndex, name: str, added: AddedEdges, ends: Mapping[str, AddedNodes]) -> None:
        self._table: Edges = index.edge_tables[name]
        self._added = added
        self._ends = ends
        self._num_nodes = {
            "forward": index.node_tables[self._table.source_set].num_nodes,
            "backward": index.node_tables[self._table.target_set].num_nodes,
        }
        self._first_row = first_added_row(index, name)
        self.path = self._table.path
        self.source_set, self.target_set = self._table.source_set, self._table.target_set
        self.num_edges = self._table.num_edges + len(added)
        insertions, order = Insertions(np.full(len(added), self._table.num_edges)), np.arange(len(added))
        self.features = MergedColumns(self._table.features, features_of(added.columns), insertions, order)
        self.extra_columns = MergedColumns(
            self._table.extra_columns, extra_columns_of(added.columns), insertions, order
        )

    @property
    def sources(self) -> _Integers:
        """Rows of the source node table; an array that is made for the purpose."""
        return self._whole("forward", self._table.sources)

    @property
    def targets(self) -> _Integers:
        """Rows of the target node table; an array that is made for the purpose."""
        return self._whole("backward", self._table.targets)

    @property
    def rows(self) -> _Integers:
        """Rows of the edges in their table as written; an array that is made for the purpose."""
        return np.concatenate([self._table.rows, self._first_row + np.arange(len(self._added))])

    @property
    def row_column(self) -> RowColumn:
        """`rows` as a column."""
        return RowColumn(self._rows_of)

    def positions_of(self, rows: _Integers) -> _Integers:
        """Returns the positions of edges; see `EdgeTable`."""
        is_added = rows >= self._first_row
        positions = rows - self._first_row + self._table.num_edges
        positions[~is_added] = self._table.positions_of(rows[~is_added])
        return positions

    def _rows_of(self, positions: _Integers) -> _Integers:
        number = positions - self._table.num_edges
        rows = self._first_row + number
        rows[number < 0] = self._table.row_column[positions[number < 0]]
        return rows

    def _whole(self, direction: str, rows: _Integers) -> _Integers:
        nodes = self._ends[direction]
        added = nodes.rows_of(self._added.handles[direction], self._num_nodes[direction])
        return np.concatenate([nodes.insertions.move(rows), added])
