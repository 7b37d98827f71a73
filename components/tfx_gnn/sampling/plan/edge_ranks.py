"""Edge ranks and seed limits, which decide what a split may see.

A seed of split `i` (its position in `SplitPlan.names`) has the limit `2 * i`, and
its subgraph holds edges of at most that rank. So what has rank 0 is seen by all;
what has the odd rank `2 * i + 1` is seen by later splits, not by split `i` itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.plan.seed_splits import UNUSED

ALWAYS_VISIBLE = 0
"""Rank of edges that every subgraph may hold."""

_Ranks = npt.NDArray[np.int8]


def rank_limit(split_code: int) -> int:
    """Returns the highest rank that subgraphs of a split may hold: an even number."""
    return 2 * split_code


def link_edge_ranks(split_codes: npt.NDArray[np.int16], is_supervision_only: npt.NDArray[np.bool_]) -> _Ranks:
    """Ranks the edges that are predicted, and their reverses.

    Edges of the first split are seen by all, unless they are supervision only:
    those are seen from the second split on. Edges of later splits are seen after
    their split. What is no seed is seen by all.
    """
    ranks = 2 * split_codes.astype(np.int8) + 1
    is_open = (split_codes == UNUSED) | ((split_codes == 0) & ~is_supervision_only)
    return np.where(is_open, ALWAYS_VISIBLE, ranks).astype(np.int8)


def node_ranks(split_codes: npt.NDArray[np.int16]) -> _Ranks:
    """Ranks the nodes of the seed node set in an inductive plan.

    A node is seen from its own split and later ones; what is no seed is seen by all.
    """
    return np.where(split_codes == UNUSED, ALWAYS_VISIBLE, 2 * split_codes).astype(np.int8)


def inductive_edge_ranks(source_ranks: _Ranks | None, target_ranks: _Ranks | None) -> _Ranks | None:
    """Ranks edges by the nodes that they would show: the higher of both ends.

    An end of another node set than the seeds has None; None is returned if all edges are seen by all.
    """
    if source_ranks is None or target_ranks is None:
        return source_ranks if target_ranks is None else target_ranks
    return np.maximum(source_ranks, target_ranks)
