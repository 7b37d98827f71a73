"""Makes data sets of graphs from generators, filters them with a summary, and checks their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_piece import GraphPiece, GraphPieceSpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import EdgeSetSpec, NodeSetSpec


def dataset_from_generator(generator: Callable[[], Iterable[Any]]) -> tf.data.Dataset:
    """Makes a data set of the elements of a generator; the first element determines the type of all.

    Delete the iterators of such a data set before the process ends, or read them to their end: as with
    `tf.data.Dataset.from_generator`, a process may wait for ever at its exit while one still draws from Python.

    Args:
        generator: called without arguments for each iteration, and once by this function; returns
            an iterable of nests of tensors and scalar graph pieces. Later elements may differ from
            the first in numbers of nodes and edges, but not in features, sets and numbers of
            components.

    Returns:
        Data set of unknown cardinality.

    Raises:
        TypeError: if `generator` cannot be called.
        ValueError: if it yields nothing, or a graph piece that is not scalar; at run time, if a
            later element does not fit the first (as `tf.errors.InvalidArgumentError`).

    Example:
        >>> def graphs():
        ...     for n in (1, 2):
        ...         yield tfx_gnn.NodeSet.from_fields(sizes=[n], features={"x": tf.zeros([n])})
        >>> [int(nodes.total_size) for nodes in tfx_gnn.dataset_from_generator(graphs)]
        [1, 2]
    """
    if not callable(generator):
        raise TypeError(
            f"`generator` must be callable, returning an iterable; got {type(generator).__name__}. "
            "Wrap a list as `lambda: my_list`."
        )
    first = next(iter(generator()), None)
    if first is None:
        raise ValueError("The generator must produce at least one value, to determine the type of all; got none.")
    spec = tf.nest.map_structure(_spec_of, _as_nest(first))

    def checked() -> Iterator[Any]:
        for position, element in enumerate(generator()):
            nest = _as_nest(element)
            tf.nest.assert_same_structure(nest, spec)
            for value, expected in zip(tf.nest.flatten(nest), tf.nest.flatten(spec), strict=True):
                if isinstance(value, GraphPiece) and not expected.is_compatible_with(value):
                    raise ValueError(
                        "Generated graph pieces are not compatible: all must have the features, sets and numbers of "
                        f"components of the first, {expected}; got {value.spec} in element {position}."
                    )
            yield nest

    return tf.data.Dataset.from_generator(checked, output_signature=spec)


def _as_nest(element: Any) -> Any:
    return tf.nest.map_structure(
        lambda value: value if isinstance(value, (GraphPiece, tf.RaggedTensor)) else tf.convert_to_tensor(value),
        element,
    )


def _spec_of(value: Any) -> Any:
    spec = tf.type_spec_from_value(value)
    if not isinstance(spec, GraphPieceSpec):
        return spec
    check_scalar_graph_tensor(value, "dataset_from_generator()")
    for spec_type, varying in _VARYING_SIZES.items():
        if isinstance(spec, spec_type):
            return spec.relax(**dict.fromkeys(varying, True))
    return spec


_VARYING_SIZES: dict[type[Any], tuple[str, ...]] = {
    GraphTensorSpec: ("num_nodes", "num_edges"),
    NodeSetSpec: ("num_nodes",),
    EdgeSetSpec: ("num_edges",),
    HyperAdjacencySpec: ("num_edges",),
}


def dataset_filter_with_summary(
    dataset: tf.data.Dataset,
    predicate: Callable[..., tf.Tensor],
    *,
    summary_name: str = "dataset_removed_fraction",
    summary_steps: int = 1000,
    summary_decay: float | None = None,
) -> tf.data.Dataset:
    """Filters like `tf.data.Dataset.filter`, and writes the removed fraction as a summary.

    The fraction is an exponential moving average over input elements. Element t (from 1) counts
    with weight max(1 / t, 1 - summary_decay), so the average starts as the plain mean. It is
    written to the summary writer that is the default when the data set is made.

    Args:
        dataset: any data set.
        predicate: maps an element to a scalar bool; False removes it. Tuples are unpacked into
            several arguments.
        summary_name: name of the scalar summary.
        summary_steps: number of input elements from one report to the next, at least 1. The step
            of a report is the index of the last element that was kept.
        summary_decay: weight of the past, between 0 and 1, both excluded; by default exp(-1 / summary_steps).

    Returns:
        Data set of the elements for which the predicate is True.

    Raises:
        ValueError: if `summary_steps` or `summary_decay` is out of range.

    Example:
        >>> dataset = tfx_gnn.dataset_filter_with_summary(tf.data.Dataset.range(6), lambda x: x % 3 == 0)
        >>> [int(x) for x in dataset]
        [0, 3]
    """
    if summary_steps < 1:
        raise ValueError(f"Expected summary_steps > 0, actual summary_steps={summary_steps}.")
    decay = math.exp(-1.0 / summary_steps) if summary_decay is None else summary_decay
    if not 0 < decay < 1:
        raise ValueError(f"Expected 0 < summary_decay < 1, actual summary_decay={summary_decay}.")

    def count(state: tuple[tf.Tensor, ...], *element: Any) -> tuple[Any, Any]:
        num_seen, num_kept, removed = state
        keep = tf.cast(predicate(*element), tf.bool)
        num_seen += 1
        num_kept += tf.cast(keep, tf.int64)
        weight = tf.maximum(1.0 / tf.cast(num_seen, tf.float32), 1.0 - decay)
        removed += weight * (1.0 - tf.cast(keep, tf.float32) - removed)
        with tf.summary.record_if(num_seen % summary_steps == 0):
            tf.summary.scalar(summary_name, removed, step=tf.maximum(num_kept - 1, 0))
        return (num_seen, num_kept, removed), (element, keep)

    start = (tf.zeros([], tf.int64), tf.zeros([], tf.int64), tf.zeros([], tf.float32))
    is_tuple = isinstance(dataset.element_spec, tuple)
    counted = dataset.scan(start, lambda state, element: count(state, *element) if is_tuple else count(state, element))
    kept = counted.filter(lambda _, keep: keep)
    return kept.map(lambda element, _: element if is_tuple else element[0])


def check_graph_dataset(dataset: tf.data.Dataset) -> GraphTensorSpec:
    """Returns the spec of the graphs in a data set; refuses other elements."""
    spec = dataset.element_spec
    if not isinstance(spec, GraphTensorSpec):
        raise ValueError(
            f"The element of dataset must be GraphTensor; got {type(spec).__name__}. "
            "Parse the examples and drop labels first."
        )
    return spec
