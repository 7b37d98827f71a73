"""Checks an explanation: removing the parts that it names must move the prediction more than removing random ones.

Both orders give a deletion curve (arXiv:1806.07421): how far the prediction moves after 1, 2, ... parts. The parts that
are removed all speak for what is explained, those of the largest weights first; or all against it, if those weigh more
together. Random orders draw from all parts, and are the same for the same example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

MOST_REMOVED = 20
"""Parts that a curve removes at most."""

NUM_NAMED = 5
"""Parts of which a sentence tells how far they move the prediction."""

_STEPS = (1, 2, 3, 4, 5, 7, 10, 14, MOST_REMOVED)
_INTERVAL = (5.0, 95.0)
_MOST_BETTER = 0.1
"""Share of random orders that may beat the explained one, above which it is no better than random."""
_NEGLIGIBLE = 1e-6

BETTER, NO_BETTER, ALIKE = "better than random", "no better than random", "all orders alike"
VERDICTS = (BETTER, NO_BETTER, ALIKE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A part of an example that can be removed.

    Attributes:
        edge_set: its set, if it is an edge; else "".
        columns: keys of raw columns, such as "nodes/user.age", if it is a feature of an item; else empty.
        index: position of the edge or the item in its set.
        weight: what an explanation says that it adds.
    """

    edge_set: str = ""
    columns: tuple[str, ...] = ()
    index: int
    weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeletionCheck:
    """How far a prediction moves when parts of its example are removed.

    Attributes:
        unit: of all movements: "probability", in [0, 1]; the label's unit; or "logit".
        lowers: whether the removed parts speak for the prediction, so that their removal should lower it. Movements are
            positive in the direction that is expected.
        start: the prediction of the whole example.
        num_parts: edges and features of items that could be removed, of which random orders are drawn.
        num_kept: edges and features of items that have a weight and could not be removed: edges with ragged features,
            features without a column that could be changed.
        num_removed: how many parts were removed at each point of the curves, from 0.
        explained: movement at each point, removing what the explanation names first.
        random: mean movement at each point over random orders.
        random_low: their 5th percentile at each point.
        random_high: their 95th percentile at each point.
        num_orders: random orders.
        area: mean movement over the curve of the explanation, minus that over the random ones.
        verdict: "better than random"; "no better than random", if more than a tenth of the random orders move the
            prediction further over the curve, or their mean does; "all orders alike", if the order makes no difference.
        num_predictions: predictions that the check took.
    """

    unit: str
    lowers: bool
    start: float
    num_parts: int
    num_kept: int
    num_removed: tuple[int, ...]
    explained: tuple[float, ...]
    random: tuple[float, ...]
    random_low: tuple[float, ...]
    random_high: tuple[float, ...]
    num_orders: int
    area: float
    verdict: str
    num_predictions: int

    @property
    def named(self) -> int:
        """Position in the curves of the parts of which a sentence tells: five, or all if there are fewer."""
        return max(place for place, count in enumerate(self.num_removed) if count <= NUM_NAMED)


def check_by_deletion(
    parts: Sequence[Part],
    predict_without: Callable[[Sequence[Sequence[Part]]], npt.NDArray[np.float64]],
    *,
    unit: str,
    num_kept: int = 0,
    num_orders: int = 20,
) -> DeletionCheck | None:
    """Compares the order of an explanation with random orders.

    It takes one prediction for the whole example, and at most nine for each order; equal ones are asked for once.

    Args:
        parts: what can be removed.
        predict_without: returns the prediction, in the given unit, without some parts, for each list of them.
        unit: see `DeletionCheck`.
        num_kept: see `DeletionCheck`.
        num_orders: random orders, at least 1.

    Returns:
        The check; None if no part has a weight.
    """
    if num_orders < 1:
        raise ValueError(f"`num_orders` must be at least 1; got {num_orders}. 20 is the default.")
    weights = np.array([part.weight for part in parts])
    sums = {sign: float(weights[sign * weights > 0].sum()) * sign for sign in (1.0, -1.0)} if parts else {1.0: 0.0}
    sign = max(sums, key=lambda one: sums[one])
    if not sums[sign] > 0:
        return None
    order = np.argsort(-sign * weights, kind="stable")
    most = min(int((sign * weights > 0).sum()), MOST_REMOVED)
    steps = (0, *sorted({*(step for step in _STEPS if step < most), most}))
    random = np.random.default_rng(0)
    orders = [order, *(random.permutation(len(parts)) for _ in range(num_orders))]
    removed = [[frozenset(one[:count].tolist()) for count in steps] for one in orders]
    unique = list(dict.fromkeys(subset for subsets in removed for subset in subsets))
    values = predict_without([[parts[place] for place in sorted(subset)] for subset in unique])
    found: Mapping[frozenset[int], float] = dict(zip(unique, values.tolist(), strict=True))
    table = np.array([[found[subset] for subset in subsets] for subsets in removed])
    moved = sign * (table[:, :1] - table)
    # Trapezoids: the mean movement over 0, ..., `most` removed parts.
    areas = np.diff(steps) @ ((moved[:, 1:] + moved[:, :-1]) / 2.0).T / most
    low, high = np.percentile(moved[1:], _INTERVAL, axis=0)
    return DeletionCheck(
        unit=unit,
        lowers=sign > 0,
        start=float(table[0, 0]),
        num_parts=len(parts),
        num_kept=num_kept,
        num_removed=steps,
        explained=tuple(moved[0].tolist()),
        random=tuple(moved[1:].mean(axis=0).tolist()),
        random_low=tuple(low.tolist()),
        random_high=tuple(high.tolist()),
        num_orders=num_orders,
        area=float(areas[0] - areas[1:].mean()),
        verdict=_verdict(areas[0], areas[1:], scale=float(np.abs(table).max())),
        num_predictions=len(unique),
    )


def _verdict(explained: float, random: npt.NDArray[np.float64], *, scale: float) -> str:
    tolerance = _NEGLIGIBLE * max(scale, _NEGLIGIBLE)
    if np.abs(random - explained).max() <= tolerance:
        return ALIKE
    is_beaten = float((random > explained + tolerance).mean()) > _MOST_BETTER
    return NO_BETTER if is_beaten or explained <= random.mean() + tolerance else BETTER
