from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.output_folders import OutputFolders
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.graph.schema.schema_io import read_schema, write_schema
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import graph_schema_path, read_split
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.verification import verify_saved_model
from tfx_gnn.training import (
    NonfiniteError,
    PrecomputedBatchesOptions,
    TrainingPreemptedError,
    read_manifest,
    read_nonfinite_batch,
    write_precomputed_batches,
)
from tfx_gnn.training.checkpoints.checkpoints import locked_checkpoints
from tfx_gnn.training.checkpoints.preemption import StopSignal


@pytest.fixture(scope="module")
def serving_model(trained):
    return ServingModel(trained.saved_model_dir)


def _records(prepared, split="test"):
    return [bytes(record) for record in read_split(prepared.examples_dir, split).as_numpy_iterator()]


def _colors(records):
    return [
        tf.train.Example.FromString(record).features.feature["nodes/_readout.color"].bytes_list.value[0].decode()
        for record in records
    ]


def test_model_learns_what_the_neighbours_say(serving_model, prepared):
    records = _records(prepared)

    predictions = list(serving_model.classify(records))

    assert [prediction.label for prediction in predictions] == _colors(records)
    assert [prediction.id for prediction in predictions] == [f"test0.{i}-0" for i in range(10)]
    assert all(0.5 < prediction.score <= 1.0 for prediction in predictions)


def test_exported_model_stands_the_test_from_outside(trained, prepared):
    report = verify_saved_model(trained.saved_model_dir, _records(prepared)[:3], concurrent_seconds=0.5)

    assert report.outputs == ("id", "label", "logits", "probabilities", "score")


def test_outputs_have_one_row_an_example(serving_model, prepared):
    outputs = serving_model(tf.constant(_records(prepared)[:7]))

    assert {name: (value.dtype, value.shape.as_list()) for name, value in outputs.items()} == {
        "logits": (tf.float32, [7, 2]),
        "probabilities": (tf.float32, [7, 2]),
        "label": (tf.string, [7]),
        "score": (tf.float32, [7]),
        "id": (tf.string, [7]),
    }
    np.testing.assert_allclose(outputs["probabilities"], tf.nn.softmax(outputs["logits"]), rtol=1e-6)


def test_served_logits_are_those_of_training_batches(trained, serving_model, prepared):
    # The same weights on the same examples, once raw through the export, once transformed and padded as in training.
    x_weight, x_bias = _exported_weights(trained.saved_model_dir)
    mean = {}
    for record in read_split(prepared.transformed_examples_dir, "test").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        ids = feature["nodes/item.#id"].bytes_list.value
        mean[ids[0]] = np.mean(feature["nodes/item.x"].float_list.value[1:])

    outputs = serving_model(tf.constant(_records(prepared)))

    expected = np.array([[mean[seed]] for seed in outputs["id"].numpy()]) @ x_weight + x_bias
    np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-4, atol=1e-5)


def _exported_weights(saved_model_dir):
    variables = {tuple(v.shape): v.numpy() for v in tf.saved_model.load(saved_model_dir)._variables if v.shape.rank}
    return variables[1, 2], variables[2,]


def _trained_weights(folder):
    """Those of the run, which are there without an export, too."""
    reader = tf.train.load_checkpoint(str(folder / "run" / "checkpoints" / "exported"))
    found = {tuple(shape): reader.get_tensor(name) for name, shape in reader.get_variable_to_shape_map().items()
             if "_dense" in name and "OPTIMIZER" not in name}  # fmt: skip
    return found[1, 2], found[2,]


def _with(record, key, *values):
    example = tf.train.Example.FromString(record)
    example.features.feature[key].CopyFrom(tf.train.Feature(int64_list=tf.train.Int64List(value=values)))
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: b"\x0agarbage", "cannot be parsed as one"),
        (lambda _: b"", r"must have edge set '_readout/seed'; got example 1 with the edge sets \[\]"),
        (lambda record: _with(record, "nodes/_readout.#size", 0), r"edges/_readout/seed\.#target"),
        (
            lambda record: _with(
                _with(_with(_with(record, "nodes/_readout.#size", 2), "edges/_readout/seed.#size", 2),
                      "edges/_readout/seed.#source", 0, 1),
                "edges/_readout/seed.#target", 0, 1,
            ),
            "exactly one node in node set `_readout`",
        ),
        (lambda record: _with(record, "edges/_readout/seed.#source", 99), r"edges/_readout/seed\.#source"),
    ],
    ids=["garbage", "empty", "no readout", "two readouts", "seed out of range"],
)  # fmt: skip
def test_request_that_cannot_be_answered_is_refused(serving_model, prepared, change, message):
    good, bad = _records(prepared)[:2]

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        serving_model(tf.constant([good, change(bad)]))


def test_summary_tells_what_was_done(trained):
    summary = trained.summary
    written = json.loads((trained.folder / "run" / "training_summary.json").read_text())

    assert written == json.loads(json.dumps(dataclasses.asdict(summary)))
    assert (summary.num_train_examples, summary.num_eval_examples, summary.num_classes) == (40, 11, 2)
    assert summary.num_parameters == 1 * 2 + 2
    assert (summary.batching, summary.budget["batch_size"], summary.budget["kind"]) == ("packed", 8, "packing")
    assert (summary.eval_budget["batch_size"], summary.eval_budget["kind"]) == (8, "tight")
    assert summary.num_steps == sum(epoch.num_steps for epoch in summary.epoch_inputs)
    assert [epoch.num_graphs for epoch in summary.epoch_inputs] == [40] * 8
    assert {epoch.removed_share for epoch in summary.epoch_inputs} == {0.0}
    assert len(summary.epochs) == 8
    assert set(summary.epochs[0]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert summary.epochs[-1]["loss"] < summary.epochs[0]["loss"]
    assert summary.epochs[-1]["val_accuracy"] == 1.0
    assert (summary.exported_epoch, summary.stopped_early) == (8, False)


@pytest.mark.parametrize(
    ("batching", "options"),
    [("fit_or_skip", {"num_epochs": 3}), ("tight", {"num_epochs": 40, "early_stopping_patience": 1})],
)
def test_graphs_are_trained_on_or_counted_as_removed(prepared, tmp_path, batching, options):
    summary = prepared.train(tmp_path, batching=batching, **options)

    for epoch in summary.epoch_inputs:
        # 40 examples are five batches of eight.
        assert epoch.num_steps == epoch.num_batches
        assert epoch.num_batches + epoch.num_removed_batches == 5
        assert epoch.num_graphs + epoch.num_removed_graphs == 40
        assert epoch.removed_share == epoch.num_removed_graphs / 40
        assert 0.3 < epoch.fill < 1.0
    assert summary.num_steps == sum(epoch.num_steps for epoch in summary.epoch_inputs)
    assert (summary.batching, summary.budget["kind"]) == (batching, batching)
    assert all(0.0 <= epoch["val_accuracy"] <= 1.0 for epoch in summary.epochs)
    losses = [epoch["val_loss"] for epoch in summary.epochs]
    best = int(np.argmin(losses)) + 1 if "early_stopping_patience" in options else len(losses)
    assert (summary.exported_epoch, summary.stopped_early) == (best, len(losses) < options["num_epochs"])


@pytest.fixture(scope="module")
def precomputed_batches(prepared, tmp_path_factory):
    """Three stored epochs."""
    folder = str(tmp_path_factory.mktemp("ready") / "batches")
    write_precomputed_batches(
        transformed_examples_dir=prepared.transformed_examples_dir,
        transformed_graph_schema_dir=prepared.transformed_graph_schema_dir,
        size_constraints_dir=prepared.size_constraints_dir,
        precomputed_batches_dir=folder,
        options=PrecomputedBatchesOptions(num_epochs=3),
    )
    return folder


def test_precomputed_batches_are_trained_on_epoch_by_epoch(prepared, precomputed_batches, tmp_path):
    summary = prepared.train(tmp_path, precomputed_batches_dir=precomputed_batches, num_epochs=4)

    stored = [epoch.num_batches for epoch in read_manifest(precomputed_batches).epochs]
    assert [epoch.num_steps for epoch in summary.epoch_inputs] == [*stored, stored[0]]
    assert [epoch.num_graphs for epoch in summary.epoch_inputs] == [40] * 4
    assert summary.epochs[-1]["loss"] < summary.epochs[0]["loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batching": "tight"}, "`precomputed_batches_dir` must hold batches of the same budget; got"),
        ({"train_split": "test"}, "must hold batches of the training split 'test'; got those of 'train'"),
    ],
)
def test_precomputed_batches_that_do_not_fit_are_refused(prepared, precomputed_batches, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        prepared.train(tmp_path, precomputed_batches_dir=precomputed_batches, **options)

    assert os.listdir(tmp_path) == []


def test_validation_loss_is_the_mean_over_all_examples(trained, serving_model, prepared):
    # 11 examples in batches of eight and three: each counts once, padding does not.
    records = _records(prepared, "val")

    outputs = serving_model(tf.constant(records))

    is_true = outputs["label"].numpy() == np.array([color.encode() for color in _colors(records)])
    probabilities = np.where(is_true, outputs["score"], 1.0 - outputs["score"])
    last = trained.summary.epochs[-1]
    assert last["val_loss"] == pytest.approx(-np.log(probabilities).mean(), rel=1e-4)
    assert last["val_accuracy"] == pytest.approx(is_true.mean())


def test_run_folder_holds_logs_and_checkpoints(trained):
    run = trained.folder / "run"

    assert {path.parent.name for path in run.rglob("events.out.tfevents.*")} == {"logs", "train", "validation"}
    for saved, exported in zip(
        _trained_weights(trained.folder), _exported_weights(trained.saved_model_dir), strict=True
    ):
        np.testing.assert_array_equal(saved, exported)


def test_model_folder_holds_nothing_but_the_model(trained):
    assert os.listdir(trained.folder / "model") == ["Format-Serving"]
    assert sorted(os.listdir(trained.folder)) == ["model", "run"]


ENDED = {
    "num_epochs": 2,
    "batching": "tight",
    "examples_per_class": 3,
    "training_seed": 5,
    "deterministic": True,
    "strategy": "multi_worker_mirrored",
}


@pytest.fixture(scope="module")
def ended(prepared, tmp_path_factory):
    """Two trainings of one seed that have ended: checkpoints in a folder of their own, and beside the run.

    The second one was interrupted when its model had been renamed and its run had not.
    """
    first, second = tmp_path_factory.mktemp("ended"), tmp_path_factory.mktemp("interrupted")
    # What the process has drawn before does not matter.
    tf_keras.utils.set_random_seed(100)
    options = {**ENDED, "checkpoint_dir": str(first / "checkpoints")}
    # This one exports, as does a strategy of many replicas: from a twin of the model.
    runs = [(first, options, prepared.train(first, exporters=Exporters(), **options))]
    tf_keras.utils.set_random_seed(101)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", _interrupted_at_target(str(second / "run"), os.rename))
        with pytest.raises(KeyboardInterrupt):
            prepared.train(second, **ENDED)
    assert not (second / "run").exists()
    written = (second / "model" / "Format-Serving").stat().st_mtime_ns
    runs.append((second, ENDED, prepared.train(second, **ENDED)))
    assert (second / "model" / "Format-Serving").stat().st_mtime_ns == written
    return runs


def _interrupted_at_target(place, rename):
    """`os.rename` that is interrupted before it makes this folder."""

    def rename_or_raise(source, target):
        if target == place:
            raise KeyboardInterrupt
        rename(source, target)

    return rename_or_raise


def test_same_seed_gives_the_same_weights(ended):
    (first, *_), (second, *_) = ended

    exported = _exported_weights(str(first / "model" / "Format-Serving"))
    for ours, expected in zip(exported, _trained_weights(second), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_another_seed_gives_other_weights(prepared, tmp_path):
    found = []

    class Stop:
        """Takes the weights that training begins with."""

        def __init__(self, *, model, **_):
            found.append(model.get_weights()[0])

        def save(self, _):
            raise KeyboardInterrupt

    for seed in (5, 6):
        tf_keras.utils.set_random_seed(100)
        with pytest.raises(KeyboardInterrupt):
            prepared.train(tmp_path, exporters=Exporters(served_model=Stop), training_seed=seed, batching="tight")

    assert not np.allclose(*found, atol=1e-3)


def test_few_examples_of_each_class_are_trained_on_in_every_epoch(ended):
    for _, _, summary in ended:
        assert [epoch.num_graphs for epoch in summary.epoch_inputs] == [6, 6]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model_fn": "colored_items:no_model_fn"}, TypeError, "must return a tf_keras.Model; got <class 'str'>"),
        (
            {"model_fn": "colored_items:three_class_model_fn"},
            ValueError,
            r"one output of shape \[num_readouts, num_classes\], \[rows, 2\] for this batch; got shape \[9, 3\]",
        ),
        (
            {"model_fn": "colored_items:table_model_fn", "exporters": Exporters()},
            ValueError,
            "a model of variables and operations only",
        ),
        (
            {"task": NodeClassification(label_feature="size", class_vocabulary="color")},
            ValueError,
            r"must name a label of node set '_readout'; got 'size', but found \['color'\]",
        ),
        (
            {"task": NodeClassification(label_feature="color", class_vocabulary="colour")},
            ValueError,
            "`task` must name the vocabulary of the classes; got class_vocabulary='colour'",
        ),
        ({"batch_size": 5}, ValueError, "packing with batch_size=5; got .*packing_8"),
        ({"batching": "fit_or_skip", "success_ratio": 0.5}, ValueError,
         "must hold the budget that is asked for, fit_or_skip with success_ratio=0.5 with batch_size=8; got"),
        ({"early_stopping_patience": 1, "monitor": "auc"}, ValueError, r"\['val_accuracy', 'val_loss'\]; got 'val_"),
        ({"train_split": "a"}, ValueError, r"`train_split` must be one of \['test', 'train', 'val'\]; got 'a'"),
        ({"eval_split": "a"}, ValueError, r"`eval_split` must be one of \['test', 'train', 'val'\]; got 'a'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_leaves_nothing(prepared, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        prepared.train(tmp_path, **options)

    # What a training could go on from, or the batch that spoilt it, is all that may stay.
    assert not [name for name in os.listdir(tmp_path) if not name.startswith(".checkpoints-")]


def test_budgets_of_other_data_are_refused(prepared, examples_dir, tmp_path):
    shutil.copytree(prepared.transformed_examples_dir, tmp_path / "copy")
    extra = next(iter(read_split(prepared.transformed_examples_dir, "train").as_numpy_iterator()))
    with tf.io.TFRecordWriter(str(tmp_path / "copy" / "Split-train" / "graphs-extra.gz"), options="GZIP") as writer:
        writer.write(extra)

    with pytest.raises(ValueError, match="`size_constraints_dir` must hold budgets learned from the same examples"):
        prepared.train(tmp_path, transformed_examples_dir=str(tmp_path / "copy"))


def test_budgets_that_miss_a_split_are_refused(prepared, tmp_path):
    prepared.learn_sizes(str(tmp_path / "sizes"), splits=("train",))

    with pytest.raises(ValueError, match=r"learned from every split that is read; got \['train'\], not \['val'\]"):
        prepared.train(tmp_path, size_constraints_dir=str(tmp_path / "sizes"))


def test_string_features_are_refused(prepared, tmp_path):
    schema = read_schema(graph_schema_path(prepared.transformed_graph_schema_dir))
    schema.node_sets["item"].features["kind"].dtype = tf.string.as_datatype_enum
    write_schema(schema, graph_schema_path(str(tmp_path)))

    with pytest.raises(ValueError, match=r"must turn every feature into numbers; got strings in \['nodes/item.kind'\]"):
        prepared.train(tmp_path, transformed_graph_schema_dir=str(tmp_path))


def test_loss_that_is_not_finite_ends_training_and_its_batch_is_kept(prepared, tmp_path):
    message = r"finite; got .* in epoch 1, step 1 .*weight after the step.*train"
    with pytest.raises(NonfiniteError, match=message) as error:
        prepared.train(tmp_path, model_fn="colored_items:diverging_model_fn", batching="tight", shuffle_buffer_size=1)

    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "model").exists()
    kept = read_nonfinite_batch(error.value.folder)
    assert kept.cause.position.global_step == 1
    assert kept.cause.found_again
    ((graph, labels, weights),) = kept.replicas
    (seeds,) = (ids["_readout/seed"] for ids in kept.cause.example_ids)
    assert set(seeds) <= {f"train{shard}.{i}-0" for shard, size in ((0, 21), (1, 19)) for i in range(size)}
    assert np.count_nonzero(weights) == len(seeds)
    assert labels.shape == weights.shape
    assert graph.node_sets["item"]["x"].shape.rank == 1


# With patience the best weights are part of the state; without, tests/e2e/test_training_faults.py goes on.
STOPPED = {
    "num_epochs": 3,
    "checkpoint_every_steps": 2,
    "early_stopping_patience": 3,
    "monitor": "accuracy",
    "batching": "tight",
    "class_sampling": "balanced",
}


@pytest.fixture(scope="module")
def stopped(prepared, tmp_path_factory):
    """Folder of a training that was asked to stop in its second epoch, and a copy of its checkpoints."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(StopSignal, "is_made", lambda _, position: position.global_step == 7)
        with pytest.raises(TrainingPreemptedError, match="after step 7"):
            prepared.train(folder / "ended", **STOPPED)
    (checkpoints,) = (path for path in (folder / "ended").iterdir() if path.is_dir())
    shutil.copytree(checkpoints, folder / "copy")
    return folder / "ended", folder / "copy"


def test_training_that_is_ended_again_and_again_comes_to_the_same_weights(
    prepared, stopped, tmp_path, monkeypatch, logged
):
    ended, _ = stopped
    whole = prepared.train(tmp_path / "whole", **STOPPED)
    assert not (ended / "run").exists()
    with pytest.raises(ValueError, match="`num_epochs` must be at least 2, as many as"):
        prepared.train(ended, **{**STOPPED, "num_epochs": 1})
    with monkeypatch.context() as patched:
        patched.setattr(tf.train.Checkpoint, "write", _interrupted_at("exported", tf.train.Checkpoint.write))
        with pytest.raises(KeyboardInterrupt):
            prepared.train(ended, **STOPPED)
    assert [name for name in os.listdir(ended) if not name.startswith(".checkpoints-")] == []

    resumed = prepared.train(ended, **STOPPED)

    assert resumed.epochs == whole.epochs
    assert [it.num_graphs for it in resumed.epoch_inputs] == [it.num_graphs for it in whole.epoch_inputs] != [40] * 3
    assert (resumed.num_steps, resumed.exported_epoch) == (whole.num_steps, whole.exported_epoch)
    for ours, expected in zip(_trained_weights(tmp_path / "whole"), _trained_weights(ended), strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert sorted(os.listdir(ended)) == ["model", "run"]
    logs = {name: logged(place / "run" / "logs") for name, place in (("whole", tmp_path / "whole"), ("ended", ended))}
    assert logs["ended"] == logs["whole"]
    assert logs["ended"]["validation", "epoch_loss"] == [0, 1, 2]
    assert logs["ended"]["train", "train/best_val_accuracy"] == [0, 1, 2]
    assert logs["ended"]["train", "neighbor_mean/dense/kernel"] == [0, 1, 2]
    assert logs["ended"]["logs", "_hparams_/session_start_info"] == [0]
    assert logs["ended"]["logs", "_hparams_/session_end_info"] == [3]


def _interrupted_at(name, write):
    """`Checkpoint.write` that is interrupted at a file of this name."""

    def write_or_raise(checkpoint, path, **options):
        if os.path.basename(path) == name:
            raise KeyboardInterrupt
        return write(checkpoint, path, **options)

    return write_or_raise


@pytest.mark.parametrize("number", [0, 1], ids=["checkpoints", "no checkpoints"])
def test_training_that_has_ended_is_not_repeated_by_a_restart(prepared, ended, capfd, number):
    folder, options, first = ended[number]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    capfd.readouterr()

    second = prepared.train(folder, **options)

    said = f"This training has ended: its model is in '{folder}/model'. Nothing is left to do.\n"
    assert capfd.readouterr().err.endswith(said)
    assert json.dumps(dataclasses.asdict(second)) == json.dumps(dataclasses.asdict(first))
    assert sorted(os.listdir(folder)) == ["model", "run"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    with pytest.raises(FileExistsError, match=r"since which there changed: options\.num_epochs '2' -> '3'\. Name"):
        prepared.train(folder, **{**options, "num_epochs": 3})


def test_worker_that_comes_after_the_end_waits_for_nobody(prepared, ended, monkeypatch):
    folder, options, first = ended[1]
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))

    late = prepared.train(folder, **options)

    assert json.dumps(dataclasses.asdict(late)) == json.dumps(dataclasses.asdict(first))


def test_training_that_was_ended_between_two_renamings_is_completed(ended):
    _, (folder, _, summary) = ended

    assert len(summary.epochs) == 2
    assert sorted(os.listdir(folder)) == ["model", "run"]


def test_second_training_of_the_same_outputs_or_checkpoints_is_refused(prepared, tmp_path):
    mine = f"process {os.getpid()} on {socket.gethostname()} since"
    checkpoints = str(tmp_path / "checkpoints")

    with (
        OutputFolders(str(tmp_path / "other_model"), str(tmp_path / "run"), is_chief=True),
        pytest.raises(BlockingIOError, match=f"`model_run_dir` must be written by one process .* {mine}"),
    ):
        prepared.train(tmp_path)
    with (
        locked_checkpoints(checkpoints),
        pytest.raises(BlockingIOError, match=f"`checkpoint_dir` must be used by one training .* {mine}"),
    ):
        prepared.train(tmp_path, checkpoint_dir=checkpoints)

    assert os.listdir(tmp_path) == []


def test_checkpoints_of_another_training_are_refused(prepared, stopped, tmp_path):
    _, checkpoints = stopped

    with pytest.raises(ValueError, match=r"what differs: options\.training_seed '0' -> '1'\. Remove"):
        prepared.train(tmp_path / "b", checkpoint_dir=str(checkpoints), **STOPPED, training_seed=1)
