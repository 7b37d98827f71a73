"""Items of lists that are missing: counted, and left out with their list or without it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tfx_gnn.tables.list_values import count_incomplete, is_list, lengths_of, without_missing

ROWS = [[1.0, None], [2.0, 3.0], None, [float("nan"), 1.0]]


@pytest.mark.parametrize("dtype", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_lists_of_one_length_that_lack_an_item_are_null(dtype):
    lists = pa.array(ROWS, dtype)

    assert is_list(dtype)
    assert count_incomplete(lists) == 2
    assert lengths_of(lists) == {2}
    assert without_missing(lists, has_one_length=True).to_pylist() == [None, [2.0, 3.0], None, None]
    assert without_missing(lists.slice(1, 2), has_one_length=True).to_pylist() == [[2.0, 3.0], None]


@pytest.mark.parametrize("dtype", [pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_lists_of_several_lengths_keep_their_other_items(dtype):
    lists = pa.array([*ROWS, [], [5.0]], dtype)

    assert lengths_of(lists) == {0, 1, 2}
    assert without_missing(lists, has_one_length=False).to_pylist() == [[1.0], [2.0, 3.0], None, [1.0], [], [5.0]]
    assert without_missing(lists.slice(2, 2), has_one_length=False).to_pylist() == [None, [1.0]]


def test_texts_and_integers_may_be_missing_too():
    assert without_missing(pa.array([["a", None], ["b"]]), has_one_length=False).to_pylist() == [["a"], ["b"]]
    assert without_missing(pa.array([[None, 3]]), has_one_length=False).to_pylist() == [[3]]
    assert not is_list(pa.list_(pa.list_(pa.int64())))
    assert not is_list(pa.int64())
