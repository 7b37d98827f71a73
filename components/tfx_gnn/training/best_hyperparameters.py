"""The file of the best hyperparameters, written by the tuner and read by the trainer."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.io.text_files import read_json
from tfx_gnn.training.options import GraphTrainerOptions

BEST_HYPERPARAMETERS_FILE = "best_hyperparameters.json"


def write_best_hyperparameters(hyperparameters: Mapping[str, Any], folder: str) -> None:
    """Writes `best_hyperparameters.json` into an existing folder, as an object of plain values by name."""
    with tf.io.gfile.GFile(os.path.join(folder, BEST_HYPERPARAMETERS_FILE), "w") as file:
        file.write(json.dumps(dict(hyperparameters), indent=2, sort_keys=True) + "\n")


def with_best_hyperparameters(options: GraphTrainerOptions, folder: str) -> GraphTrainerOptions:
    """Adds the hyperparameters that a search found to `options`, whose own values win; "" adds nothing."""
    if not folder:
        return options
    path = os.path.join(folder, BEST_HYPERPARAMETERS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`best_hyperparameters_dir` must hold {BEST_HYPERPARAMETERS_FILE}; got {folder!r}. Name an output of "
            "`tfx-gnn tune` or GraphTuner."
        )
    found = read_json(path)
    if not isinstance(found, dict):
        raise ValueError(f"`{BEST_HYPERPARAMETERS_FILE}` must hold an object; got {found!r} in {path!r}. Tune again.")
    return dataclasses.replace(options, hyperparameters={**found, **options.hyperparameters})
