"""Examples in memory with several types of nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfx_gnn.graph.data.edge_properties import are_undirected, faults_of_edges, leave_nodes_isolated
from tfx_gnn.graph.data.graph_data import GraphData
from tfx_gnn.graph.data.homogeneous_data import concatenate_types
from tfx_gnn.graph.data.stores import (
    AbsentValueError,
    EdgeType,
    Store,
    StoreKey,
    describe_store,
    num_edges_in,
    num_nodes_in,
    required_num_nodes,
    width_of,
)

_DEFAULT_RELATION = "to"
_GLOBAL = "_global_store"
_NODE_COUNTS = ("num_nodes", "num_node_features", "num_features")
_EDGE_COUNTS = ("num_edges", "num_edge_features", "num_features")


class HeteroGraphData(GraphData):
    """A graph with several types of nodes and edges, as named values: PyG's `HeteroData`.

    `data["paper"]` has the values of nodes of one type, `data["paper", "cites", "paper"]` of edges from and to a type;
    both are made when they are first asked for. `data["cites"]` and `data["paper", "paper"]` are the only type of edges
    of this relation, and between these types. `data.x_dict` has the values `x` of all types. Attributes, such as
    `data.y`, are values of the graph.

    Example:
        >>> data = tfx_gnn.HeteroGraphData()
        >>> data["paper"].x = np.ones([2, 8])
        >>> data["author"].num_nodes = 3
        >>> data["paper", "by", "author"].edge_index = [[0, 1], [2, 0]]
        >>> data.edge_types, data["by"].num_edges, list(data.x_dict)
        ([('paper', 'by', 'author')], 2, ['paper'])
    """

    _absent_as_none = frozenset()

    def __init__(self, mapping: Mapping[Any, Any] | None = None, /, **values: Any) -> None:
        """Sets values of the graph and of its types.

        Args:
            mapping: values by name, and dicts of values by type of nodes or edges.
            **values: the same; an edge type is written `paper__cites__paper`.
        """
        super().__init__()
        for key, value in {**(mapping or {}), **values}.items():
            if key == _GLOBAL:
                self.update(value)
            elif isinstance(key, str) and "__" in key and isinstance(value, Mapping):
                self[tuple(key.split("__"))] = value
            else:
                self[key] = value

    def __getattr__(self, key: str) -> Any:
        if key.endswith("_dict") and not key.startswith("_") and key not in self._store:
            return self.collect(key.removesuffix("_dict"))
        return super().__getattr__(key)

    def __getitem__(self, key: Any) -> Any:
        """Returns a value of the graph, or the values of a type of nodes or edges."""
        if isinstance(key, str) and key in self._store:
            return self._seen(self._store[key])
        key = self._type_of(key)
        return Store(self._stores.setdefault(key, {}), self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Mapping) and (isinstance(key, tuple) or key not in self._store):
            key = self._type_of(key)
            store = Store(self._stores.setdefault(key, {}), self, key)
            for name, item in value.items():
                store[name] = item
        else:
            super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, str) and key in self._store:
            del self._store[key]
        else:
            del self._stores[self._type_of(key)]

    def __contains__(self, key: object) -> bool:
        """Returns whether there is a value of a name, in the graph or in one of its types, or a type."""
        return key is not None and (key in self._stores or any(key in store for store in self._stores.values()))

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self.keys())

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yields (key, value) of the values of the graph."""
        yield from self._store.items()

    def keys(self) -> list[str]:
        """Lists the names of the values of the graph and of all types, each once."""
        return list(dict.fromkeys(key for store in self._stores.values() for key in store))

    def to_dict(self) -> dict[Any, Any]:
        """Returns the values by type and name, as new dicts; those of the graph under "_global_store"."""
        return {_GLOBAL if key is None else key: dict(store) for key, store in self._stores.items()}

    def _type_of(self, key: Any) -> StoreKey:
        """Returns the type that a key means, which may be a relation or a pair of types."""
        names = key if isinstance(key, tuple) else (key,)
        if key not in self._stores and len(names) < 3:
            fits = [
                edge_type
                for edge_type in self.edge_types
                if (edge_type[1] == names[0] if len(names) == 1 else edge_type[::2] == names)
            ]
            if len(fits) == 1:
                return fits[0]
            if len(fits) > 1 and len(names) == 2:
                raise KeyError(
                    f"`key` must name one type of edges; got {key!r}, which are {fits}. Write one of these three names."
                )
        return _checked_type(key)

    @property
    def node_types(self) -> list[str]:
        """The types of nodes."""
        return [key for key in self._stores if isinstance(key, str)]

    @property
    def edge_types(self) -> list[EdgeType]:
        """The types of edges: (type of the source, relation, type of the target)."""
        return [key for key in self._stores if isinstance(key, tuple)]

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Returns the types of nodes and the types of edges."""
        return self.node_types, self.edge_types

    @property
    def stores(self) -> list[Store]:
        """The values of the graph and of each type of nodes and edges."""
        return [Store(self._store, self, None), *self.node_stores, *self.edge_stores]

    @property
    def node_stores(self) -> list[Store]:
        """The values of nodes, of each type."""
        return [self[key] for key in self.node_types]

    @property
    def edge_stores(self) -> list[Store]:
        """The values of edges, of each type."""
        return [self[key] for key in self.edge_types]

    def node_items(self) -> list[tuple[str, Store]]:
        """Returns each type of nodes with its values."""
        return list(zip(self.node_types, self.node_stores, strict=True))

    def edge_items(self) -> list[tuple[EdgeType, Store]]:
        """Returns each type of edges with its values."""
        return list(zip(self.edge_types, self.edge_stores, strict=True))

    def collect(self, key: str, allow_empty: bool = False) -> dict[Any, Any]:
        """Returns the values of one name by type; `data.x_dict` is `data.collect("x")`.

        Args:
            key: name of values, or a count such as "num_nodes".
            allow_empty: whether no type needs to have one.

        Raises:
            AbsentValueError: if no type has a value of this name; it is an AttributeError and a KeyError.
        """
        found = {}
        for store_key, store in self._stores.items():
            counts = _EDGE_COUNTS if isinstance(store_key, tuple) else _NODE_COUNTS
            if store_key is not None and (key in store or key in counts):
                found[store_key] = getattr(self[store_key], key)
        if not found and not allow_empty:
            raise AbsentValueError(
                f"`{key}` must be a value of a type of nodes or edges; got none of that name in any type of "
                f"{[*self.node_types, *self.edge_types]}. Set it."
            )
        return found

    @property
    def num_nodes(self) -> int | None:
        """The number of nodes of all types; None if that of a type is not known."""
        counts = [num_nodes_in(self._stores[node_type]) for node_type in self.node_types]
        return None if None in counts else sum(count for count in counts if count is not None)

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        raise AttributeError(f"`num_nodes` must be set for a type of nodes; got {value}. Set data['type'].num_nodes.")

    @property
    def num_edges(self) -> int:
        """The number of edges of all types."""
        return sum(num_edges_in(self._stores[edge_type]) for edge_type in self.edge_types)

    @property
    def num_node_features(self) -> dict[str, int]:
        """The size of the last dimension of `x`, by type of nodes."""
        return {key: width_of(self._stores[key].get("x")) for key in self.node_types}

    @property
    def num_edge_features(self) -> dict[EdgeType, int]:
        """The size of the last dimension of `edge_attr`, by type of edges."""
        return {key: width_of(self._stores[key].get("edge_attr")) for key in self.edge_types}

    @property
    def node_offsets(self) -> dict[str, int]:
        """Where the nodes of each type begin in `to_homogeneous`."""
        counts = [required_num_nodes(num_nodes_in(self._stores[key]), "edge_index") for key in self.node_types]
        return dict(zip(self.node_types, np.cumsum([0, *counts]).tolist(), strict=False))

    def is_undirected(self) -> bool:
        """Returns whether each edge has one in the other direction, of any type."""
        return are_undirected(self._all_edges())

    def has_isolated_nodes(self) -> bool:
        """Returns whether a node has no edge to or from another node, of any type."""
        return leave_nodes_isolated(self._all_edges(), required_num_nodes(self.num_nodes, "edge_index"))

    def node_attrs(self) -> list[str]:
        """Lists the keys of values of nodes."""
        return list(dict.fromkeys(key for name in self.node_types for key in self._stores[name]))

    def edge_attrs(self) -> list[str]:
        """Lists the keys of values of edges."""
        return list(dict.fromkeys(key for name in self.edge_types for key in self._stores[name]))

    def to_homogeneous(
        self,
        node_attrs: list[str] | None = None,
        edge_attrs: list[str] | None = None,
        add_node_type: bool = True,
        add_edge_type: bool = True,
        dummy_values: bool = True,
    ) -> GraphData:
        """Returns the same graph without types: the nodes and edges of the first type, then of the second one.

        Args:
            node_attrs: keys of values of nodes to keep; None for all arrays that fit together.
            edge_attrs: the same, of edges.
            add_node_type: whether `node_type` tells the position of each node's type in `node_types`.
            add_edge_type: whether `edge_type` tells that of each edge.
            dummy_values: whether a type that lacks a value gets NaN, -1 or False; if not, values that a type lacks are
                left out.

        Raises:
            ValueError: if the number of nodes of a type is not known, or a value to keep does not fit together.
        """
        values: dict[str, Any] = dict(self._store)
        values["edge_index"] = self._all_edges()
        counts = {key: num_nodes_in(self._stores[key]) or 0 for key in self.node_types}
        edge_counts = {key: num_edges_in(self._stores[key]) for key in self.edge_types}
        values |= concatenate_types(self._stores, counts, node_attrs, fills=dummy_values)
        values |= concatenate_types(self._stores, edge_counts, edge_attrs, fills=dummy_values)
        values.pop("num_nodes", None)
        if add_node_type:
            values["node_type"] = np.repeat(np.arange(len(counts)), list(counts.values()))
        if add_edge_type:
            values["edge_type"] = np.repeat(np.arange(len(edge_counts)), list(edge_counts.values()))
        data = GraphData(**values)
        if data.num_nodes is None:
            data.num_nodes = sum(counts.values())
        return data

    def _all_edges(self) -> Any:
        """Returns the edges of all types, with nodes counted over all types."""
        offsets = self.node_offsets
        parts = [
            self._stores[key]["edge_index"] + np.array([[offsets[key[0]]], [offsets[key[2]]]])
            for key in self.edge_types
            if "edge_index" in self._stores[key]
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros([2, 0], np.int64)

    def _faults(self) -> list[str]:
        faults = []
        for key in self.edge_types:
            ends = [(f"nodes of type {end!r}", num_nodes_in(self._stores.get(end, {}))) for end in (key[0], key[2])]
            faults += faults_of_edges(self._stores[key].get("edge_index"), ends, f"edges {key}")
        return faults

    def _increment_of_index(self, key: str, *args: Any) -> Any:
        # PyG's rule: only edges hold indices.
        if "index" not in key or not args or not isinstance(args[0], Store) or not isinstance(args[0]._key, tuple):
            return 0
        return np.array([[required_num_nodes(size, key)] for size in args[0].size()])

    def _default_axis(self, key: str, *args: Any) -> int:
        is_edge = args and isinstance(args[0], Store) and isinstance(args[0]._key, tuple)
        return -1 if is_edge and "index" in key else 0

    def __repr__(self) -> str:
        lines = [
            f"  {key!r}={{ {describe_store(store)} }}," if key is not None else f"  {describe_store(store)},"
            for key, store in self._stores.items()
            if key is not None or store
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


def _checked_type(key: Any) -> StoreKey:
    """Returns the type of nodes or edges that a key means."""
    names = key if isinstance(key, tuple) else (key,)
    if len(names) in (1, 2, 3) and all(isinstance(name, str) for name in names):
        if len(names) == 1:
            return str(names[0])
        return (names[0], _DEFAULT_RELATION if len(names) == 2 else names[1], names[-1])
    raise TypeError(
        f"`key` must be a type of nodes or (source type, relation, target type); got {key!r}. Write data['paper'] or "
        "data['paper', 'cites', 'paper']."
    )
