"""Progress of a training: a bar on a terminal or else one line per epoch, and input statistics for TensorBoard."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.loop.training_loop import TrainingState


def say(line: str) -> None:
    """Shows a line on stderr while no progress bar is active."""
    PlainConsole(stderr=True).print(line, soft_wrap=True)


class TrainingProgress(tf_keras.callbacks.Callback):
    """Shows epoch, loss and metrics on stderr instead of Keras' own output.

    `steps_per_epoch` is an estimate: after each epoch the bar uses the actual number of batches. With
    `is_quiet` nothing is shown, so that only one of several processes reports.
    """

    def __init__(
        self,
        *,
        num_epochs: int,
        steps_per_epoch: int,
        notes: Sequence[str] = (),
        is_quiet: bool = False,
        console: Console | None = None,
    ) -> None:
        super().__init__()
        self._num_epochs = num_epochs
        self._steps_per_epoch = steps_per_epoch
        self._notes = tuple(notes)
        self._console = console or PlainConsole(stderr=True, quiet=is_quiet)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=self._console,
            disable=is_quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._epoch = 0
        self._steps_before = 0
        self._steps = 0
        self._validation_figures = ""

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Starts the bar."""
        logging.getLogger("tensorflow").addFilter(_is_worth_reading)
        for note in self._notes:
            self._console.print(note, markup=False, soft_wrap=True)
        self._task = self._progress.add_task(
            "Training", total=self._num_epochs * self._steps_per_epoch, figures="", start=True
        )
        self._progress.start()

    def say(self, line: str) -> None:
        """Shows a line, above the bar."""
        self._console.print(line, markup=False, soft_wrap=True)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Moves the bar by one batch."""
        self._steps = batch + 1
        if self._task is not None and not self._progress.disable:
            figures = " ".join(filter(None, (_figures(logs or {}), self._validation_figures)))
            self._progress.update(
                self._task,
                completed=self._steps_before + self._steps,
                description=f"Epoch {self._epoch + 1}/{self._num_epochs}",
                figures=figures,
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Prints the epoch's line if there is no bar, else sets the bar's length from the actual number of batches."""
        self._epoch = epoch + 1
        self._steps_before += self._steps
        if self._task is not None:
            remaining = (self._num_epochs - self._epoch) * self._steps
            self._progress.update(self._task, total=self._steps_before + remaining)
        logs = logs or {}
        self._validation_figures = _figures({name: value for name, value in logs.items() if name.startswith("val_")})
        if self._progress.disable:
            self._console.print(f"epoch {epoch + 1}/{self._num_epochs} {_figures(logs)}", markup=False, soft_wrap=True)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Ends the bar."""
        self.close()

    def close(self) -> None:
        """Ends the bar, also after an interruption; may be called twice."""
        self._progress.stop()
        logging.getLogger("tensorflow").removeFilter(_is_worth_reading)


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
