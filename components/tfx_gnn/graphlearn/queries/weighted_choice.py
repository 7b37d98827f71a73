"""Draws with replacement from groups of weighted items, at a cost that does not depend on the size of a group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


class WeightedGroups:
    """Items in groups, one after another, each drawn in proportion to its weight in its group.

    Items whose weight is not positive are never drawn.
    """

    def __init__(self, offsets: _Integers, weights: npt.NDArray[np.float64] | None = None) -> None:
        """Sums the weights of each group.

        Args:
            offsets: int64 array, shape [number of groups + 1]: where each group begins and ends.
            weights: float64 array, shape [number of items]; None if all have the same weight.
        """
        self._offsets = offsets
        self._ends: npt.NDArray[np.float64] | None = None
        if weights is None:
            self._lasts = offsets[1:] - 1
            self.has_items = offsets[1:] > offsets[:-1]
            return
        sizes = np.diff(offsets)
        is_drawn = weights > 0
        masses = np.where(is_drawn, weights, 0.0).astype(np.float64)
        largest, totals = np.zeros(len(sizes)), np.zeros(len(sizes))
        filled = np.flatnonzero(sizes)
        if len(filled):
            # Each group is scaled by itself, so that neither tiny nor huge weights are lost among those of others.
            largest[filled] = np.maximum.reduceat(masses, offsets[filled])
            masses /= np.repeat(np.where(largest > 0, largest, 1.0), sizes)
            totals[filled] = np.add.reduceat(masses, offsets[filled])
        self.has_items = totals > 0
        shares = masses / np.repeat(np.where(self.has_items, totals, 1.0), sizes)
        sums = np.append(0.0, np.cumsum(shares))
        # Item i of group g has a piece of the range from g to g + 1.
        group = np.repeat(np.arange(len(sizes)), sizes)
        within = np.clip(sums[1:] - np.repeat(sums[offsets[:-1]], sizes), 0.0, 1.0)
        self._ends = group.astype(np.float64) + within
        # Rounding must not let a draw pass the last item that has a weight.
        positions = np.where(is_drawn, np.arange(len(weights)), -1)
        self._lasts = np.full(len(sizes), -1, np.int64)
        if len(filled):
            self._lasts[filled] = np.maximum.reduceat(positions, offsets[filled])

    def draw(self, groups: _Integers, bits: npt.NDArray[np.uint64]) -> _Integers:
        """Draws one item for each random number.

        Args:
            groups: int64 array of groups, which must have items.
            bits: uint64 array of the same shape, uniform random numbers.

        Returns:
            int64 array of positions among all items.
        """
        firsts = self._offsets[groups]
        if self._ends is None:
            sizes = (self._offsets[groups + 1] - firsts).astype(np.uint64)
            return firsts + (bits % sizes).astype(np.int64)
        uniforms = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        found = np.searchsorted(self._ends, groups + uniforms, side="right")
        return np.clip(found, firsts, self._lasts[groups])
