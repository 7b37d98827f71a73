"""Checks weights before anything is drawn by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tfx_gnn.sampling.plan.hop import Hop

_ZERO = "Correct it; what must not be drawn has the weight 0."


def check_hop_weights(hop: Hop, weights: npt.NDArray[np.float64], place_of: Callable[[int], str]) -> None:
    """Refuses weights of edges that a hop cannot choose by.

    To draw by weights, they must be finite and at least 0. "top_k" only puts edges in order, which takes any number.

    Args:
        hop: the hop.
        weights: float64 array of the values of its `weight_feature`.
        place_of: describes where the weight at a position comes from, for the error; called only for one.

    Raises:
        ValueError: if there is a weight that does not fit.
    """
    if not len(weights):
        return
    # A NaN makes the smallest weight NaN, which compares as False.
    smallest = weights.min()
    if hop.draws_by_weight:
        if smallest >= 0.0 and weights.max() < np.inf:
            return
        wrong = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
        rule, remedy = "finite numbers of at least 0", _ZERO
    else:
        if not np.isnan(smallest):
            return
        wrong = np.flatnonzero(np.isnan(weights))
        rule, remedy = "numbers", "Correct it, or choose another feature."
    raise _error(rule, (hop.weight_feature, weights), wrong, place_of(int(wrong[0])), remedy)


def check_node_weights(
    weights: npt.NDArray[np.float64], largest: float, feature: str, place_of: Callable[[int], str]
) -> None:
    """Refuses weights of nodes that negatives cannot be drawn by: those outside of [0, `largest`].

    Raises:
        ValueError: if there is one.
    """
    wrong = np.flatnonzero(~((weights >= 0.0) & (weights <= largest)))
    if len(wrong):
        raise _error(f"weights in [0, {largest:.0f}]", (feature, weights), wrong, place_of(int(wrong[0])), _ZERO)


def _error(
    rule: str, values: tuple[str, npt.NDArray[np.float64]], wrong: npt.NDArray[np.int64], place: str, remedy: str
) -> ValueError:
    feature, weights = values
    first = weights[wrong[0]]
    value = "NaN" if np.isnan(first) else str(float(first))
    count = "" if len(wrong) == 1 else f", one of {len(wrong)} such rows"
    return ValueError(f"`weight_feature` must hold {rule}; got {value} in {feature!r} of {place}{count}. {remedy}")
