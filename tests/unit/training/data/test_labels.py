from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, NodeSet
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LabelSummary,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
    Task,
)
from tfx_gnn.records.examples_folder import record_files, split_dir, write_split_shard
from tfx_gnn.training.data.labels import LabelReader, check_train_labels

CLASSES: Task = NodeClassification(label_feature="y", num_classes=3)
GRAPH = GraphTensor.from_pieces(
    context=Context.from_fields(features={"kind": tf.constant([0], tf.int64), "energy": [[0.0, 0.0]]}),
    node_sets={
        "item": NodeSet.from_fields(sizes=[1], features={"x": [1.0]}),
        "_readout": NodeSet.from_fields(
            sizes=[1], features={"y": tf.constant([0], tf.int64), "z": [0.0], "label": tf.constant([0], tf.int64)}
        ),
    },
)
SPEC: GraphTensorSpec = GRAPH.spec.relax(num_nodes=True)
NAN = math.nan


def _example(num_readouts, *labels, **features):
    feature = {"nodes/_readout.#size": _ints([num_readouts])}
    if labels:
        feature["nodes/_readout.y"] = _ints(labels)
    keys = {
        "z": "nodes/_readout.z",
        "label": "nodes/_readout.label",
        "kind": "context/kind",
        "energy": "context/energy",
    }
    for name, values in features.items():
        feature[keys[name]] = _floats(values) if name in ("z", "energy") else _ints(values)
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


READERS: dict[str, LabelReader] = {}


def _reader(task: Task) -> LabelReader:
    """A reader of a task's labels, traced once for all tests."""
    if str(task) not in READERS:
        READERS[str(task)] = LabelReader(SPEC, task.objective())
    return READERS[str(task)]


def _look(tmp_path, shards, task: Task = CLASSES):
    for shard, records in enumerate(shards):
        write_split_shard(str(tmp_path), "train", shard, len(shards), records)
    return _reader(task).summarize(record_files(str(tmp_path), ("train",)))[0]


def test_classes_and_unknown_labels_are_counted_over_all_files(tmp_path):
    labels = _look(tmp_path, [[_example(1, 2), _example(1, 0)], [_example(1, 2), _example(1, -1), _example(1, 3)]])

    assert labels == {"": LabelSummary(num_labels=5, num_counted=3, class_counts=(1, 0, 2))}
    assert labels[""].num_missing == 2


def test_batches_beyond_the_first_are_counted(tmp_path):
    labels = _look(tmp_path, [[_example(1, i % 3) for i in range(2500)]])

    assert labels[""].class_counts == (834, 833, 833)


def test_numbers_are_summed_up_without_those_that_are_missing(tmp_path):
    """Of the first output 1, 3 and 5 are known, of the second 10 alone; the second batch adds one of each."""
    records = [_example(0, energy=values) for values in ((1.0, NAN), (3.0, 10.0), (5.0, NAN))] * 400
    labels = _look(tmp_path, [records], GraphRegression(label_feature="energy", num_outputs=2))[""]

    assert (labels.num_labels, labels.num_counted) == (2400, 1600)
    assert labels.mean == pytest.approx((3.0, 10.0))
    assert labels.std == pytest.approx((math.sqrt(8 / 3), 0.0))
    assert (labels.minimum, labels.maximum) == ((1.0, 10.0), (5.0, 10.0))


def test_candidates_are_counted_one_by_one_and_by_true_pairs(tmp_path):
    records = [_example(3, label=[1, 0, 0]), _example(2, label=[1, -1]), _example(1, label=[0])]

    by_itself = _look(tmp_path / "sigmoid", [records], LinkPrediction())
    among = _look(tmp_path / "softmax", [records], LinkPrediction(loss="softmax"))

    assert by_itself == {"": LabelSummary(num_labels=6, num_counted=5, class_counts=(3, 2))}
    assert among == {"": LabelSummary(num_labels=6, num_counted=2, class_counts=(3, 2))}
    with pytest.raises(ValueError, match=r"one readout with labels; got 3 .*for pairs, set Negatives\(own_subgraphs"):
        _look(tmp_path / "seal", [records], LinkPrediction(scoring="seal"))


def test_several_tasks_are_looked_at_side_by_side(tmp_path):
    task = MultiTask(
        tasks={
            "kind": GraphClassification(label_feature="kind", num_classes=2),
            "z": NodeRegression(label_feature="z"),
            "y": CLASSES,
        }
    )
    records = [_example(1, 2, z=[1.5], kind=[1]), _example(1, 1, z=[NAN], kind=[1])]

    labels = _look(tmp_path, [records], task)

    assert sorted(labels) == ["kind", "y", "z"]
    assert labels["kind"].class_counts == (0, 2)
    assert labels["y"].class_counts == (0, 1, 1)
    assert (labels["z"].num_counted, labels["z"].mean) == (1, (1.5,))


@pytest.mark.parametrize(
    ("record", "got"),
    [
        (_example(1), "got 1 readouts without labels in record 1 of"),
        (_example(2, 0, 0), "got 2 readouts with labels in record 1 of"),
        (b"", "got 0 readouts with labels in record 1 of"),
    ],
    ids=["no label", "two readouts", "empty"],
)
def test_example_without_one_labelled_readout_is_named(tmp_path, record, got):
    with pytest.raises(ValueError, match=got + r" graphs-00000-of-00001\.gz \(split 'train'\)"):
        _look(tmp_path, [[_example(1, 0), record]])


def test_graph_without_its_number_is_named_and_one_with_nan_is_not(tmp_path):
    task = GraphRegression(label_feature="energy", num_outputs=2)

    with pytest.raises(ValueError, match="got 1 readouts without labels in record 1 of"):
        _look(tmp_path, [[_example(0, energy=[NAN, NAN]), _example(0)]], task)


@pytest.mark.parametrize("record", [_example(1, 0, 1), b"\x0agarbage"], ids=["two labels", "garbage"])
def test_file_of_other_records_is_named(tmp_path, record):
    with pytest.raises(ValueError, match=r"labels as the schema says; got others in graphs-00000-of-00001\.gz"):
        _look(tmp_path, [[record]])


def test_file_that_is_cut_off_is_named(tmp_path):
    # So much that the head of the file is read before its end is missed.
    noise = tf.train.Feature(bytes_list=tf.train.BytesList(value=[np.random.default_rng(0).bytes(4096)]))
    note = tf.train.Example(features=tf.train.Features(feature={"note": noise})).SerializeToString()
    _look(tmp_path, [[_example(1, 0) + note] * 2])
    path = f"{split_dir(str(tmp_path), 'train')}/graphs-00000-of-00001.gz"
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[:-20])

    with pytest.raises(ValueError, match=r"got others in graphs-00000-of-00001\.gz"):
        _reader(CLASSES).summarize(record_files(str(tmp_path), ("train",)))[0]


def test_split_without_examples_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold examples to train on; got none in split 'train'"):
        _look(tmp_path, [[]])


@pytest.mark.parametrize(
    ("task", "summary", "message"),
    [
        (
            CLASSES,
            LabelSummary(num_labels=4, num_counted=3, class_counts=(1, 1, 1)),
            r"must have labels in \[0, 3\) in split 'train'; got 1 others among 4",
        ),
        (
            LinkPrediction(),
            LabelSummary(num_labels=4, num_counted=4, class_counts=(0, 4)),
            "must have true and false pairs in split 'train'; got 4 and 0",
        ),
        (
            GraphRegression(label_feature="energy", num_outputs=2),
            LabelSummary(num_labels=4, num_counted=2, minimum=(1.0, math.inf), mean=(1.0, 0.0), std=(0.0, 0.0)),
            r"labels that are finite numbers in split 'train'; got none for outputs \[1\]",
        ),
    ],
    ids=["classes", "links", "numbers"],
)
def test_labels_that_cannot_be_learned_are_refused(task, summary, message):
    with pytest.raises(ValueError, match=message):
        check_train_labels({"": summary}, task.objective(), split="train")


def test_labels_that_can_be_learned_pass():
    known = LabelSummary(num_labels=3, num_counted=2, minimum=(1.0,), maximum=(2.0,), mean=(1.5,), std=(0.5,))

    check_train_labels({"": known}, NodeRegression(label_feature="z").objective(), split="train")


def test_a_feature_of_false_length_is_refused_though_it_is_no_label(tmp_path):
    feature = {"nodes/item.#size": _ints([1]), "nodes/item.x": _floats([1.0])}
    example = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    # Four bytes of floats, which say that they are 127.
    damaged = example.replace(b"\x0a\x04\x00\x00\x80\x3f", b"\x0a\x7f\x00\x00\x80\x3f")
    assert damaged != example

    with pytest.raises(ValueError, match=r"others in graphs-00000-of-00001.gz \(split 'train'\)"):
        _look(tmp_path, [[_example(1, 0), _example(1, 1) + damaged]])
