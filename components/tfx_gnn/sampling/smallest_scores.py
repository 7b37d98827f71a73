"""Finds the smallest scores of many groups at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


def bound_smallest(scores: _Scores, sizes: _Integers, count: int) -> _Scores:
    """Bounds the `count`-th smallest score of each group from above, without sorting.

    A group is cut into `count` parts. Each part has a smallest score, so `count` of
    the group's scores are at most the largest of these. Of scores in random order,
    about `count * log(count)` are below the bound, however large the group is.

    Args:
        scores: float64 array, shape [total], group after group.
        sizes: int64 array, shape [num_groups]: scores of each group; they sum to total.
        count: how many are looked for, at least 1.

    Returns:
        float64 array, shape [num_groups]; infinite for groups of at most `count` scores.

    Example:
        >>> bound_smallest(np.array([4.0, 1.0, 3.0, 2.0, 9.0]), np.array([4, 1]), 2).tolist()
        [2.0, inf]
    """
    bounds = np.full(len(sizes), np.inf)
    large = np.flatnonzero(sizes > count)
    if not len(large):
        return bounds
    begins = (np.cumsum(sizes) - sizes)[large, np.newaxis]
    # The parts of each group, and what lies between it and the next large one.
    cuts = begins + sizes[large, np.newaxis] * np.arange(count + 1) // count
    padded = np.append(scores, np.inf)
    bounds[large] = np.minimum.reduceat(padded, cuts.ravel()).reshape(cuts.shape)[:, :count].max(axis=1)
    return bounds


def find_smallest(group: _Integers, scores: _Scores, edge_rows: _Integers, count: int) -> _Integers:
    """Finds the `count` smallest pairs of score and edge row in each group.

    Args:
        group: int64 array, shape [n], not negative: group of each score.
        scores: float64 array, shape [n].
        edge_rows: int64 array, shape [n]: what decides among equal scores.
        count: how many to find in each group; smaller groups are taken whole.

    Returns:
        int64 array of positions in [0, n), by group, from small to large.
    """
    if not len(group):
        return np.zeros(0, np.int64)
    order = np.argsort(scores)
    # Stable sorting of 16-bit integers takes linear time.
    small = group.astype(np.uint16) if group.max() < 1 << 16 else group
    order = order[np.argsort(small[order], kind="stable")]
    in_order, ordered_scores = group[order], scores[order]
    if ((in_order[1:] == in_order[:-1]) & (ordered_scores[1:] == ordered_scores[:-1])).any():
        order = np.lexsort((edge_rows, scores, group))
        in_order = group[order]
    begins = np.flatnonzero(np.diff(in_order, prepend=in_order[0] - 1))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    found: _Integers = order[rank < count]
    return found
