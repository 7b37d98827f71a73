"""What happens beside the training steps: stopping, and keeping the best weights."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt
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
