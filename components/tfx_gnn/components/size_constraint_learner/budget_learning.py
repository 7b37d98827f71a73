"""Learns all budgets of a data set from the summary of its sizes.

A fit-or-skip budget is one that a stated share of random batches fits, with as little padding as can be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfx_gnn.components.size_constraint_learner.budget_room import BudgetRoom, make_budget
from tfx_gnn.components.size_constraint_learner.packing_budget import PackingSimulator, shape_packing_budget
from tfx_gnn.components.size_constraint_learner.size_summary import Integers, SizeColumns, SplitSummary
from tfx_gnn.components.size_constraint_learner.slice_losses import (
    BatchDraws,
    SampledGraphs,
    batches_that_fit,
    sampled_graphs,
    slice_losses,
)
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.records.size_constraints_file import FIT_OR_SKIP, PACKING, TIGHT, Budget, SetSizes, SplitSizes

_MAX_SWEEPS = 20


_PRICE_STEPS = 13


def cheapest_caps(sums: Integers, success_ratio: float) -> Integers:
    """Finds caps on all sizes that enough batches keep together and that add up to the least.

    A batch that is skipped has a price. At a given price each cap is lowered, one set after the other, to where the
    price of the batches that it loses outweighs what it saves, until none moves; the price is then found by
    bisection at which just enough batches are left. What may still be lost is spent one value at a time, where it
    saves the most.

    `sums` are int64 [num_batches, num_sets], sizes of random batches. The share of batches with no size above its
    cap is `success_ratio` or just above.
    """
    num_batches = len(sums)
    num_lost = num_batches - int(np.ceil(success_ratio * num_batches - 1e-9))
    # No cap may lose more on its own; batches below all of these are lost by no choice.
    lowest = np.partition(sums, num_batches - 1 - num_lost, axis=0)[num_batches - 1 - num_lost]
    tail = _Tail(sums[(sums > lowest).any(axis=1)], lowest)
    caps = tail.highest
    best = caps
    cheap, dear = -4.0, float(np.log2(max(int((caps - lowest).sum()), 1))) + 1.0
    for _ in range(_PRICE_STEPS):
        price = (cheap + dear) / 2
        found = tail.settle(best, 2.0**price)
        if tail.num_lost(found) <= num_lost:
            dear, best = price, found if found.sum() < best.sum() else best
        else:
            cheap = price
    return tail.spend(best, num_lost)


class _Tail:
    """The batches that some choice of caps loses."""

    def __init__(self, sums: Integers, lowest: Integers) -> None:
        self._columns = [np.ascontiguousarray(column) for column in sums.T]
        self._orders = [np.argsort(column, kind="stable") for column in self._columns]
        self._lowest = lowest
        self.highest = np.maximum(sums.max(axis=0, initial=0), lowest)
        self._varying = np.flatnonzero(self.highest > lowest)

    def num_lost(self, caps: Integers) -> int:
        """How many batches exceed a cap."""
        return int((self._num_exceeded(caps) > 0).sum())

    def settle(self, caps: Integers, price: float) -> Integers:
        """Lowers or raises each cap in turn to where it costs least, until none moves."""
        caps = caps.copy()
        exceeded = self._num_exceeded(caps)
        for _ in range(_MAX_SWEEPS):
            before = caps.copy()
            for one in self._varying:
                values = self._values_of_others(one, caps, exceeded)
                # A cap at each value loses what is above it.
                choices = np.append(self._lowest[one], values[values > self._lowest[one]])
                lost = len(choices) - np.arange(1, len(choices) + 1)
                # Of equal values the last one counts: it loses least.
                cost = choices + price * lost
                self._move(one, int(choices[len(choices) - 1 - np.argmin(cost[::-1])]), caps, exceeded)
            if (caps == before).all():
                break
        return caps

    def spend(self, caps: Integers, num_lost: int) -> Integers:
        """Lowers caps one value at a time while fewer than `num_lost` batches are lost."""
        caps = caps.copy()
        exceeded = self._num_exceeded(caps)
        while True:
            left = num_lost - int((exceeded > 0).sum())
            best = (0.0, -1, 0)
            for one in self._varying:
                values = self._values_of_others(one, caps, exceeded)
                values = values[values <= caps[one]]
                # The next value that leaves no more than `left` batches above.
                ends = np.unique(np.append(values, self._lowest[one]))
                ends = ends[(ends < caps[one]) & (ends >= self._lowest[one])]
                losses = len(values) - np.searchsorted(values, ends, side="right")
                allowed = losses <= left
                if allowed.any():
                    gains = (caps[one] - ends[allowed]) / (losses[allowed] + 1e-3)
                    at = int(np.argmax(gains))
                    best = max(best, (float(gains[at]), int(one), int(ends[allowed][at])))
            if best[1] < 0:
                return caps
            self._move(best[1], best[2], caps, exceeded)

    def _num_exceeded(self, caps: Integers) -> Integers:
        exceeded = np.zeros(len(self._columns[0]), np.int64)
        for one in self._varying:
            exceeded += self._columns[one] > caps[one]
        return exceeded

    def _values_of_others(self, one: int, caps: Integers, exceeded: Integers) -> Integers:
        """Sizes of one set, ascending, of the batches that exceed no other cap."""
        column, order = self._columns[one], self._orders[one]
        is_within = exceeded - (column > caps[one]) == 0
        values: Integers = column[order[is_within[order]]]
        return values

    def _move(self, one: int, cap: int, caps: Integers, exceeded: Integers) -> None:
        column = self._columns[one]
        exceeded += (column > cap).astype(np.int64) - (column > caps[one])
        caps[one] = cap


QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


#: Distance from what was asked for that a budget may have on held-out graphs without a warning.
_MAX_MISS = 0.002


#: Change of what a packed batch holds that is worth a warning.
_MAX_SCALE = 1.25


@dataclasses.dataclass(frozen=True, eq=False)
class SizesOfSplits:
    """What budgets are learned from.

    Attributes:
        spec: spec of one graph.
        columns: what the sets are.
        summaries: by split; each holds at least one graph.
        train_split: split that fit-or-skip and packing budgets are shaped after.
        seed: seed of all draws.
    """

    spec: GraphTensorSpec
    columns: SizeColumns
    summaries: Mapping[str, SplitSummary]
    train_split: str
    seed: int

    @property
    def train(self) -> SplitSummary:
        """The split that is trained on."""
        return self.summaries[self.train_split]

    @property
    def room(self) -> BudgetRoom:
        """What padding needs."""
        return BudgetRoom.of(self.columns, list(self.summaries.values()))

    @property
    def maxima(self) -> Integers:
        """int64 [num_sets], largest sizes of a graph of any split."""
        maxima: Integers = np.max([summary.maxima for summary in self.summaries.values()], axis=0)
        return maxima

    def halves(self) -> tuple[SampledGraphs, SampledGraphs]:
        """The training split, cut in two by the hashes of records; both the whole if one was empty."""
        first, second = (sampled_graphs(self.train, half) for half in (0, 1))
        if len(first.sizes) and len(second.sizes):
            return first, second
        whole = sampled_graphs(self.train)
        return whole, whole


def tight_budget(sizes: SizesOfSplits, batch_size: int) -> Budget:
    """Learns the budget that every batch of up to `batch_size` graphs fits, of whatever split."""
    num_graphs = sum(summary.num_graphs for summary in sizes.summaries.values())
    totals = np.sum([summary.totals for summary in sizes.summaries.values()], axis=0)
    return make_budget(
        sizes.room.rule(batch_size * sizes.maxima, batch_size, batch_size + 1),
        sizes.spec,
        kind=TIGHT,
        batch_size=batch_size,
        graphs_per_batch=float(batch_size),
        sizes_per_batch=batch_size * totals / num_graphs,
    )


def fit_or_skip_budgets(
    sizes: SizesOfSplits,
    batch_size: int,
    success_ratios: Sequence[float],
    *,
    with_losses: bool,
    class_names: Sequence[str] = (),
) -> tuple[list[Budget], list[str]]:
    """Learns the budgets that stated shares of random batches fit; also returns warnings.

    Success is measured on graphs that a budget was not shaped after: the split is cut in two, the budget of each
    half meets batches of the other one, and the mean of the two shares is what is achieved. The budget itself is
    learned from all graphs.
    """
    graphs = sampled_graphs(sizes.train)
    draws = BatchDraws.enough(graphs.sizes, batch_size, sizes.seed)
    sums = draws.sums()
    half_sums = [
        BatchDraws(half.sizes, batch_size, draws.num_batches // 2, sizes.seed + number).sums()
        for number, half in enumerate(sizes.halves(), start=1)
    ]
    budgets, warnings = [], []
    for ratio in success_ratios:
        rule = sizes.room.rule(cheapest_caps(sums, ratio), batch_size, batch_size + 1)
        fits = batches_that_fit(rule, batch_size, sums)
        achieved = []
        for mine, others in (half_sums, half_sums[::-1]):
            half_rule = sizes.room.rule(cheapest_caps(mine, ratio), batch_size, batch_size + 1)
            achieved.append(batches_that_fit(half_rule, batch_size, others).mean())
        budget = make_budget(
            rule,
            sizes.spec,
            kind=FIT_OR_SKIP,
            batch_size=batch_size,
            success_ratio=ratio,
            achieved_success_ratio=float(np.mean(achieved)),
            graphs_per_batch=float(batch_size),
            sizes_per_batch=sums[fits].mean(axis=0),
            losses=slice_losses(graphs, draws, fits, class_names) if with_losses else (),
        )
        budgets.append(budget)
        if abs(budget.achieved_success_ratio - ratio) > _MAX_MISS:
            warnings.append(
                f"Budgets like {budget.name!r} that are shaped after one half of the {sizes.train.num_graphs} graphs "
                f"of split {sizes.train_split!r} fit {budget.achieved_success_ratio:.2%} of the batches of the other "
                f"half, not {ratio:.2%}: so few graphs, or so few sizes of graphs, tell no better."
            )
    return budgets, warnings


def packing_budget(sizes: SizesOfSplits, batch_size: int, window: int) -> tuple[Budget, list[str]]:
    """Learns the budget that packed batches fill best; also warns if it holds far more graphs than asked for.

    The shape is searched on one half of the training split, and measured on the other.
    """
    half, other_half = sizes.halves()
    shape = shape_packing_budget(
        half.sizes,
        other_half.sizes,
        sizes.maxima,
        sizes.room,
        batch_size=batch_size,
        simulator=PackingSimulator(sizes.columns, window),
        seed=sizes.seed,
    )
    budget = make_budget(
        shape.rule,
        sizes.spec,
        kind=PACKING,
        batch_size=batch_size,
        window=window,
        graphs_per_batch=shape.packed.graphs_per_batch,
        sizes_per_batch=shape.packed.sizes_per_batch,
    )
    if shape.scale <= _MAX_SCALE:
        return budget, []
    largest = np.argmax(sizes.maxima / np.maximum(shape.packed.sizes_per_batch / shape.packed.graphs_per_batch, 1e-9))
    warning = (
        f"Budget {budget.name!r} holds {budget.graphs_per_batch:.0f} graphs in the mean, not {batch_size}: the largest "
        f"graph has {sizes.maxima[largest]} items in {sizes.columns.prefixes[largest]!r}, and must fit. Sample fewer "
        "neighbors to have smaller batches."
    )
    return budget, [warning]


def split_sizes(summary: SplitSummary, columns: SizeColumns) -> SplitSizes:
    """Describes the sizes of one split."""
    graphs = sampled_graphs(summary).sizes
    by_type: dict[str, dict[str, SetSizes]] = {const.NODES: {}, const.EDGES: {}}
    for column, (set_type, name) in enumerate(columns.sets):
        num_bins = int(np.flatnonzero(summary.histograms[column])[-1]) + 1
        by_type[set_type][name] = SetSizes(
            total=int(summary.totals[column]),
            mean=int(summary.totals[column]) / summary.num_graphs,
            minimum=int(summary.minima[column]),
            maximum=int(summary.maxima[column]),
            quantiles={
                label: float(np.quantile(graphs[:, column], share, method="inverted_cdf"))
                for label, share in QUANTILES.items()
            },
            histogram_bounds=(0, *(2**power for power in range(num_bins))),
            histogram_counts=tuple(summary.histograms[column, :num_bins].tolist()),
        )
    return SplitSizes(num_graphs=summary.num_graphs, node_sets=by_type[const.NODES], edge_sets=by_type[const.EDGES])
