"""Examples in memory: graphs as named arrays, which need no schema and may hold anything, and subclasses of them.

They are what PyG calls `Data` and `HeteroData`. Values are numpy arrays, so that batches are made without an operation
of TensorFlow for each graph.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np
import tensorflow as tf

NodeType = str
EdgeType = tuple[str, str, str]

#: Where a value of an example is: None for the graph itself, else the type of its nodes or edges.
StoreKey = Union[None, NodeType, EdgeType]
Stores = dict[StoreKey, dict[str, Any]]

#: Keys that hold node indices in every example.
INDEX_KEYS = ("edge_index", "face")
_ARRAY_KEYS = frozenset({"x", "edge_index", "edge_attr", "y", "pos", "face"})
_ABSENT_AS_NONE = _ARRAY_KEYS - {"face"}
_NODE_KEYS = ("x", "pos")
_DEFAULT_RELATION = "to"


class UndecidedIncrementError(ValueError):
    """A key has a name like those of indices, but nothing says whether it holds some."""


class _Size(int):
    """The number of elements of an array; called with a dimension, its size, as with a tensor of PyTorch."""

    _shape: tuple[int, ...] = ()

    def __call__(self, dim: int | None = None) -> Any:
        return self._shape if dim is None else self._shape[dim]


class _ArrayWithSizeMethod(np.ndarray):  # type: ignore[type-arg]
    """What overridden methods of PyG see: `size(0)` works as well as `shape[0]`."""

    @property
    def size(self) -> Any:
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


def tells_num_nodes(store: Mapping[str, Any]) -> bool:
    """Returns whether a store has a key that may tell the number of nodes."""
    return "num_nodes" in store or any(key in store for key in _NODE_KEYS)


def default_axis(key: str) -> int:
    """Returns the dimension along which PyG concatenates values of a key."""
    return -1 if "index" in key or key == "face" else 0


class _Attributes:
    """Named values, as attributes and items."""

    _store: dict[str, Any]

    def __getattr__(self, key: str) -> Any:
        # Underscores are for attributes of subclasses, and for what `copy` and `pickle` ask for.
        if not key.startswith("_") and (store := self.__dict__.get("_store")) is not None:
            if key in store:
                return self._seen(store[key])
            if key in _ABSENT_AS_NONE:
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


class _Store(_Attributes):
    """The values of the nodes or edges of one type."""

    def __init__(self, store: dict[str, Any]) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self._store.items()

    @property
    def num_nodes(self) -> int | None:
        return num_nodes_in(self._store)

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        self["num_nodes"] = value

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


def overrides_rules(cls: type[Any]) -> bool:
    """Returns whether a subclass overrides methods of PyG that say how values are collated."""
    return cls.__inc__ is not GraphData.__inc__ or cls.__cat_dim__ is not GraphData.__cat_dim__


class GraphData(_Attributes):
    """A graph as named values: PyG's `Data`.

    Values are attributes and items: `data.x` is `data["x"]`. Arrays, tensors of TensorFlow and of PyTorch are kept as
    numpy arrays; numbers, strings, lists, tuples and dicts are kept as they are, but for lists under `x`, `edge_index`,
    `edge_attr`, `y`, `pos` and `face`, which become arrays. A value of None removes the key. Those names but `face` are
    None if they are not set.

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
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
            return value.view(_ArrayWithSizeMethod)
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
        return _rebuilt, (type(self), state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _rebuilt(
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
        return num_nodes_in(self._store)

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        self["num_nodes"] = value

    @property
    def num_edges(self) -> int:
        """The number of edges; 0 if there is no `edge_index`."""
        edge_index = self._store.get("edge_index")
        return 0 if edge_index is None else edge_index.shape[-1]

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns by how much the values of a key grow from this graph to the next: PyG's method, to be overridden."""
        if key in INDEX_KEYS:
            return required_num_nodes(self.num_nodes, key)
        refuse_undecided(key, value)
        return 0

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> int | None:
        """Returns the dimension along which values of a key are concatenated: PyG's method, to be overridden."""
        return default_axis(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_store(self._store)})"


def _rebuilt(cls: type[GraphData], state: dict[str, Any]) -> GraphData:
    data = cls.__new__(cls)
    data.__dict__.update(state, _store=state["_stores"][None])
    return data


class HeteroGraphData(GraphData):
    """A graph with several types of nodes and edges, as named values: PyG's `HeteroData`.

    `data["paper"]` has the values of nodes of one type, `data["paper", "cites", "paper"]` of edges from and to a type;
    both are made when they are first asked for. Attributes, such as `data.y`, are values of the graph.

    Example:
        >>> data = tfx_gnn.HeteroGraphData()
        >>> data["paper"].x = np.ones([2, 8])
        >>> data["author"].num_nodes = 3
        >>> data["paper", "by", "author"].edge_index = [[0, 1], [2, 0]]
        >>> data.edge_types
        [('paper', 'by', 'author')]
    """

    def __getitem__(self, key: Any) -> Any:
        """Returns a value of the graph, or the values of a type of nodes or edges."""
        if isinstance(key, str) and key in self._store:
            return self._seen(self._store[key])
        return _Store(self._stores.setdefault(_checked_type(key), {}))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Mapping) and (isinstance(key, tuple) or key not in self._store):
            store = _Store(self._stores.setdefault(_checked_type(key), {}))
            for name, item in value.items():
                store[name] = item
        else:
            super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, str) and key in self._store:
            del self._store[key]
        else:
            del self._stores[_checked_type(key)]

    def __contains__(self, key: object) -> bool:
        return key in self._store or (key is not None and key in self._stores)

    @property
    def node_types(self) -> list[str]:
        """The types of nodes."""
        return [key for key in self._stores if isinstance(key, str)]

    @property
    def edge_types(self) -> list[EdgeType]:
        """The types of edges: (type of the source, relation, type of the target)."""
        return [key for key in self._stores if isinstance(key, tuple)]

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
        stores = [self._stores[edge_type] for edge_type in self.edge_types]
        return sum(store["edge_index"].shape[-1] for store in stores if "edge_index" in store)

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


def required_num_nodes(num_nodes: int | None, key: str) -> int:
    """Returns a number of nodes; refuses one that is not known."""
    if num_nodes is None:
        raise ValueError(
            f"`num_nodes` must be known, because `{key}` grows by it from graph to graph; got neither `num_nodes` nor "
            "`x` nor `pos`. Set `num_nodes`: the indices of edges do not tell how many nodes have no edges. Or say "
            f"what `{key}` counts with a FieldRule."
        )
    return num_nodes


def refuse_undecided(key: str, value: Any) -> None:
    """Refuses arrays and integers whose name makes PyG, but not this library, take them for indices."""
    if ("index" in key or "batch" in key) and isinstance(value, (np.ndarray, int)) and not isinstance(value, bool):
        raise UndecidedIncrementError(
            f"`{key}` must have a rule, because its name does not say for certain whether it holds indices; got none. "
            f"Write rules={{{key!r}: FieldRule()}} to leave its values as they are, FieldRule(increment='num_nodes') "
            "for node indices, or guesses_by_name=True for PyG's guesses."
        )
