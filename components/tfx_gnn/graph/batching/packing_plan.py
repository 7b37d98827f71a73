"""Chooses which graphs go into the same batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SetKey, SizeRule

#: How strongly large graphs are preferred at the beginning of a batch.
_LARGE_FIRST = 2.0


class Plan(NamedTuple):
    """Which graphs go into which batch.

    Attributes:
        num_taken: number of graphs that were put into batches.
        order: positions of these graphs, batch by batch; only the first `num_taken` are valid.
        batch: batch number of each graph in `order`; 0 is the batch left open by the previous step.
        is_waiting: whether each graph is not in a batch yet, of shape [num_positions].
        used: sizes of the last batch.
        current: number of the last batch.
    """

    num_taken: tf.Tensor
    order: tf.Tensor
    batch: tf.Tensor
    is_waiting: tf.Tensor
    used: tf.Tensor
    current: tf.Tensor


class _State(NamedTuple):
    num_taken: tf.Tensor
    order: tf.Tensor
    batch: tf.Tensor
    # Positions of the graphs in the window; -1 for an empty place. `next` is the next position to enter it.
    window: tf.Tensor
    # One row for components and one per set: XLA reads each as a contiguous vector.
    window_sizes: tf.Tensor
    next: tf.Tensor
    used: tf.Tensor
    current: tf.Tensor


@functools.cache
def planner(
    window: int, sets: tuple[SetKey, ...], edge_positions: tuple[int, ...], end_positions: tuple[int, ...]
) -> Callable[..., Plan]:
    """Compiles the function that chooses graphs, once for all budgets of one type of graphs.

    The arguments other than `window` are those of `SizeRule`. The returned function takes:

    - the limits: target components, targets and demands of a `SizeRule`, and the part of the budget that is available
      to real graphs, float32 of shape [1 + num_sets];
    - the sizes of waiting graphs in order of arrival, int64 of shape [num_positions, 1 + num_sets], where
      num_positions is static and at least `window`;
    - the number of waiting graphs;
    - the sizes of the batch left open by the previous step;
    - whether these are the last graphs. If not, fewer than `window` graphs are left waiting.
    """

    @tf.function(jit_compile=True, autograph=False)
    def plan(
        limits: tuple[tf.Tensor, ...],
        sizes: tf.Tensor,
        num_graphs: tf.Tensor,
        used: tf.Tensor,
        is_last: tf.Tensor,
    ) -> Plan:
        target_components, targets, demands, capacity = limits
        rule = SizeRule(
            sets=sets,
            target_components=target_components,
            targets=targets,
            demands=demands,
            edge_positions=np.asarray(edge_positions, np.int64),
            end_positions=np.asarray(end_positions, np.int64),
        )
        num_positions = sizes.shape[0]
        positions = tf.range(num_positions)
        places = tf.range(window)
        columns = tf.transpose(sizes)
        # Without matrices, with one vector per set, XLA fuses the formulas below into one loop.
        parts = tf.unstack(1.0 / capacity)
        work_capacity = tf.reduce_sum(capacity[1:])

        def may_go_on(state: _State) -> tf.Tensor:
            num_waiting = num_graphs - state.num_taken
            return tf.where(is_last, num_waiting > 0, num_waiting >= window)

        def take_one(state: _State) -> tuple[_State]:
            is_there = state.window >= 0
            in_window = tf.unstack(state.window_sizes)
            added = [size + used for size, used in zip(in_window, tf.unstack(state.used), strict=True)]
            fits = is_there & rule.fits_each(added[0], added[1:])
            left = [1.0 - tf.cast(size, tf.float32) * part for size, part in zip(added, parts, strict=True)]
            least = functools.reduce(tf.minimum, left)
            work = tf.add_n([tf.cast(size, tf.float32) for size in in_window[1:]]) / work_capacity
            # Estimates the final work in the batch, assuming it is filled until the scarcest size is used up.
            # Large graphs are preferred while there is room; small graphs fill the last gaps.
            score = tf.where(fits, work * (1.0 + _LARGE_FIRST * least) + least, -np.inf)
            is_complete = tf.logical_not(tf.reduce_any(fits))
            # A new batch starts with the graph that has waited longest, which always fits alone.
            starts = is_complete | tf.reduce_all(state.used == 0)
            longest = tf.argmin(tf.where(is_there, state.window, num_positions), output_type=tf.int32)
            chosen = tf.where(starts, longest, tf.argmax(score, output_type=tf.int32))
            current = state.current + tf.cast(is_complete, tf.int32)
            # XLA needs static positions of slices. They depend on the limits, so it would recompile for each
            # budget. A gather has no such restriction.
            taken_sizes = tf.gather(state.window_sizes, chosen, axis=1)
            follows = tf.where(state.next < num_graphs, state.next, -1)
            # XLA writes single elements in separate loops; writing all elements is faster.
            is_here, is_left = positions == state.num_taken, places == chosen
            follow_sizes = tf.gather(columns, tf.maximum(follows, 0), axis=1)[:, tf.newaxis]
            return (
                _State(
                    num_taken=state.num_taken + 1,
                    order=tf.where(is_here, tf.gather(state.window, chosen), state.order),
                    batch=tf.where(is_here, current, state.batch),
                    window=tf.where(is_left, follows, state.window),
                    window_sizes=tf.where(is_left, follow_sizes, state.window_sizes),
                    next=state.next + 1,
                    used=tf.where(starts, taken_sizes, state.used + taken_sizes),
                    current=current,
                ),
            )

        zero, zeros = tf.zeros([], tf.int32), tf.zeros_like(positions)
        start = _State(
            num_taken=zero,
            order=zeros,
            batch=zeros,
            window=tf.where(positions < num_graphs, positions, -1)[:window],
            window_sizes=columns[:, :window],
            next=tf.constant(window),
            used=used,
            current=zero,
        )
        end = tf.while_loop(may_go_on, take_one, (start,))[0]
        # A position is still waiting if it does not occur among those taken.
        taken = tf.where(positions < end.num_taken, end.order, num_positions)
        is_taken = tf.scatter_nd(taken[:, tf.newaxis], tf.ones_like(taken), [num_positions + 1])[:-1] > 0
        is_waiting = tf.logical_not(is_taken) & (positions < num_graphs)
        return Plan(end.num_taken, end.order, end.batch, is_waiting, end.used, end.current)

    return plan
