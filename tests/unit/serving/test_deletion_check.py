from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tfx_gnn.serving.deletion_check import ALIKE, BETTER, NO_BETTER, DeletionCheck, Part, check_by_deletion


def _check(weights: Sequence[float], effects: Sequence[float], *, num_orders: int = 20) -> DeletionCheck | None:
    """Checks weights against a prediction of 1 that loses the effect of each part that is removed."""

    def predict_without(removed: Sequence[Sequence[Part]]) -> npt.NDArray[np.float64]:
        return np.array([1.0 - sum(effects[part.index] for part in parts) for parts in removed])

    parts = [Part(edge_set="e", index=index, weight=weight) for index, weight in enumerate(weights)]
    return check_by_deletion(parts, predict_without, unit="probability", num_orders=num_orders)


def test_weights_that_name_the_deciding_part_pass() -> None:
    check = _check([0.0, 0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0])

    assert check is not None
    assert (check.verdict, check.lowers, check.start, check.num_parts) == (BETTER, True, 1.0, 10)
    assert (check.num_removed, check.explained) == ((0, 1, 2), (0.0, 0.5, 0.5))
    # Trapezoids under 0, .5, .5 over two removals: (.25 + .5) / 2.
    random = np.array(check.random)
    assert check.area == pytest.approx(0.375 - ((random[1:] + random[:-1]) / 2).mean())
    assert random[-1] < 0.3
    assert check.random_low[-1] == 0.0


def test_weights_that_name_other_parts_are_no_better_than_random() -> None:
    check = _check([0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5])

    assert check is not None
    assert check.verdict == NO_BETTER
    assert check.area < 0
    assert check.explained[check.named] == 0.0


def test_parts_against_the_prediction_are_removed_where_they_weigh_more() -> None:
    check = _check([0.2, -0.3, -0.4, 0.0], [0.2, -0.3, -0.4, 0.0])

    assert check is not None
    assert (check.lowers, check.num_removed) == (False, (0, 1, 2))
    assert check.explained == pytest.approx((0.0, 0.4, 0.7))


@pytest.mark.parametrize(
    ("weights", "effects", "verdict"),
    [
        ([0.5], [0.5], ALIKE),
        ([0.5, 0.5], [0.5, 0.5], ALIKE),
        ([0.5, 0.1], [0.5, 0.1], BETTER),
        ([0.1, 0.5], [0.5, 0.1], NO_BETTER),
        ([0.5, 0.1], [0.0, 0.0], ALIKE),
    ],
    ids=["one part", "equal parts", "right order", "wrong order", "a model that reads nothing"],
)
def test_small_graphs_have_fair_verdicts(weights: list[float], effects: list[float], verdict: str) -> None:
    check = _check(weights, effects)

    assert check is not None
    assert check.verdict == verdict
    assert check.num_removed[-1] == len(weights)
    assert check.num_predictions <= 2 ** len(weights)


def test_cost_is_bounded_and_the_same_orders_are_drawn_again() -> None:
    random = np.random.default_rng(1)
    weights = random.random(500).tolist()

    first, second = _check(weights, weights, num_orders=3), _check(weights, weights, num_orders=3)

    assert first == second
    assert first is not None
    assert first.num_removed == (0, 1, 2, 3, 4, 5, 7, 10, 14, 20)
    assert first.num_predictions <= 1 + 9 * 4
    assert first.num_removed[first.named] == 5


def test_without_weights_there_is_nothing_to_check() -> None:
    assert _check([0.0, 0.0], [0.5, 0.5]) is None
    assert _check([], []) is None
    with pytest.raises(ValueError, match="`num_orders` must be at least 1; got 0"):
        _check([0.5], [0.5], num_orders=0)
