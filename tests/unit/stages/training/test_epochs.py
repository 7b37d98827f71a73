from __future__ import annotations

import itertools

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.stages.training.epochs import fit_epochs
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written


class _Notes(tf_keras.callbacks.Callback):
    """Notes what it is told, and stops after an epoch."""

    def __init__(self, *, stop_after=None):
        super().__init__()
        self.told = []
        self.stop_after = stop_after

    def on_train_begin(self, logs=None):
        self.told.append("begin")

    def on_train_end(self, logs=None):
        self.told.append("end")

    def on_epoch_begin(self, epoch, logs=None):
        self.told.append(f"epoch {epoch}")

    def on_train_batch_end(self, batch, logs=None):
        self.told.append(batch)

    def on_test_end(self, logs=None):
        self.told.append("test")

    def on_epoch_end(self, epoch, logs=None):
        assert set(logs) == {"loss", "val_loss"}
        self.model.stop_training = epoch == self.stop_after


@pytest.fixture
def model():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer=tf_keras.optimizers.SGD(0.1), loss="mse")
    return model


def _batches(*counts):
    """As many batches in each iteration; Keras makes iterators that it does not read, which must not count."""
    numbers = itertools.chain(counts)

    def one_pass():
        for _ in range(next(numbers)):
            yield [[1.0]], [[1.0]]

    spec = tf.TensorSpec([1, 1])
    return tf.data.Dataset.from_generator(one_pass, output_signature=(spec, spec))


def _fit(model, callback, counts=(3, 2, 5, 1)):
    validation = tf.data.Dataset.from_tensors(([[1.0]], [[1.0]]))
    with libraries_traced_as_written():
        return fit_epochs(
            model, _batches(*counts), validation_data=validation, num_epochs=len(counts), callbacks=[callback]
        )


def test_each_epoch_is_read_to_its_end_however_many_batches_it_has(model):
    notes = _Notes()

    history = _fit(model, notes)

    epochs = [
        ["epoch 0", 0, 1, 2, "test"],
        ["epoch 1", 0, 1, "test"],
        ["epoch 2", 0, 1, 2, 3, 4, "test"],
        ["epoch 3", 0, "test"],
    ]
    assert notes.told == ["begin", *itertools.chain(*epochs), "end"]
    assert int(model.optimizer.iterations) == 11
    assert history.epoch == [0, 1, 2, 3]
    # Both the weight and the bias go 0.2 of the way to 1 - weight - bias: what is missing falls to 0.6 in each step.
    assert history.history["val_loss"] == pytest.approx([0.36**3, 0.36**5, 0.36**10, 0.36**11], rel=1e-4)


def test_a_callback_can_stop_the_training(model):
    notes = _Notes(stop_after=1)

    history = _fit(model, notes)

    assert history.epoch == [0, 1]
    assert notes.told[-2:] == ["test", "end"]
