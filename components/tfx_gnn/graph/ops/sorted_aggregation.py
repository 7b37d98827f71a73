"""Segment sums and gathers over sorted edges, each the gradient of the other.

TensorFlow's own gradient of a gather adds up rows in random order. Here every sum, including those
in gradients, computes the rows of its result in order; and neither a sum over neighbors nor its
gradient ever materializes a row per edge.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfx_gnn.graph.graph_constants import SOURCE, TARGET, IncidentNodeOrContextTag, IncidentNodeTag
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.sorted_adjacency import SortedAdjacency

#: dtypes for which all operations used here have CPU and GPU kernels.
SUMMABLE_DTYPES = frozenset({tf.bfloat16, tf.float16, tf.float32, tf.float64})
#: Names of reductions that are computed from sums.
REDUCE_TYPES = frozenset({"mean", "sum"})


def applies(adjacency: object, tag: IncidentNodeOrContextTag, values: Any) -> bool:
    """Returns whether `SortedEdges` can sum and copy these values along an adjacency."""
    return (
        isinstance(adjacency, SortedAdjacency)
        and tag in (SOURCE, TARGET)
        and isinstance(values, tf.Tensor)
        and values.dtype in SUMMABLE_DTYPES
        and values.shape.rank is not None
    )


class _Ends(NamedTuple):
    """The tensors of a sorted adjacency, each of shape [num_edges]."""

    source: tf.Tensor
    target: tf.Tensor
    order_by_source: tf.Tensor
    source_in_order: tf.Tensor
    target_in_order: tf.Tensor


class SortedEdges:
    """Linear maps along sorted edges, whose gradients of any order are such maps, too.

    XLA lacks the fastest operation, so other operations are used while a function with
    `jit_compile=True`, or a function that it calls, is traced. A function without `jit_compile`
    keeps the operations of its first trace: if it is called both from a compiled function and on
    its own, split it into two functions. Forward-mode differentiation is not supported.
    """

    def __init__(self, adjacency: SortedAdjacency) -> None:
        """Finds out whether XLA compiles the current function."""
        targets, sources = adjacency.in_order_of(SOURCE)
        self._ends = _Ends(adjacency.source, adjacency.target, adjacency.order_by_source, sources, targets)
        self._for_xla = tf_hooks.in_xla_context()

    def copy(self, from_tag: IncidentNodeTag, values: tf.Tensor) -> tf.Tensor:
        """Gives each edge the value of the node at one end."""
        return self._apply(
            lambda edges, rows: tf.gather(rows, edges._ends[from_tag]),
            lambda edges, upstream, num_nodes: edges.sum(from_tag, upstream, num_nodes),
            values,
        )

    def sum(self, to_tag: IncidentNodeTag, values: tf.Tensor, num_nodes: int | tf.Tensor) -> tf.Tensor:
        """Adds up, for each node at one end, the values of its edges; nodes without edges get zeros."""

        def add_up(edges: SortedEdges, rows: tf.Tensor) -> tf.Tensor:
            if to_tag == TARGET:
                return tf.math.unsorted_segment_sum(rows, edges._ends.target, num_nodes)
            return edges._sum_rows(rows, edges._ends.order_by_source, edges._ends.source_in_order, num_nodes)

        return self._apply(add_up, lambda edges, upstream, _: edges.copy(to_tag, upstream), values)

    def sum_neighbors(self, to_tag: IncidentNodeTag, values: tf.Tensor, num_nodes: int | tf.Tensor) -> tf.Tensor:
        """Adds up, for each node at one end, the values of the nodes at the other end of its edges.

        Nodes without edges get zeros.
        """
        from_tag = SOURCE if to_tag == TARGET else TARGET

        def add_up(edges: SortedEdges, rows: tf.Tensor) -> tf.Tensor:
            if to_tag == TARGET:
                return edges._sum_rows(rows, edges._ends.source, edges._ends.target, num_nodes)
            return edges._sum_rows(rows, edges._ends.target_in_order, edges._ends.source_in_order, num_nodes)

        return self._apply(
            add_up,
            lambda edges, upstream, num_senders: edges.sum_neighbors(from_tag, upstream, num_senders),
            values,
        )

    def _apply(
        self,
        function: Callable[[SortedEdges, tf.Tensor], tf.Tensor],
        gradient: Callable[[SortedEdges, tf.Tensor, Any], tf.Tensor],
        values: tf.Tensor,
    ) -> tf.Tensor:
        """Applies a linear function with a given gradient."""
        edges = self._in_this_graph()

        @tf.custom_gradient
        def call(values: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tf.Tensor]]:
            result = function(edges, values)
            sizes = _num_rows(values), _num_rows(result)
            return result, lambda upstream: gradient(edges, _dense(upstream, sizes[1]), sizes[0])

        return call(values)

    def _in_this_graph(self) -> SortedEdges:
        """Copies outer tensors into the current function or loop, whose gradient can only use tensors inside it."""
        if tf.executing_eagerly():
            return self
        inside = copy.copy(self)
        inside._ends = _Ends(*(tf.identity(end) for end in self._ends))
        return inside

    def _sum_rows(self, values: tf.Tensor, rows: tf.Tensor, segment_ids: tf.Tensor, num_segments: Any) -> tf.Tensor:
        """Adds up `values[rows]` by ascending segment ids."""
        # The gradient of a compiled function is compiled, too, but may be traced outside of the XLA context.
        if self._for_xla or tf_hooks.in_xla_context():
            return tf.math.unsorted_segment_sum(tf.gather(values, rows), segment_ids, num_segments)
        sums = tf.sparse.segment_sum(values, rows, segment_ids, num_segments=num_segments)
        static = tf.get_static_value(num_segments)
        return tf.ensure_shape(sums, [None if static is None else int(static), *values.shape[1:]])


def sums_and_means(
    reduce_types: Sequence[str], total: tf.Tensor, receivers: Sequence[tf.Tensor], num_receivers: int | tf.Tensor
) -> list[tf.Tensor]:
    """Returns the sums, the means computed from them, or both; the mean of no values is zero.

    `receivers` are vectors of receiver indices, one for each value that was added up.
    """
    results = {"sum": total}
    if "mean" in reduce_types:
        counts = tf.add_n(
            [tf.math.unsorted_segment_sum(tf.ones_like(index), index, num_receivers) for index in receivers]
        )
        divisors = tf.cast(tf.maximum(counts, 1), total.dtype)
        results["mean"] = total / tf.reshape(divisors, [-1] + [1] * (total.shape.rank - 1))
    return [results[name] for name in reduce_types]


def _num_rows(value: tf.Tensor) -> int | tf.Tensor:
    """Returns the number of rows, static if possible: XLA must know the number of segments at compile time."""
    return tf.shape(value)[0] if value.shape[0] is None else int(value.shape[0])


def _dense(upstream: Any, num_rows: int | tf.Tensor) -> tf.Tensor:
    """Adds up the rows of a gradient that comes from a gather."""
    if isinstance(upstream, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(upstream.values, upstream.indices, num_rows)
    return upstream
