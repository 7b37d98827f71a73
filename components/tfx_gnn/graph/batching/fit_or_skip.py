"""Fit-or-skip: size constraints that almost all random batches fit, and a filter for the rest.

The filter reports to TensorBoard how much it removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Union

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.batching.size_search import check_graph_dataset, constraints_from_vector, size_vector


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
    with weight max(1 / t, 1 - summary_decay), so the average starts as the plain mean. It goes to
    the default summary writer at the time the data set is made.

    Args:
        dataset: any data set.
        predicate: maps an element to a scalar bool; False removes it. Elements that are tuples
            are passed as several arguments.
        summary_name: name of the scalar summary.
        summary_steps: how many input elements lie between two reports, at least 1. The step of a
            report is the index of the last element that was kept.
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


_Number = TypeVar("_Number", int, float)


_Sizes = npt.NDArray[np.int64]


ConstraintsNest = Union[SizeConstraints, list[SizeConstraints], list[list[SizeConstraints]]]


# Batches are drawn alike in each run, so that budgets can be reproduced.
_SEED = 0


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

    Draws batches from a sample of the data set, and lowers the sizes of all sets together, those
    that vary most the furthest, as long as enough of the drawn batches fit all of them. To be
    used with `satisfies_size_constraints` as a filter of batches of shuffled, repeated training
    data; never for evaluation, where each graph counts.

    Args:
        dataset: data set of graphs, not batched, in random order. May be infinite.
        batch_size: number of graphs in a batch, or several to learn for.
        min_nodes_per_component: as for `find_tight_size_constraints`.
        success_ratio: share of batches that shall fit, in [0, 1], or several to learn for. 1 means
            all batches that were drawn, not all possible ones.
        sample_size: how many graphs to take from the front of the data set, and how many batches
            to draw.
        num_thresholds: number of steps in which sizes are lowered.

    Returns:
        Constraints; a list, or list of lists `[batch_size][success_ratio]`, if several of one, or
        of both, were asked for.

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


def _draw_batches(graph_sizes: _Sizes, batch_sizes: list[int], num_batches: int) -> dict[int, _Sizes]:
    """Sums sizes over random batches; a larger batch extends a smaller one."""
    random = np.random.default_rng(_SEED)
    sums = np.zeros([num_batches, graph_sizes.shape[1]], dtype=np.int64)
    repeated = np.arange(num_batches) % len(graph_sizes)
    drawn = {}
    for size in range(1, max(batch_sizes) + 1):
        # Each graph comes equally often, as in a data set that is repeated and shuffled.
        sums += graph_sizes[random.permutation(repeated)]
        if size in batch_sizes:
            drawn[size] = sums.copy()
    return drawn


def _tightest_fit(batches: _Sizes, success_ratio: float, num_thresholds: int) -> _Sizes:
    num_batches = len(batches)
    descending = -np.sort(-batches, axis=0)
    deviations = batches.std(axis=0)
    # How far down its own distribution each size goes; those that do not vary keep their maximum.
    importance = deviations / max(float(deviations.max()), np.finfo(np.float64).tiny)

    def candidate(threshold: int) -> _Sizes:
        ranks = np.floor(num_batches * threshold / num_thresholds * importance).astype(np.int64)
        sizes: _Sizes = descending[np.minimum(ranks, num_batches - 1), np.arange(batches.shape[1])]
        return sizes

    def succeeds(threshold: int) -> bool:
        return bool((batches <= candidate(threshold)).all(axis=1).mean() >= success_ratio)

    # Threshold 0 always succeeds, and success never grows with the threshold.
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
    """Returns several numbers as a list, from anything that holds them."""
    expected = f"Expected `{name}` of type {kind.__name__} or List[{kind.__name__}]; got {values!r}."
    try:
        numbers = [kind(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ValueError(expected) from error
    if any(number != value for number, value in zip(numbers, values, strict=True)):
        raise ValueError(expected)
    return numbers
