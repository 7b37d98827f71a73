"""Sequences with insertions are those that NumPy makes by copying."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.sampling.overlay.merged_rows import Insertions, MergedColumn, Pieces


def test_items_stand_before_their_places():
    insertions = Insertions(np.array([0, 2, 2]))

    assert insertions.positions.tolist() == [0, 3, 4]
    assert insertions.move(np.array([0, 1, 2])).tolist() == [1, 2, 5]
    is_inserted, numbers = insertions.split(np.arange(6))
    assert is_inserted.tolist() == [True, False, False, True, True, False]
    assert numbers.tolist() == [0, 0, 1, 1, 2, 2]


@given(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=9), st.randoms(use_true_random=False))
def test_a_merged_column_is_the_one_that_insert_makes(length, places, random):
    places = np.sort(np.minimum(places, length)).astype(np.int64)
    column, added = np.arange(length), np.arange(100, 100 + len(places))
    order = np.array(random.sample(range(len(places)), len(places)), np.int64)
    pieces = Pieces([pa.array([], pa.int64())])
    for value in added:
        pieces = pieces.extended(pa.array([value]))

    merged = MergedColumn(pa.array(column), pieces, Insertions(places), order)

    whole = np.insert(column, places, added[order])
    positions = np.array(random.choices(range(len(whole)), k=12) if len(whole) else [], np.int64)
    assert len(merged) == len(whole)
    assert merged.take(pa.array(positions)).to_pylist() == whole[positions].tolist()
    assert merged.slice(0, len(whole)).to_pylist() == whole.tolist()


def test_pieces_are_few_and_keep_earlier_versions():
    versions = [Pieces([pa.array([], pa.int64())])]
    for value in range(100):
        versions.append(versions[-1].extended(pa.array([value])))

    assert len(versions[-1]._arrays) <= 8
    assert versions[50].take(np.arange(50)).to_pylist() == list(range(50))
    assert versions[100].take(np.array([99, 0, 50])).to_pylist() == [99, 0, 50]
