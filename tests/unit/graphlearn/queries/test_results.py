"""Ragged results."""

from __future__ import annotations

from tfx_gnn.graphlearn import SparseEdges, SparseNodes


def test_indices_are_row_by_row(make_store):
    pairs = [(1, 5), (1, 6), (1, 7), (2, 5), (4, 5), (4, 6)]
    store = make_store({"a": {"id": [1, 2, 3, 4]}, "b": {"id": [5, 6, 7]}}, {"e": ("a", "b", pairs, {})})
    query = store.V("a").batch(4).outE("e").sample(0).by("full").alias("e").inV().alias("b").values()

    batch = query.next()

    assert isinstance(batch["e"], SparseEdges)
    assert isinstance(batch["b"], SparseNodes)
    for found in (batch["e"], batch["b"]):
        assert found.offsets.tolist() == [3, 1, 0, 2]
        assert found.indices.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [3, 0], [3, 1]]
        assert found.dense_shape == found.shape == (4, 3)
        assert len(list(found)) == 4
    assert batch["b"].ids.tolist() == [5, 6, 7, 5, 5, 6]
    assert [row.src_ids.tolist() for row in batch["e"]] == [[1, 1, 1], [2], [], [4, 4]]
