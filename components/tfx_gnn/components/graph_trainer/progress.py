"""Progress of a training: a bar on a terminal, or else one line per epoch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tf_keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tfx_gnn.io.plain_console import PlainConsole


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


def _is_worth_reading(record: logging.LogRecord) -> bool:
    """Filters out Keras' complaints that callbacks are slow, raised if a step takes less time than a line of output."""
    return not str(record.msg).startswith("Callback method")


def _figures(logs: dict[str, Any]) -> str:
    return " ".join(f"{name} {float(value):.4f}" for name, value in logs.items())
