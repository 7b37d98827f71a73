"""Finds size constraints for a data set, tight for all batches, or fit-or-skip for almost all batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Union

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.graph_datasets import check_graph_dataset
from tfx_gnn.graph.batching.size_constraints import Size, SizeConstraints, with_room_for_padding
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

ConstraintsNest = Union[SizeConstraints, list[SizeConstraints], list[list[SizeConstraints]]]
_Number = TypeVar("_Number", int, float)
_Sizes = npt.NDArray[np.int64]

# Batches are drawn the same way in each run, so budgets are reproducible.
_SEED = 0


def find_tight_size_constraints(
    dataset: tf.data.Dataset,
    *,
    min_nodes_per_component: Mapping[const.NodeSetName, int] | None = None,
    target_batch_size: int | tf.Tensor | None = None,
) -> SizeConstraints:
    """Finds the smallest constraints that every batch of a data set can be padded to.

    Reads the whole data set. The constraints are the largest sizes of any element, times the
    batch size, plus room for padding: one component, its minimum number of nodes, and one node
    at each end of edge sets. If all sizes are static, there is no room for padding, because none
    is needed.

    Args:
        dataset: finite data set of graphs of any rank: single graphs, with `target_batch_size`,
            or batches that are the same in every pass.
        min_nodes_per_component: minimum number of nodes by node set in each component, padding
            components included. Default 0.
        target_batch_size: number of elements in a batch; default 1.

    Returns:
        Constraints of Python ints; of tensors inside a tf.function. For an empty data set, they are
        the smallest int64.

    Raises:
        ValueError: if the data set is infinite or holds anything but graphs, or the batch size is
            not positive.

    Example:
        >>> graphs = tf.data.Dataset.range(4, 7).map(
        ...     lambda n: tfx_gnn.GraphTensor.from_pieces(node_sets={"docs": tfx_gnn.NodeSet.from_fields(sizes=[n])}))
        >>> tfx_gnn.find_tight_size_constraints(graphs, target_batch_size=3).total_num_nodes
        {'docs': 18}
    """
    spec = check_graph_dataset(dataset)
    if tf.get_static_value(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The dataset must be finite; got an infinite one. Drop .repeat() or use .take().")
    if isinstance(target_batch_size, int) and target_batch_size < 1:
        raise ValueError(f"`target_batch_size` must be at least 1; got {target_batch_size}.")
    smallest = tf.fill([len(size_names(spec))], tf.int64.min)
    sizes = dataset.reduce(smallest, lambda largest, graph: tf.maximum(largest, size_vector(graph)))
    if target_batch_size is not None:
        sizes *= tf.cast(target_batch_size, tf.int64)
    return constraints_from_vector(spec, sizes, min_nodes_per_component)


def learn_fit_or_skip_size_constraints(
    dataset: tf.data.Dataset,
    batch_size: int | Iterable[int],
    *,
    min_nodes_per_component: Mapping[const.NodeSetName, int] | None = None,
    success_ratio: float | Iterable[float] = 1.0,
    sample_size: int = 100_000,
    num_thresholds: int = 1000,
) -> ConstraintsNest:
    """Learns tight constraints that a random batch fits with a given probability.

    Draws batches from a sample of the data set, and lowers the sizes of all sets together as long
    as enough of the drawn batches fit; the sizes that vary most are lowered most. Use
    `satisfies_size_constraints` with the result to filter batches of shuffled, repeated training
    data; never filter evaluation data, where each graph counts.

    Args:
        dataset: data set of graphs, not batched, in random order. May be infinite.
        batch_size: number of graphs in a batch, or several such numbers to learn for.
        min_nodes_per_component: as for `find_tight_size_constraints`.
        success_ratio: fraction of batches that must fit, in [0, 1], or several such fractions to
            learn for. 1 means all batches that were drawn, not all possible batches.
        sample_size: number of graphs to take from the front of the data set, and number of batches
            to draw.
        num_thresholds: number of steps in which sizes are lowered.

    Returns:
        Constraints; a list if several batch sizes or several success ratios were given, or a list
        of lists `[batch_size][success_ratio]` if several of both were given.

    Raises:
        ValueError: if the data set is empty or holds anything but graphs, or an argument is out of
            range.

    Example:
        >>> graphs = tf.data.Dataset.range(4, 7).map(
        ...     lambda n: tfx_gnn.GraphTensor.from_pieces(node_sets={"docs": tfx_gnn.NodeSet.from_fields(sizes=[n])}))
        >>> tfx_gnn.learn_fit_or_skip_size_constraints(graphs, batch_size=3, sample_size=50).total_num_components
        4
    """
    spec = check_graph_dataset(dataset)
    batch_sizes = [batch_size] if isinstance(batch_size, int) else _as_list(batch_size, int, "batch_size")
    success_ratios = (
        [float(success_ratio)]
        if isinstance(success_ratio, (int, float))
        else _as_list(success_ratio, float, "success_ratio")
    )
    _check(batch_sizes, success_ratios, sample_size, num_thresholds)

    sample = dataset.take(sample_size).map(size_vector, num_parallel_calls=tf.data.AUTOTUNE)
    graph_sizes = np.array(list(sample.as_numpy_iterator()), dtype=np.int64)
    if not len(graph_sizes):
        raise ValueError("`dataset` must hold at least one graph; got none. Check the files it reads.")
    drawn = _draw_batches(graph_sizes, batch_sizes, num_batches=sample_size)
    learned = [
        [
            constraints_from_vector(spec, _tightest_fit(drawn[size], ratio, num_thresholds), min_nodes_per_component)
            for ratio in success_ratios
        ]
        for size in batch_sizes
    ]
    if isinstance(success_ratio, (int, float)):
        first_column = [row[0] for row in learned]
        return first_column[0] if isinstance(batch_size, int) else first_column
    return learned[0] if isinstance(batch_size, int) else learned


def size_names(spec: GraphTensorSpec) -> list[tuple[const.SetType, const.SetName]]:
    """Names the elements of a size vector: ("context", ""), then ("nodes", name), then ("edges", name)."""
    return [
        (const.CONTEXT, ""),
        *((const.NODES, name) for name in spec.node_sets_spec),
        *((const.EDGES, name) for name in spec.edge_sets_spec),
    ]


def size_vector(graph: GraphTensor) -> tf.Tensor:
    """Counts components, nodes and edges, int64 in the order of `size_names`; sums over a batch."""
    sizes = [
        graph.total_num_components,
        *(node_set.total_size for node_set in graph.node_sets.values()),
        *(edge_set.total_size for edge_set in graph.edge_sets.values()),
    ]
    return tf.stack([tf.cast(size, tf.int64) for size in sizes])


def constraints_from_vector(
    spec: GraphTensorSpec, sizes: Any, min_nodes_per_component: Mapping[const.NodeSetName, int] | None
) -> SizeConstraints:
    """Makes constraints from the largest sizes, in the order of `size_names`, with room for padding."""
    values: list[Size]
    if isinstance(sizes, tf.Tensor) and not tf.executing_eagerly():
        values = tf.unstack(sizes)
    else:
        values = [int(size) for size in sizes]
    by_name = dict(zip(size_names(spec), values, strict=True))
    measured = SizeConstraints(
        total_num_components=by_name[const.CONTEXT, ""],
        total_num_nodes={name: by_name[const.NODES, name] for name in spec.node_sets_spec},
        total_num_edges={name: by_name[const.EDGES, name] for name in spec.edge_sets_spec},
        min_nodes_per_component=() if min_nodes_per_component is None else dict(min_nodes_per_component),
    )
    if _is_static(spec):
        return measured
    padded_ends = {
        node_set_name
        for edge_set_spec in spec.edge_sets_spec.values()
        if edge_set_spec.total_size is None
        for node_set_name, _ in edge_set_spec.adjacency_spec.get_index_specs_dict().values()
    }
    return with_room_for_padding(measured, padded_incident_node_sets=padded_ends)


def _is_static(spec: GraphTensorSpec) -> bool:
    pieces = [*spec.node_sets_spec.values(), *spec.edge_sets_spec.values()]
    return spec.total_num_components is not None and all(piece.total_size is not None for piece in pieces)


def _draw_batches(graph_sizes: _Sizes, batch_sizes: list[int], num_batches: int) -> dict[int, _Sizes]:
    """Sums sizes over random batches; a larger batch extends a smaller one."""
    random = np.random.default_rng(_SEED)
    sums = np.zeros([num_batches, graph_sizes.shape[1]], dtype=np.int64)
    repeated = np.arange(num_batches) % len(graph_sizes)
    drawn = {}
    for size in range(1, max(batch_sizes) + 1):
        # Each graph is drawn equally often, as from a data set that is repeated and shuffled.
        sums += graph_sizes[random.permutation(repeated)]
        if size in batch_sizes:
            drawn[size] = sums.copy()
    return drawn


def _tightest_fit(batches: _Sizes, success_ratio: float, num_thresholds: int) -> _Sizes:
    num_batches = len(batches)
    descending = -np.sort(-batches, axis=0)
    deviations = batches.std(axis=0)
    # How far each size moves down its own distribution; sizes that do not vary keep their maximum.
    importance = deviations / max(float(deviations.max()), np.finfo(np.float64).tiny)

    def candidate(threshold: int) -> _Sizes:
        ranks = np.floor(num_batches * threshold / num_thresholds * importance).astype(np.int64)
        sizes: _Sizes = descending[np.minimum(ranks, num_batches - 1), np.arange(batches.shape[1])]
        return sizes

    def succeeds(threshold: int) -> bool:
        return bool((batches <= candidate(threshold)).all(axis=1).mean() >= success_ratio)

    # Threshold 0 always succeeds, and the success ratio never grows with the threshold.
    low, high = 0, num_thresholds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if succeeds(middle) else (low, middle)
    return candidate(low)


def _check(batch_sizes: list[int], success_ratios: list[float], sample_size: int, num_thresholds: int) -> None:
    for name, values in (
        ("batch_size", batch_sizes),
        ("sample_size", [sample_size]),
        ("num_thresholds", [num_thresholds]),
    ):
        if not values or any(value < 1 for value in values):
            raise ValueError(f"The `{name}` must be positive; got {values}.")
    if not success_ratios or any(not 0 <= ratio <= 1 for ratio in success_ratios):
        raise ValueError(f"The `success_ratio` must be between 0 and 1; got {success_ratios}.")


def _as_list(values: Any, kind: type[_Number], name: str) -> list[_Number]:
    """Converts an iterable of numbers to a list."""
    expected = f"Expected `{name}` of type {kind.__name__} or List[{kind.__name__}]; got {values!r}."
    try:
        numbers = [kind(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ValueError(expected) from error
    if any(number != value for number, value in zip(numbers, values, strict=True)):
        raise ValueError(expected)
    return numbers
