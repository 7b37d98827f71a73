"""Progress of a training: its steps, one line per epoch, and input statistics for TensorBoard."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.io.progress import StageProgress, progress, say, shown_live
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.loop.training_loop import TrainingState


class TrainingProgress(tf_keras.callbacks.Callback):
    """Counts the steps of a training, with loss and metrics, and says one line per epoch unless a bar shows them.

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
        if self._says_epochs and not shown_live():
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


class InputScalars(tf_keras.callbacks.Callback):
    """Writes input statistics of each epoch for TensorBoard.

    The scalars are `input/graphs_per_batch`, `input/fill`, `input/padded_share`, `input/removed_share`,
    `train/graphs_per_second`, `train/input_bound_share` and `train/learning_rate`, that of the last step. Their
    step is the epoch. With early stopping, `train/best_epoch` is the best epoch so far, from 1, and
    `train/best_<monitor>` its value, such as `train/best_val_loss`.

    The scalars go to the folder `input` of `logs_dir`, as a separate run, because TensorBoard reads one file of a run
    at a time.
    """

    def __init__(self, *, state: TrainingState, logs_dir: str, best: BestWeights | None = None) -> None:
        super().__init__()
        self._state = state
        self._best = best
        self._writer = tf.summary.create_file_writer(os.path.join(logs_dir, "input"))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the epoch's scalars."""
        figures = self._state.inputs[epoch]
        with self._writer.as_default(step=epoch):
            tf.summary.scalar("input/graphs_per_batch", figures.graphs_per_batch)
            tf.summary.scalar("input/fill", figures.fill)
            tf.summary.scalar("input/padded_share", 1.0 - figures.fill)
            tf.summary.scalar("input/removed_share", figures.removed_share)
            tf.summary.scalar("train/graphs_per_second", figures.graphs_per_second)
            tf.summary.scalar("train/input_bound_share", figures.input_bound_share)
            rate = read_learning_rate(self.model.optimizer)
            if rate is not None:
                tf.summary.scalar("train/learning_rate", rate)
            if self._best is not None:
                tf.summary.scalar("train/best_epoch", self._best.best_epoch)
                tf.summary.scalar(f"train/best_{self._best.monitor}", self._best.best)
        self._writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the file."""
        self._writer.close()


def read_learning_rate(optimizer: tf_keras.optimizers.Optimizer) -> float | None:
    """Returns an optimizer's current learning rate; None if it has none, or several."""
    rate: Any = getattr(optimizer, "learning_rate", None)
    if callable(rate):
        rate = rate(optimizer.iterations)
    # Converted to a tensor first: variables kept on several replicas do not convert to a number.
    return None if rate is None else float(tf.convert_to_tensor(rate))


def _is_worth_reading(record: logging.LogRecord) -> bool:
    """Filters out Keras' complaints that callbacks are slow, raised if a step takes less time than a line of output."""
    return not str(record.msg).startswith("Callback method")


def _figures(logs: dict[str, Any]) -> str:
    return " ".join(f"{name} {float(value):.4f}" for name, value in logs.items())
