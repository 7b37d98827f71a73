"""Batches that fill a padding budget, by looking ahead over whole graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import tf_hooks
from tfx_gnn.graph.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.size_checks import satisfies_size_constraints
from tfx_gnn.graph.size_constraints import SizeConstraints
from tfx_gnn.graph.size_rule import SetKey, SizeRule, as_size
from tfx_gnn.graph.size_search import check_graph_dataset

_Fields = tuple[tf.Tensor, ...]

#: How much a large graph is preferred to one that leaves the remaining budget even.
_LARGE_FIRST = 0.3


def pack_batches(
    dataset: tf.data.Dataset,
    size_constraints: SizeConstraints,
    *,
    window: int = 128,
    on_oversized: Callable[[GraphTensor], Any] | None = None,
) -> tf.data.Dataset:
    """Batches graphs so that each batch fills a padding budget as well as it can.

    A batch starts with the graph that has waited longest. It grows by the graph, among the next
    `window` ones, that fits and leaves what remains of the budget most even across components,
    node sets and edge sets; large graphs are preferred a little. When none fits, the batch is
    complete. No graph is skipped and none waits forever; the order is the same in each pass if
    that of `dataset` is.

    Args:
        dataset: data set of scalar graphs; may be infinite.
        size_constraints: the budget; it must name each node set and edge set of the graphs.
        window: how many graphs are looked at for the next place in a batch, at least 1. More of
            them fill batches better and take longer: by about 16 microseconds a graph for 64.
        on_oversized: TensorFlow function called with each graph that does not fit even alone,
            which is then left out. By default such a graph is an error.

    Returns:
        Data set of graphs of shape [num_graphs], which `merge_batch_to_components` and
        `pad_to_total_sizes` make graphs of exactly the sizes of the budget.

    Raises:
        ValueError: if elements are not scalar graphs, `window` is too small, or the budget lacks
            a set or names an unknown one.
        tf.errors.InvalidArgumentError: at run time, if a graph does not fit even alone and
            `on_oversized` is not given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graphs = tf.data.Dataset.from_tensors(graph).repeat(5)
        >>> budget = tfx_gnn.SizeConstraints(3, {"nodes": 7}, {"edges": 6})
        >>> [int(batch.shape[0]) for batch in tfx_gnn.pack_batches(graphs, budget)]
        [2, 2, 1]
    """
    spec = check_graph_dataset(dataset)
    check_scalar_graph_tensor(spec, "pack_batches()")
    if window < 1:
        raise ValueError(f"`window` must be at least 1; got {window}.")
    rule = SizeRule.from_constraints(spec, size_constraints)
    _check_no_unknown_sets(rule, size_constraints)
    if on_oversized is not None:
        dataset = dataset.filter(lambda graph: _fits_or_goes(graph, size_constraints, on_oversized))
    demands = {name: as_size(size) for name, size in dict(size_constraints.min_nodes_per_component).items()}
    packer = _Packer(rule, demands, window, spec._batch(None))
    # The boxed fields of the graphs are what the data set really holds: it is only named otherwise.
    boxed_spec = tuple(tf_hooks.flat_tensor_specs(spec))
    boxed = tf.data.experimental.from_variant(tf.data.experimental.to_variant(dataset), boxed_spec)
    chunks = boxed.batch(window).map(packer.measure)
    chunks = chunks.concatenate(tf.data.Dataset.from_tensors(packer.end()))
    packed = chunks.scan(packer.start(), packer.step).flat_map(packer.cut)
    return tf.data.experimental.from_variant(tf.data.experimental.to_variant(packed), spec._batch(None))


def _check_no_unknown_sets(rule: SizeRule, constraints: SizeConstraints) -> None:
    known = {name for _, name in rule.sets}
    named = {*constraints.total_num_nodes, *constraints.total_num_edges, *dict(constraints.min_nodes_per_component)}
    if not named <= known:
        raise ValueError(
            f"`size_constraints` must name sets of the graphs only; got {sorted(named - known)}. Known are "
            f"{sorted(known)}."
        )


def _fits_or_goes(
    graph: GraphTensor, constraints: SizeConstraints, on_oversized: Callable[[GraphTensor], Any]
) -> tf.Tensor:
    def go() -> tf.Tensor:
        on_oversized(graph)
        return tf.zeros([], tf.bool)

    return tf.cond(satisfies_size_constraints(graph, constraints), lambda: tf.ones([], tf.bool), go)


class _Plan(NamedTuple):
    """Which graphs go where.

    Attributes:
        num_taken: how many graphs are in batches.
        is_taken: which they are, of shape [num_positions].
        order: their positions by batch, valid for the first `num_taken`.
        batch: the number of the batch of each of these; 0 is the one that was begun before.
        used: sizes of the last batch.
        current: number of the last batch.
    """

    num_taken: tf.Tensor
    is_taken: tf.Tensor
    order: tf.Tensor
    batch: tf.Tensor
    used: tf.Tensor
    current: tf.Tensor


class _Packer:
    """The steps of packing. Graphs travel boxed, one variant tensor a field, and are not copied."""

    def __init__(self, rule: SizeRule, demands: dict[str, Any], window: int, batch_spec: Any) -> None:
        self._rule = rule
        self._demands = demands
        self._window = window
        self._batch_spec = batch_spec
        targets = np.asarray([rule.target_components, *rule.targets])
        # A padding component takes its part of a budget.
        reserve = np.asarray([1, *rule.demands])
        self._capacity = np.maximum(targets - reserve, 1).astype(np.float32)
        self._limits = (np.int64(rule.target_components), rule.targets, rule.demands, self._capacity)
        self._planner = _planner(window, rule.sets, tuple(rule.edge_positions), tuple(rule.end_positions))

    def measure(self, *fields: tf.Tensor) -> tuple[tf.Tensor, _Fields, tf.Tensor]:
        """Returns the sizes of the graphs, their boxed fields, and that more may follow."""
        # Only the sizes are really decoded: what is not used costs nothing in a function.
        graphs = tf_hooks.from_flat_tensors(self._batch_spec, list(fields))
        sizes = _sizes_by_graph(graphs)
        fits = self._rule.fits(sizes[:, 0], sizes[:, 1:])
        for name, demand in self._demands.items():
            enough = tf.cast(graphs.node_sets[name].sizes, tf.int64) >= tf.cast(demand, tf.int64)
            fits &= tf.reduce_all(enough, axis=-1)
        names = ["components", *(f"{kind}/{name}" for kind, name in self._rule.sets)]
        limits = [self._rule.target_components, *self._rule.targets]
        wrong = tf.where(tf.logical_not(fits))[:1, 0]
        message = (
            "`size_constraints` must have room for each graph and what pads it; got a graph that does not fit even "
            f"alone. Numbers of {names}:"
        )
        check = tf.debugging.Assert(
            tf.equal(tf.size(wrong), 0),
            [
                message,
                tf.gather(sizes, wrong),
                "of at most:",
                limits,
            ],
            summarize=100,
        )
        with tf.control_dependencies([check]):
            return tf.identity(sizes), fields, tf.zeros([], tf.bool)

    def nothing(self) -> tuple[tf.Tensor, _Fields]:
        """Returns the sizes and fields of no graphs."""
        sizes = tf.zeros([0, len(self._capacity)], tf.int64)
        return sizes, tuple(tf_hooks.no_flat_tensors(self._batch_spec))

    def start(self) -> tuple[Any, ...]:
        """Returns what is carried to the first step: no waiting graphs, and an empty batch."""
        return *self.nothing(), self.nothing()[1], tf.zeros([len(self._capacity)], tf.int64)

    def end(self) -> tuple[tf.Tensor, _Fields, tf.Tensor]:
        """Returns a chunk of no graphs that says that no more will follow."""
        return *self.nothing(), tf.ones([], tf.bool)

    def step(self, carried: Any, chunk: Any) -> tuple[Any, Any]:
        """Completes batches from waiting and new graphs; carries waiting ones and the open batch on."""
        sizes = tf.concat([carried[0], chunk[0]], axis=0)
        fields = [_join(*parts) for parts in zip(carried[1], chunk[1], strict=True)]
        open_fields, used, is_last = carried[2], carried[3], chunk[2]
        num_graphs = tf.shape(sizes)[0]
        most = 3 * self._window
        padded = tf.ensure_shape(tf.pad(sizes, [[0, most - num_graphs], [0, 0]]), [most, len(self._capacity)])
        plan = self._planner(self._limits, padded, num_graphs, used, is_last)
        order = plan.order[: plan.num_taken]
        batched = [_join(first, tf.gather(field, order)) for first, field in zip(open_fields, fields, strict=True)]
        # The open batch is the first; the last one stays open until no more graphs fit.
        lengths = tf.math.bincount(plan.batch[: plan.num_taken], minlength=plan.current + 1, dtype=tf.int64)
        num_open = tf.shape(open_fields[0], tf.int64)[0]
        lengths = tf.concat([lengths[:1] + num_open, lengths[1:]], axis=0)
        lengths = tf.boolean_mask(lengths, is_last | (tf.range(tf.size(lengths)) < plan.current))
        lengths = tf.boolean_mask(lengths, lengths > 0)
        total = tf.reduce_sum(lengths)
        waiting = tf.where(tf.logical_not(plan.is_taken[:num_graphs]))[:, 0]
        state = (
            tf.gather(sizes, waiting),
            tuple(tf.gather(field, waiting) for field in fields),
            tuple(field[total:] for field in batched),
            plan.used,
        )
        return state, (tuple(field[:total] for field in batched), lengths)

    def cut(self, fields: _Fields, lengths: tf.Tensor) -> tf.data.Dataset:
        """Makes batches of graphs that lie one after another."""
        ends = tf.cumsum(lengths)
        pieces = tf.data.Dataset.from_tensor_slices((ends - lengths, ends))
        return pieces.map(lambda start, end: tuple(field[start:end] for field in fields))


def _first(condition: tf.Tensor) -> tf.Tensor:
    """Returns the position of the first True."""
    return tf.argmax(tf.cast(condition, tf.int32), output_type=tf.int32)


def _join(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Concatenates; TensorFlow has no kernel to do so with variant tensors."""
    num_first = tf.shape(first)[0]
    indices = [tf.range(num_first), num_first + tf.range(tf.shape(second)[0])]
    return tf.dynamic_stitch(indices, [first, second])


def _sizes_by_graph(graphs: GraphTensor) -> tf.Tensor:
    """Counts components, nodes and edges; int64 of shape [num_graphs, 1 + num_sets]."""
    pieces = [*graphs.node_sets.values(), *graphs.edge_sets.values()]
    counts = [graphs.num_components, *(tf.reduce_sum(piece.sizes, axis=-1) for piece in pieces)]
    return tf.stack([tf.cast(count, tf.int64) for count in counts], axis=1)


@functools.cache
def _planner(
    window: int, sets: tuple[SetKey, ...], edge_positions: tuple[int, ...], end_positions: tuple[int, ...]
) -> Callable[..., _Plan]:
    """Compiles the choice of graphs, once for all budgets of a kind of graphs.

    Args:
        window: number of graphs to choose from.
        sets: as in `SizeRule`.
        edge_positions: as in `SizeRule`.
        end_positions: as in `SizeRule`.

    Returns:
        Function of the limits (target components, targets and demands of a `SizeRule`, and what
        real graphs may fill, float32 of shape [1 + num_sets]); the sizes of waiting graphs in
        the order of arrival, int64 of shape [3 * window, 1 + num_sets]; how many of them there
        are; the sizes of the batch that was begun before; and whether no more graphs will arrive.
    """

    @tf.function(jit_compile=True, autograph=False)
    def plan(
        limits: tuple[tf.Tensor, ...],
        sizes: tf.Tensor,
        num_graphs: tf.Tensor,
        used: tf.Tensor,
        is_last: tf.Tensor,
    ) -> _Plan:
        target_components, targets, demands, capacity = limits
        rule = SizeRule(
            sets=sets,
            target_components=target_components,
            targets=targets,
            demands=demands,
            edge_positions=np.asarray(edge_positions, np.int64),
            end_positions=np.asarray(end_positions, np.int64),
        )
        positions = tf.range(sizes.shape[0])
        total_share = tf.reduce_sum(tf.cast(sizes, tf.float32) / capacity, axis=1)

        def may_go_on(plan: _Plan) -> tf.Tensor:
            num_waiting = num_graphs - plan.num_taken
            return tf.where(is_last, num_waiting > 0, num_waiting >= 2 * window)

        def take_one(plan: _Plan) -> tuple[_Plan]:
            is_waiting = tf.logical_not(plan.is_taken) & (positions < num_graphs)
            # Each graph that is taken lets the window move on by one.
            is_seen = is_waiting & (positions < window + plan.num_taken)
            added = plan.used + sizes
            fits = is_seen & rule.fits(added[:, 0], added[:, 1:])
            left = 1.0 - tf.cast(added, tf.float32) / capacity
            unevenness = tf.reduce_max(left, axis=1) - tf.reduce_min(left, axis=1)
            score = tf.where(fits, _LARGE_FIRST * total_share - unevenness, -np.inf)
            is_complete = tf.logical_not(tf.reduce_any(fits))
            # A new batch starts with the graph that has waited longest: alone, it fits.
            starts = is_complete | tf.reduce_all(plan.used == 0)
            chosen = tf.where(starts, _first(is_waiting), tf.argmax(score, output_type=tf.int32))
            current = plan.current + tf.cast(is_complete, tf.int32)
            here = positions == plan.num_taken
            return (
                _Plan(
                    num_taken=plan.num_taken + 1,
                    is_taken=plan.is_taken | (positions == chosen),
                    order=tf.where(here, chosen, plan.order),
                    batch=tf.where(here, current, plan.batch),
                    used=tf.where(starts, sizes[chosen], plan.used + sizes[chosen]),
                    current=current,
                ),
            )

        zero, zeros = tf.zeros([], tf.int32), tf.zeros_like(positions)
        start = _Plan(num_taken=zero, is_taken=zeros > 0, order=zeros, batch=zeros, used=used, current=zero)
        return tf.while_loop(may_go_on, take_one, (start,))[0]

    return plan
