"""Learns fit-or-skip budgets, and estimates which graphs they skip.

A given fraction of random batches fits a fit-or-skip budget, with as little padding as possible. The graphs of
the other batches are lost; the lost fraction is reported by label class and by degree of the seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.size_constraint_learner.budgets import SizesOfSplits, make_budget
from tfx_gnn.components.size_constraint_learner.size_summary import NO_LABEL, Integers, SampledGraphs, sample_graphs
from tfx_gnn.graph.batching.size_constraints import SizeRule
from tfx_gnn.records.size_constraints_file import BY_DEGREE, BY_LABEL, FIT_OR_SKIP, Budget, SliceLoss
from tfx_gnn.records.warning_kinds import IMPRECISE_SUCCESS_RATIO, SLICE_LOSS

NUM_BATCHES = 1 << 18
"""Number of batches to draw; the standard error of a fraction of 0.99 is below 0.02 points."""

_MAX_NAMED = 5

_MAX_SWEEPS = 20
_PRICE_STEPS = 13

#: How much less than the requested success ratio held-out graphs may reach before a warning is issued.
_MAX_MISS = 0.002

_MAX_DRAWN = 1 << 25

_MIN_BATCHES = 1 << 14

#: Maximum batches per graph: estimates from few graphs are imprecise anyway.
_DRAWS_OF_A_GRAPH = 64

_BLOCK = 1 << 15


@dataclasses.dataclass(frozen=True, eq=False)
class BatchDraws:
    """Random batches as in training: the graphs are repeatedly shuffled and cut into batches.

    Each graph is thus drawn equally often, to within one draw, so fractions of batches are more exact than with
    independent draws.

    Attributes:
        sizes: int32 [num_graphs, num_sets], at least one graph.
        batch_size: graphs per batch.
        num_batches: number of batches to draw.
        seed: the same seed gives the same batches.
    """

    sizes: npt.NDArray[np.int32]
    batch_size: int
    num_batches: int
    seed: int

    @staticmethod
    def enough(sizes: npt.NDArray[np.int32], batch_size: int, seed: int) -> BatchDraws:
        """Chooses the number of batches so that their fractions are exact to a few hundredths of a point."""
        num_batches = min(NUM_BATCHES, _MAX_DRAWN // batch_size, _DRAWS_OF_A_GRAPH * len(sizes))
        num_batches = max(num_batches, _MIN_BATCHES)
        return BatchDraws(sizes, batch_size, num_batches, seed)

    def members(self) -> Iterator[npt.NDArray[np.int32]]:
        """Yields blocks of batches, int32 [some, batch_size]: positions of their graphs."""
        random = np.random.default_rng([self.seed, self.batch_size])
        num_graphs = len(self.sizes)
        # Small data are shuffled many times in one call: separate calls would take longer than the shuffling.
        orders = np.tile(np.arange(num_graphs, dtype=np.int32), (-(-_BLOCK // num_graphs), 1))
        left = np.zeros(0, np.int32)
        num_left = self.num_batches
        while num_left:
            block = min(num_left, max(_BLOCK * 32 // self.batch_size, 1))
            parts, length = [left], len(left)
            while length < block * self.batch_size:
                parts.append(random.permuted(orders, axis=1).ravel())
                length += orders.size
            drawn = np.concatenate(parts)
            left = drawn[block * self.batch_size :]
            yield drawn[: block * self.batch_size].reshape(block, self.batch_size)
            num_left -= block

    def sums(self) -> Integers:
        """Adds up the sizes of each batch: int64 [num_batches, num_sets]."""
        blocks = []
        for members in self.members():
            total = np.zeros([len(members), self.sizes.shape[1]], np.int64)
            for column in members.T:
                total += self.sizes[column]
            blocks.append(total)
        return np.concatenate(blocks)


def find_cheapest_caps(sums: Integers, success_ratio: float) -> Integers:
    """Finds the caps on all sizes with the smallest sum that enough batches satisfy.

    A skipped batch has a price. At a given price, each cap in turn moves to where the sum of the cap and the price of
    the batches that it loses is smallest, until no cap moves. Bisection then finds the price at which just enough
    batches are left. Any remaining allowance for losses is spent by lowering caps one value at a time, where that
    saves the most.

    `sums` are int64 [num_batches, num_sets], sizes of random batches. The fraction of batches with no size above its
    cap is `success_ratio` or just above.
    """
    num_batches = len(sums)
    # Rounding may put the product just above an integer, which must not cost one more batch.
    num_lost = num_batches - int(np.ceil(success_ratio * num_batches - 1e-9))
    # No cap alone may lose more batches than this; batches at or below all of these bounds are never lost.
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
    """The batches that some choice of caps would lose."""

    def __init__(self, sums: Integers, lowest: Integers) -> None:
        self._columns = [np.ascontiguousarray(column) for column in sums.T]
        self._orders = [np.argsort(column, kind="stable") for column in self._columns]
        self._lowest = lowest
        self.highest = np.maximum(sums.max(axis=0, initial=0), lowest)
        self._varying = np.flatnonzero(self.highest > lowest)

    def num_lost(self, caps: Integers) -> int:
        """Counts the batches that exceed a cap."""
        return int((self._num_exceeded(caps) > 0).sum())

    def settle(self, caps: Integers, price: float) -> Integers:
        """Moves each cap in turn to where it costs least, until none moves."""
        caps = caps.copy()
        exceeded = self._num_exceeded(caps)
        for _ in range(_MAX_SWEEPS):
            before = caps.copy()
            for one in self._varying:
                values = self._values_of_others(one, caps, exceeded)
                # A cap at a given value loses the batches above it.
                choices = np.append(self._lowest[one], values[values > self._lowest[one]])
                lost = len(choices) - np.arange(1, len(choices) + 1)
                # Among equal values the last one counts: it loses the fewest.
                cost = choices + price * lost
                self._move(one, int(choices[len(choices) - 1 - np.argmin(cost[::-1])]), caps, exceeded)
            if (caps == before).all():
                break
        return caps

    def spend(self, caps: Integers, num_lost: int) -> Integers:
        """Lowers caps one value at a time, as long as at most `num_lost` batches are lost."""
        caps = caps.copy()
        exceeded = self._num_exceeded(caps)
        while True:
            left = num_lost - int((exceeded > 0).sum())
            best = (0.0, -1, 0)
            for one in self._varying:
                values = self._values_of_others(one, caps, exceeded)
                values = values[values <= caps[one]]
                # Candidate values that leave at most `left` batches above them.
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
        """Sizes in one set, ascending, of the batches that exceed no other cap."""
        column, order = self._columns[one], self._orders[one]
        is_within = exceeded - (column > caps[one]) == 0
        values: Integers = column[order[is_within[order]]]
        return values

    def _move(self, one: int, cap: int, caps: Integers, exceeded: Integers) -> None:
        column = self._columns[one]
        exceeded += (column > cap).astype(np.int64) - (column > caps[one])
        caps[one] = cap


def find_fitting_batches(rule: SizeRule, batch_size: int, sums: Integers) -> npt.NDArray[np.bool_]:
    """Returns which batches of `batch_size` graphs, with one component each, fit a budget: bool [num_batches]."""
    fits: npt.NDArray[np.bool_] = rule.fits(np.full(len(sums), batch_size, np.int64), sums)
    return fits


def learn_fit_or_skip_budgets(
    sizes: SizesOfSplits,
    batch_size: int,
    success_ratios: Sequence[float],
    *,
    with_losses: bool,
    class_names: Sequence[str] = (),
) -> tuple[list[Budget], list[str]]:
    """Learns budgets that given fractions of random batches fit; also returns warnings.

    The success ratio is measured on held-out graphs: the split is halved, a budget is learned from each
    half and applied to batches of the other half, and the mean of the two fractions is the achieved success ratio.
    The budget itself is learned from all graphs.
    """
    graphs = sample_graphs(sizes.train)
    draws = BatchDraws.enough(graphs.sizes, batch_size, sizes.seed)
    sums = draws.sums()
    half_sums = [
        BatchDraws(half.sizes, batch_size, draws.num_batches // 2, sizes.seed + number).sums()
        for number, half in enumerate(sizes.halves(), start=1)
    ]
    budgets, warnings = [], []
    for ratio in success_ratios:
        rule = sizes.room.rule(find_cheapest_caps(sums, ratio), batch_size, batch_size + 1)
        fits = find_fitting_batches(rule, batch_size, sums)
        achieved = []
        for mine, others in (half_sums, half_sums[::-1]):
            half_rule = sizes.room.rule(find_cheapest_caps(mine, ratio), batch_size, batch_size + 1)
            achieved.append(find_fitting_batches(half_rule, batch_size, others).mean())
        budget = make_budget(
            rule,
            sizes.spec,
            kind=FIT_OR_SKIP,
            batch_size=batch_size,
            success_ratio=ratio,
            achieved_success_ratio=float(np.mean(achieved)),
            graphs_per_batch=float(batch_size),
            sizes_per_batch=sums[fits].mean(axis=0),
            losses=estimate_slice_losses(graphs, draws, fits, class_names) if with_losses else (),
        )
        budgets.append(budget)
        # Batches that fit beyond what was asked for are not skipped, so nothing is lost.
        if ratio - budget.achieved_success_ratio > _MAX_MISS:
            warnings.append(
                IMPRECISE_SUCCESS_RATIO.mark(
                    f"Budgets like {budget.name!r}, learned from one half of the {sizes.train.num_graphs} graphs of "
                    f"split {sizes.train_split!r}, fit {budget.achieved_success_ratio:.2%} of the batches of the other "
                    f"half, not {ratio:.2%}: the estimate is imprecise because there are few graphs, or few distinct "
                    "graph sizes."
                )
            )
    return budgets, warnings


def estimate_slice_losses(
    graphs: SampledGraphs, draws: BatchDraws, fits: npt.NDArray[np.bool_], class_names: Sequence[str]
) -> tuple[SliceLoss, ...]:
    """Estimates the fraction of each slice that is in batches that do not fit, where `fits` is False.

    There is one loss for each class and for each degree bucket, in their order. Classes without a name are named by
    their number.
    """
    drawn, lost = np.zeros(len(graphs.sizes), np.int64), np.zeros(len(graphs.sizes), np.int64)
    start = 0
    for members in draws.members():
        is_lost = ~fits[start : start + len(members)]
        start += len(members)
        drawn += np.bincount(members.ravel(), minlength=len(drawn))
        lost += np.bincount(members[is_lost].ravel(), minlength=len(drawn))
    losses = []
    for slicing, values, name in (
        (BY_LABEL, graphs.labels, lambda label: _class_name(label, class_names)),
        (BY_DEGREE, graphs.degrees, _bucket_name),
    ):
        found, slices = np.unique(values, return_inverse=True)
        num_graphs = np.bincount(slices) * graphs.weight
        shares = np.bincount(slices, lost) / np.maximum(np.bincount(slices, drawn), 1)
        losses += [
            SliceLoss(slicing=slicing, value=name(int(value)), num_graphs=round(number), lost_share=float(share))
            for value, number, share in zip(found.tolist(), num_graphs.tolist(), shares.tolist(), strict=True)
        ]
    return tuple(losses)


def check_losses(budgets: Mapping[str, Budget], *, warn_slice_loss: float, max_slice_loss: float) -> tuple[str, ...]:
    """Warns about budgets that lose much of a slice, and refuses those that lose more than `max_slice_loss`."""
    warnings = []
    for name, budget in budgets.items():
        refused = _losses_above(budget, max_slice_loss)
        if refused:
            raise ValueError(
                f"`max_slice_loss` must not be exceeded by any slice; got {_described(refused)}, expected of budget "
                f"{name!r}, with max_slice_loss={max_slice_loss}. Train on packed batches, which lose nothing, and "
                "leave `success_ratios` empty; or request higher ratios; or sample smaller graphs."
            )
        warned = _losses_above(budget, warn_slice_loss)
        if warned:
            warnings.append(
                SLICE_LOSS.mark(
                    f"Budget {name!r} is expected to lose more than {warn_slice_loss:.1%} of {len(warned)} slices: "
                    f"{_described(warned)}. Train on packed batches, which lose nothing, or request a higher success "
                    "ratio."
                )
            )
    return tuple(warnings)


def _losses_above(budget: Budget, share: float) -> list[SliceLoss]:
    return sorted(
        (loss for loss in budget.losses if loss.lost_share > share), key=lambda loss: (-loss.lost_share, loss.value)
    )


def _described(losses: Sequence[SliceLoss]) -> str:
    named = [
        f"{loss.lost_share:.1%} of the {loss.num_graphs} graphs with {loss.slicing} {loss.value!r}"
        for loss in losses[:_MAX_NAMED]
    ]
    more = len(losses) - len(named)
    return ", ".join(named) + (f", and {more} more" if more > 0 else "")


def _class_name(label: int, class_names: Sequence[str]) -> str:
    if label == NO_LABEL:
        return "none"
    return class_names[label] if 0 <= label < len(class_names) else str(label)


def _bucket_name(bucket: int) -> str:
    """Name of bucket i, which holds degrees in [2**(i-1), 2**i), such as "4-7"."""
    if bucket <= 1:
        return str(bucket)
    return f"{2 ** (bucket - 1)}-{2**bucket - 1}"
