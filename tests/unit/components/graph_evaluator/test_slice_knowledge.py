from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import slice_knowledge
from tfx_gnn.components.graph_evaluator.slice_knowledge import NumberSample, hash_node_ids, union_of_hashes

HASHES = np.array([50, 10, 40, 20, 30], np.uint64)


def test_quantiles_are_numbers_of_the_data_and_leave_nan_out() -> None:
    sample = NumberSample.of(HASHES, [4.0, 1.0, float("nan"), 2.0, 3.0])

    assert sample.quantiles(4) == (1.0, 2.0, 3.0)
    assert sample.quantiles(2) == (2.0,)


def test_sample_is_of_the_smallest_hashes_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_knowledge, "SAMPLE_SIZE", 3)
    numbers = [5.0, 1.0, 4.0, 2.0, 3.0]
    parts = [NumberSample.of(HASHES[i : i + 1], numbers[i : i + 1]) for i in (4, 0, 2, 1, 3)]

    merged = NumberSample.merged([NumberSample.merged(parts[:2]), NumberSample.merged(parts[2:])])

    assert merged.numbers.tolist() == NumberSample.of(HASHES, numbers).numbers.tolist() == [1.0, 2.0, 3.0]


def test_hashes_of_nodes_differ_by_set_and_join_without_copies() -> None:
    users, items = hash_node_ids("user", [b"a", b"b"]), hash_node_ids("item", [b"a", b"b"])

    assert len(union_of_hashes([users, items, users])) == 4
    assert hash_node_ids("user", [b"b"])[0] == users[1]
    assert len(union_of_hashes([])) == len(hash_node_ids("user", [])) == 0
