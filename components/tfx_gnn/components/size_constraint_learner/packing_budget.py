"""Chooses the packing budget with the least padded work per real graph.

Work is the number of nodes and edges of all sets, plus one for each component. To evaluate a budget, the planner of
`pack_batches` itself is run on sizes alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.size_constraint_learner.budgets import BudgetRoom, SizesOfSplits, make_budget
from tfx_gnn.components.size_constraint_learner.size_summary import Integers, SizeColumns
from tfx_gnn.graph.batching.packing_plan import Plan, planner
from tfx_gnn.graph.batching.size_constraints import SizeRule
from tfx_gnn.records.size_constraints_file import PACKING, Budget
from tfx_gnn.records.warning_kinds import LARGER_BATCHES

#: Graphs that arrive per step; the choice of the budget does not depend on it.
_CHUNK = 512

#: If batches hold more graphs than requested by more than this factor, a warning is issued.
_MAX_SCALE = 1.25

#: Factors by which sizes are changed, one after the other.
_STEPS = (1.15, 1.06, 1.025)

_MAX_SWEEPS = 3

#: Fraction of the cost that a sweep must save for another one to follow.
_WORTH_A_SWEEP = 0.002

#: Fraction of the cost that a change must save to count as more than chance.
_WORTH_A_CHANGE = 0.0004

#: Fraction of padding allowed for sets whose largest graph is larger than a whole batch of the requested size.
_WASTE_OF_LARGEST = 0.01

_MIN_SIMULATED = 1 << 12

_MAX_SIMULATED = 1 << 17

#: With fewer batches, the fill of the chosen shape varies by half a point with the order of the graphs.
_BATCHES_SIMULATED = 768


@dataclasses.dataclass(frozen=True, eq=False)
class PackedBatches:
    """Contents of complete batches.

    Attributes:
        num_batches: number of batches.
        num_graphs: graphs in all batches.
        sizes: int64 [num_sets], real items in all batches.
        padded_work: components, nodes and edges of one padded batch.
    """

    num_batches: int
    num_graphs: int
    sizes: npt.NDArray[np.int64]
    padded_work: int

    @property
    def cost(self) -> float:
        """Ratio of padded work to real work: 1 without padding."""
        return self.num_batches * self.padded_work / max(int(self.sizes.sum()), 1)

    @property
    def graphs_per_batch(self) -> float:
        """Mean number of graphs per batch."""
        return self.num_graphs / max(self.num_batches, 1)

    @property
    def sizes_per_batch(self) -> npt.NDArray[np.float64]:
        """Mean number of items per batch, by set."""
        return self.sizes / max(self.num_batches, 1)


class PackingSimulator:
    """Simulates the packing of training batches on sizes alone."""

    def __init__(self, columns: SizeColumns, window: int) -> None:
        """Compiles the planner."""
        self._window = window
        self._planner = planner(window, columns.sets, columns.edge_positions, columns.end_positions)

    def pack(self, rule: SizeRule, sizes: npt.NDArray[np.int32]) -> PackedBatches:
        """Packs graphs of one component each, int32 [num_graphs, num_sets], in the order in which they arrive.

        Counts the complete batches of the last two thirds: at first, graphs that do not fit with others accumulate in
        the window, so the first batches are fuller than all later ones. If there are no such batches, counts all
        batches, including the last one.
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


@dataclasses.dataclass(frozen=True, eq=False)
class PackingShape:
    """A packing budget, and the batches that it produced.

    Attributes:
        rule: the budget.
        packed: batches of held-out graphs, which were not used to choose the budget.
        scale: factor by which batches are larger than requested, so that the largest graph has room and the
            other sets are as full as that graph's set; 1 if it has room anyway.
    """

    rule: SizeRule
    packed: PackedBatches
    scale: float


def shape_packing_budget(
    sizes: npt.NDArray[np.int32],
    held_out: npt.NDArray[np.int32],
    maxima: Integers,
    room: BudgetRoom,
    *,
    batch_size: int,
    simulator: PackingSimulator,
    seed: int,
) -> PackingShape:
    """Searches for the budget with the least padded work per real graph.

    Starts with `batch_size` times the mean sizes, but with room for the largest graph. Then changes one size
    after the other, wider if a set is full and narrower if not, as long as this makes simulated packing
    cheaper.

    `sizes` and `held_out` are int32 [num_graphs, num_sets]; `maxima`, int64 [num_sets], are the largest sizes of a
    single graph.
    """
    means = sizes.mean(axis=0, dtype=np.float64)
    search = _Search(means, maxima, room, simulator, batch_size)
    graphs = _stream(sizes, search.mean_batch, seed)
    search.run(graphs)
    return PackingShape(
        rule=search.rule(),
        packed=simulator.pack(search.rule(), _stream(held_out, search.mean_batch, seed + 1)),
        scale=search.mean_batch / batch_size,
    )


def learn_packing_budget(sizes: SizesOfSplits, batch_size: int, window: int) -> tuple[Budget, list[str]]:
    """Learns the budget that packed batches fill best; also warns if it holds far more graphs than requested.

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
    warning = LARGER_BATCHES.mark(
        f"Budget {budget.name!r} holds {budget.graphs_per_batch:.0f} graphs on average, not {batch_size}: the largest "
        f"graph has {sizes.maxima[largest]} items in {sizes.columns.prefixes[largest]!r}, and must fit. Sample fewer "
        "neighbors to get smaller batches."
    )
    return budget, [warning]


def _stream(sizes: npt.NDArray[np.int32], mean_batch: float, seed: int) -> npt.NDArray[np.int32]:
    """Returns graphs in shuffled order, repeated until there are enough batches."""
    random = np.random.default_rng(seed)
    enough = int(np.clip(_BATCHES_SIMULATED * mean_batch, _MIN_SIMULATED, _MAX_SIMULATED))
    orders = [random.permutation(len(sizes)) for _ in range(-(-enough // len(sizes)))]
    return sizes[np.concatenate(orders)[:enough]]


class _Search:
    """The current budget: factors, per set and for components, over the sizes of a mean batch."""

    def __init__(
        self,
        means: npt.NDArray[np.float64],
        maxima: Integers,
        room: BudgetRoom,
        simulator: PackingSimulator,
        batch: int,
    ) -> None:
        self._means = means
        self._maxima = maxima
        self._room = room
        self._simulator = simulator
        self.mean_batch = _mean_batch(means, maxima, batch)
        self._goal = self.mean_batch
        # Readouts follow from the number of components where each graph has as many, and edges to readouts from these.
        has_as_many = (room.demands > 0) & (room.demands == maxima)
        follows = {edge for edge, _ in room.tied} | set(np.flatnonzero(has_as_many).tolist())
        self._free = [one for one in range(len(means)) if one not in follows and means[one] > 0]
        self._is_free = np.isin(np.arange(len(means)), self._free)
        self._factors: npt.NDArray[np.float64] = np.append(np.ones(len(means)), 1.25)

    def rule(self, factors: npt.NDArray[np.float64] | None = None) -> SizeRule:
        """Returns the budget with the given factors, by default the current ones."""
        factors = self._factors if factors is None else factors
        num_graphs = max(int(self.mean_batch), 1)
        wanted = np.ceil(self.mean_batch * self._means * factors[:-1] * self._is_free).astype(np.int64)
        # The largest graph may share its batch with padding components in place of all other graphs.
        least = self._maxima + self._room.demands * (num_graphs - 1)
        num_components = max(int(np.ceil(self.mean_batch * factors[-1])), num_graphs + 1)
        return self._room.rule(np.maximum(wanted, least), num_graphs, num_components)

    def run(self, graphs: npt.NDArray[np.int32]) -> None:
        """Improves the factors."""
        best = self._simulator.pack(self.rule(), graphs)
        for step in _STEPS:
            for _ in range(_MAX_SWEEPS):
                before = best.cost
                best = self._sweep(best, step, graphs)
                # Wider batches are fuller, so every sweep would grow them; keep them at the requested size.
                self.mean_batch *= float(np.clip(self._goal / best.graphs_per_batch, 0.8, 1.25))
                best = self._simulator.pack(self.rule(), graphs)
                if best.cost > before * (1 - _WORTH_A_SWEEP):
                    break
        # Fold the scale into the factors, so that `mean_batch` is the requested size again.
        self._factors *= self.mean_batch / self._goal
        self.mean_batch = self._goal

    def _sweep(self, best: PackedBatches, step: float, graphs: npt.NDArray[np.int32]) -> PackedBatches:
        fills = best.sizes_per_batch / np.maximum(np.asarray(self.rule().targets), 1)
        mean_fill = float(best.sizes.sum()) / max(best.num_batches * best.padded_work, 1)
        components = len(self._means)
        order = sorted(self._free, key=lambda one: -abs(float(fills[one]) - mean_fill))
        for one in [*order, components]:
            is_full = one == components or fills[one] > mean_fill
            for factor in (step, 1 / step) if is_full else (1 / step, step):
                tried = self._factors.copy()
                tried[one] *= factor
                rule = self.rule(tried)
                if np.array_equal(rule.targets, self.rule().targets) and one != components:
                    continue
                packed = self._simulator.pack(rule, graphs)
                if packed.cost < best.cost * (1 - _WORTH_A_CHANGE):
                    best, self._factors = packed, tried
                    break
        return best


def _mean_batch(means: npt.NDArray[np.float64], maxima: Integers, batch_size: int) -> float:
    """Graphs in a mean batch: as many as requested, or enough that room for the largest graph wastes little."""
    occurs = means > 0
    means, maxima = means[occurs], maxima[occurs]
    for number in np.unique(np.append(np.maximum(maxima / means, batch_size), batch_size)).tolist():
        # With the last number, the largest graph of every set fits within the batch's mean sizes.
        if number * means.sum() >= (1 - _WASTE_OF_LARGEST) * np.maximum(number * means, maxima).sum():
            return float(number)
    return float(batch_size)
