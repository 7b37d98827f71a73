"""GraphLearn's `SubGraph` and `HeteroSubGraph`: sampled subgraphs in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.data.composite_value import check_is_name
from tfx_gnn.graphlearn.data.data import Data

EdgeType = tuple[str, str, str]
"""Source node type, edge type, target node type."""


class _Keyed:
    """Attributes that are also read and set by name."""

    def __getitem__(self, key: str) -> Any:
        """Returns an attribute by name; None if there is none."""
        check_is_name(key)
        return None if key.startswith("_") else getattr(self, key, None)

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets a further attribute by name."""
        check_is_name(key)
        if key.startswith("_") or hasattr(type(self), key):
            raise ValueError(
                f"`{key}` must be a free name without an underscore in front; got the name of something that "
                f"{type(self).__name__} has already. Use another name."
            )
        setattr(self, key, value)

    def __contains__(self, key: object) -> bool:
        """Returns whether there is an attribute of this name that is not None."""
        return key in self.keys

    @property
    def keys(self) -> list[str]:
        """The names of all attributes that are not None."""
        raise NotImplementedError

    def _further_keys(self) -> list[str]:
        return [key for key, value in vars(self).items() if not key.startswith("_") and value is not None]


class SubGraph(_Keyed):
    """A sampled subgraph with nodes and edges of one type, in numpy.

    Example:
        >>> graph = SubGraph(np.array([[0, 1], [1, 2]]), Data(ids=np.array([10, 20, 30])), struct_label=np.zeros([3]))
        >>> graph.num_nodes, graph.num_edges, graph.keys
        (3, 2, ['edge_index', 'nodes', 'struct_label'])
    """

    def __init__(self, edge_index: npt.ArrayLike, nodes: Data, edges: Data | None = None, **kwargs: Any) -> None:
        """Holds the parts of a subgraph.

        Args:
            edge_index: integers of shape [2, num_edges]: the positions of source and target nodes.
            nodes: the nodes.
            edges: the attributes of the edges, or None.
            **kwargs: further arrays by name, such as `struct_label`.

        Raises:
            TypeError: if `nodes` or `edges` is not a Data.
            ValueError: if `edge_index` does not have this shape, or does not hold integers.
        """
        self._edge_index = _as_edge_index(edge_index, "edge_index")
        _check_is_data(nodes, "nodes")
        if edges is not None:
            _check_is_data(edges, "edges")
        self._nodes = nodes
        self._edges = edges
        for key, value in kwargs.items():
            self[key] = value

    @property
    def edge_index(self) -> npt.NDArray[Any]:
        """The positions of source and target nodes, shape [2, num_edges]."""
        return self._edge_index

    @property
    def nodes(self) -> Data:
        """The nodes."""
        return self._nodes

    @property
    def edges(self) -> Data | None:
        """The attributes of the edges, or None."""
        return self._edges

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return int(self._nodes.num_items)

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return int(self._edge_index.shape[1])

    @property
    def keys(self) -> list[str]:
        """The names of all attributes that are not None."""
        return ["edge_index", "nodes", *(["edges"] if self._edges is not None else []), *self._further_keys()]

    def __repr__(self) -> str:
        return f"SubGraph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, keys={self.keys})"


class HeteroSubGraph(_Keyed):
    """A sampled subgraph with nodes and edges of several types, in numpy.

    Example:
        >>> graph = HeteroSubGraph(
        ...     {("user", "click", "item"): np.array([[0, 1, 2], [2, 3, 4]])},
        ...     {"user": Data(ids=np.arange(3)), "item": Data(ids=np.arange(5))},
        ... )
        >>> graph.num_edges(("user", "click", "item")), graph.num_nodes("item")
        (3, 5)
    """

    def __init__(
        self,
        edge_index_dict: Mapping[EdgeType, npt.ArrayLike],
        nodes_dict: Mapping[str, Any],
        edges_dict: Mapping[EdgeType, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Holds the parts of a subgraph.

        Args:
            edge_index_dict: (source type, edge type, target type) to integers of shape [2, num_edges].
            nodes_dict: node type to its nodes; an array holds ids.
            edges_dict: keys of `edge_index_dict` to the attributes of the edges; an array holds ids. None for none.
            **kwargs: further arrays by name.

        Raises:
            TypeError: if nodes or edges are neither a Data nor an array.
            ValueError: if a key is not such a triple, its node types are not in `nodes_dict`, an edge index has
                another shape, or `edges_dict` has a key without edges.
        """
        for edge_type in edge_index_dict:
            _check_edge_type(edge_type, nodes_dict)
        self._edge_index_dict = {
            key: _as_edge_index(value, f"edge_index_dict[{key}]") for key, value in edge_index_dict.items()
        }
        self._nodes_dict = {key: _as_data(value, f"nodes_dict[{key!r}]") for key, value in nodes_dict.items()}
        self._edges_dict: Any = (
            None
            if edges_dict is None
            else {key: _as_data(value, f"edges_dict[{key}]") for key, value in edges_dict.items()}
        )
        unknown = [key for key in self._edges_dict or {} if key not in self._edge_index_dict]
        if unknown:
            raise ValueError(
                f"`edges_dict` must have keys of `edge_index_dict`; got {unknown}. Give their edge index, too."
            )
        for name, further in kwargs.items():
            self[name] = further

    @property
    def edge_index_dict(self) -> dict[EdgeType, npt.NDArray[Any]]:
        """The positions of source and target nodes by edge type."""
        return self._edge_index_dict

    @property
    def nodes_dict(self) -> dict[str, Data]:
        """The nodes by type."""
        return self._nodes_dict

    @property
    def edges_dict(self) -> dict[EdgeType, Data] | None:
        """The attributes of edges by type, or None."""
        return self._edges_dict

    @property
    def node_types(self) -> list[str]:
        """The node types."""
        return list(self._nodes_dict)

    @property
    def edge_types(self) -> list[EdgeType]:
        """The edge types: (source type, edge type, target type)."""
        return list(self._edge_index_dict)

    def num_nodes(self, node_type: str) -> int:
        """Returns the number of nodes of a type.

        Args:
            node_type: a node type.
        """
        return int(self._nodes_dict[node_type].num_items)

    def num_edges(self, edge_type: EdgeType) -> int:
        """Returns the number of edges of a type.

        Args:
            edge_type: (source type, edge type, target type).
        """
        return int(self._edge_index_dict[edge_type].shape[1])

    @property
    def keys(self) -> list[str]:
        """The names of all attributes that are not None."""
        edges = ["edges_dict"] if self._edges_dict is not None else []
        return ["edge_index_dict", "nodes_dict", *edges, *self._further_keys()]

    def __repr__(self) -> str:
        nodes = {key: self.num_nodes(key) for key in self.node_types}
        edges = {key: self.num_edges(key) for key in self.edge_types}
        return f"HeteroSubGraph(num_nodes={nodes}, num_edges={edges}, keys={self.keys})"


def _as_edge_index(value: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    array = np.asarray(value)
    if array.shape == (2, 0):
        array = array.astype(np.int64)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"`{what}` must hold integers of shape [2, num_edges]; got {array.dtype} of shape {list(array.shape)}. "
            "Stack the positions of source and target nodes; np.zeros([2, 0], int) for no edges."
        )
    return array


def _check_edge_type(key: Any, node_types: Mapping[str, Any]) -> None:
    if not isinstance(key, tuple) or len(key) != 3:
        raise ValueError(
            f"`edge_index_dict` must have keys (source type, edge type, target type); got {key!r}. Write a tuple."
        )
    absent = [name for name in (key[0], key[2]) if name not in node_types]
    if absent:
        raise ValueError(
            f"`nodes_dict` must have the node types of all edges; got none for {absent[0]!r} of {key}, but "
            f"{list(node_types)}. Add it, with empty arrays if there are no nodes."
        )


def _check_is_data(value: Any, what: str) -> None:
    if not isinstance(value, Data):
        raise TypeError(f"`{what}` must be a Data; got {type(value).__name__}. Write Data(ids=...).")


def _as_data(value: Any, what: str) -> Data:
    if isinstance(value, np.ndarray):
        return Data(ids=value)
    _check_is_data(value, what)
    return value
