from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.stages.training.callbacks import BestWeights, InputFigures, KeepCheckpoints, RefuseNonFiniteLoss
from tfx_gnn.stages.training.input_tally import EpochInput


class _SetWeights(tf_keras.callbacks.Callback):
    """Sets the only weight before each validation; the loss is its square."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def on_test_begin(self, logs=None):
        self.model.set_weights([np.array([[self.values.pop(0)]], np.float32)])


def _fit(values, callback, epochs=None, **compile_options):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, use_bias=False)])
    model.compile(**{"optimizer": tf_keras.optimizers.SGD(0.0), "loss": "mse", **compile_options})
    x, y = np.ones([2, 1], np.float32), np.zeros([2, 1], np.float32)
    history = model.fit(
        x, y, validation_data=(x, y), epochs=epochs or len(values), verbose=0, callbacks=[_SetWeights(values), callback]
    )
    return model, len(history.epoch)


def test_training_stops_after_patience_and_best_weights_come_back():
    best = BestWeights(patience=2)

    model, epochs = _fit([3.0, 1.0, 2.0, 1.5, 0.5], best)

    assert epochs == 4
    assert best.stopped_early
    assert best.best_epoch == 2
    assert model.get_weights()[0].item() == 1.0


def test_best_weights_come_back_without_an_early_stop():
    best = BestWeights(patience=5)

    model, epochs = _fit([3.0, 1.0, 2.0], best)

    assert epochs == 3
    assert not best.stopped_early
    assert model.get_weights()[0].item() == 1.0


def test_equal_loss_is_no_gain():
    best = BestWeights(patience=1)

    _, epochs = _fit([1.0, 1.0, 0.5], best)

    assert epochs == 2


def test_loss_that_is_not_finite_ends_training():
    with pytest.raises(ValueError, match="whose loss stays finite; got nan in epoch 1, batch 1"):
        _fit([1.0], RefuseNonFiniteLoss(), loss=lambda _, p: tf.reduce_mean(p) * float("nan"))


def test_last_checkpoints_are_kept_and_can_be_restored(tmp_path):
    model, _ = _fit([3.0, 1.0, 2.0], KeepCheckpoints(folder=str(tmp_path)))

    kept = sorted(name.removesuffix(".index") for name in os.listdir(tmp_path) if name.endswith(".index"))
    assert kept == ["epoch-2", "epoch-3"]
    model.set_weights([np.array([[9.0]], np.float32)])
    tf.train.Checkpoint(model=model).restore(str(tmp_path / "epoch-2")).expect_partial()
    assert model.get_weights()[0].item() == 1.0


class _Counted:
    """A tally that has counted this in each epoch, after something that was no epoch."""

    def __init__(self, epochs):
        self.counts = [count for epoch in epochs for count in ("before", epoch)]

    def take(self):
        return self.counts.pop(0)


def _scalars(folder):
    found = {}
    for name in os.listdir(folder):
        for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, name)):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_input_of_each_epoch_is_kept_and_shown(tmp_path):
    common = {"num_steps": 9, "num_graphs": 90, "num_removed_batches": 1, "num_removed_graphs": 10}
    epochs = [
        EpochInput(**common, graphs_per_batch=10.0, fill=0.5, removed_share=0.125),
        EpochInput(**common, graphs_per_batch=11.0, fill=0.75, removed_share=0.0),
    ]
    figures = InputFigures(tally=_Counted(epochs), logs_dir=str(tmp_path))

    _fit([1.0, 1.0], figures)

    assert figures.epochs == epochs
    assert _scalars(tmp_path / "input") == {
        "input/graphs_per_batch": {0: 10.0, 1: 11.0},
        "input/fill": {0: 0.5, 1: 0.75},
        "input/removed_share": {0: 0.125, 1: 0.0},
    }
