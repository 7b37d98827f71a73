"""Progress of a training: its steps, and one line per epoch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import tf_keras

from tfx_gnn.io.progress import StageProgress, progress, say


class TrainingProgress(tf_keras.callbacks.Callback):
    """Counts the steps of a training, with loss and metrics, and says one line per epoch, which stays.

    Args:
        num_epochs: epochs of the training.
        steps_per_epoch: an estimate; after each epoch the total follows from the actual number of batches.
        notes: lines to say first.
        is_quiet: whether to show nothing, so that only one of several processes reports.
        says_epochs: whether to say a line per epoch.
    """

    def __init__(
        self,
        *,
        num_epochs: int,
        steps_per_epoch: int,
        notes: Sequence[str] = (),
        is_quiet: bool = False,
        says_epochs: bool = True,
    ) -> None:
        super().__init__()
        self._num_epochs = num_epochs
        self._steps_per_epoch = steps_per_epoch
        self._notes = tuple(notes)
        self._is_quiet = is_quiet
        self._says_epochs = says_epochs
        self._stack = contextlib.ExitStack()
        self._stage: StageProgress | None = None
        self._epoch = 0
        self._steps = 0
        self._validation_figures = ""

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Says the notes."""
        logging.getLogger("tensorflow").addFilter(_is_worth_reading)
        for note in self._notes:
            self.say(note)

    def say(self, line: str) -> None:
        """Says a line."""
        if not self._is_quiet:
            say(line)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Counts steps from the start of the epoch."""
        self._epoch = epoch
        self._steps = 0

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts to count where a training begins or resumes."""
        if self._stage is None and not self._is_quiet:
            before = self._epoch * self._steps_per_epoch + batch
            total = self._num_epochs * self._steps_per_epoch
            self._stage = self._stack.enter_context(progress("training", total=total, unit="steps", done=before))
            self._steps = batch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Counts the steps up to this one."""
        if self._stage is not None:
            self._stage(batch + 1 - self._steps, note=lambda: self._note(logs or {}))
        self._steps = batch + 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Says the epoch's line, and expects as many batches of the epochs that remain."""
        logs = logs or {}
        self._validation_figures = _figures({name: value for name, value in logs.items() if name.startswith("val_")})
        if self._stage is not None:
            self._stage.total = self._stage.done + (self._num_epochs - epoch - 1) * self._steps
        if self._says_epochs:
            self.say(f"epoch {epoch + 1}/{self._num_epochs} {_figures(logs)}")

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the count."""
        self.close()

    def close(self) -> None:
        """Ends the count, also after an interruption; may be called twice."""
        self._stack.close()
        logging.getLogger("tensorflow").removeFilter(_is_worth_reading)

    def _note(self, logs: dict[str, Any]) -> str:
        figures = (f"epoch {self._epoch + 1}/{self._num_epochs}", _figures(logs), self._validation_figures)
        return " ".join(filter(None, figures))


def _is_worth_reading(record: logging.LogRecord) -> bool:
    """Filters out Keras' complaints that callbacks are slow, raised if a step takes less time than a line of output."""
    return not str(record.msg).startswith("Callback method")


def _figures(logs: dict[str, Any]) -> str:
    return " ".join(f"{name} {float(value):.4f}" for name, value in logs.items())
