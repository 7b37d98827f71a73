"""Progress of a search: a bar on a terminal, and one line per trial."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tfx_gnn.components.graph_tuner.options import GraphTunerOptions
from tfx_gnn.components.graph_tuner.trials import COMPLETE, FAILED, Trial


class TuningProgress:
    """Shows trials on stderr; a `SearchObserver`."""

    def __init__(self, options: GraphTunerOptions, console: Console | None = None) -> None:
        self._options = options
        self._console = console or Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._num_trials = 0
        self._best: float | None = None

    def on_search_begin(self, num_trials: int, finished: list[Trial]) -> None:
        """Shows from where the search goes on."""
        self._num_trials = num_trials
        self._task = self._progress.add_task("Trials", total=num_trials, completed=len(finished), figures="")
        for trial in finished:
            self._take(trial)
        if finished:
            self._say(f"going on after {len(finished)} of {num_trials} trials{self._best_text()}")
        self._progress.start()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Shows the epoch behind the bar."""
        if not self._progress.disable:
            figures = f"epoch {epoch + 1}/{self._options.trainer.num_epochs} {self._options.objective} "
            self._progress.update(
                self._task, figures=f"{figures}{logs[self._options.objective]:.4f}{self._best_text()}"
            )

    def on_trial_end(self, trial: Trial) -> None:
        """Prints a line, and moves the bar."""
        self._take(trial)
        values = ", ".join(f"{name}={_short(value)}" for name, value in trial.hyperparameters.items())
        result = f"{self._options.objective} {trial.value:.4f}" if trial.value is not None else trial.state
        if trial.state == FAILED:
            result = f"failed: {trial.error}"
        self._say(f"trial {trial.number + 1}/{self._num_trials} {values}: {result}")
        self._progress.update(self._task, completed=trial.number + 1, figures=self._best_text().lstrip(", "))

    def close(self) -> None:
        """Ends the bar, also after an interruption."""
        self._progress.stop()

    def _take(self, trial: Trial) -> None:
        if trial.state == COMPLETE and trial.value is not None:
            choose = max if self._options.maximizes else min
            self._best = trial.value if self._best is None else choose(self._best, trial.value)

    def _best_text(self) -> str:
        return "" if self._best is None else f", best {self._best:.4f}"

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
