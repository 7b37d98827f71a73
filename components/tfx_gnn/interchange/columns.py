"""Columns of other libraries as features, and back; a column has one value for each node or edge."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import Adjacency, Context, EdgeSet, GraphTensor, NodeSet
from tfx_gnn.graph.reserved_names import ID_NAME

Column = npt.NDArray[Any] | Sequence[Any]
"""Values of a feature: an array whose first axis is the rows, or a sequence with a value for each row."""

_EPOCH = np.datetime64(0, "us")
_TEXTS = (str, bytes, np.str_, np.bytes_)


def as_feature(values: Column, place: str) -> tf.Tensor | tf.RaggedTensor:
    """Makes a feature of a column, and keeps its dtype.

    Texts become strings in UTF-8, times int64 microseconds since 1970 (UTC, also for times without a zone). Rows of
    equally long lists become a dense feature of a higher rank, of differently long ones a ragged one.

    Args:
        values: the column.
        place: what messages call it.

    Returns:
        The feature, of shape [rows, ...].

    Raises:
        ValueError: if a row has no value, or values of another kind than the others.
    """
    array = values if isinstance(values, np.ndarray) else _array_of(values)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise _without_value(int(np.isnat(array).sum()), place)
        return tf.constant(((array - _EPOCH) // np.timedelta64(1, "us")).astype(np.int64))
    if array.dtype.kind in "US":
        return tf.constant(np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array)
    if array.dtype.kind != "O":
        return tf.constant(array)
    return _feature_of_objects(array, place)


def as_column(feature: tf.Tensor | tf.RaggedTensor) -> npt.NDArray[Any] | list[Any]:
    """Makes a column of a feature: an array, or for more than one value by row a list of arrays; strings are texts."""
    if isinstance(feature, tf.RaggedTensor):
        return [
            _decoded(np.asarray(row)) if not isinstance(row, np.ndarray) else _decoded(row) for row in feature.numpy()
        ]
    array = _decoded(feature.numpy())
    return array if array.ndim == 1 else list(array)


def make_graph(
    node_sets: Mapping[str, tuple[int, Mapping[str, Column]]],
    edge_sets: Mapping[str, tuple[tuple[str, npt.NDArray[Any]], tuple[str, npt.NDArray[Any]], Mapping[str, Column]]],
    context: Mapping[str, Any] | None = None,
) -> GraphTensor:
    """Makes a graph of one component.

    Args:
        node_sets: number of nodes, and columns by name of the feature.
        edge_sets: node set and positions of the sources, the same of the targets, and columns by name of the feature.
        context: values of the whole graph.

    Raises:
        ValueError: if there is no node set, or a column is none.
    """
    if not node_sets:
        raise ValueError("`node_sets` must have a node set; got none. Add a node.")
    return GraphTensor.from_pieces(
        context=Context.from_fields(
            features={name: as_feature([value], f"the context's {name!r}") for name, value in (context or {}).items()}
        )
        if context
        else None,
        node_sets={
            name: NodeSet.from_fields(
                features={key: as_feature(column, f"{key!r} of node set {name!r}") for key, column in columns.items()},
                sizes=tf.constant([number], tf.int64),
            )
            for name, (number, columns) in node_sets.items()
        },
        edge_sets={
            name: EdgeSet.from_fields(
                features={key: as_feature(column, f"{key!r} of edge set {name!r}") for key, column in columns.items()},
                sizes=tf.constant([len(source[1])], tf.int64),
                adjacency=Adjacency.from_indices(
                    (source[0], tf.constant(source[1], tf.int64)), (target[0], tf.constant(target[1], tf.int64))
                ),
            )
            for name, (source, target, columns) in edge_sets.items()
        },
    )


def check_one_graph(graph: GraphTensor) -> None:
    """Refuses what is not one graph of one component with values."""
    if graph.rank or not tf.executing_eagerly():
        raise ValueError(
            f"`graph` must be one graph with values; got one of rank {graph.rank}. Take one of the batch: graph[0]."
        )
    number = int(graph.num_components)
    if number != 1:
        raise ValueError(
            f"`graph` must have one component; got {number}. Convert the graphs before they are merged, one by one."
        )


def ids_of(node_set: NodeSet) -> npt.NDArray[Any]:
    """Returns the ids of nodes: the feature "#id", or else their positions."""
    if ID_NAME in node_set.features:
        return _decoded(node_set[ID_NAME].numpy())
    return np.arange(int(node_set.total_size))


def _array_of(values: Sequence[Any]) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        # Rows of different lengths.
        array = np.empty(len(values), object)
    if array.ndim and array.dtype.kind in "biufMUS" and not (array.dtype.kind in "US" and not _all_texts(values)):
        return array
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def _all_texts(values: Sequence[Any]) -> bool:
    """Whether numbers among texts were not turned into texts."""
    return all(isinstance(value, (*_TEXTS, list, tuple, np.ndarray)) for value in values)


def _feature_of_objects(array: npt.NDArray[Any], place: str) -> tf.Tensor | tf.RaggedTensor:
    rows = list(array)
    missing = sum(_is_missing(row) for row in rows)
    if missing:
        raise _without_value(missing, place)
    if all(isinstance(row, _TEXTS) for row in rows):
        return tf.constant([row.encode() if isinstance(row, str) else bytes(row) for row in rows], tf.string)
    if all(isinstance(row, dt.datetime) for row in rows):
        return as_feature(np.array([_without_zone(row) for row in rows], "datetime64[us]"), place)
    if all(isinstance(row, dt.date) for row in rows):
        return as_feature(np.array(rows, "datetime64[us]"), place)
    if all(isinstance(row, (bool, int, float, np.generic)) for row in rows) and len({_kind(row) for row in rows}) == 1:
        return tf.constant(np.array(rows))
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return _feature_of_lists([_array_of(row) if not isinstance(row, np.ndarray) else row for row in rows], place)
    kinds = sorted({type(row).__name__ for row in rows})
    raise ValueError(
        f"`columns` must hold values of one kind, numbers, texts, times or lists of these; got {', '.join(kinds)} in "
        f"{place}. Convert the column first."
    )


def _feature_of_lists(rows: list[npt.NDArray[Any]], place: str) -> tf.Tensor | tf.RaggedTensor:
    features = [as_feature(row, place) for row in rows]
    filled = [feature for feature in features if feature.shape[0] != 0] or features
    dtype = filled[0].dtype
    if any(feature.dtype != dtype for feature in filled):
        kinds = sorted({feature.dtype.name for feature in filled})
        raise ValueError(
            f"`columns` must hold lists of one kind of value; got {', '.join(kinds)} in {place}. Convert them first."
        )
    if len({tuple(feature.shape) for feature in features}) == 1:
        return tf.stack(features)
    if any(feature.shape.rank != 1 for feature in features):
        raise ValueError(
            f"`columns` must hold lists of numbers or texts, or arrays of one shape; got nested lists of different "
            f"lengths in {place}. Make them one list by row."
        )
    lengths = [feature.shape[0] for feature in features]
    return tf.RaggedTensor.from_row_lengths(
        tf.concat([tf.cast(one, dtype) if one.shape[0] else tf.zeros([0], dtype) for one in features], 0), lengths
    )


def _is_missing(value: Any) -> bool:
    # NaT and pandas' NA are equal to nothing, or to what is neither true nor false.
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


def _kind(value: Any) -> str:
    return np.asarray(value).dtype.kind


def _without_zone(time: dt.datetime) -> dt.datetime:
    return time.astimezone(dt.timezone.utc).replace(tzinfo=None) if time.tzinfo else time


def _decoded(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Texts instead of bytes, except where these are no UTF-8."""
    if array.dtype.kind not in "OS":
        return array
    decoded = np.empty(array.shape, object)
    for position, value in np.ndenumerate(array):
        try:
            decoded[position] = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            decoded[position] = value
    return decoded


def _without_value(number: int, place: str) -> ValueError:
    return ValueError(
        f"`columns` must have a value in each row; got {number} rows without one in {place}. Fill them, or leave the "
        "column out."
    )
