"""Shares of negatives by largest remainder."""

from __future__ import annotations

import pytest

from tfx_gnn.graphlearn.queries.conditions import Condition, ConditionColumn


@pytest.mark.parametrize(
    ("shares", "num_negatives", "counts"),
    [
        ([0.25, 0.25, 0.5], 4, (1, 1, 2)),
        ([1 / 3, 1 / 3, 1 / 3], 4, (2, 1, 1)),
        ([0.1], 30, (3,)),
        ([0.5], 1, (1,)),
        ([0.4, 0.4], 1, (1, 0)),
        ([0.2], 1, (0,)),
        ([0.333333, 0.333333, 0.333333], 3, (1, 1, 1)),
        ([0.0, 1.0], 2, (0, 2)),
        ([], 5, ()),
    ],
)
def test_counts_are_rounded_by_largest_remainder(shares, num_negatives, counts):
    columns = tuple(ConditionColumn(kind="int", column=0, share=share) for share in shares)

    assert Condition(columns=columns).counts(num_negatives) == counts
