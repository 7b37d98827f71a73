import numpy as np
import pytest

from tfx_gnn.sampling.beam.rounds.block_state import BlockRange, count_blocks, list_runs
from tfx_gnn.sampling.engine.seeds import shard_bounds


def test_ranges_of_a_split_cover_all_keys_once():
    blocks = [BlockRange(split=0, block=block, num_blocks=7) for block in range(7)]

    assert blocks[0].first_key == 0
    assert [block.last_key + 1 for block in blocks[:-1]] == [block.first_key for block in blocks[1:]]
    assert blocks[-1].last_key == 2**64 - 1


def test_a_block_lies_in_the_shard_that_seeds_are_written_to():
    keys = np.sort(np.random.default_rng(0).integers(0, 2**64 - 1, 500, dtype=np.uint64))
    bounds = shard_bounds(keys, 3)
    runs = list_runs([(0, 1)], {0: 500}, num_shards=3, seeds_per_block=50)
    blocks = [block for run in runs for block in run.blocks()]

    found = [key for block in blocks for key in keys.tolist() if block.first_key <= key <= block.last_key]

    assert found == keys[bounds[1] : bounds[2]].tolist()
    assert {block.shard(3) for block in blocks} == {1}
    assert len(blocks) == 4  # 12 of about 42 seeds


@pytest.mark.parametrize(
    ("num_seeds", "num_shards", "expected"), [(0, 3, 3), (1, 1, 1), (100, 1, 10), (101, 1, 11), (101, 4, 12)]
)
def test_number_of_blocks_is_a_multiple_of_the_shards(num_seeds, num_shards, expected):
    assert count_blocks(num_seeds, num_shards, 10) == expected


def test_numbers_of_blocks_differ_between_splits():
    runs = list_runs([(0, 0), (1, 0)], {0: 30, 1: 20}, num_shards=1, seeds_per_block=10)

    numbers = [block.number for run in runs for block in run.blocks()]

    assert len(numbers) == len(set(numbers)) == 5


def test_too_many_blocks_are_refused():
    with pytest.raises(ValueError, match="`seeds_per_block` must be so large"):
        count_blocks(2**40, 1, 1)


@pytest.mark.parametrize(("num_blocks", "lengths"), [(1, {1}), (16, {1}), (40, {3, 1}), (2000, {64, 16})])
def test_runs_are_short_where_blocks_are_few(num_blocks, lengths):
    runs = list(list_runs([(0, 0)], {0: num_blocks * 10}, num_shards=1, seeds_per_block=10))

    assert {run.stop - run.start for run in runs} == lengths
    assert [block.block for run in runs for block in run.blocks()] == list(range(num_blocks))
