"""A graph index that is open: tables whose columns and edges by node are files mapped into memory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.io.file_names import GRAPH_SCHEMA_FILE
from tfx_gnn.io.process_lock import has_locks
from tfx_gnn.io.whole_files import on_local_disk
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.column_files import MappedFiles
from tfx_gnn.sampling.index.files import IndexManifest, TableEntry
from tfx_gnn.sampling.index.node_lookup import NodeLookup, open_lookup
from tfx_gnn.sampling.plan.drawing_weights import check_hop_weights
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.random_choice import edge_hash
from tfx_gnn.tables.edges import Edges
from tfx_gnn.tables.graph_tables import ContextTable, GraphTables, NodeTable
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE

_Integers = npt.NDArray[np.int64]


class IndexedGraph(GraphTables):
    """A graph whose nodes are found by id, and whose edges by node, without reading whole tables.

    Columns, codes and offsets may be other objects than arrays, which only give the values that are asked for.
    """

    def node_codes(self, node_set: str) -> npt.NDArray[np.uint64]:
        """Returns `hash_ids` of the ids of a node set, shape [num_nodes]."""
        raise NotImplementedError

    def find_nodes(self, node_set: str, ids: pa.Array) -> _Integers:
        """Finds nodes by their ids.

        Args:
            node_set: name of the node set.
            ids: Arrow array of the type of the set's ids, large_string or int64, without nulls.

        Returns:
            int64 array, shape [num_ids]: row of each node in the node table; -1 for an id that is not there.
        """
        raise NotImplementedError

    def edges_by_node(
        self, hop: Hop, *, time_feature: str = "", ranks: npt.NDArray[np.int8] | None = None
    ) -> EdgesByRow:
        """Returns the edges that a hop follows, by the node where it starts: `EdgesByNode`.

        Args:
            hop: edge set, direction, and weights of the choice.
            time_feature: feature with the times of edges, if the plan filters by them.
            ranks: int8 array, shape [num_edges]: rank of each edge of the table, if some are hidden by rank.

        Raises:
            ValueError: if repeated edges were dropped by another time than this one.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphIndex(IndexedGraph):
    """A whole graph on disk, to be used in place of tables in memory; see `open_graph_index`.

    Its tables are those that `read_tables` gives, with the same rows in the same order, so whatever is sampled is the
    same, too. Opening costs milliseconds and no memory: files are mapped when they are first read, and their pages
    are shared with other processes that read the same index.

    Attributes:
        index_dir: folder of the index.
        fingerprint: hash of the graph, 64 hexadecimal digits.
        manifest: what the index consists of.
        mapped: the files.
    """

    index_dir: str
    fingerprint: str
    manifest: IndexManifest
    mapped: MappedFiles

    def node_codes(self, node_set: str) -> npt.NDArray[np.uint64]:
        """Returns `hash_ids` of the ids of a node set, shape [num_nodes]."""
        codes: npt.NDArray[np.uint64] = self.mapped.values(files.nodes_file(node_set, "codes"))
        return codes

    def find_nodes(self, node_set: str, ids: pa.Array) -> _Integers:
        """Finds nodes by their ids; see `IndexedGraph`."""
        return self.node_lookup(node_set).find(ids)

    def node_lookup(self, node_set: str) -> NodeLookup:
        """Returns what finds the rows of a node set by ids."""
        return self._lookups[node_set]

    def edges_by_node(
        self, hop: Hop, *, time_feature: str = "", ranks: npt.NDArray[np.int8] | None = None
    ) -> IndexedEdges:
        """Returns the edges that a hop follows, by the node where it starts; see `IndexedGraph`."""
        entry = self.manifest.edge_sets[hop.edge_set]
        if time_feature and entry.duplicate_edges != "keep" and entry.edge_time != time_feature:
            raise ValueError(
                f"`edge_times` must tell the edges of {hop.edge_set!r} apart by {time_feature!r}, the plan's time; got "
                f"{entry.edge_time!r} in the graph index {self.index_dir}, from which repeated edges were "
                f"dropped. Build it with `--edge-time {hop.edge_set}={time_feature}`."
            )
        return IndexedEdges(self, hop, time_feature=time_feature, ranks=ranks)

    @functools.cached_property
    def _lookups(self) -> Mapping[str, NodeLookup]:
        return {name: open_lookup(self.mapped, name, table.ids) for name, table in self.node_tables.items()}


class EdgesByRow:
    """Edges of one edge set by the node at one end: `EdgesByNode`.

    Times, ranks and weights are read by the row of an edge, so what is on disk does not depend on a plan.
    """

    def __init__(
        self,
        table: Edges,
        hop: Hop,
        *,
        offsets: _Integers,
        other_offsets: _Integers | None,
        time_feature: str,
        ranks: npt.NDArray[np.int8] | None,
    ) -> None:
        """Takes the offsets of both directions, those of the other one only for weights by degree."""
        self._table = table
        self._offsets = offsets
        self._other_offsets = other_offsets
        self._time_feature = time_feature
        self._ranks = ranks
        self._hop = hop

    @property
    def offsets(self) -> _Integers:
        """Where the edges of each node begin; see `EdgesByNode`."""
        return self._offsets

    def rows_at(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges; see `EdgesByNode`."""
        raise NotImplementedError

    def neighbors_at(self, positions: _Integers) -> _Integers:
        """Returns the nodes at the other end; see `EdgesByNode`."""
        raise NotImplementedError

    def hashes_at(self, positions: _Integers) -> npt.NDArray[np.uint64]:
        """Returns the hashes of edges; see `EdgesByNode`."""
        return edge_hash(self.rows_at(positions))

    def times_at(self, positions: _Integers) -> _Integers:
        """Returns the times of edges; see `EdgesByNode`."""
        return self._feature_at(self._time_feature, positions).astype(np.int64)

    def ranks_at(self, positions: _Integers) -> npt.NDArray[np.int8]:
        """Returns the ranks of edges; see `EdgesByNode`."""
        assert self._ranks is not None
        return self._ranks[self._in_table(positions)]

    def weights_at(self, positions: _Integers) -> npt.NDArray[np.float64]:
        """Returns the weights of edges; see `EdgesByNode`."""
        if self._hop.weighs_by_degree:
            # The in-degree of a node is the number of edges that the opposite direction follows from it.
            assert self._other_offsets is not None
            ends = self.neighbors_at(positions)
            return (self._other_offsets[ends + 1] - self._other_offsets[ends]).astype(np.float64)
        weights = self._feature_at(self._hop.weight_feature, positions).astype(np.float64)
        # When they are read: a graph may be too large to check all weights before the first choice.
        check_hop_weights(self._hop, weights, lambda number: self._place_of(positions[number : number + 1]))
        return weights

    def _place_of(self, position: _Integers) -> str:
        """Describes where an edge comes from, for errors; takes an array of its position."""
        return f"row {self.rows_at(position)[0]} of {self._table.path}"

    def _feature_at(self, feature: str, positions: _Integers) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = (
            self._table.features[feature].take(pa.array(self._in_table(positions))).to_numpy(zero_copy_only=False)
        )
        return values

    def _in_table(self, positions: _Integers) -> _Integers:
        """Returns the positions of edges in the columns of their table."""
        return self._table.positions_of(self.rows_at(positions))


class IndexedEdges(EdgesByRow):
    """Edges of one edge set by the node at one end, read from a graph index."""

    def __init__(self, index: GraphIndex, hop: Hop, *, time_feature: str, ranks: npt.NDArray[np.int8] | None) -> None:
        name = hop.edge_set
        (other,) = set(files.DIRECTIONS) - {hop.direction}
        offsets, self._neighbors, self._rows = (
            index.mapped.values(files.edges_file(name, hop.direction, part))
            for part in ("offsets", "neighbors", "rows")
        )
        super().__init__(
            index.edge_tables[name],
            hop,
            offsets=offsets,
            other_offsets=index.mapped.values(files.edges_file(name, other, "offsets")),
            time_feature=time_feature,
            ranks=ranks,
        )

    def rows_at(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges; see `EdgesByNode`."""
        return self._rows[positions].astype(np.int64)

    def neighbors_at(self, positions: _Integers) -> _Integers:
        """Returns the nodes at the other end; see `EdgesByNode`."""
        return self._neighbors[positions].astype(np.int64)


class RowColumn:
    """The rows of edges as a column that is not in memory: what encoding uses of an array of them."""

    def __init__(self, rows_of: Callable[[_Integers], _Integers]) -> None:
        """Takes what gives the rows of edges by their positions in the table."""
        self._rows_of = rows_of

    def __getitem__(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges at positions, in that order."""
        return self._rows_of(positions)


class _Columns(Mapping[str, pa.Array]):
    """Columns that are mapped when they are first asked for."""

    def __init__(self, mapped: MappedFiles, places: Mapping[str, tuple[str, pa.DataType]], num_rows: int) -> None:
        self._mapped = mapped
        self._places = places
        self._num_rows = num_rows
        self._known: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._known:
            self._known[name] = self._mapped.column(*self._places[name], self._num_rows)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _IndexedNodes(NodeTable):
    """A node table in an index."""

    def __init__(self, mapped: MappedFiles, name: str, entry: TableEntry) -> None:
        columns = {key: (files.nodes_file(name, "column", key), dtype) for key, dtype in entry.columns.items()}
        _, id_type = columns.pop(ID_FEATURE)
        features, extra_columns = _parted(mapped, columns, entry.num_rows)
        ids = mapped.column(files.nodes_file(name, ID_FEATURE), id_type, entry.num_rows)
        super().__init__(path=entry.path, ids=ids, features=features, extra_columns=extra_columns)


class IndexedEdgeTable:
    """Edges of one set in an index: `Edges`.

    Both ends take four bytes each in its files. They become int64 when they are first asked for, as link plans and
    splits do; sampling by the edges of nodes asks for features alone.
    """

    def __init__(self, mapped: MappedFiles, name: str, entry: TableEntry, ends: tuple[str, str]) -> None:
        columns = {key: (files.edges_file(name, "column", key), dtype) for key, dtype in entry.columns.items()}
        self.path = entry.path
        self.source_set, self.target_set = ends
        self.features, self.extra_columns = _parted(mapped, columns, entry.num_rows)
        self.num_edges = entry.num_rows
        self._has_gaps = entry.has_gaps
        self._mapped = mapped
        self._name = name
        self._known: dict[str, _Integers] = {}

    @property
    def sources(self) -> _Integers:
        """Rows of the source node table."""
        return self._integers("sources")

    @property
    def targets(self) -> _Integers:
        """Rows of the target node table."""
        return self._integers("targets")

    @property
    def rows(self) -> _Integers:
        """Rows of the edges in their table as written."""
        return self._integers("table_rows")

    def positions_of(self, rows: _Integers) -> _Integers:
        """Returns the positions of edges; see `EdgeTable`."""
        return np.searchsorted(self.rows, rows).astype(np.int64) if self._has_gaps else rows

    @property
    def row_column(self) -> RowColumn:
        """`rows` as a column."""
        return RowColumn(self.rows_of)

    def rows_of(self, positions: _Integers) -> _Integers:
        """Returns the rows of edges by their positions; the opposite of `positions_of`."""
        return self.rows[positions] if self._has_gaps else positions

    def _integers(self, part: str) -> _Integers:
        if part not in self._known:
            if part == "table_rows" and not self._has_gaps:
                self._known[part] = np.arange(self.num_edges)
            else:
                values = self._mapped.values(files.edges_file(self._name, part))
                self._known[part] = values.astype(np.int64, copy=False)
        return self._known[part]


def _parted(
    mapped: MappedFiles, columns: Mapping[str, tuple[str, pa.DataType]], num_rows: int
) -> tuple[_Columns, _Columns]:
    """Splits columns into features and the columns that were requested by name."""
    features = {key: place for key, place in columns.items() if not key.startswith(EXTRA_PREFIX)}
    extra = {key.removeprefix(EXTRA_PREFIX): place for key, place in columns.items() if key.startswith(EXTRA_PREFIX)}
    return _Columns(mapped, features, num_rows), _Columns(mapped, extra, num_rows)


def open_graph_index(index_dir: str, *, verify: bool = False) -> GraphIndex:
    """Opens a graph index.

    The files must stay as they are while the index is open: cutting one off can end the process that reads it. Build
    the next index into another folder.

    Args:
        index_dir: folder of the index, on a local disk.
        verify: whether to read all files and compare their checksums. Otherwise only their sizes are checked.

    Returns:
        The index.

    Raises:
        ValueError: if the folder is no graph index, a file is missing or has another size, or, with `verify`,
            other bytes.
    """
    manifest = files.read_manifest(index_dir)
    mapped = MappedFiles(index_dir, manifest.files)
    mapped.check_sizes()
    if verify:
        mapped.check_contents()
    schema = graph_schema.read_schema(os.path.join(index_dir, GRAPH_SCHEMA_FILE))
    context = None
    if manifest.context is not None:
        columns = {key: (files.context_file(key), dtype) for key, dtype in manifest.context.columns.items()}
        features, extra_columns = _parted(mapped, columns, manifest.context.num_rows)
        context = ContextTable(
            path=manifest.context.path,
            features=features,
            extra_columns=extra_columns,
            num_rows=manifest.context.num_rows,
        )
    return GraphIndex(
        schema=schema,
        node_tables={name: _IndexedNodes(mapped, name, entry) for name, entry in manifest.node_sets.items()},
        edge_tables={
            name: IndexedEdgeTable(mapped, name, entry, (schema.edge_sets[name].source, schema.edge_sets[name].target))
            for name, entry in manifest.edge_sets.items()
        },
        context_table=context,
        reports=manifest.reports,
        index_dir=index_dir,
        fingerprint=manifest.fingerprint,
        manifest=manifest,
        mapped=mapped,
    )


@contextlib.contextmanager
def graph_index_on_local_disk(index_dir: str) -> Iterator[GraphIndex]:
    """Opens a graph index; one on an object store, whose files cannot be mapped, is copied to a temporary folder first.

    Args:
        index_dir: folder or URI of the index.

    Yields:
        The index, whose copy is removed when the block ends.

    Raises:
        ValueError: if it is no graph index, a file is missing or has another size, or a copy has other bytes.
    """
    is_local = has_locks(index_dir)
    if not is_local and not tf.io.gfile.exists(os.path.join(index_dir, files.MANIFEST_FILE)):
        raise ValueError(
            f"`graph_index_dir` must be a graph index; got {index_dir!r}, which has no {files.MANIFEST_FILE}. Build it "
            "by `tfx-gnn index`, or correct the path."
        )
    with on_local_disk(index_dir) as folder:
        yield open_graph_index(folder, verify=not is_local)
