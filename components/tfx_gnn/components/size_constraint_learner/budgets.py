"""Builds budgets with room for padding from observed sizes, and learns the tight budget, which every batch fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.size_constraint_learner.size_summary import (
    Integers,
    SampledGraphs,
    SizeColumns,
    SplitSummary,
    sample_graphs,
)
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import SizeRule
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.records.size_constraints_file import TIGHT, Budget, SetSizes, SliceLoss, SplitSizes

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

_POINTER_BYTES = 8


@dataclasses.dataclass(frozen=True)
class BudgetRoom:
    """The room that a budget needs beyond the sizes of real graphs.

    Attributes:
        columns: the sets.
        demands: int64 [num_sets], number of nodes in each padding component.
        is_incident: bool [num_sets], whether padding edges may need a node of the set.
        tied: for each edge set with one edge per readout, its column and the column of the readouts.
    """

    columns: SizeColumns
    demands: Integers
    is_incident: npt.NDArray[np.bool_]
    tied: tuple[tuple[int, int], ...]

    @staticmethod
    def of(columns: SizeColumns, summaries: Sequence[SplitSummary]) -> BudgetRoom:
        """Derives from the data what padding components must look like.

        Component and readout masks align only if padding components also have readouts: as many as
        each graph, or one if graphs have different numbers of readouts.
        """
        minima = np.min([summary.minima for summary in summaries], axis=0)
        maxima = np.max([summary.maxima for summary in summaries], axis=0)
        is_tied = np.all([summary.is_tied for summary in summaries], axis=0)
        demands = np.zeros(len(columns.sets), np.int64)
        for column in columns.readouts:
            is_constant = minima[column] == maxima[column]
            demands[column] = minima[column] if is_constant else min(int(minima[column]), 1)
        is_incident = np.zeros(len(columns.sets), bool)
        is_incident[list(columns.end_positions)] = True
        return BudgetRoom(
            columns=columns,
            demands=demands,
            is_incident=is_incident,
            tied=tuple((edge, end) for edge, end in columns.readout_of if is_tied[edge] and demands[end]),
        )

    def rule(self, caps: Integers, num_graphs: int, num_components: int) -> SizeRule:
        """Adds the room to the sizes that `num_graphs` real graphs may take, int64 [num_sets].

        Padding components get their nodes, and padding edges get a node at each end. The number of edges to
        readouts equals the number of readouts. There must be more components than graphs.
        """
        room = np.maximum(self.demands * (num_components - num_graphs), self.is_incident)
        targets = caps + room
        for edge, end in self.tied:
            targets[edge] = targets[end]
        return SizeRule(
            sets=self.columns.sets,
            target_components=num_components,
            targets=targets,
            demands=self.demands,
            edge_positions=np.asarray(self.columns.edge_positions, np.int64),
            end_positions=np.asarray(self.columns.end_positions, np.int64),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SizesOfSplits:
    """The sizes that budgets are learned from.

    Attributes:
        spec: spec of one graph.
        columns: the sets.
        summaries: by split; each holds at least one graph.
        train_split: split that fit-or-skip and packing budgets are optimized for.
        seed: seed of all random draws.
    """

    spec: GraphTensorSpec
    columns: SizeColumns
    summaries: Mapping[str, SplitSummary]
    train_split: str
    seed: int

    @property
    def train(self) -> SplitSummary:
        """The summary of the training split."""
        return self.summaries[self.train_split]

    @property
    def room(self) -> BudgetRoom:
        """The room that padding needs."""
        return BudgetRoom.of(self.columns, list(self.summaries.values()))

    @property
    def maxima(self) -> Integers:
        """int64 [num_sets], largest sizes of a graph in any split."""
        maxima: Integers = np.max([summary.maxima for summary in self.summaries.values()], axis=0)
        return maxima

    def halves(self) -> tuple[SampledGraphs, SampledGraphs]:
        """The training split, halved by the hashes of records; if one half is empty, the whole split twice."""
        first, second = (sample_graphs(self.train, half) for half in (0, 1))
        if len(first.sizes) and len(second.sizes):
            return first, second
        whole = sample_graphs(self.train)
        return whole, whole


def make_budget(
    rule: SizeRule,
    spec: GraphTensorSpec,
    *,
    kind: str,
    batch_size: int,
    graphs_per_batch: float,
    sizes_per_batch: npt.NDArray[np.float64],
    success_ratio: float = 1.0,
    achieved_success_ratio: float = 1.0,
    window: int = 0,
    losses: tuple[SliceLoss, ...] = (),
) -> Budget:
    """Creates a budget; `sizes_per_batch` is float64 [num_sets], the expected real items per batch."""
    targets = np.asarray(rule.targets)
    fills = sizes_per_batch / np.maximum(targets, 1)
    totals: dict[str, dict[str, int]] = {const.NODES: {}, const.EDGES: {}}
    for (set_type, name), target in zip(rule.sets, targets.tolist(), strict=True):
        totals[set_type][name] = target
    return Budget(
        kind=kind,
        batch_size=batch_size,
        total_num_components=int(rule.target_components),
        total_num_nodes=totals[const.NODES],
        total_num_edges=totals[const.EDGES],
        min_nodes_per_component={
            name: int(demand) for (_, name), demand in zip(rule.sets, rule.demands, strict=True) if demand
        },
        success_ratio=success_ratio,
        achieved_success_ratio=achieved_success_ratio,
        window=window,
        graphs_per_batch=graphs_per_batch,
        fill=float(sizes_per_batch.sum() / max(targets.sum(), 1)),
        fill_by_set={f"{kind}/{name}": float(fill) for (kind, name), fill in zip(rule.sets, fills, strict=True)},
        bytes_per_batch=_bytes_per_batch(rule, spec),
        losses=losses,
    )


def with_padded_node_sets(budget: Budget, room: BudgetRoom) -> Budget:
    """Adds a padding component with a node of each set that features hold indices of; the budget may have neither."""
    sets, indexed = room.columns.sets, room.columns.indexed
    if not indexed:
        return budget
    padded = tuple(sets[column][1] for column in indexed)
    demands = budget.min_nodes_per_component
    nodes = {
        name: total + max(demands.get(name, 0), 1 if name in padded else 0)
        for name, total in budget.total_num_nodes.items()
    }
    of_readouts = {sets[edge][1]: nodes[sets[end][1]] for edge, end in room.tied}
    return dataclasses.replace(
        budget,
        total_num_components=budget.total_num_components + 1,
        total_num_nodes=nodes,
        total_num_edges={**budget.total_num_edges, **of_readouts},
        padded_node_sets=padded,
    )


def learn_tight_budget(sizes: SizesOfSplits, batch_size: int) -> Budget:
    """Learns the budget that every batch of up to `batch_size` graphs fits, from any split."""
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


def describe_split(summary: SplitSummary, columns: SizeColumns) -> SplitSizes:
    """Describes the sizes of one split."""
    graphs = sample_graphs(summary).sizes
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


def _bytes_per_batch(rule: SizeRule, spec: GraphTensorSpec) -> int:
    """Bytes of dense features, edge ends and sizes of a padded batch."""
    num_components = int(rule.target_components)
    total = _bytes_per_item(spec.context_spec.features_spec) * num_components
    total += spec.context_spec.sizes_spec.dtype.size * num_components
    for (set_type, name), target in zip(rule.sets, np.asarray(rule.targets).tolist(), strict=True):
        if set_type == const.NODES:
            piece = spec.node_sets_spec[name]
            ends = 0
        else:
            piece = spec.edge_sets_spec[name]
            ends = sum(index.dtype.size for _, index in piece.adjacency_spec.get_index_specs_dict().values())
        total += (_bytes_per_item(piece.features_spec) + ends) * target + piece.sizes_spec.dtype.size * num_components
    return int(total)


def _bytes_per_item(features: Mapping[str, Any]) -> int:
    total = 0
    for feature in features.values():
        if isinstance(feature, tf.TensorSpec):
            width = _POINTER_BYTES if feature.dtype == tf.string else feature.dtype.size
            total += width * int(np.prod(feature.shape[1:].as_list(), dtype=np.int64))
        else:
            # The known part of a ragged feature: its row splits.
            total += feature.row_splits_dtype.size
    return total
