"""Draws with replacement from groups of weighted items, at a cost that does not depend on the size of a group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


class WeightedGroups:
    """Items in groups, one after another, each drawn in proportion to its weight in its group.

    Items of weight 0 are never drawn. Weights are finite and at least 0.
    """

    def __init__(self, offsets: _Integers, weights: npt.NDArray[np.float64] | None = None) -> None:
        """Sums the weights of each group.

        Args:
            offsets: int64 array, shape [number of groups + 1]: where each group begins and ends.
            weights: float64 array, shape [number of items]; None if all have the same weight.
        """
        self._offsets = offsets
        self._sizes = np.diff(offsets)
        self._ends: npt.NDArray[np.float64] | None = None
        self._lasts: _Integers | None = None
        if weights is None:
            return
        sizes, is_drawn = self._sizes, weights > 0
        masses = np.where(is_drawn, weights, 0.0).astype(np.float64)
        largest, totals = np.zeros(len(sizes)), np.zeros(len(sizes))
        filled = np.flatnonzero(sizes)
        if len(filled):
            # Each group is scaled by itself, so that neither tiny nor huge weights are lost among those of others.
            largest[filled] = np.maximum.reduceat(masses, offsets[filled])
            masses /= np.repeat(np.where(largest > 0, largest, 1.0), sizes)
            totals[filled] = np.add.reduceat(masses, offsets[filled])
        shares = masses / np.repeat(np.where(totals > 0, totals, 1.0), sizes)
        sums = np.append(0.0, np.cumsum(shares))
        # Item i of group g has a piece of the range from g to g + 1.
        within = np.clip(sums[1:] - np.repeat(sums[offsets[:-1]], sizes), 0.0, 1.0)
        self._ends = np.repeat(np.arange(len(sizes)), sizes).astype(np.float64) + within
        # The last item up to each that has a weight; rounding must not let a draw pass it.
        self._lasts = np.maximum.accumulate(np.where(is_drawn, np.arange(len(weights)), -1))

    def can_draw(self, groups: _Integers, sizes: _Integers | None = None) -> npt.NDArray[np.bool_]:
        """Returns which groups have an item to draw.

        Args:
            groups: int64 array of groups; -1 for none.
            sizes: int64 array of the same shape: how many items of each group, from its
                first, are considered; None for all.

        Returns:
            Bool array of the same shape.
        """
        if not len(self._sizes):
            return np.zeros(groups.shape, np.bool_)
        there = np.maximum(groups, 0)
        sizes = self._sizes[there] if sizes is None else sizes
        found = (groups >= 0) & (sizes > 0)
        if self._lasts is None or not len(self._lasts):
            return found
        firsts = self._offsets[there]
        return found & (self._lasts[np.where(found, firsts + sizes - 1, 0)] >= firsts)

    def draw(self, groups: _Integers, bits: npt.NDArray[np.uint64], sizes: _Integers | None = None) -> _Integers:
        """Draws one item for each random number.

        Args:
            groups: int64 array of groups that `can_draw` allows.
            bits: uint64 array of the same shape, uniform random numbers.
            sizes: int64 array of the same shape: how many items of each group, from its
                first, are considered; None for all.

        Returns:
            int64 array of positions among all items.
        """
        firsts = self._offsets[groups]
        sizes = self._sizes[groups] if sizes is None else sizes
        if self._ends is None or self._lasts is None:
            return firsts + (bits % sizes.astype(np.uint64)).astype(np.int64)
        lasts = self._lasts[firsts + sizes - 1]
        uniforms = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        found = np.searchsorted(self._ends, groups + uniforms * (self._ends[lasts] - groups), side="right")
        return np.clip(found, firsts, lasts)
