"""What each epoch was trained on, and how fast, for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.stages.training.training_loop import TrainingState


class InputScalars(tf_keras.callbacks.Callback):
    """Shows the input of each epoch in TensorBoard.

    The scalars `input/graphs_per_batch`, `input/fill`, `input/padded_share`, `input/removed_share`,
    `train/graphs_per_second`, `train/input_bound_share` and `train/learning_rate`, that of the last step, have the
    epoch as step.

    Args:
        state: of the training.
        logs_dir: where TensorBoard looks; the scalars go to the folder `input` in it, a run of its own,
            for TensorBoard reads one file of a run at a time.
    """

    def __init__(self, *, state: TrainingState, logs_dir: str) -> None:
        super().__init__()
        self._state = state
        self._writer = tf.summary.create_file_writer(os.path.join(logs_dir, "input"))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the figures of the epoch."""
        figures = self._state.inputs[epoch]
        with self._writer.as_default(step=epoch):
            tf.summary.scalar("input/graphs_per_batch", figures.graphs_per_batch)
            tf.summary.scalar("input/fill", figures.fill)
            tf.summary.scalar("input/padded_share", 1.0 - figures.fill)
            tf.summary.scalar("input/removed_share", figures.removed_share)
            tf.summary.scalar("train/graphs_per_second", figures.graphs_per_second)
            tf.summary.scalar("train/input_bound_share", figures.input_bound_share)
            rate = learning_rate_of(self.model.optimizer)
            if rate is not None:
                tf.summary.scalar("train/learning_rate", rate)
        self._writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the file."""
        self._writer.close()


def learning_rate_of(optimizer: tf_keras.optimizers.Optimizer) -> float | None:
    """Tells the learning rate of the last step.

    Args:
        optimizer: of the model.

    Returns:
        The rate; None if the optimizer has none, or several.
    """
    rate: Any = getattr(optimizer, "learning_rate", None)
    if callable(rate):
        rate = rate(optimizer.iterations)
    # A tensor of it: variables that are kept on several replicas are no numbers.
    return None if rate is None else float(tf.convert_to_tensor(rate))
