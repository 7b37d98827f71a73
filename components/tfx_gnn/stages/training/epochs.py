"""Training over epochs that have different numbers of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

_Logs = dict[str, Any] | None


def fit_epochs(
    model: tf_keras.Model,
    train_data: tf.data.Dataset,
    *,
    validation_data: tf.data.Dataset,
    num_epochs: int,
    callbacks: Sequence[tf_keras.callbacks.Callback],
) -> tf_keras.callbacks.History:
    """Does what `Model.fit` does, and reads the training data to its end in each epoch.

    `Model.fit` expects as many batches of each epoch as the first one had: it leaves out what a later one
    has more, and gives up at one that has fewer. Packed batches, and those that fit-or-skip keeps, are
    not equally many in each epoch.

    Args:
        model: compiled model.
        train_data: batches of one epoch in each iteration.
        validation_data: batches to watch after each epoch.
        num_epochs: epochs to train, unless a callback sets `model.stop_training`.
        callbacks: told of one training of all epochs.

    Returns:
        Loss and metrics of each epoch.
    """
    history = tf_keras.callbacks.History()
    told = tf_keras.callbacks.CallbackList([*callbacks, history], model=model, verbose=0, epochs=num_epochs, steps=None)
    told.on_train_begin()
    for epoch in range(num_epochs):
        model.fit(
            train_data,
            validation_data=validation_data,
            initial_epoch=epoch,
            epochs=epoch + 1,
            callbacks=[_PassOn(told)],
            verbose=0,
        )
        if model.stop_training:
            break
    told.on_train_end()
    return history


class _PassOn(tf_keras.callbacks.Callback):
    """Tells others everything but the begin and the end of a training, which is one epoch only."""

    def __init__(self, told: tf_keras.callbacks.CallbackList) -> None:
        super().__init__()
        self._told = told
        self._steps = 0

    def on_train_begin(self, logs: _Logs = None) -> None:
        self._steps = int(self.model.optimizer.iterations)

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        self._told.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        # The step that finds no batch left changes nothing but the optimizer's count, by which learning rates go.
        iterations = self.model.optimizer.iterations
        if int(iterations) == self._steps + 1:
            iterations.assign(self._steps)
        self._told.on_epoch_end(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: _Logs = None) -> None:
        self._told.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        self._steps += 1
        self._told.on_train_batch_end(batch, logs)

    def on_test_begin(self, logs: _Logs = None) -> None:
        self._told.on_test_begin(logs)

    def on_test_end(self, logs: _Logs = None) -> None:
        self._told.on_test_end(logs)
