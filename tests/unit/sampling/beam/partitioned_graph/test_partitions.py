"""How rows are ordered, parted and cut in buckets, on tables small enough to see through."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.sampling.beam.partitioned_graph.files import as_codes
from tfx_gnn.sampling.beam.partitioned_graph.partitions import (
    bucket_bits,
    buckets_of_edges,
    count_buckets,
    group_by_partition,
    hub_rows,
    partition_of_codes,
    sort_edges,
    sort_seeds,
    split_by_partition,
)
from tfx_gnn.sampling.random_choice import edge_hash

_LARGE = 2**63 + 5  # negative as int64, yet the largest code


def _int64(*codes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(codes, np.uint64).view(np.int64)


def test_the_first_bits_of_a_code_are_its_partition() -> None:
    codes = np.array([0, 2**62 - 1, 2**62, 2**63, 2**64 - 1], np.uint64)

    assert partition_of_codes(codes, 4).tolist() == [0, 0, 1, 2, 3]
    assert partition_of_codes(codes.view(np.int64), 4).tolist() == [0, 0, 1, 2, 3]
    assert partition_of_codes(codes, 1).tolist() == [0, 0, 0, 0, 0]


def test_edges_of_a_node_are_in_the_order_of_the_hashes_of_their_rows() -> None:
    rows = np.arange(20)

    edges = sort_edges(pa.table({"#node": _int64(*[_LARGE, 7] * 10), "#row": rows}))

    by_hash = sorted(range(20), key=lambda row: int(edge_hash(rows)[row]))
    odd, even = [row for row in by_hash if row % 2], [row for row in by_hash if row % 2 == 0]
    assert edges.column("#row").to_pylist() == [*odd, *even]


def test_seeds_of_one_key_are_in_the_order_of_their_rows() -> None:
    seeds = sort_seeds(pa.table({"#key": _int64(_LARGE, 7, 7), "#row": [0, 2, 1]}))

    assert seeds.column("#row").to_pylist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("degree", "hub_degree", "bits"), [(4097, 4096, 2), (8192, 4096, 2), (8193, 4096, 3), (2, 1, 2)]
)
def test_a_bucket_holds_a_quarter_to_a_half_of_what_makes_a_hub(degree: int, hub_degree: int, bits: int) -> None:
    assert bucket_bits(np.array([degree]), hub_degree).tolist() == [bits]
    assert hub_degree / 4 <= degree / 2**bits <= hub_degree / 2


def test_buckets_are_equal_ranges_of_the_hash() -> None:
    rows = np.arange(1000)

    buckets = buckets_of_edges(rows, np.full(1000, 3))

    assert buckets.tolist() == [int(hashed) * 8 >> 64 for hashed in edge_hash(rows).tolist()]
    assert set(buckets.tolist()) == set(range(8))


def test_hubs_list_every_bucket_and_empty_ones_too() -> None:
    in_order = pa.table({"#node": _int64(7, 7, 7, _LARGE), "#bucket": pa.array([1, 1, 3, 0], pa.int32())})
    counted = count_buckets(in_order)
    assert counted.to_pydict()["#bucket_count"] == [2, 1, 1]

    hubs = hub_rows(np.array([7, _LARGE], np.uint64), np.array([2, 1]), counted.take(pa.array([2, 0, 1])))

    assert as_codes(hubs.column("#node")).tolist() == [7, 7, 7, 7, _LARGE, _LARGE]
    assert hubs.column("#bucket").to_pylist() == [0, 1, 2, 3, 0, 1]
    assert hubs.column("#bucket_count").to_pylist() == [0, 2, 0, 1, 1, 0]


@given(st.lists(st.integers(0, 5)), st.sampled_from([0, 2**20]))
def test_positions_are_grouped_and_keep_their_order(partitions: list[int], shift: int) -> None:
    groups = group_by_partition(np.array(partitions, np.int64) + shift)

    found = {p - shift: list(range(len(partitions))) if at is None else at.tolist() for p, at in groups}

    assert found == {p: [i for i, q in enumerate(partitions) if q == p] for p in sorted(set(partitions))}


def test_rows_are_parted_and_keep_their_order() -> None:
    parts = split_by_partition(pa.table({"x": [10, 11, 12, 13]}), np.array([2, 0, 2, 0]))

    assert [(partition, rows.column("x").to_pylist()) for partition, rows in parts] == [(0, [11, 13]), (2, [10, 12])]
    assert split_by_partition(pa.table({"x": pa.array([], pa.int64())}), np.zeros(0, np.int64)) == []
