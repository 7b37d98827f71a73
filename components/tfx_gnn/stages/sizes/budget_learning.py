"""All budgets for one data set, learned from the summary of its sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.stages.sizes.batch_sums import BatchDraws, SampledGraphs, sampled_graphs
from tfx_gnn.stages.sizes.budget_room import BudgetRoom, make_budget
from tfx_gnn.stages.sizes.fit_or_skip_budget import cheapest_caps
from tfx_gnn.stages.sizes.packing_budget import shape_packing_budget
from tfx_gnn.stages.sizes.packing_simulation import PackingSimulator
from tfx_gnn.stages.sizes.size_columns import SizeColumns
from tfx_gnn.stages.sizes.size_constraints_file import FIT_OR_SKIP, PACKING, TIGHT, Budget, SetSizes, SplitSizes
from tfx_gnn.stages.sizes.size_summary import Integers, SplitSummary
from tfx_gnn.stages.sizes.slice_losses import batches_that_fit, slice_losses

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
    """Learns the budgets that stated shares of random batches fit.

    Success is measured on graphs that a budget was not shaped after: the split is cut in two, the budget
    of each half meets batches of the other one, and the mean of the two shares is what is achieved. The
    budget itself is learned from all graphs.

    Args:
        sizes: what to learn from.
        batch_size: graphs of a batch.
        success_ratios: shares of random batches that fit.
        with_losses: whether to tell what slices lose.
        class_names: names of label classes.

    Returns:
        A budget for each ratio, and warnings.
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
    """Learns the budget that packed batches fill best.

    Args:
        sizes: what to learn from. The shape is searched on one half of the training split, and judged on
            the other.
        batch_size: graphs that a batch should hold on average.
        window: look-ahead of `pack_batches`.

    Returns:
        The budget, and warnings.
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
