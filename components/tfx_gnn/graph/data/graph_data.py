"""Examples in memory: graphs as named arrays, which need no schema and may hold anything, and subclasses of them.

They are what PyG calls `Data`; `HeteroGraphData` is its `HeteroData`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfx_gnn.graph.data.edge_properties import faults_of_edges
from tfx_gnn.graph.data.stores import (
    ArrayWithSizeMethod,
    Attributes,
    Store,
    Stores,
    default_axis,
    describe_store,
    num_edges_in,
    num_nodes_in,
    required_num_nodes,
    width_of,
)

_ABSENT_AS_NONE = frozenset({"x", "edge_index", "edge_attr", "edge_weight", "y", "pos", "face", "batch", "time"})


class UndecidedIncrementError(ValueError):
    """A key has a name like those of indices, but nothing says whether it holds some."""


def overrides_rules(cls: type[Any]) -> bool:
    """Returns whether a subclass overrides methods of PyG that say how values are collated."""
    return overrides_increments(cls) or cls.__cat_dim__ is not GraphData.__cat_dim__


def overrides_increments(cls: type[Any]) -> bool:
    """Returns whether a subclass says itself by how much values grow."""
    return cls.__inc__ is not GraphData.__inc__


class GraphData(Attributes):
    """A graph as named values: PyG's `Data`.

    Values are attributes and items: `data.x` is `data["x"]`. Arrays, tensors of TensorFlow and of PyTorch are kept as
    numpy arrays; numbers, strings, lists, tuples and dicts are kept as they are, but for lists under `x`, `edge_index`,
    `edge_attr`, `y`, `pos` and `face`, which become arrays. A value of None removes the key. Those names, `batch`,
    `edge_weight` and `time` are None if they are not set; other names are an AttributeError.

    `collate` and `DataLoader` make batches of examples. Subclasses may override `__inc__` and `__cat_dim__` as in PyG,
    to say by how much indices grow from one graph to the next, and along which dimension values are concatenated; in
    their methods, arrays also have `size(dim)`. Where a rule is enough, `FieldRule` is faster.

    Example:
        >>> data = tfx_gnn.GraphData(x=np.ones([3, 16]), edge_index=[[0, 1], [1, 2]])
        >>> data
        GraphData(x=[3, 16], edge_index=[2, 2])
        >>> data.num_nodes
        3
    """

    _shows_sizes = False
    _absent_as_none = _ABSENT_AS_NONE
    #: Whether a value `ptr` tells where the nodes of each graph begin.
    _has_ptr = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._shows_sizes = overrides_rules(cls)

    def __init__(
        self, x: Any = None, edge_index: Any = None, edge_attr: Any = None, y: Any = None, **values: Any
    ) -> None:
        """Sets values by their names.

        Args:
            x: features of nodes, shape [num_nodes, ...].
            edge_index: node indices of the sources and targets of edges, shape [2, num_edges].
            edge_attr: features of edges, shape [num_edges, ...].
            y: label of the graph or of its nodes, of any shape.
            **values: values of any further names.
        """
        self._stores: Stores = {None: {}}
        self._store = self._stores[None]
        named = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "y": y}
        for key, value in {**named, **values}.items():
            setattr(self, key, value)

    def _seen(self, value: Any) -> Any:
        # Only overridden methods need it, and it costs time.
        if self._shows_sizes and type(value) is np.ndarray:
            return value.view(ArrayWithSizeMethod)
        return value

    def __copy__(self) -> Any:
        stores = {key: dict(store) for key, store in self._stores.items()}
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(_stores=stores, _store=stores[None])
        return twin

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._store)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yields (key, value)."""
        yield from self._store.items()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Pickled without the second reference to the store, which would become a copy.
        state = {key: value for key, value in self.__dict__.items() if key != "_store"}
        return rebuilt, (type(self), state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return rebuilt(
            type(self), copy.deepcopy({key: value for key, value in self.__dict__.items() if key != "_store"}, memo)
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the values by name, as a new dict."""
        return dict(self._store)

    @property
    def num_nodes(self) -> int | None:
        """The number of nodes: as it was set, else the number of rows of `x` or `pos`; None if there are none.

        It is never guessed from `edge_index`, which does not tell how many nodes without edges follow.
        """
        found = num_nodes_in(self._store)
        return int(self._store["ptr"][-1]) if found is None and self._has_ptr and "ptr" in self._store else found

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        self["num_nodes"] = value

    @property
    def num_edges(self) -> int:
        """The number of edges: that of `edge_index`, or of rows of `edge_attr`; 0 if there is neither."""
        return num_edges_in(self._store)

    @property
    def num_node_features(self) -> Any:
        """The size of the last dimension of `x`; 1 for one number per node, 0 if there is no `x`."""
        return width_of(self._store.get("x"))

    @property
    def num_features(self) -> Any:
        """The same as `num_node_features`."""
        return self.num_node_features

    @property
    def num_edge_features(self) -> Any:
        """The size of the last dimension of `edge_attr`; 1 for one number per edge, 0 if there is no `edge_attr`."""
        return width_of(self._store.get("edge_attr"))

    @property
    def num_faces(self) -> int | None:
        """The number of faces; None if there is no `face`."""
        face = self._store.get("face")
        return None if face is None else int(face.shape[-1])

    @property
    def stores(self) -> list[Store]:
        """The values of the graph and of each type of nodes and edges."""
        return [Store(self._store, self, None)]

    @property
    def node_stores(self) -> list[Store]:
        """The values of nodes, of each type."""
        return self.stores

    @property
    def edge_stores(self) -> list[Store]:
        """The values of edges, of each type."""
        return self.stores

    def size(self, dim: int | None = None) -> Any:
        """Returns the numbers of rows and columns of the adjacency matrix, or one of them.

        Args:
            dim: 0 or 1; None for both.
        """
        sizes = (self.num_nodes, self.num_nodes)
        return sizes if dim is None else sizes[dim]

    def is_undirected(self) -> bool:
        """Returns whether each edge has one in the other direction, with an equal `edge_attr` if there is one."""
        return all(store.is_undirected() for store in self.edge_stores)

    def is_directed(self) -> bool:
        """Returns whether an edge lacks one in the other direction."""
        return not self.is_undirected()

    def has_self_loops(self) -> bool:
        """Returns whether an edge leads from a node to itself."""
        return any(store.has_self_loops() for store in self.edge_stores)

    def has_isolated_nodes(self) -> bool:
        """Returns whether a node has no edge to or from another node."""
        return any(store.has_isolated_nodes() for store in self.edge_stores)

    def is_coalesced(self) -> bool:
        """Returns whether edges are in the order of source and target, and none is there twice."""
        return all(store.is_coalesced() for store in self.edge_stores)

    def is_sorted(self, sort_by_row: bool = True) -> bool:
        """Returns whether edges are in the order of their sources.

        Args:
            sort_by_row: False for the order of their targets.
        """
        return all(store.is_sorted(sort_by_row) for store in self.edge_stores)

    def node_attrs(self) -> list[str]:
        """Lists the keys of arrays with one row per node."""
        return [key for key in self._store if self.is_node_attr(key)]

    def edge_attrs(self) -> list[str]:
        """Lists the keys of arrays with one row per edge."""
        return [key for key in self._store if self.is_edge_attr(key)]

    def is_node_attr(self, key: str) -> bool:
        """Returns whether an array has one row per node.

        Args:
            key: name of a value. With as many edges as nodes, a name with "edge" is one of edges.
        """
        return self._has_rows(key, self.num_nodes, self.num_edges, is_edge=False)

    def is_edge_attr(self, key: str) -> bool:
        """Returns whether an array has one row per edge.

        Args:
            key: as for `is_node_attr`.
        """
        return self._has_rows(key, self.num_edges, self.num_nodes, is_edge=True)

    def _has_rows(self, key: str, expected: int | None, other: int | None, *, is_edge: bool) -> bool:
        value = self._store[key]
        if not isinstance(value, np.ndarray) or not value.ndim:
            return not is_edge and isinstance(value, (list, tuple)) and len(value) == expected
        axis = self.__cat_dim__(key, self._seen(value))
        if axis is None or value.shape[axis] != expected:
            return False
        return expected != other or ("edge" in key) == is_edge

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or the default if there is none.

        Args:
            key: name of a value.
            default: what to return otherwise.
        """
        return self._seen(self._store[key]) if key in self._store else default

    def update(self, data: GraphData | Mapping[str, Any]) -> Any:
        """Sets the values of another graph or of a dict.

        Args:
            data: values by name.

        Returns:
            The graph itself.
        """
        for key, value in (data.to_dict() if isinstance(data, GraphData) else data).items():
            self[key] = value
        return self

    def clone(self) -> Any:
        """Returns a copy that shares no array with this graph."""
        return copy.deepcopy(self)

    def validate(self, raise_on_error: bool = True) -> bool:
        """Checks that edges lead to nodes that exist.

        Args:
            raise_on_error: False to warn instead.

        Returns:
            Whether there is no fault.

        Raises:
            ValueError: if there is a fault.
        """
        faults = self._faults()
        if faults and raise_on_error:
            raise ValueError(" ".join(faults))
        for fault in faults:
            warnings.warn(fault, stacklevel=2)
        return not faults

    def _faults(self) -> list[str]:
        nodes = ("the nodes", self.num_nodes)
        return faults_of_edges(self._store.get("edge_index"), [nodes, nodes], type(self).__name__)

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns by how much the values of a key grow from this graph to the next: PyG's method, to be overridden.

        This is PyG's rule. `collate` asks for it only where a subclass does; a class that does not override the method
        needs a `FieldRule` for names with "index" or "batch" other than `edge_index`.

        Args:
            key: name of a value.
            value: the value.
            *args: for a value of a type of nodes or edges, all values of this type.
            **kwargs: not used.

        Returns:
            The largest value and 1 more for arrays with "batch" in their name, the number of nodes for those with
            "index" and for "face", else 0.
        """
        if "batch" in key and isinstance(value, np.ndarray):
            return int(np.max(value)) + 1 if np.size(value) else 0
        return self._increment_of_index(key, *args)

    def _increment_of_index(self, key: str, *args: Any) -> Any:
        return required_num_nodes(self.num_nodes, key) if "index" in key or key == "face" else 0

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> int | None:
        """Returns the dimension along which values of a key are concatenated: PyG's method, to be overridden.

        Args:
            key: name of a value.
            value: the value.
            *args: as for `__inc__`.
            **kwargs: not used.
        """
        return self._default_axis(key, *args)

    def _default_axis(self, key: str, *args: Any) -> int:
        return default_axis(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_store(self._store)})"


def rebuilt(cls: type[GraphData], state: dict[str, Any]) -> GraphData:
    """Makes an example of its pickled state."""
    data = cls.__new__(cls)
    data.__dict__.update(state, _store=state["_stores"][None])
    return data


def refuse_undecided(key: str, value: Any) -> None:
    """Refuses arrays and integers whose name makes PyG, but not this library, take them for indices."""
    if ("index" in key or "batch" in key) and isinstance(value, (np.ndarray, int)) and not isinstance(value, bool):
        raise UndecidedIncrementError(
            f"`{key}` must have a rule, because its name does not say for certain whether it holds indices; got none. "
            f"Write rules={{{key!r}: FieldRule()}} to leave its values as they are, FieldRule(increment='num_nodes') "
            "for node indices, or guesses_by_name=True for PyG's guesses."
        )
