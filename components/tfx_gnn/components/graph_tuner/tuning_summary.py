"""The results of a search, as a file that other steps read."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_tuner.search_space import SearchRange
from tfx_gnn.components.graph_tuner.trials import COMPLETE, Trial
from tfx_gnn.io import options_json

TRIALS_FILE = "trials.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningSummary:
    """What a search found, as in `trials.json`.

    Attributes:
        model_fn: the user's function.
        objective: what was compared.
        maximizes: whether a larger objective is better.
        sampler: what chose values.
        pruner: what ended trials early.
        num_epochs: epochs of a trial at most.
        search_space: what was searched, by name of the hyperparameter.
        fixed: hyperparameters that all trials had.
        trials: all trials, by number.
        best_trial: number of the best one.
        tfx_gnn_version: version of this library.
        format_version: version of this form.
    """

    model_fn: str
    objective: str
    maximizes: bool
    sampler: str
    pruner: str
    num_epochs: int
    search_space: dict[str, SearchRange]
    fixed: dict[str, Any]
    trials: tuple[Trial, ...]
    best_trial: int
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = 1

    @property
    def best(self) -> Trial:
        """The best trial."""
        return self.trials[self.best_trial]

    @property
    def best_hyperparameters(self) -> dict[str, Any]:
        """All hyperparameters of the best trial, those that were fixed included."""
        return {**self.fixed, **self.best.hyperparameters}

    def best_first(self) -> list[Trial]:
        """Sorts trials.

        Returns:
            Complete trials, the best first; then the others by number.
        """
        sign = -1.0 if self.maximizes else 1.0
        return sorted(
            self.trials, key=lambda trial: (trial.state != COMPLETE, sign * (trial.value or 0.0), trial.number)
        )


def write_tuning_summary(summary: TuningSummary, folder: str) -> None:
    """Writes `trials.json`."""
    with tf.io.gfile.GFile(os.path.join(folder, TRIALS_FILE), "w") as file:
        file.write(options_json.to_json(summary) + "\n")


def read_tuning_summary(folder: str) -> TuningSummary:
    """Reads `trials.json`."""
    path = os.path.join(folder, TRIALS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(f"`folder` must hold {TRIALS_FILE}; got {folder!r}. Name an output of `tfx-gnn tune`.")
    with tf.io.gfile.GFile(path) as file:
        return options_json.from_json(file.read(), TuningSummary)
