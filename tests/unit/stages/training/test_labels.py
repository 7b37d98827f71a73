from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.stages.examples_folder import split_dir, write_split_shard
from tfx_gnn.stages.files.record_files import record_files
from tfx_gnn.stages.training.labels import SplitLabels, count_labels


def _example(num_readouts, *labels):
    ints = lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))  # noqa: E731
    feature = {"nodes/_readout.#size": ints([num_readouts])}
    if labels:
        feature["nodes/_readout.y"] = ints(labels)
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _count(tmp_path, shards, num_classes=3):
    for shard, records in enumerate(shards):
        write_split_shard(str(tmp_path), "train", shard, len(shards), records)
    return count_labels(record_files(str(tmp_path), ("train",)), label_feature="y", num_classes=num_classes)


def test_classes_and_unknown_labels_are_counted_over_all_files(tmp_path):
    labels = _count(tmp_path, [[_example(1, 2), _example(1, 0)], [_example(1, 2), _example(1, -1), _example(1, 3)]])

    assert labels == SplitLabels(num_examples=5, num_unknown=2, class_counts=(1, 0, 2))


def test_batches_beyond_the_first_are_counted(tmp_path):
    labels = _count(tmp_path, [[_example(1, i % 3) for i in range(2500)]])

    assert labels.class_counts == (834, 833, 833)


@pytest.mark.parametrize(
    ("record", "got"),
    [
        (_example(1), "got 1 nodes and no label in record 1 of"),
        (_example(2, 0), "got 2 nodes and a label in record 1 of"),
        (b"", "got 0 nodes and no label in record 1 of"),
    ],
    ids=["no label", "two readouts", "empty"],
)
def test_example_without_one_labelled_readout_is_named(tmp_path, record, got):
    with pytest.raises(ValueError, match=got + r" graphs-00000-of-00001\.gz \(split 'train'\)"):
        _count(tmp_path, [[_example(1, 0), record]])


@pytest.mark.parametrize("record", [_example(1, 0, 1), b"\x0agarbage"], ids=["two labels", "garbage"])
def test_file_of_other_records_is_named(tmp_path, record):
    with pytest.raises(ValueError, match=r"one integer label each; got others in graphs-00000-of-00001\.gz"):
        _count(tmp_path, [[record]])


def test_file_that_is_cut_off_is_named(tmp_path):
    _count(tmp_path, [[_example(1, 0)] * 50])
    path = f"{split_dir(str(tmp_path), 'train')}/graphs-00000-of-00001.gz"
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[:-20])

    with pytest.raises(ValueError, match=r"got others in graphs-00000-of-00001\.gz"):
        count_labels(record_files(str(tmp_path), ("train",)), label_feature="y", num_classes=3)


def test_split_without_examples_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold examples to train on; got none in split 'train'"):
        _count(tmp_path, [[]])
