"""Collates examples in memory: finds the rule of each key, and joins the values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tfx_gnn.graph.data.collated_batch import BATCH, PTR, Batch, Plan, batch_class
from tfx_gnn.graph.data.columns import (
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
from tfx_gnn.graph.data.graph_data import GraphData, overrides_increments, overrides_rules, refuse_undecided
from tfx_gnn.graph.data.graph_layout import FieldRule, GraphLayout, Key
from tfx_gnn.graph.data.hetero_graph_data import HeteroGraphData
from tfx_gnn.graph.data.layout_graphs import Path, split_key
from tfx_gnn.graph.data.stores import (
    INDEX_KEYS,
    StoreKey,
    Stores,
    default_axis,
    num_nodes_in,
    required_num_nodes,
    tells_num_nodes,
)
from tfx_gnn.io.suggestions import did_you_mean

_NO_RULES: Mapping[Key, FieldRule] = MappingProxyType({})


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
        self._known_rules: dict[Key, tuple[FieldRule | None, bool]] = {}

    def collate(self, examples: Sequence[GraphData]) -> Batch:
        """Makes a batch."""
        _check_classes(examples)
        given = _Examples(examples)
        store_keys = [key for key, store in examples[0]._stores.items() if store or key is None]
        _check_keys(examples, store_keys)
        self._check_named_keys(examples[0])
        example_type = type(examples[0])
        batch: Any = object.__new__(batch_class(example_type))
        stores: Stores = {}
        columns: dict[StoreKey, dict[str, Column]] = {}
        added: set[Path] = set()
        for store_key in store_keys:
            stores[store_key], columns[store_key] = {}, {}
            new = self._collate_store(given, store_key, stores[store_key], columns[store_key])
            added.update((store_key, key) for key in new)
        is_nested = issubclass(example_type, Batch)
        if isinstance(examples[0], Batch) and examples[0]._plan is not None:
            # Ids of inner graphs still grow if this batch is collated in turn.
            added |= examples[0]._plan.added
        states = None
        shared: dict[str, Any] = {}
        if len(examples[0].__dict__) > 2:
            states = tuple(
                {name: value for name, value in example.__dict__.items() if name not in ("_stores", "_store")}
                for example in examples
            )
            # For methods of the class that read them.
            shared = {
                name: value
                for name, value in states[0].items()
                if name != "_plan" and all(state.get(name) is value for state in states)
            }
        batch.__dict__.update(
            shared,
            _stores=stores,
            _store=stores[None],
            _plan=Plan(
                base_type=getattr(example_type, "_base_type", None) or example_type,
                is_nested=is_nested,
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
                    raise ValueError(
                        f"`{argument}` must name keys of the examples; got {name!r}. Known are {known}. "
                        f"{did_you_mean(name, known)}"
                    )
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
                added += [f"{key}_{BATCH}", f"{key}_{PTR}"]
                _add(joined, stores[0], added[-2:], lengths)
        if not issubclass(given.example_type, Batch) and not isinstance(store_key, tuple):
            counts = self._known_num_nodes(given, store_key)
            if counts is not None:
                added += [BATCH, PTR]
                _add(joined, stores[0], added[-2:], counts)
        return added

    def _known_num_nodes(self, given: _Examples, store_key: StoreKey) -> Counts | None:
        """Returns the number of nodes of each example; None if it is not known, or the store has none."""
        if store_key is None and "num_nodes" in given.counts and self._layout is None:
            return given.counts["num_nodes"]
        if store_key is None:
            if issubclass(given.example_type, HeteroGraphData):
                return None
            if given.example_type.num_nodes is not GraphData.num_nodes:
                counts = [example.num_nodes for example in given.examples]
            elif not tells_num_nodes(given.examples[0]._store):
                return None
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
        rule, is_edge_index = self._rule_of(path)
        if rule is not None:
            counts = None if rule.increment is None else self._rule_counts(given, key, rule, values[0])
            return join_arrays(
                key, values, axis=rule.axis, counts=counts, keeps_missing=not is_edge_index, are_indices=True
            )
        if issubclass(given.example_type, Batch):
            inner = given.examples[0]._plan
            if inner is not None and (store_key, key) in inner.added:
                if key == PTR or key.endswith(f"_{PTR}"):
                    return join_offsets(values)
                return join_arrays(key, values, axis=0, counts=_innermost(given.examples))
        if overrides_rules(given.example_type):
            return self._join_as_overridden(given, store_key, key, values)
        counts = self._default_counts(given, store_key, key, values)
        is_of_nodes = isinstance(store_key, str)
        axis = 0 if is_of_nodes else default_axis(key)
        return join_arrays(key, values, axis=axis, counts=counts, are_indices=key in INDEX_KEYS)

    def _rule_of(self, path: Key) -> tuple[FieldRule | None, bool]:
        """Returns the rule of a key, and whether the layout has it as the ends of edges, which cannot be missing."""
        if path not in self._known_rules:
            rule, is_edge_index = self._rules.get(path), False
            if rule is None and self._layout is not None:
                rule = self._layout.rule_of(path)
                is_edge_index = any(edges.index == path for edges in self._layout.edge_sets.values())
            self._known_rules[path] = rule, is_edge_index
        return self._known_rules[path]

    def _default_counts(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> Any:
        if key in INDEX_KEYS:
            if isinstance(store_key, tuple):
                return self._end_counts(given, store_key, key)
            return self._counts(given, "num_nodes" if store_key is None else store_key, key)
        if not self._guesses:
            refuse_undecided(key, values[0])
            return None
        return self._guessed_counts(given, store_key, key, values)

    def _end_counts(self, given: _Examples, edge_type: tuple[str, str, str], key: str) -> Counts:
        return np.stack([self._counts(given, name, key) for name in (edge_type[0], edge_type[2])])

    def _guessed_counts(self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]) -> Counts | None:
        if BATCH in key:
            return np.array([int(np.max(value)) + 1 if np.size(value) else 0 for value in values])
        if "index" in key:
            if isinstance(store_key, tuple):
                return self._end_counts(given, store_key, key)
            return self._counts(given, store_key or "num_nodes", key)
        return None

    def _join_as_overridden(
        self, given: _Examples, store_key: StoreKey, key: str, values: list[Any]
    ) -> tuple[Any, Column]:
        """Asks the overridden methods of all examples."""
        if not self._guesses and key not in INDEX_KEYS and not overrides_increments(given.example_type):
            refuse_undecided(key, values[0])
        increments = []
        axis = None
        for position, (example, value) in enumerate(zip(given.examples, values, strict=True)):
            arguments: tuple[Any, ...] = (key, example._seen(value))
            if store_key is not None:
                arguments = (*arguments, example[store_key])
            if position == 0:
                axis = example.__cat_dim__(*arguments)
            increments.append(example.__inc__(*arguments))
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
        known = given.examples[0]._stores.get(store_key, {})
        if name not in known:
            raise ValueError(
                f"`increment` of {key!r} must name a key or a node set of the layout; got {counted!r}. Known are "
                f"{list(known)}."
            )
        values = [store[name] for store in given.stores(store_key)]
        if isinstance(values[0], np.ndarray) and values[0].ndim:
            rule, _ = self._rule_of(counted)
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
    if isinstance(examples, GraphData) or not hasattr(examples, "__len__"):
        raise TypeError(f"`examples` must be a list of GraphData; got {type(examples).__name__}. Write a list.")
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


def _paths(example: GraphData) -> set[Path]:
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
    if all(issubclass(kind, int) for kind in set(map(type, increments))):
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
