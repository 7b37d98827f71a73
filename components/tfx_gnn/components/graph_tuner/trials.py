"""Files of a search's trials: one per trial, from which an interrupted search resumes, and one with the results."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import tfx_gnn
from tfx_gnn.components.graph_tuner.search_space import SearchRange
from tfx_gnn.io import options_json
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.io.whole_files import write_whole

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"

TRIALS_FILE = "trials.json"

_SEARCH_FILE = "search.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial.

    Attributes:
        number: position of the trial, from 0.
        hyperparameters: chosen values, by name.
        state: "complete", "pruned" or "failed".
        value: objective of the epoch whose weights would be exported; None unless the trial is complete.
        exported_epoch: that epoch, from 1; 0 if there was none.
        epochs: loss and metrics of each epoch; None for NaN and infinity, which JSON does not have.
        objective_by_epoch: the objective of each epoch; without the epoch in which the trial failed.
        num_parameters: number of parameters of the model; 0 if it was not built.
        seconds: duration of the trial.
        error: what went wrong; empty unless the trial failed.
    """

    number: int
    hyperparameters: dict[str, Any]
    state: str
    value: float | None
    exported_epoch: int
    epochs: tuple[dict[str, float | None], ...]
    objective_by_epoch: tuple[float, ...]
    num_parameters: int
    seconds: float
    error: str = ""


class TrialFolder:
    """The folder of a search's finished trials, created if necessary.

    `fingerprint` maps names to values or hashes of what must not change between runs of the search.
    """

    def __init__(self, path: str, fingerprint: Mapping[str, str]) -> None:
        self._path = path
        place = os.path.join(path, _SEARCH_FILE)
        if not tf.io.gfile.exists(place):
            tf.io.gfile.makedirs(path)
            write_whole(place, json.dumps(dict(fingerprint), indent=2, sort_keys=True) + "\n")
            return
        found = read_shaped_json(place, {"*": str})
        differing = sorted(
            name for name in found.keys() | fingerprint.keys() if found.get(name) != fingerprint.get(name)
        )
        if differing:
            raise ValueError(
                f"`search_dir` must hold trials of the same search; got another {', '.join(differing)} in {path!r}. "
                "Choose another folder, or remove this one to start over."
            )

    def read(self) -> list[Trial]:
        """Reads the finished trials, numbered from 0 without a gap."""
        trials: list[Trial] = []
        while tf.io.gfile.exists(self._place(len(trials))):
            with tf.io.gfile.GFile(self._place(len(trials))) as file:
                trials.append(options_json.from_json(file.read(), Trial))
        return trials

    def write(self, trial: Trial) -> None:
        """Saves a finished trial, as a whole or not at all."""
        write_whole(self._place(trial.number), options_json.to_json(trial) + "\n")

    def remove(self) -> None:
        """Removes the folder."""
        tf.io.gfile.rmtree(self._path)

    def _place(self, number: int) -> str:
        return os.path.join(self._path, f"trial-{number:05d}.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningSummary:
    """Results of a search, as in `trials.json`.

    Attributes:
        model_fn: the user's function.
        objective: loss or metric by which trials were compared.
        maximizes: whether a larger objective is better.
        sampler: what chose values.
        pruner: what ended trials early.
        num_epochs: maximum number of epochs per trial.
        search_space: the values that were searched, by name of the hyperparameter.
        fixed: hyperparameters that all trials had in common.
        trials: all trials, by number.
        best_trial: number of the best trial.
        tfx_gnn_version: version of this library.
        format_version: version of this format.
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
        """All hyperparameters of the best trial, including fixed ones."""
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
