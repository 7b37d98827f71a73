"""What a query yields: nodes and edges by row, with attributes that are looked up when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.attributes import TypeAttributes

_Integers = npt.NDArray[np.int64]


class NodeIds:
    """Names and attributes of the nodes of a type, by row of the node table; row -1 is no node."""

    def __init__(self, name: str, ids: npt.NDArray[Any], attributes: TypeAttributes) -> None:
        """Keeps the ids, whose last item, after those of all rows, is the default id."""
        self.name = name
        self.ids = ids
        self.attributes = attributes


class _Values:
    """Attributes of nodes or edges by row."""

    def __init__(self, type_name: str, attributes: TypeAttributes, rows: _Integers) -> None:
        self.type = type_name
        self._attributes = attributes
        self.rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the ids: [batch size] of a traversal, [number of inputs, number of draws] of a sample."""
        return self.rows.shape

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Bool array in the shape of the ids: False where there is no node or edge and the id is the default one."""
        return self.rows >= 0

    @functools.cached_property
    def int_attrs(self) -> npt.NDArray[np.int64] | None:
        """Integer attributes and hashed strings, shape [*shape, number of attributes]; None if there are none."""
        return self._attributes.attributes("int", self.rows)

    @functools.cached_property
    def float_attrs(self) -> npt.NDArray[np.float32] | None:
        """Float attributes, float32, shape [*shape, number of attributes]; None if there are none."""
        return self._attributes.attributes("float", self.rows)

    @functools.cached_property
    def string_attrs(self) -> npt.NDArray[Any] | None:
        """String attributes, object array of str, shape [*shape, number of attributes]; None if there are none."""
        return self._attributes.attributes("string", self.rows)

    @functools.cached_property
    def weights(self) -> npt.NDArray[np.float32] | None:
        """Weights, float32, in the shape of the ids; None if the type is not weighted."""
        return self._attributes.weights(self.rows)

    @functools.cached_property
    def labels(self) -> npt.NDArray[np.int32] | None:
        """Labels, int32, in the shape of the ids; None if the type is not labeled."""
        return self._attributes.labels(self.rows)

    @functools.cached_property
    def timestamps(self) -> npt.NDArray[np.int64] | None:
        """Timestamps, int64, in the shape of the ids; None if the type is not timestamped."""
        return self._attributes.timestamps(self.rows)


class Nodes(_Values):
    """Nodes of one type.

    A node that does not exist, as stands in for missing neighbors, has the default id and the
    attributes 0, 0.0 and '', the weight 0.0, the label -1 and the timestamp -1; `mask` tells
    it from a node that has the default id.

    Attributes:
        type: node type.
        rows: int64 array in the shape of the ids: rows of the node table, -1 for no node.
    """

    def __init__(self, nodes: NodeIds, rows: _Integers) -> None:
        """Keeps the rows.

        Args:
            nodes: ids and attributes of the type.
            rows: int64 array of rows of the node table, -1 for no node.
        """
        super().__init__(nodes.name, nodes.attributes, rows)
        self._nodes = nodes

    @functools.cached_property
    def ids(self) -> npt.NDArray[Any]:
        """Ids: int64, or an object array of str; shape [batch size] or [number of inputs, number of draws]."""
        return self._nodes.ids[self.rows]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type!r}, shape={list(self.shape)})"


class Edges(_Values):
    """Edges of one type.

    Edges that were found by `inE`, or traversed in reverse, have source and target exchanged:
    their source is the node that the step starts from. An edge that does not exist has
    the edge id -1.

    Attributes:
        type: edge type.
        rows: int64 array, the same as `edge_ids`.
        src_nodes: `Nodes` at the sources.
        dst_nodes: `Nodes` at the targets.
    """

    def __init__(
        self, type_name: str, attributes: TypeAttributes, edge_rows: _Integers, src_nodes: Nodes, dst_nodes: Nodes
    ) -> None:
        """Keeps the rows.

        Args:
            type_name: edge type.
            attributes: attributes of the type.
            edge_rows: int64 array of positions in the edge table, -1 for no edge.
            src_nodes: nodes at the sources, of the same shape.
            dst_nodes: nodes at the targets, of the same shape.
        """
        super().__init__(type_name, attributes, edge_rows)
        self.src_nodes = src_nodes
        self.dst_nodes = dst_nodes

    @property
    def edge_ids(self) -> _Integers:
        """Positions in the edge table, int64, -1 for an edge that does not exist."""
        return self.rows

    @property
    def src_ids(self) -> npt.NDArray[Any]:
        """Ids of the sources, in the shape of `edge_ids`."""
        return self.src_nodes.ids

    @property
    def dst_ids(self) -> npt.NDArray[Any]:
        """Ids of the targets, in the shape of `edge_ids`."""
        return self.dst_nodes.ids

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type!r}, shape={list(self.shape)})"


class _Ragged:
    """Ragged values: how many each row has."""

    offsets: _Integers

    @property
    def shape(self) -> tuple[int, ...]:
        """The dense shape."""
        return self.dense_shape

    @property
    def dense_shape(self) -> tuple[int, int]:
        """Number of rows, and size of the largest."""
        return len(self.offsets), int(self.offsets.max(initial=0))

    @functools.cached_property
    def indices(self) -> _Integers:
        """int64 array, shape [number of values, 2]: row and position in the row of each value.

        Three, one, no and two values have the indices [[0, 0], [0, 1], [0, 2], [1, 0], [3, 0], [3, 1]].
        """
        rows = np.repeat(np.arange(len(self.offsets), dtype=np.int64), self.offsets)
        firsts = np.cumsum(self.offsets) - self.offsets
        return np.stack([rows, np.arange(len(rows)) - firsts[rows]], axis=1)

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """Yields where each row begins and ends."""
        ends = np.cumsum(self.offsets).tolist()
        yield from zip([0, *ends], ends, strict=False)


class SparseNodes(_Ragged, Nodes):
    """Nodes of one type, any number per row: the result of sampling by "full".

    Ids and attributes are flat, with the values of all rows one after another. Iterating
    yields the `Nodes` of each row.

    Attributes:
        offsets: int64 array, shape [number of rows]: number of nodes of each row.
        dense_shape: number of rows, and number of nodes of the largest row.
        indices: int64 array, shape [number of nodes, 2]: row of each node and position in it.
    """

    def __init__(self, nodes: NodeIds, rows: _Integers, offsets: _Integers) -> None:
        """Keeps the rows.

        Args:
            nodes: ids and attributes of the type.
            rows: int64 array, shape [number of nodes], of rows of the node table.
            offsets: int64 array: number of nodes of each row of the result.
        """
        super().__init__(nodes, rows)
        self.offsets = offsets

    def __iter__(self) -> Iterator[Nodes]:
        for begin, end in self._bounds():
            yield Nodes(self._nodes, self.rows[begin:end])


class SparseEdges(_Ragged, Edges):
    """Edges of one type, any number per row: the result of sampling by "full".

    Ids and attributes are flat, with the values of all rows one after another. Iterating
    yields the `Edges` of each row.

    Attributes:
        offsets: int64 array, shape [number of rows]: number of edges of each row.
        dense_shape: number of rows, and number of edges of the largest row.
        indices: int64 array, shape [number of edges, 2]: row of each edge and position in it.
    """

    def __init__(
        self,
        type_name: str,
        attributes: TypeAttributes,
        edge_rows: _Integers,
        src_nodes: SparseNodes,
        dst_nodes: SparseNodes,
    ) -> None:
        """Keeps the rows.

        Args:
            type_name: edge type.
            attributes: attributes of the type.
            edge_rows: int64 array, shape [number of edges], of positions in the edge table.
            src_nodes: nodes at the sources.
            dst_nodes: nodes at the targets.
        """
        super().__init__(type_name, attributes, edge_rows, src_nodes, dst_nodes)
        self.offsets = src_nodes.offsets

    def __iter__(self) -> Iterator[Edges]:
        for rows, sources, targets in zip(
            self._bounds(), _rows_of(self.src_nodes), _rows_of(self.dst_nodes), strict=True
        ):
            yield Edges(self.type, self._attributes, self.rows[rows[0] : rows[1]], sources, targets)


def _rows_of(nodes: Nodes) -> Iterator[Nodes]:
    assert isinstance(nodes, SparseNodes)
    return iter(nodes)
