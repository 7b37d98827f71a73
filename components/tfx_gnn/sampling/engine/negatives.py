"""Draws negative pairs for link prediction.

A draw is a number below the sum of all weights. Nodes are ordered by code, and a
draw falls on the node whose range of cumulative weights contains it. So a draw
selects the same node wherever the nodes are stored, and is a pure function of the
sampling seed and the pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.engine.block_result import is_among
from tfx_gnn.sampling.plan.drawing_weights import check_node_weights
from tfx_gnn.sampling.plan.negatives import Negatives
from tfx_gnn.sampling.random_choice import mix

_STREAM = np.uint64(0x6E65676174697665)  # ASCII of "negative"
_PAIRS_AT_ONCE = 1 << 18
MAX_NODE_WEIGHT = 1 << 20
_WEIGHT_STEPS = 1 << 20  # in a weight of 1
_MISSING = -1

_Nodes = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawableNodes:
    """Nodes that negatives are drawn from, by group, in order of their codes.

    Attributes:
        nodes: int64 array, shape [num_nodes], sorted by group, then code.
        group_starts: int64 array, shape [num_groups + 1]: where each group starts in `nodes`.
        ends: int64 array, shape [num_nodes]: sum of the weights up to and including each
            node; None if every weight is 1.
    """

    nodes: _Nodes
    group_starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64] | None = None

    def totals(self, groups: npt.NDArray[np.int64]) -> _Codes:
        """Returns the total weight of each group; 0 where nothing can be drawn."""
        return (self._before(self.group_starts[groups + 1]) - self._before(self.group_starts[groups])).astype(np.uint64)

    def nodes_at(self, groups: npt.NDArray[np.int64], offsets: _Codes) -> _Nodes:
        """Finds the nodes that draws fall on; `offsets` are below `totals(groups)`."""
        places = self._before(self.group_starts[groups]) + offsets.astype(np.int64)
        positions = places if self.ends is None else np.searchsorted(self.ends, places, side="right")
        nodes: _Nodes = self.nodes[positions]
        return nodes

    def _before(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self.ends is None:
            return positions
        return np.where(positions > 0, self.ends[positions - 1], 0)


def order_drawable_nodes(
    codes: _Codes,
    *,
    weights: npt.NDArray[np.int64] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
) -> DrawableNodes:
    """Orders the nodes of a node set, as positions in `codes`, for drawing; by default with weight 1, in one group.

    `groups` may have several rows; a node is then in a group of each.
    """
    if groups is None:
        groups = np.zeros(len(codes), np.int64)
    rows = np.atleast_2d(groups)
    order = np.lexsort((np.tile(codes, len(rows)), rows.ravel())).astype(np.int64)
    nodes = order % max(len(codes), 1)
    num_groups = int(rows.max(initial=-1)) + 1
    return DrawableNodes(
        nodes=nodes,
        group_starts=np.searchsorted(rows.ravel()[order], np.arange(num_groups + 1)).astype(np.int64),
        ends=None if weights is None else np.cumsum(weights[nodes], dtype=np.int64),
    )


def whole_weights(values: pa.Array, name: str, place_of: Callable[[int], str]) -> npt.NDArray[np.int64]:
    """Converts the weights of nodes to whole numbers, which add up to the same sum in any order.

    A weight counts in steps of 2**-20. `name` is that of the feature, and `place_of` describes the node at a position,
    for messages.
    """
    weights = values.to_numpy(zero_copy_only=False).astype(np.float64)
    check_node_weights(weights, MAX_NODE_WEIGHT, name, place_of)
    return np.rint(weights * _WEIGHT_STEPS).astype(np.int64)


def times_of_nodes(values: pa.Array) -> _Nodes:
    """Returns the times since which nodes are there; those without one are there never."""
    times: _Nodes = pc.fill_null(values.cast(pa.int64()), np.iinfo(np.int64).max).to_numpy()
    return times


def draw_numbers(keys: _Codes, *, sampling_seed: int, negatives: Negatives) -> _Codes:
    """Draws random numbers; their remainders modulo the sum of weights are the draws.

    `keys` are the `pair_keys` of n positive pairs; returns uint64 numbers, shape [n, num_per_positive, num_draws].
    """
    shape = negatives.num_per_positive, negatives.num_draws
    numbers = np.arange(shape[0] * shape[1], dtype=np.uint64).reshape(shape)
    return mix(_starts(keys, sampling_seed)[:, np.newaxis, np.newaxis] + numbers)


def accept_candidates(
    candidates: _Nodes,
    *,
    can_draw: npt.NDArray[np.bool_],
    replaced: _Nodes,
    kept: _Nodes | None,
    is_refused: Callable[[npt.NDArray[np.int64], int, int], npt.NDArray[np.bool_]] | None,
    unique: bool = True,
) -> npt.NDArray[np.int16]:
    """Accepts the first good candidate for each negative; returns the number of its draw, or -1 if all were refused.

    A candidate is refused if it is the true node that it replaces, an earlier accepted negative of
    the same pair if they are `unique`, the node that is kept, or `is_refused`, as true neighbors of that node are, and
    nodes that are not there yet.

    Candidates have the shape [n, num_per_positive, num_draws]; they are valid where `can_draw`, of shape
    [n, num_per_positive], is true. `kept` is None if kept nodes and candidates are from different node sets.
    `is_refused` gets rows of `candidates`, the number of a negative and the number of a draw; None: no more are
    refused.
    """

    def candidate(rows: _Nodes, number: int, draw: int) -> _Nodes:
        return candidates[rows, number, draw]

    def is_refused_at(rows: _Nodes, number: int, draw: int, _: _Nodes) -> npt.NDArray[np.bool_]:
        assert is_refused is not None
        return is_refused(rows, number, draw)

    accepted, _ = _accept(
        candidates.shape,
        candidate,
        can_draw=can_draw,
        replaced=replaced,
        kept=kept,
        is_refused=is_refused_at if is_refused else None,
        unique=unique,
    )
    return accepted


def _accept(
    shape: tuple[int, ...],
    candidate: Callable[[_Nodes, int, int], _Nodes],
    *,
    can_draw: npt.NDArray[np.bool_],
    replaced: _Nodes,
    kept: _Nodes | None,
    is_refused: Callable[[_Nodes, int, int, _Nodes], npt.NDArray[np.bool_]] | None,
    unique: bool,
) -> tuple[npt.NDArray[np.int16], _Nodes]:
    """Gets candidates only for negatives that still need one; returns draws and nodes."""
    num_pairs, num_negatives, num_draws = shape
    accepted = np.full((num_pairs, num_negatives), _MISSING, np.int16)
    taken = np.zeros((num_pairs, num_negatives), np.int64)
    for number in range(num_negatives):
        waiting = np.flatnonzero(can_draw[:, number])
        for draw in range(num_draws):
            if not len(waiting):
                break
            nodes = candidate(waiting, number, draw)
            is_good = nodes != replaced[waiting]
            if kept is not None:
                is_good &= nodes != kept[waiting]
            for earlier in range(number if unique else 0):
                is_good &= (nodes != taken[waiting, earlier]) | (accepted[waiting, earlier] == _MISSING)
            if is_refused is not None:
                is_good[is_good] = ~is_refused(waiting[is_good], number, draw, nodes[is_good])
            accepted[waiting[is_good], number] = draw
            taken[waiting[is_good], number] = nodes[is_good]
            waiting = waiting[~is_good]
    return accepted, taken


class PairLookup:
    """Looks up whether pairs of nodes are edges, in 8 bytes per edge."""

    def __init__(self, sources: _Nodes, targets: _Nodes, *, num_targets: int) -> None:
        """Sorts the edges; targets are in [0, num_targets)."""
        self._num_targets = num_targets
        self._pairs = np.unique(sources * num_targets + targets)

    def contains(self, sources: _Nodes, targets: _Nodes) -> npt.NDArray[np.bool_]:
        """Returns which pairs are edges."""
        return is_among(sources * self._num_targets + targets, self._pairs)


def choose_negatives(
    keys: _Codes,
    kept: _Nodes,
    replaced: _Nodes,
    *,
    negatives: Negatives,
    sampling_seed: int,
    drawable: DrawableNodes,
    groups: npt.NDArray[np.int64] | None,
    edges: PairLookup,
    has_one_node_set: bool,
    since: _Nodes | None = None,
    time_limits: _Nodes | None = None,
) -> tuple[_Nodes, npt.NDArray[np.bool_]]:
    """Draws the negatives of pairs whose graph is in memory.

    Returns nodes of shape [n, num_per_positive], and a mask of that shape that is false where a negative is
    missing and its node is undefined. `groups`, of shape [len(negatives.parts), num_nodes], has the group that
    each part of the negatives draws from for each true node; None if there is one group. `edges` has pairs of nodes of
    the end that is kept and of the other. `has_one_node_set` means that both are from the same set; no node is then a
    negative of itself. `since`, of shape [num_nodes], is the time since which each node is there, and `time_limits`, of
    shape [n], the time of each seed; None if all nodes are always there.
    """
    nodes = np.zeros((len(keys), negatives.num_per_positive), np.int64)
    is_there = np.zeros(nodes.shape, np.bool_)
    for start in range(0, len(keys), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        kept_here = kept[part]
        groups_here = None if groups is None else groups[:, replaced[part]]
        draws = _Draws(_starts(keys[part], sampling_seed), groups_here, drawable, negatives)
        accepted, nodes[part] = _accept(
            (len(kept_here), negatives.num_per_positive, negatives.num_draws),
            draws.candidate,
            can_draw=draws.can_draw,
            replaced=replaced[part],
            kept=kept_here if has_one_node_set else None,
            is_refused=_refusal(
                edges if negatives.excludes_neighbors else None,
                kept_here,
                since,
                time_limits[part] if time_limits is not None else None,
            ),
            unique=negatives.unique,
        )
        is_there[part] = accepted != _MISSING
    return nodes, is_there


class _Draws:
    """Candidates of some pairs, drawn on demand."""

    def __init__(
        self,
        starts: _Codes,
        groups: npt.NDArray[np.int64] | None,
        drawable: DrawableNodes,
        negatives: Negatives,
    ) -> None:
        self._starts = starts
        self._parts = negatives.part_of_negative if groups is not None else (0,) * negatives.num_per_positive
        self._groups = np.zeros((1, len(starts)), np.int64) if groups is None else groups
        self._drawable = drawable
        self._num_draws = negatives.num_draws
        self._totals = drawable.totals(self._groups)

    @property
    def can_draw(self) -> npt.NDArray[np.bool_]:
        """Whether there are nodes to draw from for each negative, shape [n, num_per_positive]."""
        can_draw: npt.NDArray[np.bool_] = (self._totals > 0).T[:, self._parts]
        return can_draw

    def candidate(self, rows: _Nodes, number: int, draw: int) -> _Nodes:
        part = self._parts[number]
        numbers = mix(self._starts[rows] + np.uint64(number * self._num_draws + draw))
        return self._drawable.nodes_at(self._groups[part, rows], numbers % self._totals[part, rows])


def _refusal(
    edges: PairLookup | None, kept: _Nodes, since: _Nodes | None, time_limits: _Nodes | None
) -> Callable[[_Nodes, int, int, _Nodes], npt.NDArray[np.bool_]] | None:
    """Returns what tells which nodes are neighbors, or not there yet; None if no node is refused."""
    if edges is None and since is None:
        return None

    def is_refused(rows: _Nodes, _number: int, _draw: int, nodes: _Nodes) -> npt.NDArray[np.bool_]:
        refused = np.zeros(len(nodes), np.bool_)
        if edges is not None:
            refused |= edges.contains(kept[rows], nodes)
        if since is not None:
            assert time_limits is not None
            refused |= since[nodes] > time_limits[rows]
        return refused

    return is_refused


def _starts(keys: _Codes, sampling_seed: int) -> _Codes:
    return mix(keys ^ mix(mix(np.array([sampling_seed], np.uint64)) ^ _STREAM))
