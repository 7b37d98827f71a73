from __future__ import annotations

import itertools
import os

import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.tensorboard_logs import (
    TensorBoardLogs,
    logged_hyperparameters,
    read_learning_rate,
)
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.data.input_pipeline import EpochInput
from tfx_gnn.training.loop.training_loop import TrainingState
from tfx_gnn.training.options import GraphTrainerOptions, OptimizationOptions

INPUT = EpochInput(
    num_steps=9,
    num_batches=9,
    num_graphs=90,
    num_removed_batches=1,
    num_removed_graphs=10,
    graphs_per_second=100.0,
    input_bound_share=0.25,
    graphs_per_batch=10.0,
    fill=0.75,
    removed_share=0.125,
)


def _options(**options):
    task = NodeClassification(label_feature="color", num_classes=2)
    return GraphTrainerOptions(model_fn="module:model_fn", task=task, **options)


def _events(folder):
    """Values by tag and step, in the order in which they were written.

    Neither the names of files, which have a counter without leading zeros, nor their first events, whose times are
    whole seconds, tell the files of one second apart.
    """
    files = [
        list(tf.compat.v1.train.summary_iterator(os.path.join(folder, name)))
        for name in os.listdir(folder)
        if os.path.isfile(os.path.join(folder, name))
    ]
    found = {}
    for event in itertools.chain.from_iterable(sorted(files, key=lambda events: events[-1].wall_time)):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, tf.make_ndarray(value.tensor)))
        if event.graph_def:
            found.setdefault("graph", []).append((event.step, event.graph_def))
    return found


def _train(folder, epochs, *, options, first=0, graphs=None):
    """Calls the callback as the training loop does."""
    state = TrainingState()
    state.position = state.position.__class__(epoch=first)
    state.inputs = [INPUT] * first
    score = tf_keras.layers.Dense(1, kernel_initializer="ones", name="score")
    model = tf_keras.Sequential([score], name="network")
    model.build([None, 3])
    model.compile(tf_keras.optimizers.SGD(0.5))
    best = BestWeights(patience=2)
    best.best, best.best_epoch = 0.125, 1

    def model_graph():
        graphs.append("traced")
        return tf.function(model).get_concrete_function(tf.TensorSpec([None, 3])).graph

    logs = TensorBoardLogs(logs_dir=str(folder), state=state, options=options, model_graph=model_graph, best=best)
    logs.set_model(model)
    logs.on_train_begin()
    for epoch in range(first, epochs):
        state.inputs.append(INPUT)
        state.position = state.position.after_epoch()
        logs.on_epoch_end(epoch, {"loss": 1.5 - epoch, "val_loss": 2.5 - epoch})
    return logs


def test_an_epoch_leaves_its_scalars_and_histograms_and_a_training_its_graph_once(tmp_path):
    graphs = []

    _train(tmp_path, 2, options=_options(histogram_every_epochs=2), graphs=graphs).on_train_end()

    train, validation, root = (_events(tmp_path / run) for run in ("train", "validation", ""))
    assert train.pop("score/kernel")[0][0] == 1
    (_, histogram), *others = train.pop("score/bias")
    assert others == []
    assert histogram[:, 2].sum() == 1.0
    assert train == {
        "epoch_loss": [(0, 1.5), (1, 0.5)],
        "input/graphs_per_batch": [(0, 10.0), (1, 10.0)],
        "input/fill": [(0, 0.75), (1, 0.75)],
        "input/padded_share": [(0, 0.25), (1, 0.25)],
        "input/removed_share": [(0, 0.125), (1, 0.125)],
        "train/graphs_per_second": [(0, 100.0), (1, 100.0)],
        "train/input_bound_share": [(0, 0.25), (1, 0.25)],
        "train/learning_rate": [(0, 0.5), (1, 0.5)],
        "train/best_epoch": [(0, 1.0), (1, 1.0)],
        "train/best_val_loss": [(0, 0.125), (1, 0.125)],
    }
    assert validation == {"epoch_loss": [(0, 2.5), (1, 1.5)]}
    ((step, graph),) = root["graph"]
    assert (step, graphs) == (0, ["traced"])
    assert "network/score/MatMul" in {node.name for node in tf.compat.v1.GraphDef.FromString(graph).node}


def test_a_resumed_training_writes_no_step_twice_and_no_graph_again(tmp_path):
    graphs = []
    _train(tmp_path, 3, options=_options(), graphs=graphs)
    (path,) = (tmp_path / "train").iterdir()
    with path.open("ab") as file:
        file.write(b"cut off by a kill")

    # The checkpoint of the third epoch was lost.
    _train(tmp_path, 4, first=2, options=_options(), graphs=graphs).on_train_end()

    train, root = _events(tmp_path / "train"), _events(tmp_path)
    assert [step for step, _ in train["epoch_loss"]] == [0, 1, 2, 3]
    assert [step for step, _ in train["score/kernel"]] == [0, 1, 2, 3]
    assert graphs == ["traced"]
    assert {tag: [step for step, _ in values] for tag, values in root.items()} == {
        "_hparams_/session_start_info": [0],
        "_hparams_/session_end_info": [4],
        "graph": [0],
    }


def test_a_training_that_starts_over_in_its_first_epoch_leaves_no_older_events(tmp_path):
    graphs = []
    _train(tmp_path, 1, options=_options(histogram_every_epochs=0), graphs=graphs)

    _train(tmp_path, 1, options=_options(histogram_every_epochs=0), graphs=graphs).on_train_end()

    assert [step for step, _ in _events(tmp_path / "train")["epoch_loss"]] == [0]
    assert "score/kernel" not in _events(tmp_path / "train")
    assert graphs == ["traced", "traced"]


def test_hyperparameters_of_the_model_come_before_options_of_that_name():
    options = _options(
        hyperparameters={"learning_rate": 0.5, "layers": [8, 4]}, optimization=OptimizationOptions(l2=0.25)
    )

    shown = logged_hyperparameters(options, tf_keras.optimizers.SGD(0.25))

    assert {name: shown[name] for name in ("learning_rate", "layers", "l2", "batching", "num_epochs")} == {
        "learning_rate": 0.5,
        "layers": [8, 4],
        "l2": 0.25,
        "batching": "packed",
        "num_epochs": 10,
    }


def test_what_is_left_to_the_network_is_not_shown_as_zero():
    optimizer = tf_keras.optimizers.SGD(0.25)

    shown = logged_hyperparameters(_options(), optimizer)
    falling = logged_hyperparameters(_options(optimization=OptimizationOptions(schedule="cosine")), optimizer)

    assert shown["learning_rate"] == 0.25
    assert "learning_rate" not in falling
    assert not {"optimizer", "batch_size"} & shown.keys()


def test_the_learning_rate_is_known_where_an_optimizer_has_one():
    assert read_learning_rate(tf_keras.optimizers.Adam(0.5)) == 0.5
    assert read_learning_rate(object()) is None


def test_learning_rate_of_replicas_is_a_number():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        optimizer = tf_keras.optimizers.Adam(0.25)

    assert read_learning_rate(optimizer) == 0.25
