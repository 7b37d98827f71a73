"""Batches of examples in memory, which are taken apart again."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.data.columns import ArrayColumn, Column
from tfx_gnn.graph.data.graph_data import GraphData, rebuilt
from tfx_gnn.graph.data.graph_layout import GraphLayout
from tfx_gnn.graph.data.hetero_graph_data import HeteroGraphData
from tfx_gnn.graph.data.layout_graphs import Columns, GraphMaker, Path
from tfx_gnn.graph.data.stores import StoreKey, Stores
from tfx_gnn.graph.graph_constants import DEFAULT_INDICES_DTYPE
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor

BATCH, PTR = "batch", "ptr"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How a batch was made, so that it can be taken apart.

    `columns` has the keys of the examples; what was added to them (`batch`, `ptr` and what follows keys) is in `added`.
    `states` has further attributes of the examples, such as the plans of inner batches. `base_type` is the class of the
    innermost examples, which can be pickled, unlike the class of a batch; `is_nested` tells that examples are batches.
    """

    base_type: type[GraphData]
    is_nested: bool
    num_examples: int
    num_innermost: int
    columns: Columns
    added: frozenset[Path]
    states: tuple[dict[str, Any], ...] | None

    @property
    def example_type(self) -> type[GraphData]:
        """The class of the examples."""
        return batch_class(self.base_type) if self.is_nested else self.base_type


class Batch(GraphData):
    """Several examples as one graph without edges between them: PyG's `Batch`.

    A batch of examples of a class is an instance of this class, too: it has its methods and properties, which see the
    values of the batch. Like them, it is iterated over as pairs of key and value; `to_data_list` and `batch[i]` return
    examples.

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

    _plan: Plan | None = None
    _has_ptr = True
    #: The class of the innermost examples, in classes that `batch_class` makes.
    _base_type: type[GraphData] | None = None

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
        # It makes batches, so it imports them.
        from tfx_gnn.graph.data.collating import collate

        return collate(data_list, follow_batch=follow_batch, exclude_keys=exclude_keys)

    @property
    def num_graphs(self) -> int:
        """The number of examples.

        Raises:
            RuntimeError: if the batch was not made from examples, and has no `ptr`.
        """
        if self._plan is not None:
            return self._plan.num_examples
        if PTR in self._store:
            return len(self._store[PTR]) - 1
        raise RuntimeError(
            "`num_graphs` must be known from collate() or `ptr`; got neither. Make the batch by collate()."
        )

    def __len__(self) -> int:
        """Returns the number of examples."""
        return self.num_graphs

    def __bool__(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        """The same as `num_graphs`."""
        return self.num_graphs

    def __getitem__(self, key: Any) -> Any:
        """Returns a value, an example, or a list of examples.

        Args:
            key: name of a value; type of nodes or edges; index of an example; or what `index_select` takes.

        Raises:
            KeyError: if there is no such value.
            IndexError: if there is no such example.
        """
        if isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(name, str) for name in key)):
            if isinstance(self, HeteroGraphData) and key not in self._store and self._type_of(key) not in self._stores:
                # Examples make types when they are asked for; a batch would no longer be what it was made from.
                raise KeyError(
                    f"`key` must be a value or a type of the batch; got {key!r}. It has {[*self._stores][1:]}."
                )
            return super().__getitem__(key)
        if np.ndim(key) == 0 and not isinstance(key, slice):
            return self._example(self._positions([key])[0])
        return self.index_select(key)

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
        return GraphMaker(
            self._stores,
            (plan := self._checked_plan()).columns,
            plan.num_examples,
            layout=layout,
            indices_dtype=indices_dtype,
        ).make()

    def axis_of(self, key: str) -> int:
        """Returns the dimension along which examples follow each other in an array.

        Args:
            key: name of a value that is not of a type of nodes or edges.
        """
        column = None if self._plan is None else self._plan.columns[None].get(key)
        return column.axis if isinstance(column, ArrayColumn) else 0

    def _checked_plan(self) -> Plan:
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

    def _columns(self, plan: Plan) -> list[tuple[StoreKey, dict[str, Column], dict[str, Any]]]:
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

    def get_example(self, idx: int) -> Any:
        """Returns one example; `batch[idx]` does the same.

        Args:
            idx: its position; negative ones count from the end.

        Raises:
            IndexError: if there is no such example.
        """
        return self._example(self._positions([idx])[0])

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._base_type is None:
            return super().__reduce_ex__(protocol)
        state = {key: value for key, value in self.__dict__.items() if key != "_store"}
        return _rebuilt_batch, (self._base_type, state)


def _rebuilt_batch(base_type: type[GraphData], state: dict[str, Any]) -> Any:
    return rebuilt(batch_class(base_type), state)


_making_class = threading.Lock()


def batch_class(example_type: type[GraphData]) -> Any:
    """Returns the class of batches of examples of a class: a subclass of `Batch` and of this class."""
    if issubclass(example_type, Batch):
        return example_type
    found = vars(example_type).get("_batch_class")
    if found is None:
        with _making_class:
            found = vars(example_type).get("_batch_class")
            if found is None:
                found = type(
                    f"{example_type.__name__}Batch",
                    (Batch, example_type),
                    {"__module__": example_type.__module__, "__doc__": Batch.__doc__, "_base_type": example_type},
                )
                # With the class itself, so that both are freed together.
                example_type._batch_class = found  # type: ignore[attr-defined]
    return found


def _rows(columns: dict[str, list[Any]], num_examples: int) -> list[dict[str, Any]]:
    if not columns:
        return [{} for _ in range(num_examples)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _make_example(plan: Plan, position: int, stores: Stores) -> Any:
    example_type = plan.example_type
    example = example_type.__new__(example_type)
    state = example.__dict__
    if plan.states is not None:
        state.update(plan.states[position])
    state["_stores"] = stores
    state["_store"] = stores[None]
    return example
