"""What `pack_batches` makes of a padding budget, found out by its own planner on sizes alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graph.packing_plan import Plan, planner
from tfx_gnn.graph.size_rule import SizeRule
from tfx_gnn.stages.sizes.size_columns import SizeColumns

#: Graphs that come in a step; the choice is the same however many they are.
_CHUNK = 512


@dataclasses.dataclass(frozen=True, eq=False)
class PackedBatches:
    """What complete batches hold.

    Attributes:
        num_batches: number of them.
        num_graphs: graphs of all of them.
        sizes: int64 [num_sets], real items of all of them.
        padded_work: components, nodes and edges of a padded batch.
    """

    num_batches: int
    num_graphs: int
    sizes: npt.NDArray[np.int64]
    padded_work: int

    @property
    def cost(self) -> float:
        """Padded work by real work: 1 if nothing was padding."""
        return self.num_batches * self.padded_work / max(int(self.sizes.sum()), 1)

    @property
    def graphs_per_batch(self) -> float:
        """Mean number of graphs of a batch."""
        return self.num_graphs / max(self.num_batches, 1)

    @property
    def sizes_per_batch(self) -> npt.NDArray[np.float64]:
        """Mean number of items of a batch, by set."""
        return self.sizes / max(self.num_batches, 1)


class PackingSimulator:
    """Packs graphs as training does, but only counts."""

    def __init__(self, columns: SizeColumns, window: int) -> None:
        """Compiles the planner.

        Args:
            columns: what the sets are.
            window: look-ahead of packing.
        """
        self._window = window
        self._planner = planner(window, columns.sets, columns.edge_positions, columns.end_positions)

    def pack(self, rule: SizeRule, sizes: npt.NDArray[np.int32]) -> PackedBatches:
        """Packs graphs of one component each.

        Args:
            rule: a budget with room for each of the graphs.
            sizes: int32 [num_graphs, num_sets], in the order in which the graphs arrive.

        Returns:
            The complete batches of the last two thirds: graphs that go with no others gather in the window
            at first, so that first batches are fuller than all that follow. If there are none, all graphs
            in one batch after the other, the last one included.
        """
        targets = np.asarray([rule.target_components, *rule.targets])
        capacity = np.maximum(targets - np.asarray([1, *rule.demands]), 1).astype(np.float32)
        limits = (np.int64(rule.target_components), rule.targets, rule.demands, capacity)
        all_sizes = np.concatenate([np.ones([len(sizes), 1], np.int64), sizes.astype(np.int64)], axis=1)
        waiting = all_sizes[:0]
        used = np.zeros(len(targets), np.int64)
        num_batches = num_early = 0
        early = np.zeros_like(used)
        most = self._window + _CHUNK
        for start in range(0, len(sizes), _CHUNK):
            if num_early == 0 and 3 * start >= len(sizes):
                num_early, early = num_batches, all_sizes[:start].sum(axis=0) - waiting.sum(axis=0) - used
            here = np.concatenate([waiting, all_sizes[start : start + _CHUNK]])
            is_last = start + _CHUNK >= len(sizes) and num_batches == num_early
            plan = self._plan(limits, here, most, used, is_last=is_last)
            waiting = here[plan.is_waiting.numpy()[: len(here)]]
            used = plan.used.numpy()
            num_batches += int(plan.current)
            if is_last:
                num_batches, used = num_batches + 1, np.zeros_like(used)
        packed = all_sizes.sum(axis=0) - waiting.sum(axis=0) - used - early
        return PackedBatches(
            num_batches=num_batches - num_early,
            num_graphs=int(packed[0]),
            sizes=packed[1:],
            padded_work=int(targets.sum()),
        )

    def _plan(
        self,
        limits: tuple[Any, ...],
        sizes: npt.NDArray[np.int64],
        most: int,
        used: npt.NDArray[np.int64],
        *,
        is_last: bool,
    ) -> Plan:
        padded = np.zeros([most, sizes.shape[1]], np.int64)
        padded[: len(sizes)] = sizes
        return self._planner(limits, padded, np.int32(len(sizes)), used, np.bool_(is_last))
