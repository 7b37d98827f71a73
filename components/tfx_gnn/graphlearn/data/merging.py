"""Concatenates the arrays of subgraphs and divides them again, in numpy, with one operation per array."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graphlearn.data.composite_value import CompositeValue, as_tensor, is_symbolic, num_rows
from tfx_gnn.graphlearn.data.data import Data, data_of

Counts = npt.NDArray[np.int64]
_INDEX_DTYPE = np.int32


def starts_of(counts: Counts) -> Counts:
    """Returns where the rows of each graph begin."""
    starts = np.zeros(len(counts), np.int64)
    np.cumsum(counts[:-1], out=starts[1:])
    return starts


def counts_of(starts: Any, total: Any) -> Any:
    """Returns the number of rows of each graph: the inverse of `starts_of`."""
    if not tf.is_tensor(starts) and not tf.is_tensor(total):
        return np.diff(np.asarray(starts), append=total)
    ends = tf.concat([starts[1:], tf.reshape(tf.cast(total, starts.dtype), [1])], axis=0)
    # Without graphs there are no rows either, but one end.
    return ends[: tf.size(starts)] - starts


def join_rows(arrays: Sequence[Any], what: str) -> tuple[Any, Counts]:
    """Concatenates arrays along their first dimension.

    Args:
        arrays: one array per graph.
        what: name of the arrays, for messages.

    Returns:
        The array, and the number of rows of each graph.
    """
    values = list(arrays)
    if set(map(type, values)) != {np.ndarray}:
        values = [np.asarray(value) for value in values]
    # Most often all is well; to look at each array first would take longer than to join them.
    if values[0].ndim and len(set(map(operator.attrgetter("dtype"), values))) == 1:
        try:
            return np.concatenate(values), np.fromiter(map(len, values), np.int64, len(values))
        except ValueError:
            pass  # Other shapes, which are named below.
    _check_rows(values, what)
    return np.concatenate(values), np.fromiter(map(len, values), np.int64, len(values))


def _check_rows(values: Sequence[npt.NDArray[Any]], what: str) -> None:
    """Refuses arrays that cannot be joined."""
    if values[0].ndim == 0:
        raise ValueError(f"`{what}` must be an array with rows in each graph; got a scalar. Write [value].")
    first = values[0]
    expected = (_type_of(first), first.shape[1:], first.ndim)
    for position, value in enumerate(values):
        if (_type_of(value), value.shape[1:], value.ndim) != expected:
            raise ValueError(
                f"`{what}` must have one dtype and shape, but for the number of rows, in all graphs; got "
                f"{first.dtype}, shape {list(first.shape)}, in graph 0 and {value.dtype}, shape {list(value.shape)}, "
                f"in graph {position}. Convert it."
            )


def _type_of(array: npt.NDArray[Any]) -> Any:
    return "text" if array.dtype.kind in "OSU" else array.dtype


def join_data(parts: Sequence[Data], what: str) -> tuple[Data, Counts]:
    """Concatenates the arrays of nodes or edges.

    Args:
        parts: nodes or edges of each graph, with the same arrays.
        what: "nodes" or the like, for messages.

    Returns:
        All nodes or edges, and their number in each graph.
    """
    keys, columns = parts[0].keys, _columns(parts)
    if columns is None:
        position, part = next((i, part) for i, part in enumerate(parts) if part.keys != keys)
        raise ValueError(
            f"`{what}` must have the same arrays in all graphs; got {keys} in graph 0 and {part.keys} in graph "
            f"{position}. Set or remove arrays."
        )
    if not keys:
        raise ValueError(f"`{what}` must hold an array; got none. Give the ids.")
    joined, counts = {}, None
    for key in keys:
        joined[key], found = join_rows(columns[key], f"{what}.{key}")
        if counts is not None and not np.array_equal(found, counts):
            position = int(np.flatnonzero(found != counts)[0])
            raise ValueError(
                f"`{what}` must have as many rows in all arrays; got {counts[position]} in {keys[0]!r} and "
                f"{found[position]} in {key!r} of graph {position}. Correct them."
            )
        counts = found
    assert counts is not None
    return data_of(joined), counts


def _columns(parts: Sequence[Data]) -> dict[str, Sequence[Any]] | None:
    """Returns each array of all parts; None if some have other arrays than the first one.

    It runs for each subgraph of each batch, so it avoids Python's own loops.
    """
    keys = parts[0].keys
    given = list(map(vars, parts))
    names = list(given[0])
    if set(map(len, given)) == {len(names)}:
        try:
            rows = map(operator.itemgetter(*names), given)
            values = dict(zip(names, zip(*rows, strict=True) if len(names) > 1 else [tuple(rows)], strict=True))
        except KeyError:
            values = {}
        none = itertools.repeat(None)
        if values and all(
            not any(map(operator.is_ if name in keys else operator.is_not, column, none))
            for name, column in values.items()
        ):
            return {key: values[key] for key in keys}
    if any(part.keys != keys for part in parts):
        return None
    return {key: [part[key] for part in parts] for key in keys}


def join_edges(
    indices: Sequence[npt.NDArray[Any]], num_sources: Counts, num_targets: Counts, what: str
) -> tuple[npt.NDArray[np.int32], Counts]:
    """Concatenates edges and shifts their ends past the nodes of earlier graphs.

    Args:
        indices: for each graph, an array of shape [2, num_edges].
        num_sources: number of source nodes of each graph.
        num_targets: number of target nodes of each graph.
        what: name of the edges, for messages.

    Returns:
        The ends, int32 of shape [2, num_edges], and the number of edges of each graph.
    """
    counts = np.fromiter((index.shape[1] for index in indices), np.int64, len(indices))
    ends = np.concatenate(indices, axis=1).astype(np.int64, copy=False)
    # Between nodes of one type, both ends have the same limit and the same shift: one row for both.
    nodes = [num_sources] if num_sources is num_targets else [num_sources, num_targets]
    limits = np.stack(nodes)
    # Seen as unsigned, negative positions are larger than any limit.
    is_wrong = ends.view(np.uint64) >= np.repeat(limits, counts, axis=1).view(np.uint64)
    if is_wrong.any():
        wrong = int(np.flatnonzero(is_wrong.any(axis=0))[0])
        graph = int(np.searchsorted(np.cumsum(counts), wrong, side="right"))
        raise ValueError(
            f"`{what}` must hold positions of nodes of the same graph; got {ends[:, wrong].tolist()} in graph {graph}, "
            f"which has {num_sources[graph]} source and {num_targets[graph]} target nodes. Count from 0 in each graph."
        )
    if limits.sum(axis=1).max() > np.iinfo(_INDEX_DTYPE).max:
        raise ValueError(
            f"`graphs` must have at most {np.iinfo(_INDEX_DTYPE).max} nodes of a type in a batch; got "
            f"{limits.sum(axis=1).max()}. Make smaller batches."
        )
    shifts = np.stack([starts_of(num_nodes) for num_nodes in nodes]).astype(_INDEX_DTYPE)
    shifted = ends.astype(_INDEX_DTYPE)
    shifted += np.repeat(shifts, counts, axis=1)
    return shifted, counts


def split_rows(array: Any, counts: Any) -> list[npt.NDArray[Any]]:
    """Divides an array by graphs: the inverse of `join_rows`."""
    ends = np.cumsum(np.asarray(counts))
    values = np.asarray(array)
    return [values[end - count : end] for end, count in zip(ends.tolist(), np.asarray(counts).tolist(), strict=True)]


def split_data(data: Data, counts: Any) -> list[Data]:
    """Divides nodes or edges by graphs: the inverse of `join_data`."""
    arrays = {key: split_rows(value, counts) for key, value in data.arrays.items()}
    return [data_of({key: rows[position] for key, rows in arrays.items()}) for position in range(len(counts))]


def split_edges(edge_index: Any, counts: Any, num_sources: Any, num_targets: Any) -> list[npt.NDArray[Any]]:
    """Divides edges by graphs and counts nodes from 0 again: the inverse of `join_edges`."""
    shifts = np.stack([starts_of(np.asarray(num_sources)), starts_of(np.asarray(num_targets))])
    ends = np.asarray(edge_index)
    local: npt.NDArray[Any] = (ends - np.repeat(shifts, np.asarray(counts), axis=1)).astype(ends.dtype)
    return [part.T for part in split_rows(local.T, counts)]


def edge_counts(edge_index: Any, node_starts: tuple[Any, Any], num_nodes: tuple[Any, Any], what: str) -> Any:
    """Returns the number of edges of each graph, from the graphs of their ends.

    Args:
        edge_index: positions of source and target nodes, shape [2, num_edges].
        node_starts: where the source and the target nodes of each graph begin.
        num_nodes: numbers of source and target nodes.
        what: name of the edges, for messages.
    """
    if is_symbolic([edge_index, node_starts, num_nodes]):
        graphs = tf.searchsorted(as_tensor(node_starts[0]), tf.cast(edge_index[0], tf.int64), side="right") - 1
        in_order = tf.debugging.assert_non_negative(
            graphs[1:] - graphs[:-1], f"`{what}` must hold the edges of the first graph first, and so on. Sort them."
        )
        with tf.control_dependencies([in_order]):
            return tf.math.bincount(graphs, minlength=tf.size(node_starts[0]), dtype=tf.int64)
    ends, starts = np.asarray(edge_index), [np.asarray(one) for one in node_starts]
    limits = np.array([[int(number)] for number in num_nodes])
    graphs = np.stack([np.searchsorted(one, nodes, side="right") - 1 for one, nodes in zip(starts, ends, strict=True)])
    is_wrong = ((ends < 0) | (ends >= limits)).any(axis=0) | (graphs[0] != graphs[1])
    if is_wrong.any():
        wrong = int(np.flatnonzero(is_wrong)[0])
        raise ValueError(
            f"`{what}` must hold positions of nodes of the same graph, counted over the whole batch; got "
            f"{ends[:, wrong].tolist()} in column {wrong}, with {limits.ravel().tolist()} source and target nodes. "
            "Correct it, or make the batch by from_graphs()."
        )
    if (np.diff(graphs[0]) < 0).any():
        raise ValueError(
            f"`{what}` must hold the edges of the first graph first, and so on; got another order. Sort them, or make "
            "the batch by from_graphs()."
        )
    counts = np.bincount(graphs[0], minlength=len(starts[0]))
    return tf.constant(counts, tf.int64) if tf.is_tensor(edge_index) else counts


def check_starts(starts: Any, total: Any, what: str) -> None:
    """Refuses starts that do not divide `total` rows among the graphs; values that are traced are not known."""
    if not (isinstance(starts, np.ndarray) and isinstance(total, int)) and is_symbolic([starts, total]):
        return
    values, end = np.asarray(starts), int(total)
    first, last = (values[0], values[-1]) if len(values) else (end, end)
    if first != 0 or last > end or (values[1:] < values[:-1]).any():
        raise ValueError(
            f"`{what}` must begin with 0, ascend, and be at most the number of rows; got {values.tolist()} for {end} "
            "rows. Give the position of the first row of each graph."
        )


def join_additional(graphs: Sequence[Any], keys: Sequence[str]) -> tuple[dict[str, Any], dict[str, Counts]]:
    """Concatenates further arrays of subgraphs; returns them, and where the rows of each graph begin."""
    joined, starts = {}, {}
    for key in keys:
        values = [getattr(graph, key, None) for graph in graphs]
        for position, value in enumerate(values):
            if value is None:
                raise ValueError(
                    f"`additional_keys` must name arrays of all graphs; got {key!r}, which graph {position} lacks. It "
                    f"has {graphs[position].keys}."
                )
        joined[key], counts = join_rows(values, key)
        starts[key] = starts_of(counts)
    return joined, starts


def ragged_rows(array: Any, starts: Any) -> tf.RaggedTensor:
    """Returns further rows as one ragged row per graph."""
    values = as_tensor(array)
    counts = as_tensor(counts_of(as_tensor(starts), num_rows(values)))
    return tf.RaggedTensor.from_row_lengths(values, tf.cast(counts, tf.int64), validate=False)


def check_known(value: Any, what: str) -> None:
    """Refuses values that are not known yet."""
    if is_symbolic(value):
        raise ValueError(
            f"`{what}` needs known values; got symbolic tensors. In a tf.function, call "
            "tfx_gnn.unmerge_components(batch.graph)."
        )


def check_graphs(graphs: Sequence[Any], graph_class: type[Any]) -> None:
    """Refuses anything but a list of subgraphs of one class."""
    if not hasattr(graphs, "__len__") or isinstance(graphs, Mapping):
        raise TypeError(f"`graphs` must be a list of {graph_class.__name__}; got {type(graphs).__name__}.")
    if not len(graphs):
        raise ValueError("`graphs` must hold at least one subgraph; got none. Skip empty batches.")
    if set(map(type, graphs)) == {graph_class}:
        return
    for position, graph in enumerate(graphs):
        # A batch is a subgraph, too, but its own graphs would become one.
        if not isinstance(graph, graph_class) or isinstance(graph, CompositeValue):
            raise TypeError(
                f"`graphs` must hold {graph_class.__name__}; got {type(graph).__name__} in place {position}. Let the "
                "inducer return subgraphs of one class."
            )
