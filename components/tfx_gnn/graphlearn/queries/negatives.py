"""Draws negative nodes for the nodes of a batch, with the conditions of `where`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.conditions import Condition, ConditionColumn
from tfx_gnn.graphlearn.queries.weighted_choice import WeightedGroups
from tfx_gnn.sampling.random_choice import exponential_scores, hash_integers, mix, uniform_scores

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore

_NUM_DRAWS = 8  # before the nodes that are left are listed one by one

_Integers = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NegativeRequests:
    """Nodes that negatives are drawn for.

    Attributes:
        edge_type: edge type that tells neighbors and candidates; "" to draw from a whole type.
        is_backward: whether its sources are drawn rather than its targets.
        node_type: type of the negatives.
        input_type: type of the inputs.
        strategy: one of GraphLearn's strategies.
        count: negatives of each input.
        nodes: int64 array, shape [num_inputs]: rows of the inputs, -1 for no node.
        keys: uint64 array, shape [num_inputs]: keys of the random choices.
        condition: condition of the negatives; None if there is none.
        positives: int64 array, shape [num_inputs]: row of each input's positive; None without a condition.
    """

    edge_type: str
    is_backward: bool
    node_type: str
    input_type: str
    strategy: str
    count: int
    nodes: _Integers
    keys: npt.NDArray[np.uint64]
    condition: Condition | None = None
    positives: _Integers | None = None


class _Candidates:
    """Nodes to draw from, group by group."""

    def __init__(
        self,
        nodes: _Integers,
        weights: npt.NDArray[np.float64] | None,
        groups: _Integers | None = None,
        num_groups: int = 1,
    ) -> None:
        order = np.arange(len(nodes)) if groups is None else np.argsort(groups[nodes], kind="stable")
        self.nodes = nodes[order]
        self.weights = None if weights is None else weights[order]
        of_nodes = np.zeros(len(nodes), np.int64) if groups is None else groups[self.nodes]
        self.offsets = np.searchsorted(of_nodes, np.arange(num_groups + 1)).astype(np.int64)
        # Group of each row of the node table; None if there is only one.
        self.groups = groups
        self._choice = WeightedGroups(self.offsets, self.weights)

    def can_draw(self, groups: _Integers) -> _Bools:
        return self._choice.can_draw(groups)

    def draw(self, groups: _Integers, bits: npt.NDArray[np.uint64]) -> _Integers:
        return self.nodes[self._choice.draw(groups, bits)]

    def list_group(self, group: int) -> tuple[_Integers, npt.NDArray[np.float64]]:
        """Returns the nodes of a group that can be drawn, and their weights."""
        part = slice(self.offsets[group], self.offsets[group + 1])
        nodes = self.nodes[part]
        weights = np.ones(len(nodes)) if self.weights is None else self.weights[part]
        return nodes[weights > 0], weights[weights > 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rejection:
    """Which nodes are refused for which inputs.

    Attributes:
        refuses: tells for positions of inputs, and nodes that were drawn for them, whether they are refused.
        groups: int64 array, shape [num_inputs]: inputs of one group have the same nodes refused by `refuses`.
        positives: int64 array, shape [num_inputs]: a node that each input refuses besides; None for none.
    """

    refuses: Callable[[_Integers, _Integers], _Bools]
    groups: _Integers
    positives: _Integers | None = None

    def __call__(self, which: _Integers, drawn: _Integers) -> _Bools:
        refused = self.refuses(which, drawn)
        return refused if self.positives is None else refused | (drawn == self.positives[which])


def draw_negatives(store: GraphStore, requests: NegativeRequests) -> tuple[_Integers, int]:
    """Draws negatives.

    Returns the rows of the nodes, shape [num_inputs * count], and the number of those that are neighbors, or lack their
    condition, although they should not, because too few nodes qualify. -1 where there is nothing to draw from.
    """
    drawing = _Drawing(requests, _rejection(store, requests))
    for column, places in _segments(requests):
        drawing.fill(_candidates(store, requests, column), places)
    num_unfit = drawing.num_waiting
    if num_unfit:
        everything = _candidates(store, requests, None)
        drawing.fill(everything, range(requests.count))
        drawing.fill_anyhow(everything)
    return drawing.drawn.ravel(), num_unfit - drawing.num_waiting


def _segments(requests: NegativeRequests) -> list[tuple[ConditionColumn | None, range]]:
    """Divides the places of each input's negatives among the columns of the condition."""
    segments: list[tuple[ConditionColumn | None, range]] = []
    start = 0
    if requests.condition is not None:
        counts = requests.condition.counts(requests.count)
        for column, number in zip(requests.condition.columns, counts, strict=True):
            if number:
                segments.append((column, range(start, start + number)))
            start += number
    if start < requests.count:
        segments.append((None, range(start, requests.count)))
    return segments


def _candidates(store: GraphStore, requests: NegativeRequests, column: ConditionColumn | None) -> _Candidates:
    grouping = None if column is None else (column.kind, column.column)
    key = ("candidates", requests.edge_type, requests.is_backward, requests.node_type, requests.strategy, grouping)
    return store.once(key, lambda: _make_candidates(store, requests, column))


def _make_candidates(store: GraphStore, requests: NegativeRequests, column: ConditionColumn | None) -> _Candidates:
    weights: npt.NDArray[np.float64] | None = None
    num_nodes = store.node_table(requests.node_type).num_nodes
    if requests.strategy == "node_weight":
        nodes, weights = np.arange(num_nodes), store.node_weights(requests.node_type)
    elif requests.edge_type:
        nodes, counts = np.unique(
            store.end_rows(requests.edge_type, backward=requests.is_backward)[1], return_counts=True
        )
        weights = counts.astype(np.float64) if requests.strategy == "in_degree" else None
    else:
        nodes = np.arange(num_nodes)
    # In the order of their codes, so that a draw does not depend on the order of the table.
    order = np.argsort(store.node_codes(requests.node_type)[nodes], kind="stable")
    nodes, weights = nodes[order], None if weights is None else weights[order]
    if column is None:
        return _Candidates(nodes, weights)
    matrix = store.node_ids(requests.node_type).attributes.matrix(column.kind)
    assert matrix is not None
    values, groups = np.unique(matrix[:-1, column.column], return_inverse=True)
    return _Candidates(nodes, weights, groups.reshape(-1).astype(np.int64), len(values))


def _rejection(store: GraphStore, requests: NegativeRequests) -> _Rejection | None:
    """Returns which draws are refused; None: no draw is."""
    nodes, positives = requests.nodes, requests.positives
    in_batch = np.zeros(len(nodes), np.int64)
    if requests.condition is not None and positives is not None and requests.condition.is_shared:
        return _Rejection(refuses=lambda _, drawn: np.isin(drawn, positives), groups=in_batch)
    if positives is not None or requests.strategy == "in_degree":
        pairs = store.pairs(requests.edge_type, backward=requests.is_backward)
        return _Rejection(
            refuses=lambda which, drawn: pairs.contains(nodes[which], drawn), groups=nodes, positives=positives
        )
    if requests.strategy == "node_weight" and requests.input_type == requests.node_type:
        return _Rejection(refuses=lambda _, drawn: np.isin(drawn, nodes), groups=in_batch)
    return None


class _Drawing:
    """The negatives that have been drawn so far; -1 where one is still waited for."""

    def __init__(self, requests: NegativeRequests, rejects: _Rejection | None) -> None:
        self._requests = requests
        self._rejects = rejects
        self._is_unique = requests.condition is not None and requests.condition.is_unique
        self._num_fills = 0
        self.drawn = np.full((len(requests.nodes), requests.count), -1, np.int64)

    @property
    def num_waiting(self) -> int:
        """Number of negatives that are not drawn yet."""
        return int((self.drawn < 0).sum())

    def fill(self, candidates: _Candidates, places: range) -> None:
        """Draws what some places wait for, if anything qualifies."""
        groups = self._groups(candidates)
        for bits, which, place in self._rounds(groups, places):
            drawn = candidates.draw(groups[which], bits)
            good = self._is_good(which, drawn)
            self.drawn[which[good], place[good]] = drawn[good]
        if self._rejects is not None or self._is_unique:
            self._fill_from_lists(groups, candidates, places)

    def fill_anyhow(self, candidates: _Candidates) -> None:
        """Draws what is still waited for, whatever it is."""
        self._rejects, self._is_unique = None, False
        self.fill(candidates, range(self._requests.count))

    def _groups(self, candidates: _Candidates) -> _Integers:
        """Returns the group that each input draws from; -1: none."""
        if candidates.groups is None:
            groups = np.zeros(len(self.drawn), np.int64)
        else:
            assert self._requests.positives is not None
            positives = self._requests.positives
            groups = np.where(positives < 0, -1, candidates.groups[np.maximum(positives, 0)])
        return np.where(candidates.can_draw(groups), groups, -1)

    def _waiting(self, groups: _Integers, places: range) -> tuple[_Integers, _Integers]:
        part = self.drawn[:, places.start : places.stop]
        which, place = np.nonzero((part < 0) & (groups >= 0)[:, np.newaxis])
        return which.astype(np.int64), place.astype(np.int64) + places.start

    def _rounds(
        self, groups: _Integers, places: range
    ) -> Iterator[tuple[npt.NDArray[np.uint64], _Integers, _Integers]]:
        """Yields random numbers for the places that are waiting, a few times."""
        for _ in range(_NUM_DRAWS):
            which, place = self._waiting(groups, places)
            if not len(which):
                return
            number = np.uint64(self._num_fills * self._requests.count) + place.astype(np.uint64)
            self._num_fills += 1
            yield mix(self._requests.keys[which] + number), which, place

    def _is_good(self, which: _Integers, drawn: _Integers) -> _Bools:
        good = np.ones(len(drawn), np.bool_) if self._rejects is None else ~self._rejects(which, drawn)
        if self._is_unique:
            # A node counts once for each input, at the first place that drew it.
            size = int(max(drawn.max(initial=0), self.drawn.max(initial=0))) + 1
            pairs = which * size + drawn
            rows, columns = np.nonzero(self.drawn >= 0)
            good &= ~np.isin(pairs, rows * size + self.drawn[rows, columns])
            good_positions = np.flatnonzero(good)
            _, firsts = np.unique(pairs[good_positions], return_index=True)
            good[:] = False
            good[good_positions[firsts]] = True
        return good

    def _fill_from_lists(self, groups: _Integers, candidates: _Candidates, places: range) -> None:
        """Lists the candidates of inputs that have drawn none, and chooses among those that qualify."""
        which, place = self._waiting(groups, places)
        inputs = np.unique(which)
        alike = groups if self._rejects is None else self._rejects.groups
        inputs = inputs[np.lexsort((groups[inputs], alike[inputs]))]
        listed: tuple[int, int] | None = None
        nodes, weights = np.zeros(0, np.int64), np.zeros(0)
        for one in inputs.tolist():
            # A hub may be among the inputs many times; its list is long, so it is made once.
            if listed != (groups[one], alike[one]):
                listed = (int(groups[one]), int(alike[one]))
                nodes, weights = candidates.list_group(listed[0])
                if self._rejects is not None:
                    kept = ~self._rejects.refuses(np.full(len(nodes), one), nodes)
                    nodes, weights = nodes[kept], weights[kept]
            if len(nodes):
                self._choose_from_list(one, place[which == one].tolist(), nodes, weights)

    def _choose_from_list(self, one: int, own: list[int], nodes: _Integers, weights: npt.NDArray[np.float64]) -> None:
        """Fills the places of an input from a list of nodes, without its positive."""
        kept = np.ones(len(nodes), np.bool_)
        if self._rejects is not None and self._rejects.positives is not None:
            kept &= nodes != self._rejects.positives[one]
        if self._is_unique:
            kept &= ~np.isin(nodes, self.drawn[one])
        nodes, weights = nodes[kept], weights[kept]
        if not len(nodes):
            return
        codes = hash_integers(nodes)
        for number, position in enumerate(own):
            draw = 0 if self._is_unique else position
            uniforms = uniform_scores(np.full(len(nodes), self._requests.keys[one]), codes, draw)
            order = np.argsort(exponential_scores(uniforms, weights), kind="stable")
            if not self._is_unique:
                self.drawn[one, position] = nodes[order[0]]
            elif number < len(order):
                self.drawn[one, position] = nodes[order[number]]
