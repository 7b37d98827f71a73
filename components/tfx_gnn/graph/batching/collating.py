"""Makes batches of examples in memory, and takes them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.batching.columns import (
    ArrayColumn,
    Column,
    Counts,
    ListColumn,
    MappingColumn,
    SequenceColumn,
    TotalColumn,
    join_arrays,
    join_offsets,
    starts_of,
)
from tfx_gnn.graph.batching.graph_data import (
    INDEX_KEYS,
    GraphData,
    HeteroGraphData,
    StoreKey,
    Stores,
    UndecidedIncrementError,
    default_axis,
    describe_store,
    num_nodes_in,
    overrides_rules,
    refuse_undecided,
    required_num_nodes,
)
from tfx_gnn.graph.batching.graph_layout import EdgeLayout, FieldRule, GraphLayout, Key
from tfx_gnn.graph.graph_constants import DEFAULT_INDICES_DTYPE, SIZE_NAME, SOURCE, TARGET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

_BATCH, _PTR = "batch", "ptr"
_NO_RULES: Mapping[Key, FieldRule] = MappingProxyType({})
_Path = tuple[StoreKey, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plan:
    """How a batch was made, so that it can be taken apart.

    `columns` has the keys of the examples; what was added to them (`batch`, `ptr` and what follows keys) is in `added`.
    `states` has further attributes of the examples, such as the plans of inner batches.
    """

    example_type: type[GraphData]
    num_examples: int
    num_innermost: int
    columns: dict[StoreKey, dict[str, Column]]
    added: frozenset[_Path]
    states: tuple[dict[str, Any], ...] | None


class Batch(HeteroGraphData):
    """Several examples as one graph without edges between them: PyG's `Batch`.

    It has the keys of the examples, `batch` (the example of each node, shape [num_nodes]) and `ptr` (where the nodes of
    each example begin, shape [num_examples + 1]), if their numbers of nodes are known. `collate`, `DataLoader` and
    `from_data_list` make batches.

    Example:
        >>> data = tfx_gnn.GraphData(x=np.ones([2, 16]), edge_index=[[0, 1], [1, 0]])
        >>> batch = tfx_gnn.collate([data, data])
        >>> batch
        GraphDataBatch(x=[4, 16], edge_index=[2, 4], batch=[4], ptr=[3])
        >>> batch.edge_index.tolist()
        [[0, 1, 2, 3], [1, 0, 3, 2]]
        >>> batch[1]
        GraphData(x=[2, 16], edge_index=[2, 2])
    """

    _plan: _Plan | None = None

    @classmethod
    def from_data_list(
        cls, data_list: Sequence[GraphData], *, follow_batch: Sequence[str] = (), exclude_keys: Sequence[str] = ()
    ) -> Batch:
        """Makes a batch, as `collate` does.

        Args:
            data_list: examples, at least one.
            follow_batch: keys that get `<key>_batch` and `<key>_ptr`.
            exclude_keys: keys to leave out.

        Raises:
            ValueError: if the examples do not fit together.
        """
        return collate(data_list, follow_batch=follow_batch, exclude_keys=exclude_keys)

    @property
    def num_graphs(self) -> int:
        """The number of examples.

        Raises:
            RuntimeError: if the batch was not made from examples, and has no `ptr`.
        """
        if self._plan is not None:
            return self._plan.num_examples
        if _PTR in self._store:
            return len(self._store[_PTR]) - 1
        raise RuntimeError(
            "`num_graphs` must be known from collate() or `ptr`; got neither. Make the batch by collate()."
        )

    def __len__(self) -> int:
        """Returns the number of examples."""
        return self.num_graphs

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        """Yields the examples."""
        return iter(self.to_data_list())

    def __getitem__(self, key: Any) -> Any:
        """Returns a value, an example, or a list of examples.

        Args:
            key: name of a value; type of nodes or edges; index of an example; or what `index_select` takes.

        Raises:
            KeyError: if there is no such value.
            IndexError: if there is no such example.
        """
        if isinstance(key, str) and (key in self._store or key not in self._stores):
            return self._store[key]
        if isinstance(key, (str, tuple)):
            return super().__getitem__(key)
        if np.ndim(key) == 0 and not isinstance(key, slice):
            return self._example(self._positions([key])[0])
        return self.index_select(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str) and len(self._stores) == 1:
            # A dict is a value, unless there are types of nodes.
            GraphData.__setitem__(self, key, value)
        else:
            super().__setitem__(key, value)

    @property
    def num_nodes(self) -> int | None:
        """The number of nodes of all examples; None if it is not known."""
        if len(self._stores) > 1:
            return HeteroGraphData.num_nodes.fget(self)  # type: ignore[attr-defined]
        found = num_nodes_in(self._store)
        return int(self._store[_PTR][-1]) if found is None and _PTR in self._store else found

    @num_nodes.setter
    def num_nodes(self, value: int) -> None:
        self._store["num_nodes"] = value

    def to_data_list(self) -> list[Any]:
        """Returns the examples exactly as they were, but for values that were replaced since.

        Arrays share the memory of the batch where their values have not grown.

        Raises:
            RuntimeError: if the batch was not made from examples.
            ValueError: if a value was added since, or has another number of rows.
        """
        plan = self._checked_plan()
        stores = {
            store_key: _rows(
                {key: column.split(values[key]) for key, column in columns.items() if key in values}, plan.num_examples
            )
            for store_key, columns, values in self._columns(plan)
        }
        return [
            _make_example(plan, position, {store_key: rows[position] for store_key, rows in stores.items()})
            for position in range(plan.num_examples)
        ]

    def index_select(self, index: Any) -> list[Any]:
        """Returns some examples.

        Args:
            index: a slice, a bool mask of shape [num_graphs], or a list, array or tensor of indices of shape
                [num_examples]; negative ones count from the end.

        Raises:
            IndexError: if there is no such example, or a mask has another size.
            TypeError: if `index` is none of these.
        """
        return [self._example(position) for position in self._positions(index)]

    def to_graph_tensor(self, layout: GraphLayout, *, indices_dtype: tf.DType = DEFAULT_INDICES_DTYPE) -> GraphTensor:
        """Returns the batch as a graph with a component for each example.

        Args:
            layout: which keys belong to which sets.
            indices_dtype: dtype of sizes and node indices.

        Returns:
            Scalar graph with `num_graphs` components.

        Raises:
            RuntimeError: if the batch was not made from examples.
            KeyError: if the layout names a key that is not there.
            ValueError: if features of a set have different numbers of rows, or edges have grown by other numbers than
                those of the nodes of the layout.
        """
        return _GraphMaker(self, self._checked_plan(), layout, indices_dtype).make()

    def axis_of(self, key: str) -> int:
        """Returns the dimension along which examples follow each other in an array.

        Args:
            key: name of a value that is not of a type of nodes or edges.
        """
        column = None if self._plan is None else self._plan.columns[None].get(key)
        return column.axis if isinstance(column, ArrayColumn) else 0

    def _checked_plan(self) -> _Plan:
        plan = self._plan
        if plan is None:
            raise RuntimeError(
                "`batch` must be made from examples to be taken apart; got one that was made otherwise. Use collate(), "
                "Batch.from_data_list() or DataLoader."
            )
        for store_key, store in self._stores.items():
            for key in store:
                if key not in plan.columns.get(store_key, ()) and (store_key, key) not in plan.added:
                    raise ValueError(
                        f"`batch` must hold what it was made from to be taken apart; got {key!r}, which was added "
                        f"since. Delete it first: `del batch.{key}`."
                    )
        return plan

    def _columns(self, plan: _Plan) -> list[tuple[StoreKey, dict[str, Column], dict[str, Any]]]:
        # What was deleted from the batch is absent from the examples, too.
        return [(key, columns, self._stores.get(key, {})) for key, columns in plan.columns.items()]

    def _positions(self, index: Any) -> list[int]:
        num_graphs = self.num_graphs
        if isinstance(index, slice):
            return list(range(num_graphs))[index]
        chosen = np.asarray(index)
        if chosen.size == 0 and chosen.dtype != bool:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "biu" or isinstance(index, (tuple, str)):
            raise TypeError(
                f"`batch[...]` takes a key, an integer, a slice, a bool mask, or a list or array of integers; got "
                f"{index!r}."
            )
        if chosen.dtype == bool and np.ndim(index):
            if len(chosen) != num_graphs:
                raise IndexError(f"`mask` must have one bool per example; got {len(chosen)} for {num_graphs} examples.")
            return np.flatnonzero(chosen).tolist()
        wrong = chosen[(chosen < -num_graphs) | (chosen >= num_graphs)]
        if len(wrong):
            raise IndexError(
                f"`batch[i]` must have i in [-{num_graphs}, {num_graphs}), for a batch of {num_graphs} examples; got "
                f"{wrong[0]}."
            )
        return (chosen % num_graphs).tolist() if num_graphs else []

    def _example(self, position: int) -> Any:
        plan = self._checked_plan()
        stores: Stores = {
            store_key: {key: column.pick(values[key], position) for key, column in columns.items() if key in values}
            for store_key, columns, values in self._columns(plan)
        }
        return _make_example(plan, position, stores)

    def __repr__(self) -> str:
        name = "Batch" if self._plan is None else f"{self._plan.example_type.__name__.removesuffix('Batch')}Batch"
        if len(self._stores) == 1:
            return f"{name}({describe_store(self._store)})"
        return super().__repr__().replace(type(self).__name__, name, 1)


def _rows(columns: dict[str, list[Any]], num_examples: int) -> list[dict[str, Any]]:
    if not columns:
        return [{} for _ in range(num_examples)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _make_example(plan: _Plan, position: int, stores: Stores) -> Any:
    example = plan.example_type.__new__(plan.example_type)
    state = example.__dict__
    if plan.states is not None:
        state.update(plan.states[position])
    state["_stores"] = stores
    state["_store"] = stores[None]
    return example


def collate(
    examples: Sequence[GraphData],
    *,
    layout: GraphLayout | None = None,
    rules: Mapping[Key, FieldRule] = _NO_RULES,
    follow_batch: Sequence[str] = (),
    exclude_keys: Sequence[str] = (),
    guesses_by_name: bool = False,
) -> Batch:
    """Makes a batch of examples: PyG's `Batch.from_data_list`.

    Arrays are concatenated along their first dimension, `edge_index` and `face` along their last one, and the indices
    in these two grow by the number of nodes of earlier examples. Other keys follow their rule, the layout, or
    overridden methods `__inc__` and `__cat_dim__` of the examples, in this order. Numbers become an array, strings and
    lists of numbers a list; dicts, and lists of arrays, are collated by name or position. Indices are checked.

    Args:
        examples: graphs of one class with the same keys, dtypes and, but for the dimension that is concatenated,
            shapes; at least one. Batches can be collated again.
        layout: which keys belong to which sets, from which the increments of edges follow.
        rules: key to rule. A key of a heterogeneous example is ("paper", "x") or ("paper", "by", "author", "weight").
        follow_batch: keys of arrays that get `<key>_batch` (the example of each row) and `<key>_ptr`.
        exclude_keys: keys to leave out.
        guesses_by_name: whether all keys with "index" in their names hold node indices, and those with "batch" ids of
            inner graphs, as PyG assumes. By default, other keys than `edge_index` and `face` need a rule.

    Returns:
        The batch.

    Raises:
        TypeError: if an example is not a GraphData, or not of the class of the first one.
        ValueError: if the examples do not fit together, an index is out of range, a key needs a rule or the number of
            nodes, or a key to follow or exclude does not exist.

    Example:
        >>> data = tfx_gnn.GraphData(num_nodes=3, edge_index=[[0, 1], [1, 2]], foo=np.zeros([16]))
        >>> tfx_gnn.collate([data, data], rules={"foo": tfx_gnn.FieldRule(axis=None)})
        GraphDataBatch(edge_index=[2, 4], num_nodes=6, foo=[2, 16], batch=[6], ptr=[3])
    """
    return Collator(
        layout=layout,
        rules=rules,
        follow_batch=follow_batch,
        exclude_keys=exclude_keys,
        guesses_by_name=guesses_by_name,
    ).collate(examples)


def _names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"`{argument}` must be a list of keys; got {names!r}. Write [{names!r}].")
    return tuple(names)


@dataclasses.dataclass
class _Examples:
    """The examples of one batch, and what indices of them count."""

    examples: Sequence[GraphData]
    counts: dict[str, Counts] = dataclasses.field(default_factory=dict)
    known: dict[StoreKey, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)

    @property
    def example_type(self) -> Any:
        return type(self.examples[0])

    def stores(self, store_key: StoreKey) -> list[dict[str, Any]]:
        if store_key not in self.known:
            self.known[store_key] = [example._stores[store_key] for example in self.examples]
        return self.known[store_key]


class Collator:
    """Makes batches with the options of `collate`."""

    def __init__(
        self,
        *,
        layout: GraphLayout | None,
        rules: Mapping[Key, FieldRule],
        follow_batch: Sequence[str],
        exclude_keys: Sequence[str],
        guesses_by_name: bool,
    ) -> None:
        for key, rule in rules.items():
            if not isinstance(rule, FieldRule):
                raise TypeError(f"`rules` must hold FieldRules; got {rule!r} for {key!r}.")
        self._layout = layout
        self._rules = rules
        self._follow = _names(follow_batch, "follow_batch")
        self._exclude = _names(exclude_keys, "exclude_keys")
        self._guesses = guesses_by_name

    def collate(self, examples: Sequence[GraphData]) -> Batch:
        """Makes a batch."""
        _check_classes(examples)
        given = _Examples(examples)
        store_keys = [key for key, store in examples[0]._stores.items() if store or key is None]
        _check_keys(examples, store_keys)
        self._check_named_keys(examples[0])
        batch: Any = Batch.__new__(Batch)
        stores: Stores = {}
        columns: dict[StoreKey, dict[str, Column]] = {}
        added: set[_Path] = set()
        for store_key in store_keys:
            stores[store_key], columns[store_key] = {}, {}
            new = self._collate_store(given, store_key, stores[store_key], columns[store_key])
            added.update((store_key, key) for key in new)
        is_nested = isinstance(examples[0], Batch)
        if isinstance(examples[0], Batch) and examples[0]._plan is not None:
            # Ids of inner graphs still grow if this batch is collated in turn.
            added |= examples[0]._plan.added
        states = None
        if len(examples[0].__dict__) > 2:
            states = tuple(
                {name: value for name, value in example.__dict__.items() if name not in ("_stores", "_store")}
                for example in examples
            )
        batch.__dict__.update(
            _stores=stores,
            _store=stores[None],
            _plan=_Plan(
                example_type=type(examples[0]),
                num_examples=len(examples),
                num_innermost=int(_innermost(examples).sum()) if is_nested else len(examples),
                columns=columns,
                added=frozenset(added),
                states=states,
            ),
        )
        return batch

    def _check_named_keys(self, example: GraphData) -> None:
        for argument, names in (("follow_batch", self._follow), ("exclude_keys", self._exclude)):
            for name in names:
                if not any(name in store for store in example._stores.values()):
                    known = sorted({key for store in example._stores.values() for key in store})
                    raise ValueError(f"`{argument}` must name keys of the examples; got {name!r}. Known are {known}.")
        both = set(self._follow) & set(self._exclude)
        if both:
            raise ValueError(f"`follow_batch` must name keys that are not excluded; got {sorted(both)} in both.")

    def _collate_store(
        self, given: _Examples, store_key: StoreKey, joined: dict[str, Any], columns: dict[str, Column]
    ) -> list[str]:
        """Joins all values of one store; returns the keys that were added."""
        stores = given.stores(store_key)
        added = []
        for key in stores[0]:
            if key in self._exclude:
                continue
            values = [store[key] for store in stores]
            joined[key], columns[key] = self._join(given, store_key, key, values)
            if key in self._follow:
                lengths = columns[key].lengths if isinstance(columns[key], ArrayColumn) else None
                if lengths is None:
                    raise ValueError(
                        f"`follow_batch` must name arrays; got {key!r}, which holds {type(values[0]).__name__}."
                    )
                added += [f"{key}_{_BATCH}", f"{key}_{_PTR}"]
                _add(joined, stores[0], added[-2:], lengths)
        if not issubclass(given.example_type, Batch) and not isinstance(store_key, tuple):
            counts = self._known_num_nodes(given, store_key)
            if counts is not None:
                added += [_BATCH, _PTR]
                _add(joined, stores[0], added[-2:], counts)
        return added

    def _known_num_nodes(self, given: _Examples, store_key: StoreKey) -> Counts | None:
        """Returns the number of nodes of each example; None if it is not known, or the store has none."""
        if store_key is None and "num_nodes" in given.counts and self._layout is None:
            return given.counts["num_nodes"]
        if store_key is None:
            if issubclass(given.example_type, HeteroGraphData) and not issubclass(given.example_type, Batch):
                return None
            if given.example_type.num_nodes is not GraphData.num_nodes:
                counts = [example.num_nodes for example in given.examples]
            else:
                counts = [num_nodes_in(store) for store in given.stores(None)]
        else:
            counts = [num_nodes_in(store) for store in given.stores(store_key)]
        return None if None in counts else np.array(counts, np.int64)

    def _join(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> tuple[Any, Column]:
        first = values[0]
        if isinstance(first, (np.ndarray, int, float)):
            if key == "num_nodes":
                return int(sum(values)), TotalColumn(values)
            return self._join_arrays(given, store_key, key, values)
        if isinstance(first, Mapping):
            _check_same(key, [list(value) if isinstance(value, Mapping) else value for value in values], "keys")
            parts = {name: self._join(given, store_key, name, [value[name] for value in values]) for name in first}
            return (
                {name: joined for name, (joined, _) in parts.items()},
                MappingColumn({name: column for name, (_, column) in parts.items()}),
            )
        if any(isinstance(value, (list, tuple)) and _holds_arrays(value) for value in values):
            _check_same(key, [(type(value), len(value)) for value in values], "types and lengths")
            columns = [
                self._join(given, store_key, key, [value[place] for value in values]) for place in range(len(first))
            ]
            return [joined for joined, _ in columns], SequenceColumn([column for _, column in columns], type(first))
        if any(isinstance(value, (np.ndarray, Mapping)) for value in values):
            _check_same(key, [type(value) for value in values], "types")
        return values, ListColumn()

    def _join_arrays(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> tuple[Any, Column]:
        path: Key = key if store_key is None else (*_parts(store_key), key)
        rule = self._rules.get(path)
        is_edge_index = False
        if rule is None and self._layout is not None:
            rule = self._layout.rule_of(path)
            is_edge_index = any(edges.index == path for edges in self._layout.edge_sets.values())
        if rule is not None:
            counts = None if rule.increment is None else self._rule_counts(given, key, rule, values[0])
            return join_arrays(key, values, axis=rule.axis, counts=counts, keeps_missing=not is_edge_index)
        if issubclass(given.example_type, Batch):
            inner = given.examples[0]._plan
            if inner is not None and (store_key, key) in inner.added:
                if key == _PTR or key.endswith(f"_{_PTR}"):
                    return join_offsets(values)
                return join_arrays(key, values, axis=0, counts=_innermost(given.examples))
        elif overrides_rules(given.example_type):
            return self._join_as_overridden(given, store_key, key, values)
        return join_arrays(
            key, values, axis=default_axis(key), counts=self._default_counts(given, store_key, key, values)
        )

    def _default_counts(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> Any:
        if key in INDEX_KEYS:
            if isinstance(store_key, tuple):
                source, target = (self._counts(given, name, key) for name in (store_key[0], store_key[2]))
                return np.stack([source, target])
            return self._counts(given, "num_nodes" if store_key is None else store_key, key)
        if not self._guesses:
            refuse_undecided(key, values[0])
            return None
        return self._guessed_counts(given, store_key, key, values)

    def _guessed_counts(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> Counts | None:
        if "index" in key and not isinstance(store_key, tuple):
            return self._counts(given, "num_nodes" if store_key is None else store_key, key)
        if _BATCH in key:
            return np.array([int(np.max(value)) + 1 if np.size(value) else 0 for value in values])
        return None

    def _join_as_overridden(
        self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]
    ) -> tuple[Any, Column]:
        """Asks the overridden methods of all examples."""
        increments = []
        axis = None
        for position, (example, value) in enumerate(zip(given.examples, values, strict=True)):
            arguments: tuple[Any, ...] = (key, example._seen(value))
            if store_key is not None:
                arguments = (*arguments, example[store_key])
            if position == 0:
                axis = example.__cat_dim__(*arguments)
            try:
                increments.append(example.__inc__(*arguments))
            except UndecidedIncrementError:
                if not self._guesses:
                    raise
                counts = self._guessed_counts(given, store_key, key, values)
                return join_arrays(key, values, axis=axis, counts=counts)
        return join_arrays(key, values, axis=axis, counts=_as_counts(key, increments, axis, values[0]))

    def _rule_counts(self, given: _Examples, key: str, rule: FieldRule, first: Any) -> Any:
        if isinstance(rule.increment, str):
            return self._counts(given, rule.increment, key)
        assert rule.increment is not None
        names = rule.increment
        other = None if rule.axis is None else 1 - rule.axis % 2
        if other is None or np.ndim(first) != 2 or first.shape[other] != len(names):
            raise ValueError(
                f"`{key}` must be a matrix with {len(names)} rows, one for each name of its increment {names}, beside "
                f"the dimension that is concatenated; got shape {np.shape(first)} and axis {rule.axis}."
            )
        counts = np.stack([self._counts(given, name, key) for name in names])
        return counts if other == 0 else counts.T

    def _counts(self, given: _Examples, name: str, key: str) -> Counts:
        """Returns the number, in each example, of what an increment names."""
        if name not in given.counts:
            given.counts[name] = np.array(self._count(given, name, key), np.int64)
        return given.counts[name]

    def _count(self, given: _Examples, name: str, key: str) -> list[int]:
        if self._layout is not None and name in self._layout.node_sets:
            return self._sizes(given, self._layout.size_key(name), key)
        if name == "num_nodes":
            if given.example_type.num_nodes is GraphData.num_nodes:
                return _required_num_nodes(given.stores(None), key)
            return [required_num_nodes(example.num_nodes, key) for example in given.examples]
        if name in given.examples[0]._stores:
            return [required_num_nodes(num_nodes_in(store), f"{key} of {name}") for store in given.stores(name)]
        return self._sizes(given, name, key)

    def _sizes(self, given: _Examples, counted: Key, key: str) -> list[int]:
        store_key, name = split_key(counted)
        stores = [example._stores.get(store_key, {}) for example in given.examples]
        if name not in stores[0]:
            raise ValueError(
                f"`increment` of {key!r} must name a key or a node set of the layout; got {counted!r}. Known are "
                f"{list(stores[0])}."
            )
        values = [store[name] for store in stores]
        if isinstance(values[0], np.ndarray) and values[0].ndim:
            rule = self._rules.get(counted) or (self._layout.rule_of(counted) if self._layout else None)
            axis = default_axis(name) if rule is None else rule.axis or 0
            return [value.shape[axis] for value in values]
        try:
            return [int(value) for value in values]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`increment` of {key!r} must name a key of arrays or integers; got {counted!r}, which holds "
                f"{type(values[0]).__name__}."
            ) from error


def _required_num_nodes(stores: list[dict[str, Any]], key: str) -> list[int]:
    first = stores[0]
    x = first.get("x")
    if "num_nodes" not in first and isinstance(x, np.ndarray) and x.ndim:
        return [len(store["x"]) for store in stores]
    return [required_num_nodes(num_nodes_in(store), key) for store in stores]


def _parts(store_key: StoreKey) -> tuple[str, ...]:
    return store_key if isinstance(store_key, tuple) else (str(store_key),)


def split_key(key: Key) -> _Path:
    """Returns where a value is, and its name there."""
    if isinstance(key, str):
        return None, key
    if len(key) == 2:
        return key[0], key[1]
    if len(key) == 4:
        return (key[0], key[1], key[2]), key[3]
    raise ValueError(
        f"`key` must be a name, (node type, name) or (source type, relation, target type, name); got {key!r}."
    )


def _innermost(examples: Sequence[Any]) -> Counts:
    """Counts the innermost graphs of batches."""
    return np.array([batch.num_graphs if batch._plan is None else batch._plan.num_innermost for batch in examples])


def _add(joined: dict[str, Any], keys: Mapping[str, Any], names: list[str], lengths: Counts) -> None:
    """Adds the example of each row, and where the rows of each example begin."""
    for name in names:
        if name in keys:
            raise ValueError(
                f"`{name}` must be free, because a batch has its own; got it as a key of the examples. Rename it, or "
                "write exclude_keys."
            )
    joined[names[0]] = np.repeat(np.arange(len(lengths)), lengths)
    joined[names[1]] = starts_of(lengths)


def _check_classes(examples: Sequence[Any]) -> None:
    if not len(examples):
        raise ValueError("`examples` must hold at least one example; got none. Skip empty batches.")
    first = type(examples[0])
    if not issubclass(first, GraphData):
        raise TypeError(f"`examples` must hold GraphData; got {first.__name__}. Make GraphData(x=..., edge_index=...).")
    if len(set(map(type, examples))) == 1:
        return
    for position, example in enumerate(examples):
        if type(example) is not first:
            raise TypeError(
                f"`examples` must be of one class; got {first.__name__} and, in example {position}, "
                f"{type(example).__name__}."
            )


def _check_keys(examples: Sequence[GraphData], store_keys: list[StoreKey]) -> None:
    """Refuses examples with other keys than those of the first one."""
    if len(store_keys) == 1:
        names = examples[0]._store.keys()
        # Mostly they have been set in the same order, which is faster to compare.
        is_one_store = not isinstance(examples[0], HeteroGraphData)
        if is_one_store and len({tuple(example._store) for example in examples}) == 1:
            return
        for position, example in enumerate(examples):
            if example._store.keys() != names:
                _refuse_keys(set(names), set(example._store), position)
        return
    paths = _paths(examples[0])
    for position, example in enumerate(examples):
        if (others := _paths(example)) != paths:
            _refuse_keys(paths, others, position)


def _paths(example: GraphData) -> set[_Path]:
    return {(store_key, key) for store_key, store in example._stores.items() for key in store}


def _refuse_keys(names: set[Any], others: set[Any], position: int) -> None:
    missing, further = sorted(map(str, names - others)), sorted(map(str, others - names))
    found = [f"{what} {keys}" for what, keys in (("without", missing), ("with", further)) if keys]
    raise ValueError(
        f"`examples` must all have the same keys; got example {position} {' and '.join(found)}, unlike example 0. Set "
        "the keys in all examples, or write exclude_keys."
    )


def _check_same(key: str, descriptions: list[Any], what: str) -> None:
    for position, description in enumerate(descriptions):
        if description != descriptions[0]:
            raise ValueError(
                f"`{key}` must have the same {what} in all examples; got {descriptions[0]} in example 0 and "
                f"{description} in example {position}."
            )


def _holds_arrays(value: Sequence[Any]) -> bool:
    return bool(value) and isinstance(value[0], np.ndarray)


def _as_counts(key: str, increments: list[Any], axis: int | None, first: Any) -> Any:
    """Converts what overridden methods return: integers, or arrays for each row of the values."""
    if all(isinstance(increment, int) for increment in increments):
        return np.array(increments, np.int64)
    arrays = [np.asarray(increment) for increment in increments]
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise ValueError(f"`__inc__` must return integers for {key!r}; got {increments[0]!r}.")
    if all(array.size == 1 for array in arrays):
        return np.array([int(array.reshape(())) for array in arrays], np.int64)
    shape = list(first.shape)
    if axis is None:
        arrays, axis, shape = [array[np.newaxis] for array in arrays], 0, [1, *shape]
    fits = [array.ndim == len(shape) and array.shape[axis] == 1 for array in arrays]
    if not all(fits):
        wrong = arrays[fits.index(False)]
        raise ValueError(
            f"`__inc__` must return an integer for {key!r}, or one per row, as in [[2], [3]]; got shape {wrong.shape} "
            f"for values of shape {first.shape}."
        )
    return np.concatenate(arrays, axis=axis).astype(np.int64)


class _GraphMaker:
    """Makes a graph of a batch."""

    def __init__(self, batch: Batch, plan: _Plan, layout: GraphLayout, indices_dtype: tf.DType) -> None:
        self._batch = batch
        self._plan = plan
        self._layout = layout
        self._dtype = tf.as_dtype(indices_dtype)

    def make(self) -> GraphTensor:
        """Returns a scalar graph with a component for each example."""
        ones = np.ones(self._plan.num_examples, np.int64)
        sizes = {name: self._num_nodes(name) for name in self._layout.node_sets}
        return GraphTensor.from_pieces(
            context=Context.from_fields(
                features=self._features("the context", self._layout.context, ones), sizes=tf.constant(ones, self._dtype)
            ),
            node_sets={
                name: NodeSet.from_fields(
                    sizes=tf.constant(sizes[name], self._dtype),
                    features=self._features(f"node set {name!r}", features, sizes[name]),
                )
                for name, features in self._layout.node_sets.items()
            },
            edge_sets={name: self._edge_set(name, edges, sizes) for name, edges in self._layout.edge_sets.items()},
        )

    def _lookup(self, key: Key) -> tuple[Any, Column]:
        store_key, name = split_key(key)
        column = self._plan.columns.get(store_key, {}).get(name)
        if column is None or name not in self._batch._stores[store_key]:
            raise KeyError(f"`layout` must name keys of the batch; got {key!r}. Known are {list(self._batch._store)}.")
        return self._batch._stores[store_key][name], column

    def _num_nodes(self, node_set: str) -> Counts:
        key = self._layout.size_key(node_set)
        value, column = self._lookup(key)
        if SIZE_NAME in self._layout.node_sets[node_set] and isinstance(column, ArrayColumn):
            return np.asarray(value, np.int64)
        if column.lengths is None:
            raise ValueError(f"`{key}` must hold arrays, to be a feature of node set {node_set!r}; got {type(value)}.")
        return column.lengths

    def _features(self, place: str, features: Mapping[str, Key], sizes: Counts) -> dict[str, tf.Tensor]:
        converted = {}
        for name, key in features.items():
            if name == SIZE_NAME:
                continue
            value, column = self._lookup(key)
            if not isinstance(column, ArrayColumn) or column.axis != 0 or not np.array_equal(column.lengths, sizes):
                found = column.lengths.tolist() if isinstance(column, ArrayColumn) else type(value).__name__
                raise ValueError(
                    f"`{key}` must hold arrays with one row per item of {place}, {sizes.tolist()}; got {found}. For "
                    "values of graphs, FieldRule(axis=None) makes a row of each."
                )
            converted[name] = tf.convert_to_tensor(value)
        return converted

    def _edge_set(self, name: str, edges: EdgeLayout, sizes: Mapping[str, Counts]) -> EdgeSet:
        index, column = self._lookup(edges.index)
        if not isinstance(column, ArrayColumn) or index.ndim != 2 or len(index) != 2 or column.axis != 1:
            raise ValueError(
                f"`{edges.index}` must have shape [2, num_edges]; got {np.shape(index)} in edge set {name!r}."
            )
        expected = np.stack([starts_of(sizes[end])[:-1] for end in (edges.source, edges.target)])
        shifts = np.zeros_like(expected) if column.shifts is None else column.shifts
        if not (np.broadcast_to(shifts, expected.shape) == expected).all():
            raise ValueError(
                f"`{edges.index}` must have grown by the numbers of nodes of {edges.source!r} and {edges.target!r}; "
                "got other increments. Make the batch with the same layout."
            )
        ends = (
            tf.convert_to_tensor(index, self._dtype)
            if index.dtype == self._dtype.as_numpy_dtype
            else tf.constant(index.astype(self._dtype.as_numpy_dtype))
        )
        return EdgeSet.from_fields(
            sizes=tf.constant(column.lengths, self._dtype),
            features=self._features(f"edge set {name!r}", edges.features, column.lengths),
            adjacency=Adjacency.from_indices((edges.source, ends[SOURCE]), (edges.target, ends[TARGET])),
        )
