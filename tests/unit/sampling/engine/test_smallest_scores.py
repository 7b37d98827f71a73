import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.sampling.engine.edge_choice import bound_smallest, find_smallest

_GROUPS = st.lists(st.lists(st.integers(0, 9).map(float), max_size=12), max_size=6)


@given(groups=_GROUPS, count=st.integers(1, 4))
def test_at_least_as_many_scores_as_asked_for_are_within_the_bound(groups, count):
    scores = np.array([score for group in groups for score in group], np.float64)

    bounds = bound_smallest(scores, np.array([len(group) for group in groups], np.int64), count)

    for group, bound in zip(groups, bounds.tolist(), strict=True):
        if len(group) <= count:
            assert bound == np.inf
        else:
            assert sorted(group)[count - 1] <= bound
            assert bound in group


@given(groups=_GROUPS, count=st.integers(1, 4))
def test_equal_scores_are_taken_in_the_order_of_rows(groups, count):
    cells = [(group, score) for group, scores in enumerate(groups) for score in scores]
    group, scores = np.array([c[0] for c in cells], np.int64), np.array([c[1] for c in cells], np.float64)
    rows = np.arange(len(cells))[::-1].copy()

    found = find_smallest(group, scores, rows, count)

    expected = []
    for number in range(len(groups)):
        ranked = sorted((scores[i], rows[i], i) for i in range(len(cells)) if group[i] == number)
        expected += [position for _, _, position in ranked[:count]]
    assert found.tolist() == expected


@pytest.mark.parametrize("shift", [0, 1 << 16])
def test_groups_may_have_any_numbers(shift):
    found = find_smallest(np.array([2, 0, 2]) + shift, np.array([3.0, 2.0, 1.0]), np.arange(3), 1)

    assert found.tolist() == [1, 2]
