"""Builds a budget from observed sizes: adds room for padding, and computes its cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.size_constraint_learner.size_summary import Integers, SizeColumns, SplitSummary
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_rule import SizeRule
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.records.size_constraints_file import Budget, SliceLoss

_POINTER_BYTES = 8


@dataclasses.dataclass(frozen=True)
class BudgetRoom:
    """How much a budget holds beyond what real graphs take.

    Attributes:
        columns: what the sets are.
        demands: int64 [num_sets], nodes that each padding component has.
        is_incident: bool [num_sets], whether padding edges may need a node of the set.
        tied: by column of an edge set with one edge a readout, the column of the readouts.
    """

    columns: SizeColumns
    demands: Integers
    is_incident: npt.NDArray[np.bool_]
    tied: tuple[tuple[int, int], ...]

    @staticmethod
    def of(columns: SizeColumns, summaries: Sequence[SplitSummary]) -> BudgetRoom:
        """Reads off the data what padding components must look like.

        A mask over components is one over readouts only if padding components have readouts, too: as many as
        each graph, or one if graphs have different numbers of them.
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
        """Adds the room to what `num_graphs` real graphs may take, int64 [num_sets].

        Padding components beside these graphs find their nodes, and padding edges a node at each end. Edges to
        readouts are as many as readouts. There must be more components than graphs.
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
    """Writes a budget down; `sizes_per_batch` is float64 [num_sets], the expected real items of a batch."""
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
            # What a ragged feature has for sure: where the values of each item end.
            total += feature.row_splits_dtype.size
    return total
