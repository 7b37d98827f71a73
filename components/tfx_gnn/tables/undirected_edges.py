"""Edges that count both ways."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


def add_reverse_edges(sources: _Integers, targets: _Integers) -> tuple[_Integers, _Integers, _Integers]:
    """Adds the reverse of each edge between nodes of one set, and keeps one edge a pair.

    Args:
        sources: int64 array, shape [num_edges].
        targets: int64 array, shape [num_edges].

    Returns:
        Sources and targets of the edges, each pair once, in ascending order; and the
        row of the first given edge of each pair, in either direction, preferring its own.

    Example:
        >>> import numpy as np
        >>> sources, targets, rows = add_reverse_edges(np.array([1, 2, 1]), np.array([2, 1, 3]))
        >>> list(zip(sources.tolist(), targets.tolist(), rows.tolist()))
        [(1, 2, 0), (1, 3, 2), (2, 1, 1), (3, 1, 2)]
    """
    rows = np.arange(len(sources))
    both = np.concatenate([np.stack([sources, targets], 1), np.stack([targets, sources], 1)])
    pairs, firsts = np.unique(both, axis=0, return_index=True)
    return pairs[:, 0], pairs[:, 1], np.concatenate([rows, rows])[firsts]
