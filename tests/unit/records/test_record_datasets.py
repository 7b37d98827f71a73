"""Record files as data sets."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.records.record_files import ordered_records, record_files, shuffled_records


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


def _epochs(files, *epochs, seed=1, shuffle_buffer_size=100, **part):
    numbers = tf.data.Dataset.from_tensor_slices(tf.constant(epochs, tf.int64))
    return _numbers(shuffled_records(files, epochs=numbers, shuffle_buffer_size=shuffle_buffer_size, seed=seed, **part))


def test_order_differs_by_epoch_and_hangs_on_nothing_but_seed_and_epoch(files):
    tf.random.set_seed(1)
    first, second = _epochs(files, 0), _epochs(files, 1)

    tf.random.set_seed(2)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(24))
    assert _epochs(files, 1, 0) == second + first
    assert _epochs(files, 0, seed=2) != first


def test_nothing_is_mixed_with_a_buffer_of_one(files):
    assert _epochs(files, 0, 1, shuffle_buffer_size=1) == 2 * list(range(24))


@pytest.mark.parametrize("epoch", range(4))
def test_pipelines_share_the_records_of_an_epoch_before_they_mix_them(files, epoch):
    """Each of them sees the same order of several files, or some records would be read twice and others never."""
    parts = [_epochs(files, epoch, pipeline=i, shard=lambda records, i=i: records.shard(2, i)) for i in range(2)]

    assert sorted(parts[0] + parts[1]) == list(range(24))
    assert len(parts[0]) == len(parts[1]) == 12


def test_pipelines_mix_in_orders_of_their_own(files):
    assert sorted(_epochs(files, 0, pipeline=1)) == sorted(_epochs(files, 0))
    assert _epochs(files, 0, pipeline=1) != _epochs(files, 0)
