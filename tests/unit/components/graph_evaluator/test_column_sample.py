from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import column_sample
from tfx_gnn.components.graph_evaluator.column_sample import ColumnSample


def _sample(hashes: list[int]) -> ColumnSample:
    """Rows whose only value is twice their hash, and whose label is its text."""
    values = np.array([[2.0 * one] for one in hashes])
    labels = {"class": np.array([str(one) for one in hashes], object), "number": values.copy()}
    return ColumnSample.of(np.array(hashes, np.uint64), values, labels)


@pytest.mark.parametrize("most_rows", [3, 100])
def test_the_smallest_hashes_are_kept_in_whatever_parts_they_come(
    most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_sample, "MOST_ROWS", most_rows)

    whole = _sample([7, 1, 9, 4, 2])
    parts = ColumnSample.merged([_sample([9, 1]), ColumnSample.merged([_sample([2]), _sample([4, 7])])])

    expected = [1, 2, 4] if most_rows == 3 else [1, 2, 4, 7, 9]
    for sample in (whole, parts):
        assert sample.hashes.tolist() == expected
        assert sample.values[:, 0].tolist() == [2.0 * one for one in expected]
        assert sample.labels["class"].tolist() == [str(one) for one in expected]
        assert sample.limit == (7 if most_rows == 3 else 1 << 64)


def test_many_columns_leave_room_for_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_sample, "MOST_VALUES", 6)

    sample = ColumnSample.of(np.arange(5, dtype=np.uint64), np.zeros([5, 3]), {})

    assert sample.hashes.tolist() == [0, 1]


def test_json_keeps_every_digit() -> None:
    sample = _sample([3, (1 << 64) - 2])
    sample.values[0] = np.nan
    sample.labels["number"][1] = np.nan

    restored = ColumnSample.from_json(sample.to_json())

    assert (restored.limit, restored.hashes.tolist()) == (sample.limit, sample.hashes.tolist())
    np.testing.assert_array_equal(restored.values, sample.values)
    np.testing.assert_array_equal(restored.labels["number"], sample.labels["number"])
    assert restored.labels["class"].tolist() == ["3", str((1 << 64) - 2)]
    assert restored.labels["class"].dtype == object
