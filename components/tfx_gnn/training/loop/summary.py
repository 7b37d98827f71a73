"""The summary of a training, as a file that other stages read."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any

import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.training.data.input_pipeline import EpochInput

SUMMARY_FILE = "training_summary.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightSummary:
    """A variable of a model.

    Attributes:
        name: its name.
        shape: its shape.
        is_trained: whether training changes it by gradients.
    """

    name: str
    shape: tuple[int, ...]
    is_trained: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerSummary:
    """A layer of a model.

    Attributes:
        name: its name.
        kind: name of its class.
        num_parameters: number of scalars in its variables.
        weights: its variables, including those of nested layers.
    """

    name: str
    kind: str
    num_parameters: int
    weights: tuple[WeightSummary, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmStart:
    """What a training took from an earlier model.

    Attributes:
        model: the earlier model, in words.
        num_taken: weights of which all values were taken.
        num_grown: weights with new terms of vocabularies, whose rows or columns have initial values.
        fresh: names of weights of which nothing was taken.
        left: names of weights of the earlier model from which nothing was taken.
        num_new_terms: rows and columns with initial values in the weights that have grown.
        num_lost_terms: rows and columns of the earlier weights whose terms the new vocabularies lack.
    """

    model: str
    num_taken: int = 0
    num_grown: int = 0
    fresh: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    num_new_terms: int = 0
    num_lost_terms: int = 0

    def describe(self) -> str:
        """Describes it in a line."""
        if not self.num_taken and not self.num_grown and not self.fresh:
            return f"Trained from the start: {self.model}."
        return (
            f"Started from {self.model}: {self.num_taken} weights taken, {self.num_grown} grown by "
            f"{self.num_new_terms:,} rows and columns of new terms ({self.num_lost_terms:,} lost), "
            f"{len(self.fresh)} fresh, {len(self.left)} left behind."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSummary:
    """What a training did, as in `training_summary.json`.

    Attributes:
        model_fn: the user's function.
        num_parameters: number of scalars that were trained.
        num_classes: classes in the vocabulary.
        num_train_examples: examples in the training split.
        num_eval_examples: examples in the evaluation split.
        num_eval_examples_of_unknown_class: evaluation examples whose class is not in the vocabulary; they are
            not scored.
        batching: how graphs were batched: "packed", "fit_or_skip", "tight" or "ego".
        budget: padding budget of a training batch, with its expected statistics.
        eval_budget: padding budget of an evaluation batch; evaluation skips no graph.
        strategy: where training ran.
        num_replicas: synchronous replicas, each of which took one batch per step.
        num_steps: steps over all epochs.
        epochs: mean loss and metrics of each epoch.
        epoch_inputs: what each epoch was trained on: numbers of batches and graphs, how full the batches were,
            what was removed, and how fast.
        exported_epoch: epoch whose weights were exported, from 1.
        stopped_early: whether training ended before its last epoch.
        seconds: time that training took, without reading inputs and export.
        layers: layers of the model, in its order.
        options: the options of the training, by name.
        warm_start: what was taken from an earlier model; None if the training was not to start from one.
        warnings: what is wrong with the network, with what to do about it.
        tfx_gnn_version: version of this library.
        format_version: version of this file format.
    """

    model_fn: str
    num_parameters: int
    num_classes: int
    num_train_examples: int
    num_eval_examples: int
    num_eval_examples_of_unknown_class: int
    batching: str
    budget: dict[str, Any]
    eval_budget: dict[str, Any]
    strategy: str
    num_replicas: int
    num_steps: int
    epochs: tuple[dict[str, float], ...]
    epoch_inputs: tuple[EpochInput, ...]
    exported_epoch: int
    stopped_early: bool
    seconds: float
    layers: tuple[LayerSummary, ...]
    options: dict[str, Any]
    warm_start: WarmStart | None = None
    warnings: tuple[str, ...] = ()
    tfx_gnn_version: str = tfx_gnn.__version__
    format_version: int = 4


def write_training_summary(summary: TrainingSummary, model_run_dir: str) -> None:
    """Writes `training_summary.json`."""
    with tf.io.gfile.GFile(os.path.join(model_run_dir, SUMMARY_FILE), "w") as file:
        file.write(json.dumps(dataclasses.asdict(summary), indent=2) + "\n")


def read_training_summary(model_run_dir: str) -> TrainingSummary:
    """Reads `training_summary.json`.

    Args:
        model_run_dir: output of a training.

    Returns:
        The summary of that training.

    Raises:
        ValueError: if the folder holds no summary, or one of another format version.
    """
    path = os.path.join(model_run_dir, SUMMARY_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`model_run_dir` must hold {SUMMARY_FILE}; got {model_run_dir!r}. Name an output of `tfx-gnn train`."
        )
    with tf.io.gfile.GFile(path) as file:
        return options_json.from_json(file.read(), TrainingSummary)


def describe_layers(model: tf_keras.Model) -> tuple[LayerSummary, ...]:
    """Describes the outermost layers of a built model, including those without variables."""
    return tuple(
        LayerSummary(
            name=layer.name,
            kind=type(layer).__name__,
            num_parameters=sum(math.prod(weight.shape) for weight in layer.weights),
            weights=tuple(
                WeightSummary(
                    name=weight.name.partition(":")[0],
                    shape=tuple(int(size) for size in weight.shape),
                    is_trained=weight.trainable,
                )
                for weight in layer.weights
            ),
        )
        for layer in model.layers
    )
