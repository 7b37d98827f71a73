from __future__ import annotations

import os

import tensorflow as tf

from tfx_gnn.serving.request_records import label_keys, without_labels
from tfx_gnn.serving.served_task import ServedTask, write_served_task


def _keys(record: bytes) -> set[str]:
    return set(tf.train.Example.FromString(record).features.feature)


def test_labels_are_what_the_model_tells(tmp_path, toy_records) -> None:
    served = ServedTask(task={}, label_keys=("nodes/item.x", "absent"), roots=(), tensor_inputs={})
    write_served_task(served, str(tmp_path))

    stripped = without_labels(toy_records["test"], str(tmp_path))

    assert label_keys(toy_records["test"], str(tmp_path)) == ["absent", "nodes/item.x"]
    assert [_keys(full) - _keys(less) for full, less in zip(toy_records["test"], stripped, strict=True)] == [
        {"nodes/item.x"}
    ] * 4


def test_labels_of_a_model_that_tells_nothing_are_features_of_the_readout(toy_model_dir, toy_records) -> None:
    saved_model_dir = os.path.join(toy_model_dir, "Format-Serving")

    (stripped,) = without_labels(toy_records["test"][:1], saved_model_dir)

    assert label_keys(toy_records["test"], saved_model_dir) == ["nodes/_readout.color"]
    assert _keys(toy_records["test"][0]) - _keys(stripped) == {"nodes/_readout.color"}
