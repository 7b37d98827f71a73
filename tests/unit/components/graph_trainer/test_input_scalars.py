"""What each epoch was trained on, in TensorBoard."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.training_run import InputScalars, learning_rate_of
from tfx_gnn.training.data.input_pipeline import EpochInput
from tfx_gnn.training.loop.training_loop import TrainingState


def _scalars(folder):
    found = {}
    for name in os.listdir(folder):
        for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, name)):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_input_of_each_epoch_is_shown(tmp_path):
    common = {"num_steps": 9, "num_batches": 9, "num_graphs": 90, "num_removed_batches": 1, "num_removed_graphs": 10}
    speed = {"graphs_per_second": 100.0, "input_bound_share": 0.25}
    state = TrainingState()
    scalars = InputScalars(state=state, logs_dir=str(tmp_path))
    weight = tf.Variable(0.0)
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    model.compile(tf_keras.optimizers.SGD(tf_keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.25])))
    scalars.set_model(model)

    for epoch, fill in enumerate([0.5, 0.75]):
        state.inputs.append(EpochInput(**common, **speed, graphs_per_batch=10.0 + epoch, fill=fill, removed_share=0.1))
        model.optimizer.apply_gradients([(tf.constant(0.0), weight)])
        scalars.on_epoch_end(epoch)
    scalars.on_train_end()

    assert _scalars(tmp_path / "input") == {
        "input/graphs_per_batch": {0: 10.0, 1: 11.0},
        "input/fill": {0: 0.5, 1: 0.75},
        "input/padded_share": {0: 0.5, 1: 0.25},
        "input/removed_share": {0: pytest.approx(0.1), 1: pytest.approx(0.1)},
        "train/graphs_per_second": {0: 100.0, 1: 100.0},
        "train/input_bound_share": {0: 0.25, 1: 0.25},
        "train/learning_rate": {0: 0.5, 1: 0.25},
    }


def test_the_learning_rate_is_known_where_an_optimizer_has_one():
    assert learning_rate_of(tf_keras.optimizers.Adam(0.5)) == 0.5
    assert learning_rate_of(object()) is None


def test_learning_rate_of_replicas_is_a_number():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        optimizer = tf_keras.optimizers.Adam(0.25)

    assert learning_rate_of(optimizer) == 0.25
