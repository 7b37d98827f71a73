import numpy as np
import pytest

from tfx_gnn.sampling.engine.seeds import Seeds, shard_bounds, shard_starts


def _three_seeds():
    return Seeds(
        keys=np.array([3, 5, 9], np.uint64),
        rows=np.array([7, 1, 4]),
        readout_splits=np.array([0, 2, 3, 6]),
        readout_nodes={"source": np.array([0, 0, 1, 2, 2, 2]), "target": np.array([5, 6, 5, 7, 8, 9])},
        readout_labels=np.array([1, 0, 1, 1, 0, 0], np.int8),
        time_limits=np.array([10, 20, 30]),
        rank_limits=np.array([2, 2, 2], np.int8),
    )


def test_seeds_are_taken_with_their_readouts_in_any_order():
    taken = _three_seeds().take(np.array([2, 0, 2]))

    assert taken.keys.tolist() == [9, 3, 9]
    assert taken.rows.tolist() == [4, 7, 4]
    assert taken.readout_splits.tolist() == [0, 3, 5, 8]
    assert taken.readout_nodes["target"].tolist() == [7, 8, 9, 5, 6, 7, 8, 9]
    assert taken.readout_labels.tolist() == [1, 0, 0, 1, 0, 1, 0, 0]
    assert taken.time_limits.tolist() == [30, 10, 30]
    assert taken.rank_limits.tolist() == [2, 2, 2]


def test_a_slice_starts_its_readouts_anew():
    part = _three_seeds().slice(1, 3)

    assert part.num_subgraphs == 2
    assert part.rows.tolist() == [1, 4]
    assert part.readout_splits.tolist() == [0, 1, 4]
    assert part.readout_nodes["target"].tolist() == [5, 7, 8, 9]
    assert part.readout_labels.tolist() == [1, 1, 0, 0]
    assert part.time_limits.tolist() == [20, 30]
    assert part.rank_limits.tolist() == [2, 2]


def test_each_readout_gets_a_subgraph_of_its_own_behind_the_true_pair():
    own, origins = _three_seeds().with_own_subgraphs()

    assert origins.tolist() == [0, 0, 1, 2, 2, 2]
    assert own.keys.tolist() == [3, 3, 5, 9, 9, 9]
    assert own.rows.tolist() == [7, 7, 1, 4, 4, 4]
    assert own.readout_splits.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert own.readout_nodes["target"].tolist() == [5, 6, 5, 7, 8, 9]
    assert own.readout_labels.tolist() == [1, 0, 1, 1, 0, 0]
    assert own.time_limits.tolist() == [10, 10, 20, 30, 30, 30]
    assert own.rank_limits.tolist() == [2] * 6
    assert {root: nodes.tolist() for root, nodes in own.true_nodes.items()} == {
        "source": [0, 0, 1, 2, 2, 2],
        "target": [5, 5, 5, 7, 7, 7],
    }
    assert own.slice(4, 6).true_nodes["target"].tolist() == [7, 7]
    assert own.take(np.array([3, 0])).true_nodes["target"].tolist() == [7, 5]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7, 1000])
def test_shards_are_equal_ranges_of_keys(num_shards):
    starts = [int(start) for start in shard_starts(num_shards)]
    keys = sorted({0, 2**64 - 1, *starts, *(start - 1 for start in starts[1:])})

    bounds = shard_bounds(np.array(keys, np.uint64), num_shards)

    expected = [key * num_shards >> 64 for key in keys]
    assert np.repeat(np.arange(num_shards), np.diff(bounds)).tolist() == expected


def test_a_shard_may_be_empty():
    assert shard_bounds(np.array([1, 2], np.uint64), 3).tolist() == [0, 2, 2, 2]
    assert shard_bounds(np.array([], np.uint64), 2).tolist() == [0, 0, 0]
