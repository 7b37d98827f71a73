"""What happens beside the training steps: stopping, keeping the best weights, refusing NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.stages.training.resumable_state import State


class BestWeights(tf_keras.callbacks.Callback):
    """Stops when the validation loss no longer falls, and brings back the weights of its minimum.

    Args:
        patience: epochs without a lower validation loss before training stops, at
            least 1. The best weights come back at the end, whether it stopped or not.
    """

    MONITOR = "val_loss"

    def __init__(self, *, patience: int) -> None:
        super().__init__()
        self.best_epoch = 0
        self.stopped_early = False
        self._patience = patience
        self._best = math.inf
        self._weights: list[npt.NDArray[Any]] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Ends a training at once that was taken up after it had stopped early."""
        self.model.stop_training = self.stopped_early

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Compares the epoch with the best one."""
        value = float((logs or {})[self.MONITOR])
        if value < self._best:
            self._best, self.best_epoch, self._weights = value, epoch + 1, self.model.get_weights()
        elif epoch + 1 - self.best_epoch >= self._patience:
            self.stopped_early = True
            self.model.stop_training = True

    def state(self) -> State:
        """Returns what a training goes on with."""
        weights = {f"weight_{index}": weight for index, weight in enumerate(self._weights)}
        return {"best": self._best, "best_epoch": self.best_epoch, "stopped_early": self.stopped_early, **weights}

    def restore(self, state: State) -> None:
        """Takes up where `state` was called."""
        self._best, self.best_epoch, self.stopped_early = state["best"], state["best_epoch"], state["stopped_early"]
        self._weights = [state[f"weight_{index}"] for index in range(len(state) - 3)]

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Brings the best weights back."""
        if self._weights:
            self.model.set_weights(self._weights)


class RefuseNonFiniteLoss(tf_keras.callbacks.Callback):
    """Ends training with an error as soon as the loss is NaN or infinite: such a model is worth nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Notes the epoch, for the message."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Looks at the mean loss of the epoch so far, which one bad batch spoils."""
        loss = (logs or {}).get("loss", 0.0)
        if not np.isfinite(loss):
            raise ValueError(
                f"`model_fn` must give a model whose loss stays finite; got {loss} in epoch {self._epoch + 1}, batch "
                f"{batch + 1}. Lower the learning rate, clip gradients, or look for unbounded features."
            )


class KeepCheckpoints(tf_keras.callbacks.Callback):
    """Saves the weights and the optimizer's state after each epoch; the last few are kept.

    Args:
        folder: where to save, as `tf.train.Checkpoint(model=...)`.
        max_to_keep: how many to keep.
    """

    def __init__(self, *, folder: str, max_to_keep: int = 2) -> None:
        super().__init__()
        self._folder = folder
        self._max_to_keep = max_to_keep
        self._manager: tf.train.CheckpointManager | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Makes the folder."""
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=self.model), self._folder, self._max_to_keep, checkpoint_name="epoch"
        )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves the epoch."""
        assert self._manager is not None
        self._manager.save(checkpoint_number=epoch + 1)
