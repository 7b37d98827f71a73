"""Budgets that a stated share of random batches fits, with as little padding as can be."""

from __future__ import annotations

import numpy as np

from tfx_gnn.stages.sizes.size_summary import Integers

_MAX_SWEEPS = 20
_PRICE_STEPS = 13


def cheapest_caps(sums: Integers, success_ratio: float) -> Integers:
    """Finds caps on all sizes that enough batches keep together and that add up to the least.

    A batch that is skipped has a price. At a given price each cap is lowered, one set after the other,
    to where the price of the batches that it loses outweighs what it saves, until none moves; the
    price is then found by bisection at which just enough batches are left. What may still be lost is
    spent one value at a time, where it saves the most.

    Args:
        sums: int64 [num_batches, num_sets], sizes of random batches.
        success_ratio: share of batches that must fit, above 0 and at most 1.

    Returns:
        int64 [num_sets]. The share of batches with no size above its cap is `success_ratio` or just above.
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
