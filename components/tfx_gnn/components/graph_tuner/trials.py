"""Trials of a search as files, from which an interrupted search resumes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.io import options_json
from tfx_gnn.io.text_files import read_json

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"

_SEARCH_FILE = "search.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial.

    Attributes:
        number: counts from 0, in the order of trials.
        hyperparameters: values that were chosen, by name.
        state: "complete", "pruned" or "failed".
        value: objective of the epoch whose weights would be exported; None unless it is complete.
        exported_epoch: that epoch, from 1; 0 if there was none.
        epochs: loss and metrics of each epoch.
        objective_by_epoch: the objective of each epoch.
        num_parameters: numbers that were trained; 0 if the model was not built.
        seconds: how long it took.
        error: what went wrong, empty unless it failed.
    """

    number: int
    hyperparameters: dict[str, Any]
    state: str
    value: float | None
    exported_epoch: int
    epochs: tuple[dict[str, float], ...]
    objective_by_epoch: tuple[float, ...]
    num_parameters: int
    seconds: float
    error: str = ""


class TrialFolder:
    """The folder of a search's finished trials, made if need be.

    `fingerprint` maps names to values or hashes of what must not change while the search goes on.
    """

    def __init__(self, path: str, fingerprint: Mapping[str, str]) -> None:
        self._path = path
        place = os.path.join(path, _SEARCH_FILE)
        if not tf.io.gfile.exists(place):
            tf.io.gfile.makedirs(path)
            _write(place, json.dumps(dict(fingerprint), indent=2, sort_keys=True))
            return
        found = read_json(place)
        differing = sorted(
            name for name in found.keys() | fingerprint.keys() if found.get(name) != fingerprint.get(name)
        )
        if differing:
            raise ValueError(
                f"`search_dir` must hold trials of the same search; got another {', '.join(differing)} in {path!r}. "
                "Choose another folder, or remove this one to begin anew."
            )

    def read(self) -> list[Trial]:
        """Reads the finished trials by number, from 0 without a gap."""
        trials: list[Trial] = []
        while tf.io.gfile.exists(self._place(len(trials))):
            with tf.io.gfile.GFile(self._place(len(trials))) as file:
                trials.append(options_json.from_json(file.read(), Trial))
        return trials

    def write(self, trial: Trial) -> None:
        """Keeps a finished trial, whole or not at all."""
        _write(self._place(trial.number), options_json.to_json(trial))

    def remove(self) -> None:
        """Removes the folder."""
        tf.io.gfile.rmtree(self._path)

    def _place(self, number: int) -> str:
        return os.path.join(self._path, f"trial-{number:05d}.json")


def _write(path: str, text: str) -> None:
    with tf.io.gfile.GFile(path + ".writing", "w") as file:
        file.write(text + "\n")
    tf.io.gfile.rename(path + ".writing", path, overwrite=True)
