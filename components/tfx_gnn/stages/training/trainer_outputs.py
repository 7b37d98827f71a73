"""What the trainer writes, and which of several processes writes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.cluster import ClusterRole

LOGS_DIR = "logs"
CHECKPOINTS_DIR = "checkpoints"
EXPORTED = "exported"
_BETWEEN_PROCESSES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


@contextlib.contextmanager
def errors_of_other_processes(role: ClusterRole) -> Iterator[None]:
    """Says of an error between machines what it means.

    Args:
        role: of this process.

    Raises:
        ConnectionError: if another process is gone.
    """
    try:
        yield
    except _BETWEEN_PROCESSES as error:
        if role.is_alone:
            raise
        reason = (error.message.strip().splitlines() or [type(error).__name__])[-1]
        raise ConnectionError(
            f"Another process of this training is gone, or cannot be reached; got {type(error).__name__} in "
            f"{role.task_type} {role.task_id}: {reason} Start all processes again: training goes on from the newest "
            "checkpoint."
        ) from error


def checkpoint_folder(checkpoint_dir: str, model_run_dir: str, fingerprint: str) -> str:
    """Names the folder of a training's checkpoints, the same whenever it is started again.

    Args:
        checkpoint_dir: what was asked for; empty for a hidden folder beside the model run: an orchestrator
            gives a retry another run folder, but beside the first one.
        model_run_dir: folder of the model run.
        fingerprint: name of the training.

    Returns:
        The folder.
    """
    parent = os.path.dirname(os.path.abspath(model_run_dir) if "://" not in model_run_dir else model_run_dir)
    return checkpoint_dir or os.path.join(parent, f".checkpoints-{fingerprint[:16]}")


def copy_files(folder: str, target: str) -> None:
    """Copies all files of a folder, to another disk if need be.

    Args:
        folder: where they are. May be missing.
        target: where they go; files of the same names are replaced.
    """
    if not tf.io.gfile.exists(folder):
        return
    for path, _, names in tf.io.gfile.walk(folder):
        relative = os.path.relpath(path, folder)
        # To an object store "." would be a name like any other.
        place = target if relative == "." else os.path.join(target, relative)
        tf.io.gfile.makedirs(place)
        for name in names:
            tf.io.gfile.copy(os.path.join(path, name), os.path.join(place, name), overwrite=True)


def save_weights(model: tf_keras.Model, run_dir: str) -> str:
    """Saves the weights as a checkpoint of a model run; every process that trains must take part.

    Args:
        model: the trained model, whatever its strategy.
        run_dir: folder for the run.

    Returns:
        Prefix of the checkpoint, for `load_weights`.
    """
    prefix = os.path.join(run_dir, CHECKPOINTS_DIR, EXPORTED)
    tf.train.Checkpoint(model=model).write(prefix, options=_options(model))
    return prefix


def load_weights(model: tf_keras.Model, prefix: str) -> None:
    """Loads what `save_weights` saved into a model of one device.

    Args:
        model: a model built by the same function.
        prefix: where the checkpoint is.
    """
    tf.train.Checkpoint(model=model).read(prefix).expect_partial().assert_existing_objects_matched()


def _options(model: tf_keras.Model) -> tf.train.CheckpointOptions:
    is_served = isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy)
    # Parameter servers may see other disks.
    return tf.train.CheckpointOptions(experimental_io_device="/job:chief" if is_served else None)
