"""Named values of examples in memory: what is stored of a graph, or of its nodes or edges of one type.

Values are numpy arrays, so that batches are made without an operation of TensorFlow for each graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.data.edge_properties import (
    are_coalesced,
    are_sorted,
    are_undirected,
    have_loops,
    leave_nodes_isolated,
)

NodeType = str
EdgeType = tuple[str, str, str]

#: Where a value of an example is: None for the graph itself, else the type of its nodes or edges.
StoreKey = Union[None, NodeType, EdgeType]
Stores = dict[StoreKey, dict[str, Any]]

#: Keys that hold node indices in every example.
INDEX_KEYS = ("edge_index", "face")
_ARRAY_KEYS = frozenset({"x", "edge_index", "edge_attr", "y", "pos", "face"})
_NODE_KEYS = ("x", "pos", "batch")
_EDGE_KEYS = ("edge_index", "edge_attr", "edge_weight", "edge_type")


class AbsentValueError(AttributeError, KeyError):
    """No type of nodes or edges has a value of a name."""

    __str__ = Exception.__str__


class _Size(int):
    """The number of elements of an array; called with a dimension, its size, as with a tensor of PyTorch."""

    _shape: tuple[int, ...] = ()

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]


class ArrayWithSizeMethod(np.ndarray):  # type: ignore[type-arg]
    """What overridden methods of PyG see: `size(0)` works as well as `shape[0]`."""

    @property
    def size(self) -> Any:
        """The number of elements, which also can be called."""
        size = _Size(super().size)
        size._shape = self.shape
        return size


def as_value(key: str, value: Any) -> Any:
    """Converts tensors to arrays, also in lists and dicts, and lists of numbers under the keys of PyG's tensors."""
    if key == "num_nodes":
        _check_num_nodes(value)
    if type(value) is np.ndarray or value is None or isinstance(value, (str, bytes, bool, int, float)):
        return value
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)) or (
        isinstance(value, tf.Tensor) and not hasattr(value, "numpy")
    ):
        raise TypeError(
            f"`{key}` must be an array or an eager dense tensor; got {type(value).__name__}. Store its values and row "
            "lengths, or its edges as `edge_index`, under keys of their own."
        )
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if isinstance(value, list) and key in _ARRAY_KEYS and not any(hasattr(item, "__array__") for item in value):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"`{key}` must have rows of one length; got {value!r}. Fill them up.") from error
        if key in INDEX_KEYS and not array.size:
            array = array.astype(np.int64)
        return array.astype(np.float32) if array.dtype == np.float64 else array
    if isinstance(value, Mapping):
        return {name: as_value(name, item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [as_value("", item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _check_num_nodes(value: Any) -> None:
    """Refuses numbers of nodes that are none; None removes the key."""
    if value is None:
        return
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iu" or array < 0:
        raise ValueError(f"`num_nodes` must be an integer of at least 0; got {value!r}.")


def num_nodes_in(store: Mapping[str, Any]) -> int | None:
    """Returns the number of nodes that the values of one store tell; None if they do not."""
    if (num_nodes := store.get("num_nodes")) is not None:
        return int(num_nodes)
    for key in _NODE_KEYS:
        value = store.get(key)
        if isinstance(value, np.ndarray) and value.ndim:
            return len(value)
    return None


def num_edges_in(store: Mapping[str, Any]) -> int:
    """Returns the number of edges that the values of one store tell; 0 if they tell none."""
    for key in _EDGE_KEYS:
        value = store.get(key)
        if isinstance(value, np.ndarray) and value.ndim:
            return int(value.shape[default_axis(key)])
    return 0


def width_of(value: Any) -> int:
    """Returns the size of the last dimension of an array; 1 for one number per item, 0 for what is no array."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return 0
    return 1 if value.ndim == 1 else int(value.shape[-1])


def tells_num_nodes(store: Mapping[str, Any]) -> bool:
    """Returns whether a store has a key that may tell the number of nodes."""
    return "num_nodes" in store or any(key in store for key in _NODE_KEYS)


def default_axis(key: str) -> int:
    """Returns the dimension along which PyG concatenates values of a key."""
    return -1 if "index" in key or key == "face" else 0


class Attributes:
    """Named values, as attributes and items."""

    _store: dict[str, Any]
    #: Names that give None where they are not set.
    _absent_as_none: frozenset[str] = frozenset()

    def __getattr__(self, key: str) -> Any:
        # Underscores are for attributes of subclasses, and for what `copy` and `pickle` ask for.
        if not key.startswith("_") and (store := self.__dict__.get("_store")) is not None:
            if key in store:
                return self._seen(store[key])
            if key in self._absent_as_none:
                return None
        raise AttributeError(
            f"`{key}` must be a key of {type(self).__name__}; got none of that name. Its keys are "
            f"{list(self.__dict__.get('_store') or ())}."
        )

    def _seen(self, value: Any) -> Any:
        return value

    def __setattr__(self, key: str, value: Any) -> None:
        descriptor = getattr(type(self), key, None)
        if key.startswith("_") or (isinstance(descriptor, property) and descriptor.fset is not None):
            object.__setattr__(self, key, value)
        else:
            self[key] = value

    def __delattr__(self, key: str) -> None:
        if key.startswith("_"):
            object.__delattr__(self, key)
        else:
            del self[key]

    def __getitem__(self, key: Any) -> Any:
        return self._seen(self._store[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"`key` must be a string; got {key!r}.")
        if value is None:
            self._store.pop(key, None)
        else:
            self._store[key] = as_value(key, value)

    def __delitem__(self, key: Any) -> None:
        del self._store[key]

    def __contains__(self, key: object) -> bool:
        return key in self._store

    def keys(self) -> list[str]:
        """Lists the names of the values, in the order in which they were set."""
        return list(self._store)


class Store(Attributes):
    """The values of the nodes or edges of one type, or of a whole graph."""

    def __init__(self, store: dict[str, Any], parent: Any, key: StoreKey) -> None:
        self._store = store
        self._parent = parent
        self._key = key

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[str]:
        yield from self._store

    def items(self) -> Any:
        """Returns pairs of name and value."""
        return self._store.items()

    def values(self) -> Any:
        """Returns the values."""
        return self._store.values()

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or the default if there is none."""
        return self._seen(self._store.get(key, default))

    def to_dict(self) -> dict[str, Any]:
        """Returns the values by name, as a new dict."""
        return dict(self._store)

    def _seen(self, value: Any) -> Any:
        return self._parent._seen(value)

    @property
    def num_nodes(self) -> int | None:
        """The number of nodes; None if it is not known."""
        self._refuse_unless("num_nodes", not isinstance(self._key, tuple))
        return num_nodes_in(self._store) if isinstance(self._key, str) else self._parent.num_nodes

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        self["num_nodes"] = value

    @property
    def num_node_features(self) -> int:
        """The size of the last dimension of `x`; 0 if there is none."""
        self._refuse_unless("num_node_features", not isinstance(self._key, tuple))
        return width_of(self._store.get("x"))

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        self._refuse_unless("num_edges", not isinstance(self._key, str))
        return num_edges_in(self._store)

    @property
    def num_edge_features(self) -> int:
        """The size of the last dimension of `edge_attr`; 0 if there is none."""
        self._refuse_unless("num_edge_features", not isinstance(self._key, str))
        return width_of(self._store.get("edge_attr"))

    @property
    def num_features(self) -> int:
        """The size of the last dimension of the features of nodes, or of edges."""
        return self.num_edge_features if isinstance(self._key, tuple) else self.num_node_features

    def size(self, dim: int | None = None) -> Any:
        """Returns the numbers of source and target nodes, or one of them."""
        self._refuse_unless("size", not isinstance(self._key, str))
        ends = (None, None) if self._key is None else (self._key[0], self._key[2])
        sizes = tuple(self._parent.num_nodes if end is None else self._parent[end].num_nodes for end in ends)
        return sizes if dim is None else sizes[dim]

    def is_bipartite(self) -> bool:
        """Returns whether edges lead from one type of nodes to another."""
        return isinstance(self._key, tuple) and self._key[0] != self._key[2]

    def is_undirected(self) -> bool:
        """Returns whether each edge has one in the other direction."""
        index = self._edge_index()
        return not self.is_bipartite() and are_undirected(index, self._store.get("edge_attr"))

    def is_directed(self) -> bool:
        """Returns whether an edge lacks one in the other direction."""
        return not self.is_undirected()

    def has_self_loops(self) -> bool:
        """Returns whether an edge leads from a node to itself."""
        index = self._edge_index()
        return not self.is_bipartite() and have_loops(index)

    def has_isolated_nodes(self) -> bool:
        """Returns whether a node has no edge; between types, a target node."""
        index, num_nodes = self._edge_index(), required_num_nodes(self.size(1), "edge_index")
        return len(np.unique(index[1])) < num_nodes if self.is_bipartite() else leave_nodes_isolated(index, num_nodes)

    def is_coalesced(self) -> bool:
        """Returns whether edges are sorted, and none is there twice."""
        return "edge_index" not in self or are_coalesced(self._edge_index())

    def is_sorted(self, sort_by_row: bool = True) -> bool:
        """Returns whether edges are in the order of their sources, or targets."""
        return "edge_index" not in self or are_sorted(self._edge_index(), by_row=sort_by_row)

    def _edge_index(self) -> Any:
        index = self._store.get("edge_index")
        if index is None:
            raise AttributeError(f"`edge_index` must be set to tell it of edges; got the keys {list(self._store)}.")
        return index

    def _refuse_unless(self, name: str, is_known: bool) -> None:
        if not is_known:
            what = "edges" if isinstance(self._key, tuple) else "nodes"
            raise AttributeError(f"`{name}` is not known of {what}, as of {self._key!r}. Its keys are {self.keys()}.")

    def __repr__(self) -> str:
        return f"{{{describe_store(self._store)}}}"


def describe_store(store: Mapping[str, Any]) -> str:
    """Describes values by their shapes: `x=[3, 16], y=1`."""
    return ", ".join(f"{key}={_describe(value)}" for key, value in store.items())


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"{{{describe_store(value)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{len(value)}]"
    return repr(value)


def required_num_nodes(num_nodes: int | None, key: str) -> int:
    """Returns a number of nodes; refuses one that is not known."""
    if num_nodes is None:
        raise ValueError(
            f"`num_nodes` must be known, because `{key}` grows by it from graph to graph; got neither `num_nodes` nor "
            "`x` nor `pos`. Set `num_nodes`: the indices of edges do not tell how many nodes have no edges. Or say "
            f"what `{key}` counts with a FieldRule."
        )
    return num_nodes
