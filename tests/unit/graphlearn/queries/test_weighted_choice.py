"""Draws from groups of weighted items."""

from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.graphlearn.queries.weighted_choice import WeightedGroups
from tfx_gnn.sampling.random_choice import mix


def _bits(count):
    return mix(np.arange(count, dtype=np.uint64))


def test_items_are_drawn_by_weight_within_their_group_however_large_others_are(statistic):
    weights = np.array([1e200, 1e-200, 2e-200, 0.0, 1e-200, 5.0, -1.0])
    groups = WeightedGroups(np.array([0, 1, 5, 5, 7]), weights)

    drawn = groups.draw(np.full(4000, 1), _bits(4000))

    observed = np.bincount(drawn, minlength=7)
    assert statistic(observed[[1, 2, 4]], [1, 2, 1]) < 13.82
    assert observed[[1, 2, 4]].sum() == 4000
    assert groups.can_draw(np.array([0, 1, 2, 3, -1])).tolist() == [True, True, False, True, False]
    assert groups.draw(np.array([0, 3]), _bits(2)).tolist() == [0, 5]


@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_the_extreme_numbers_draw_the_first_and_last_item_that_weighs_something(bits):
    groups = WeightedGroups(np.array([0, 4, 8]), np.array([0.0, 1, 2, 0] * 2))

    drawn = groups.draw(np.array([0, 1]), np.full(2, bits, np.uint64))

    assert drawn.tolist() == ([1, 5] if bits == 0 else [2, 6])


def test_without_weights_all_items_of_a_group_are_equally_likely(statistic):
    groups = WeightedGroups(np.array([0, 0, 3]))

    assert groups.can_draw(np.array([0, 1])).tolist() == [False, True]
    assert statistic(np.bincount(groups.draw(np.full(3000, 1), _bits(3000))), [1, 1, 1]) < 13.82


def test_nothing_weighs_nothing():
    assert WeightedGroups(np.array([0, 0]), np.zeros(0)).can_draw(np.array([0])).tolist() == [False]
    assert WeightedGroups(np.array([0]), np.zeros(0)).can_draw(np.array([-1])).tolist() == [False]


def test_draws_from_the_first_items_of_a_group_are_by_their_weights(statistic):
    groups = WeightedGroups(np.array([0, 1, 6]), np.array([9.0, 0, 1, 3, 0, 100]))
    sizes = np.array([0, 1, 2, 3, 4, 5])

    assert groups.can_draw(np.full(6, 1), sizes).tolist() == [False, False, True, True, True, True]
    for size in (3, 4):
        drawn = groups.draw(np.full(4000, 1), _bits(4000), np.full(4000, size))
        assert statistic(np.bincount(drawn, minlength=6)[2:4], [1, 3]) < 10.83
        assert set(drawn.tolist()) == {2, 3}
