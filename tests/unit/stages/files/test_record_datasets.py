"""Record files as data sets."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.stages.examples_folder import write_split_shard
from tfx_gnn.stages.files.record_datasets import ordered_records, shuffled_records
from tfx_gnn.stages.files.record_files import record_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """24 records in three files, of which record i is in file i % 3."""
    folder = str(tmp_path_factory.mktemp("records"))
    for shard in range(3):
        write_split_shard(folder, "train", shard, 3, [b"%d" % number for number in range(shard, 24, 3)])
    return record_files(folder, ("train",))


def _numbers(dataset):
    return [int(record) for record in dataset.as_numpy_iterator()]


def test_records_are_read_file_by_file_in_turns(files):
    dataset = ordered_records(files)

    assert _numbers(dataset) == _numbers(dataset) == list(range(24))


def test_order_differs_by_iteration_and_repeats_by_seed(files):
    def two_iterations(seed):
        tf.random.set_seed(seed)
        dataset = shuffled_records(files, shuffle_buffer_size=100, seed=seed)
        return [_numbers(dataset), _numbers(dataset)]

    first, second = two_iterations(1)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(24))
    assert two_iterations(1) == [first, second]
    assert two_iterations(2)[0] != first
