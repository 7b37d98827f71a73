"""Nodes and edges to add to a graph index: checked against its schema, and kept in the order in which they came.

A node has a handle that stays the same while others are added: its row in the index; or, for an added one, the number
of nodes in the index plus its number among the added ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, NodeSet
from tfx_gnn.graph.schema.feature_defaults import feature_defaults, fill_nulls
from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.index.node_lookup import NodeLookup, make_lookup
from tfx_gnn.sampling.overlay.merged_rows import Insertions, Pieces
from tfx_gnn.sampling.random_choice import edge_hash, hash_ids
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY

Rows = Mapping[str, Mapping[str, "Sequence[Any] | pa.Array"]]
"""Columns of new rows by set: "#id" of nodes, "#source" and "#target" of edges, and all features."""

_Integers = npt.NDArray[np.int64]
_NUM_SHOWN = 3


class NodeExistsError(ValueError):
    """A node that was to be added is in the graph already."""


class UnknownNodeError(ValueError):
    """The end of an edge that was to be added is no node."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """New rows with the types of the index.

    Attributes:
        nodes: by node set, its columns: "#id" and features.
        edges: by edge set, its columns: "#source", "#target" and features.
        handles: by edge set, handles of the nodes where the edges start, by direction: of the sources, of the targets.
        num_batches: how many batches these were when they were added.
    """

    nodes: Mapping[str, Mapping[str, pa.Array]]
    edges: Mapping[str, Mapping[str, pa.Array]]
    handles: Mapping[str, Mapping[str, _Integers]]
    num_batches: int = 1


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Joins batches into one, so that the cost of many small ones is that of one; each set keeps its order."""
    nodes, edges, handles = {}, {}, {}
    for name in dict.fromkeys(name for batch in batches for name in batch.nodes):
        nodes[name] = _joined([batch.nodes[name] for batch in batches if name in batch.nodes])
    for name in dict.fromkeys(name for batch in batches for name in batch.edges):
        concerned = [batch for batch in batches if name in batch.edges]
        edges[name] = _joined([batch.edges[name] for batch in concerned])
        handles[name] = {
            direction: np.concatenate([batch.handles[name][direction] for batch in concerned])
            for direction in files.DIRECTIONS
        }
    return Batch(nodes=nodes, edges=edges, handles=handles, num_batches=sum(batch.num_batches for batch in batches))


def _joined(parts: Sequence[Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
    return {key: pa.concat_arrays([part[key] for part in parts]) for key in parts[0]}


FindAdded = Callable[[str, pa.Array], _Integers]
"""Returns the numbers of nodes that were added, by node set and ids; -1 for others."""


def check_rows(
    index: GraphIndex, nodes: Rows, edges: Rows, *, num_added: Mapping[str, int], find_added: FindAdded
) -> Batch:
    """Gives new rows the types of an index, and finds the ends of the edges, which may be new nodes themselves.

    Args:
        index: the index.
        nodes: columns of new nodes by node set.
        edges: columns of new edges by edge set.
        num_added: nodes that were added before, by node set.
        find_added: finds nodes that were added before.

    Returns:
        The rows.

    Raises:
        NodeExistsError: if a node is there already.
        UnknownNodeError: if the end of an edge is no node.
        ValueError: if a row breaks another rule that the rows of tables must keep; or an edge set was built without
            repeated edges, so that each new edge would have to be compared with all.
    """
    typed_nodes = {name: _typed_nodes(index, name, given, find_added) for name, given in nodes.items()}
    new = {
        name: {node_id: num_added[name] + number for number, node_id in enumerate(columns[ID_FEATURE].to_pylist())}
        for name, columns in typed_nodes.items()
    }
    typed_edges, handles = {}, {}
    for name, given in edges.items():
        typed_edges[name] = columns = _typed_edges(index, name, given)
        edge_set = index.schema.edge_sets[name]
        handles[name] = {
            direction: _handles(
                index, f"`edges/{name}` must have {key}", end, columns[key], find_added, new=new.get(end, {})
            )
            for direction, key, end in (
                ("forward", SOURCE_KEY, edge_set.source),
                ("backward", TARGET_KEY, edge_set.target),
            )
        }
    return Batch(nodes=typed_nodes, edges=typed_edges, handles=handles)


def _typed_nodes(
    index: GraphIndex, name: str, given: Mapping[str, Sequence[Any] | pa.Array], find_added: FindAdded
) -> dict[str, pa.Array]:
    if name not in index.manifest.node_sets:
        raise _unknown_set(f"nodes/{name}", [f"nodes/{known}" for known in index.manifest.node_sets])
    columns = _typed(f"nodes/{name}", given, index.manifest.node_sets[name].columns, index.schema.node_sets[name])
    ids = columns[ID_FEATURE]
    is_there = (index.find_nodes(name, ids) >= 0) | (find_added(name, ids) >= 0)
    seen = set()
    for node_id, is_old in zip(ids.to_pylist(), is_there.tolist(), strict=True):
        if is_old or node_id in seen:
            kind = NodeExistsError if is_old else ValueError
            raise kind(
                f"`nodes/{name}` must be new nodes; got {node_id!r}, which is "
                f"{'there already' if is_old else 'given twice'}. Leave it out."
            )
        seen.add(node_id)
    taken = np.flatnonzero(index.node_lookup(name).has_codes(hash_ids(ids)))
    if len(taken):
        raise ValueError(
            f"`nodes/{name}` must be new nodes; got {ids[int(taken[0])].as_py()!r}, whose 64-bit hash another node "
            "has. Rename it."
        )
    return columns


def _typed_edges(index: GraphIndex, name: str, given: Mapping[str, Sequence[Any] | pa.Array]) -> dict[str, pa.Array]:
    if name not in index.manifest.edge_sets:
        raise _unknown_set(f"edges/{name}", [f"edges/{known}" for known in index.manifest.edge_sets])
    entry, edge_set = index.manifest.edge_sets[name], index.schema.edge_sets[name]
    if entry.duplicate_edges != "keep":
        raise ValueError(
            f"`edges/{name}` must be an edge set of an index that keeps repeated edges; got one built with "
            f"duplicate_edges={entry.duplicate_edges!r}. Build the index again with 'keep', or add the edges to the "
            "tables."
        )
    ends = {SOURCE_KEY: edge_set.source, TARGET_KEY: edge_set.target}
    id_types = {key: index.node_tables[end].ids.type for key, end in ends.items()}
    return _typed(f"edges/{name}", given, id_types | dict(entry.columns), edge_set)


def _handles(
    index: GraphIndex, rule: str, node_set: str, ids: pa.Array, find_added: FindAdded, *, new: Mapping[Any, int]
) -> _Integers:
    """Returns the handles of nodes: of the index, added before, or new."""
    found = index.find_nodes(node_set, ids)
    missing = np.flatnonzero(found < 0)
    if not len(missing):
        return found
    unknown = ids.take(pa.array(missing))
    numbers = find_added(node_set, unknown)
    for position in np.flatnonzero(numbers < 0).tolist():
        node_id = unknown[position].as_py()
        if node_id not in new:
            raise UnknownNodeError(
                f"{rule} among the nodes of {node_set!r}; got {node_id!r}. Add the node before, or together with the "
                "edge."
            )
        numbers[position] = new[node_id]
    found[missing] = index.node_tables[node_set].num_nodes + numbers
    return found


def _unknown_set(place: str, known: list[str]) -> ValueError:
    return ValueError(f"`{place}` must be a set of the graph index; got one that is not among {known}. Correct it.")


def _typed(
    place: str,
    given: Mapping[str, Sequence[Any] | pa.Array],
    types: Mapping[str, pa.DataType],
    declared: NodeSet | EdgeSet,
) -> dict[str, pa.Array]:
    """Converts columns to their types without loss, and refuses values that tables must not have.

    Missing values become what the schema declares for them, as those of tables do.
    """
    defaults = feature_defaults(declared)
    if set(given) != set(types):
        raise ValueError(
            f"`{place}` must have the columns {sorted(types)}; got {sorted(given)}. Give each new row all values, and "
            "no others."
        )
    columns = {}
    for key, dtype in types.items():
        rule = f"`{place}` must have values of type {dtype} in {key!r}"
        values: Any = given[key]
        values = values.to_pylist() if isinstance(values, pa.Array) else values
        if key in defaults and isinstance(values, list):
            values = fill_nulls(values, declared.features[key], defaults[key])
        try:
            array = _array(values, dtype)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{rule}; got others. Correct them: {error}") from error
        flat = array.flatten() if _is_list(dtype) else array
        if array.null_count or flat.null_count:
            raise ValueError(f"{rule}; got a null. Give each new row all values.")
        if pa.types.is_floating(flat.type) and not np.isfinite(flat.to_numpy(zero_copy_only=False)).all():
            raise ValueError(f"{rule}, all finite; got NaN, or a number too large. Correct it.")
        if key in (ID_FEATURE, SOURCE_KEY, TARGET_KEY) and dtype == pa.large_string() and "" in array.to_pylist():
            raise ValueError(f"{rule}, none empty; got an empty id. Correct it.")
        columns[key] = array
    lengths = {key: len(array) for key, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"`{place}` must have columns of one length; got {lengths}. Give each row all values.")
    return columns


def _array(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    if isinstance(values, (str, bytes)):
        raise TypeError("they are one text, and no list of values")
    found = pa.array(values)
    if not _fits(found.type, dtype):
        raise TypeError(f"they are of type {found.type}")
    return pa.array(values, dtype)


def _fits(found: pa.DataType, dtype: pa.DataType) -> bool:
    """Returns whether values of a type become another without loss; Arrow itself cuts off fractions."""
    if pa.types.is_null(found):
        return True
    if _is_list(dtype):
        return _is_list(found) and _fits(found.value_type, dtype.value_type)
    if pa.types.is_floating(dtype):
        return bool(pa.types.is_floating(found) or pa.types.is_integer(found))
    if pa.types.is_integer(dtype):
        return bool(pa.types.is_integer(found))
    if pa.types.is_boolean(dtype):
        return bool(pa.types.is_boolean(found))
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddedNodes:
    """Nodes of one set that were added to an index, in the order in which they came.

    Attributes:
        place: label of the table.
        ids: Arrow array.
        codes: `hash_ids` of each.
        places: int64 array: row of the index before which each stands in the order of ids.
        columns: features and extra columns, by key.
    """

    place: str
    ids: pa.Array
    codes: npt.NDArray[np.uint64]
    places: _Integers
    columns: Mapping[str, Pieces]

    def __len__(self) -> int:
        return len(self.ids)

    @functools.cached_property
    def order(self) -> _Integers:
        """int64 array: the numbers of the nodes in the order of their ids."""
        return np.asarray(pc.sort_indices(self.ids).to_numpy(), np.int64)

    @functools.cached_property
    def insertions(self) -> Insertions:
        """Where the nodes stand among those of the index, in the order of their ids."""
        return Insertions(self.places[self.order])

    @functools.cached_property
    def rows(self) -> _Integers:
        """int64 array: row of each node in the whole table."""
        rows = np.empty(len(self), np.int64)
        rows[self.order] = self.insertions.positions
        return rows

    @functools.cached_property
    def ids_in_order(self) -> pa.Array:
        """The ids, ascending."""
        return self.ids.take(pa.array(self.order))

    @functools.cached_property
    def lookup(self) -> NodeLookup:
        """Finds the positions of nodes in `order` by their ids."""
        return make_lookup(self.ids_in_order, self.codes[self.order], self.place)

    def find(self, ids: pa.Array) -> _Integers:
        """Returns the numbers of nodes by their ids; -1 for others."""
        found = self.lookup.find(ids)
        return np.where(found < 0, -1, self.order[found]) if len(self) else found

    def rows_of(self, handles: _Integers, num_nodes: int) -> _Integers:
        """Returns the rows of nodes in the whole table by their handles; the index has `num_nodes`."""
        is_added = handles >= num_nodes
        rows = self.insertions.move(handles)
        rows[is_added] = self.rows[handles[is_added] - num_nodes]
        return rows

    def extended(self, index: GraphIndex, name: str, columns: Mapping[str, pa.Array]) -> AddedNodes:
        """Returns these nodes with others after them."""
        ids = columns[ID_FEATURE]
        return AddedNodes(
            place=self.place,
            ids=pa.concat_arrays([self.ids, ids]),
            codes=np.concatenate([self.codes, hash_ids(ids)]),
            places=np.concatenate([self.places, _places_of_ids(index.node_tables[name].ids, ids)]),
            columns={key: pieces.extended(columns[key]) for key, pieces in self.columns.items()},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddedEdges:
    """Edges of one set that were added to an index, in the order in which they came.

    Attributes:
        handles: by direction, int64 array: handles of the nodes where the edges start, the sources or the targets.
        columns: features and extra columns, by key.
        numbers: by direction, int64 array: the numbers of the edges in the order of (node where they start,
            `edge_hash`), which stays the same while nodes are added.
        places: by direction, int64 array: position in the index before which each of them stands in that order.
    """

    handles: Mapping[str, _Integers]
    columns: Mapping[str, Pieces]
    numbers: Mapping[str, _Integers]
    places: Mapping[str, _Integers]

    def __len__(self) -> int:
        return len(self.handles[files.DIRECTIONS[0]])

    def extended(
        self,
        index: GraphIndex,
        name: str,
        columns: Mapping[str, pa.Array],
        handles: Mapping[str, _Integers],
        nodes: Mapping[str, AddedNodes],
    ) -> AddedEdges:
        """Returns these edges with others after them; `nodes` are all that were added, by direction."""
        numbers, places = {}, {}
        for direction in files.DIRECTIONS:
            at, order, found = self._positions_of_new(index, name, direction, handles[direction], nodes[direction])
            numbers[direction] = np.insert(self.numbers[direction], at, len(self) + order)
            places[direction] = np.insert(self.places[direction], at, found)
        return AddedEdges(
            handles={
                direction: np.concatenate([of_old, handles[direction]]) for direction, of_old in self.handles.items()
            },
            columns={key: pieces.extended(columns[key]) for key, pieces in self.columns.items()},
            numbers=numbers,
            places=places,
        )

    def _positions_of_new(
        self, index: GraphIndex, name: str, direction: str, handles: _Integers, nodes: AddedNodes
    ) -> tuple[_Integers, _Integers, _Integers]:
        """Returns before which of these edges new ones stand, the order of the new ones, and their places."""
        offsets, rows = (index.mapped.values(files.edges_file(name, direction, part)) for part in ("offsets", "rows"))
        num_nodes, first = len(offsets) - 1, first_added_row(index, name)
        starts, hashes = nodes.rows_of(handles, num_nodes), edge_hash(first + len(self) + np.arange(len(handles)))
        order = np.lexsort((hashes, starts))
        starts, hashes = starts[order], hashes[order]
        old = self.numbers[direction]
        of_old = nodes.rows_of(self.handles[direction][old], num_nodes)
        at = _bisect(
            np.searchsorted(of_old, starts, side="left"),
            np.searchsorted(of_old, starts, side="right"),
            lambda where, middle: edge_hash(first + old[middle]) < hashes[where],
        )
        return at, order, _places_of_hashes(offsets, rows, handles[order], nodes, hashes)


def first_added_row(index: GraphIndex, edge_set: str) -> int:
    """Returns the row of the first edge that is added: the one after all rows that the table has as written."""
    return index.manifest.edge_sets[edge_set].report.rows_read


def no_nodes(index: GraphIndex, name: str) -> AddedNodes:
    """Returns no nodes of a set."""
    table = index.node_tables[name]
    return AddedNodes(
        place=f"nodes/{name}",
        ids=table.ids.slice(0, 0),
        codes=np.zeros(0, np.uint64),
        places=np.zeros(0, np.int64),
        columns=_no_values({ID_FEATURE: None, **index.manifest.node_sets[name].columns}),
    )


def no_edges(index: GraphIndex, name: str) -> AddedEdges:
    """Returns no edges of a set."""
    none = np.zeros(0, np.int64)
    return AddedEdges(
        handles=dict.fromkeys(files.DIRECTIONS, none),
        columns=_no_values(index.manifest.edge_sets[name].columns),
        numbers=dict.fromkeys(files.DIRECTIONS, none),
        places=dict.fromkeys(files.DIRECTIONS, none),
    )


def _no_values(types: Mapping[str, pa.DataType | None]) -> dict[str, Pieces]:
    return {key: Pieces([pa.array([], dtype)]) for key, dtype in types.items() if key != ID_FEATURE}


def features_of(columns: Mapping[str, Pieces]) -> dict[str, Pieces]:
    """Selects the features among columns by key."""
    return {key: pieces for key, pieces in columns.items() if not key.startswith(EXTRA_PREFIX)}


def extra_columns_of(columns: Mapping[str, Pieces]) -> dict[str, Pieces]:
    """Selects the columns that were requested by name, by that name."""
    return {key.removeprefix(EXTRA_PREFIX): pieces for key, pieces in columns.items() if key.startswith(EXTRA_PREFIX)}


def _places_of_ids(known: pa.Array, ids: pa.Array) -> _Integers:
    """Returns how many of the known ids, which ascend, are below each of some ids."""
    if pa.types.is_integer(known.type):
        return np.searchsorted(known.to_numpy(), ids.to_numpy(zero_copy_only=False)).astype(np.int64)
    return _bisect(
        np.zeros(len(ids), np.int64),
        np.full(len(ids), len(known)),
        lambda where, middle: pc.less(known.take(pa.array(middle)), ids.take(pa.array(where))).to_numpy(
            zero_copy_only=False
        ),
    )


def _places_of_hashes(
    offsets: _Integers,
    rows: npt.NDArray[Any],
    handles: _Integers,
    nodes: AddedNodes,
    hashes: npt.NDArray[np.uint64],
) -> _Integers:
    """Returns before which position of the index an edge of a node stands by its hash."""
    num_nodes = len(offsets) - 1
    is_added = handles >= num_nodes
    starts = np.where(is_added, 0, handles)
    # An added node has no edges in the index: its edges stand where those of the next node begin.
    starts[is_added] = nodes.places[handles[is_added] - num_nodes]
    firsts = offsets[starts]
    lasts = np.where(is_added, firsts, offsets[np.minimum(starts + 1, num_nodes)])
    return _bisect(firsts, lasts, lambda where, middle: edge_hash(rows[middle].astype(np.int64)) < hashes[where])


def _bisect(
    firsts: _Integers, lasts: _Integers, is_below: Callable[[_Integers, _Integers], npt.NDArray[np.bool_]]
) -> _Integers:
    """Finds the first position in each range that is not below its item, all at once."""
    firsts, lasts = firsts.copy(), lasts.copy()
    while len(where := np.flatnonzero(firsts < lasts)):
        middle = (firsts[where] + lasts[where]) // 2
        below = is_below(where, middle)
        firsts[where] = np.where(below, middle + 1, firsts[where])
        lasts[where] = np.where(below, lasts[where], middle)
    return firsts
