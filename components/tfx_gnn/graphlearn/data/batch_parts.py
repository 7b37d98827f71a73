"""What batches of one type and of several types have in common: edges with attributes, further arrays, flat tensors."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graphlearn.data.composite_value import check_is_name, num_rows
from tfx_gnn.graphlearn.data.data import Data, data_of
from tfx_gnn.graphlearn.data.merging import counts_of, join_data, split_rows, starts_of
from tfx_gnn.graphlearn.data.schema import GivenSpec, as_type_schema


class FlatTensors:
    """The result of a `flatten`, from which arrays are taken in order."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = list(tensors)
        self._taken = 0

    def take(self) -> Any:
        """Returns the next array."""
        self._taken += 1
        if self._taken > len(self._tensors):
            self._refuse("more")
        return self._tensors[self._taken - 1]

    def take_data(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the next arrays under the names of those of a `Data`, or of their specs."""
        return {key: self.take() for key in data_of(arrays).arrays}

    def check_all_taken(self) -> None:
        """Refuses tensors that are left over."""
        if self._taken != len(self._tensors):
            self._refuse(str(self._taken))

    def _refuse(self, expected: str) -> None:
        raise ValueError(
            f"`tensors` must be the result of flatten() of a batch with the arrays of `spec`; got {len(self._tensors)} "
            f"tensors, and {expected} are needed. Pass all tensors, and the spec of that batch."
        )


def counts_to_starts(counts: Any) -> Any:
    """Returns where the rows of each graph begin, for arrays or tensors."""
    return tf.cumsum(counts, exclusive=True) if tf.is_tensor(counts) else starts_of(np.asarray(counts))


def check_edge_rows(edges: Data | None, num_edges: Any, what: str) -> None:
    """Refuses attributes of edges that do not have a row per edge, as far as the numbers are known."""
    found = num_edges if edges is None else edges.num_items
    if isinstance(found, int) and isinstance(num_edges, int) and found != num_edges:
        raise ValueError(f"`{what}` must have one row per edge; got {found} for {num_edges} edges. Correct it.")


def join_edge_data(parts: Sequence[Data | None], num_edges: Any, what: str) -> Data | None:
    """Concatenates the attributes of edges, which all graphs have or none."""
    if not any(map(operator.is_not, parts, itertools.repeat(None))):
        return None
    absent = [position for position, part in enumerate(parts) if part is None]
    if absent:
        raise ValueError(
            f"`{what}` must be given in all graphs or in none; got none in graph {absent[0]}. Give an empty Data for "
            "a graph without edges."
        )
    joined, counts = join_data([part for part in parts if part is not None], what)
    if not np.array_equal(counts, num_edges):
        position = int(np.flatnonzero(counts != num_edges)[0])
        raise ValueError(
            f"`{what}` must have one row per edge; got {counts[position]} for {num_edges[position]} edges in graph "
            f"{position}. Correct it, or the edge index."
        )
    return joined


def additional_arrays(batch_class: type[Any], keys: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns further arrays in the declared order; keys may be declared before their arrays are set."""
    if isinstance(keys, str):
        raise TypeError(f"`additional_keys` must be a list of names; got {keys!r}. Write [{keys!r}].")
    undeclared = [key for key in given if key not in keys]
    if undeclared:
        raise TypeError(
            f"`additional_keys` must name the further arrays; got {list(keys)} for arrays {sorted(given)}. Name them "
            "all."
        )
    for key in keys:
        check_is_free(batch_class, key)
    return {key: given[key] for key in keys if key in given}


def check_is_free(batch_class: type[Any], key: str) -> None:
    """Refuses the name of something that a batch has already."""
    check_is_name(key)
    if key.startswith("_") or hasattr(batch_class, key):
        raise ValueError(
            f"`additional_keys` must be free names; got {key!r}, which {batch_class.__name__} has already. Rename it."
        )


def offsets_of_rows(key: str, value: Any, known: Mapping[str, Any], arrays: Mapping[str, Any], starts: Any) -> Any:
    """Returns where the rows of each graph begin in a further array that is set later.

    They are those of the array that it replaces, or there is one row per node, or one per graph; `starts` is where the
    nodes of each graph begin, and their number.
    """
    if value.shape.rank == 0 if tf.is_tensor(value) else value.ndim == 0:
        raise ValueError(f"`{key}` must be an array with rows; got the scalar {value!r}. Give each node a row.")
    rows, (node_starts, num_nodes) = num_rows(value), starts
    if key in arrays and isinstance(rows, int) and rows == num_rows(arrays[key]):
        return known[key]
    num_graphs = num_rows(node_starts)
    if isinstance(rows, int) and isinstance(num_nodes, int) and rows != num_nodes and rows == num_graphs:
        return tf.range(num_graphs, dtype=tf.int64) if tf.is_tensor(node_starts) else np.arange(num_graphs)
    check_additional_rows({key: value}, num_nodes)
    return node_starts


def ordered(keys: Sequence[str], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arrays in the order of their declared keys."""
    return {key: arrays[key] for key in keys if key in arrays}


def check_additional_rows(arrays: Mapping[str, Any], num_nodes: Any) -> None:
    """Refuses further arrays without offsets that do not have a row per node."""
    for key, value in arrays.items():
        if isinstance(num_nodes, int) and value.shape[0] not in (None, num_nodes):
            raise ValueError(
                f"`{key}` must have one row per node; got {value.shape[0]} for {num_nodes} nodes. Give "
                f"`additional_offsets={{{key!r}: ...}}`, where the rows of each subgraph begin."
            )


def split_additional(arrays: Mapping[str, Any], offsets: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Divides further arrays by graphs."""
    return {key: split_rows(value, counts_of(offsets[key], num_rows(value))) for key, value in arrays.items()}


def check_keys(given: Mapping[Any, Any], known: Mapping[Any, Any], what: str, known_as: str) -> None:
    """Refuses keys that other values lack."""
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(
            f"`{what}` must have keys of `{known_as}`; got {unknown}, but there are {list(known)}. Correct the key, or "
            "add it there."
        )


def check_lengths(starts: Mapping[Any, Any]) -> None:
    """Refuses types with different numbers of graphs, as far as the numbers are known."""
    numbers = {key: num_rows(one) for key, one in starts.items()}
    if len({number for number in numbers.values() if isinstance(number, int)}) > 1:
        raise ValueError(
            "`graph_node_offsets_dict` and `graph_edge_offsets_dict` must have one item for each graph, in all "
            f"types; got {numbers}. Give every type as many."
        )


def check_edge_names(edge_types: Sequence[tuple[str, str, str]]) -> None:
    """Refuses edge types of one name, which edge sets could not have."""
    names = [key[1] for key in edge_types]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"`edge_index_dict` must have a different edge type in each key; got {repeated[0]!r} in "
            f"{[key for key in edge_types if key[1] == repeated[0]]}. Rename one, such as {repeated[0]}_reverse."
        )


def as_schemas(given: Mapping[Any, GivenSpec] | None, what: str, known: Mapping[Any, Any]) -> Any:
    """Returns the feature specs of types, of which each must be known."""
    if given is None:
        return None
    check_keys(given, known, what, "edge_index_dict" if what.startswith("edge") else "nodes_dict")
    return {key: as_type_schema((str(key), spec), what)[1] for key, spec in given.items()}
