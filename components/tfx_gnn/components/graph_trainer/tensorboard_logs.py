"""What TensorBoard shows of a training: curves, hyperparameters, the model's graph and histograms of its weights."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io.option_groups import flat_values
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.loop.event_files import (
    remove_events_from,
    write_histograms,
    write_scalars,
    write_session_end,
    write_session_start,
)
from tfx_gnn.training.loop.training_loop import TrainingState
from tfx_gnn.training.options import CONSTANT, GraphTrainerOptions

_VALIDATION = "val_"


class TensorBoardLogs(tf_keras.callbacks.Callback):
    """Writes event files for TensorBoard; the step of every event is its epoch, from 0.

    - `logs_dir` itself holds the hyperparameters, for the HParams tab, and the model's graph.
    - `train` and `validation` hold loss and metrics as `epoch_<name>`, as Keras' callback writes them.
    - `train` also holds `input/graphs_per_batch`, `input/fill`, `input/padded_share`, `input/removed_share`,
      `train/graphs_per_second`, `train/input_bound_share` and `train/learning_rate`, that of the last step. With early
      stopping, `train/best_epoch` is the best epoch so far, from 1, and `train/best_<monitor>` its value.
    - `train` holds a histogram of each trainable weight, after every `histogram_every_epochs` epochs.

    A training that resumes first removes the events of the epochs that it repeats.

    Args:
        logs_dir: folder of the event files.
        state: state of the training, as it is before callbacks are called.
        options: what is trained, and how.
        model_graph: returns the model's graph; called once, unless the training resumes after the first epoch.
        best: the best weights so far, with early stopping.
    """

    def __init__(
        self,
        *,
        logs_dir: str,
        state: TrainingState,
        options: GraphTrainerOptions,
        model_graph: Callable[[], tf.Graph],
        best: BestWeights | None = None,
    ) -> None:
        super().__init__()
        self._logs_dir = logs_dir
        self._state = state
        self._options = options
        self._model_graph = model_graph
        self._best = best

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Opens the files where the training starts or resumes."""
        epoch = self._state.position.epoch
        if epoch:
            remove_events_from(self._logs_dir, epoch)
        elif tf.io.gfile.exists(self._logs_dir):
            tf.io.gfile.rmtree(self._logs_dir)
        self._writers = {
            run: tf.summary.create_file_writer(os.path.join(self._logs_dir, run)) for run in ("", "train", "validation")
        }
        if not epoch:
            with self._writers[""].as_default(step=0):
                write_session_start(logged_hyperparameters(self._options, self.model.optimizer))
                tf.summary.graph(self._model_graph())
            self._writers[""].flush()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the epoch's events; they are on disk before its checkpoint is."""
        training, validation = _scalars_by_run(logs or {})
        with self._writers["train"].as_default():
            write_scalars({**training, **self._input_scalars(epoch)}, step=epoch)
            every = self._options.histogram_every_epochs
            if every and (epoch + 1) % every == 0:
                _write_histograms(self.model, step=epoch)
        with self._writers["validation"].as_default():
            write_scalars(validation, step=epoch)
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the files."""
        with self._writers[""].as_default():
            write_session_end(step=self._state.position.epoch)
        for writer in self._writers.values():
            writer.close()

    def _input_scalars(self, epoch: int) -> dict[str, float]:
        figures = self._state.inputs[epoch]
        scalars = {
            "input/graphs_per_batch": figures.graphs_per_batch,
            "input/fill": figures.fill,
            "input/padded_share": 1.0 - figures.fill,
            "input/removed_share": figures.removed_share,
            "train/graphs_per_second": figures.graphs_per_second,
            "train/input_bound_share": figures.input_bound_share,
        }
        rate = read_learning_rate(self.model.optimizer)
        if rate is not None:
            scalars["train/learning_rate"] = rate
        if self._best is not None:
            scalars["train/best_epoch"] = self._best.best_epoch
            scalars[f"train/best_{self._best.monitor}"] = self._best.best
        return scalars


def trace_model(model: tf_keras.Model, sample: GraphTensor) -> tf.Graph:
    """Traces a model on a padded graph, as it predicts; its operations are named after layers."""

    def predict(graph: GraphTensor) -> Any:
        return model(graph, training=False)

    return tf.function(predict).get_concrete_function(sample).graph


def logged_hyperparameters(options: GraphTrainerOptions, optimizer: tf_keras.optimizers.Optimizer) -> dict[str, Any]:
    """Returns what the HParams tab compares: the model's hyperparameters, and options of optimizer and batches.

    Options that leave a choice to the network or to the padding budget are left out, because their 0 would be drawn as
    a number. A constant learning rate that the network chose is that of its optimizer.
    """
    chosen = {**flat_values(options.optimization), "batch_size": options.batching.batch_size}
    for name in ("learning_rate", "optimizer", "batch_size"):
        if not chosen[name]:
            del chosen[name]
    rate = read_learning_rate(optimizer)
    if rate is not None and options.optimization.schedule == CONSTANT:
        chosen.setdefault("learning_rate", rate)
    return {
        **chosen,
        "batching": options.batching.kind,
        "num_epochs": options.num_epochs,
        "training_seed": options.training_seed,
        **options.hyperparameters,
    }


def read_learning_rate(optimizer: tf_keras.optimizers.Optimizer) -> float | None:
    """Returns an optimizer's current learning rate; None if it has none, or several."""
    rate: Any = getattr(optimizer, "learning_rate", None)
    if callable(rate):
        rate = rate(optimizer.iterations)
    # Converted to a tensor first: variables kept on several replicas do not convert to a number.
    return None if rate is None else float(tf.convert_to_tensor(rate))


def _scalars_by_run(logs: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    training = {f"epoch_{name}": value for name, value in logs.items() if not name.startswith(_VALIDATION)}
    validation = {
        f"epoch_{name.removeprefix(_VALIDATION)}": value for name, value in logs.items() if name.startswith(_VALIDATION)
    }
    return training, validation


def _write_histograms(model: tf_keras.Model, step: int) -> None:
    seen: collections.Counter[str] = collections.Counter()
    values = {}
    for weight in model.trainable_weights:
        name = weight.name.split(":")[0]
        seen[name] += 1
        tag = name if seen[name] == 1 else f"{name}_{seen[name]}"
        # Converted to a tensor first: variables kept on several replicas have no array.
        values[tag] = tf.convert_to_tensor(weight).numpy()
    write_histograms(values, step)
